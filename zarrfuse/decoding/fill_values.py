"""Finds chunks that hold only the fill value of their array, as zarr-python decodes them.

Used by views for arrays that do not store such chunks (ZEP 10, `example.skip_empty_chunks`). A worker
decodes the chunk, within its limits.
"""

import logging

from zarrfuse.decoding.one_chunk import Undecodable, decoded_bytes, holds_only_fill_values
from zarrfuse.spec.node import ArrayNode

log = logging.getLogger(__name__)

_MOST_BYTES = 256 << 20
"""A chunk with more decoded bytes is not checked, however few stored bytes it has."""


def is_fill(node: ArrayNode, chunk: bytes | bytearray) -> bool:
    """Whether the elements of `chunk`, a whole chunk or shard, all are the fill value, bit for bit.

    So nothing is lost if it is not stored: -0.0 is not 0.0, and NaNs differ by their bits. A chunk that
    cannot be decoded within the limits, or is very large, is not empty.
    """
    if node.zarr_format != 3 or decoded_bytes(node) > _MOST_BYTES:
        return False
    try:
        return holds_only_fill_values(node, chunk)
    except Undecodable as error:
        log.warning("a chunk is stored as it is: it cannot be decoded: %s", error)
        return False
