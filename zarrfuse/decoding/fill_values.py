"""Finds chunks that hold only the fill value of their array, as zarr-python decodes them.

Used by views for arrays that do not store such chunks (ZEP 10, `example.skip_empty_chunks`). A worker
decodes the chunk, within its limits.
"""

import logging
from dataclasses import replace
from functools import lru_cache
from math import prod

import numpy as np

from zarrfuse.decoding.messages import Job, Wanted, array_numbers, cpu_s
from zarrfuse.decoding.workers import WORKERS, Crashed
from zarrfuse.errors import text_of
from zarrfuse.spec.data_types import parse_data_type
from zarrfuse.spec.node import NO_ATTRIBUTES, ArrayNode
from zarrfuse.spec.plain import CHUNK_KEYS, document, problem

log = logging.getLogger(__name__)

_MOST_BYTES = 256 << 20
"""A chunk with more decoded bytes is not checked, however few stored bytes it has."""
_TEXT_BYTES = 64
"""The bytes of an element without fixed size in zarr-python."""


def is_fill(node: ArrayNode, chunk: bytes | bytearray) -> bool:
    """Whether the elements of `chunk`, a whole chunk or shard, all are the fill value, bit for bit.

    So nothing is lost if it is not stored: -0.0 is not 0.0, and NaNs differ by their bits. A chunk that
    cannot be decoded within the limits, or is very large, is not empty. Elements beyond the shape of the
    array count, too.
    """
    if node.zarr_format != 3 or problem(node) is not None:
        return False
    itemsize = parse_data_type(node.data_type).itemsize
    needed_bytes = prod(node.chunk_shape) * (itemsize or _TEXT_BYTES)
    if needed_bytes > _MOST_BYTES:
        return False
    of_one_chunk = replace(
        node, shape=node.chunk_shape, dimension_names=None, raw_attributes=NO_ATTRIBUTES
    )
    written = document(of_one_chunk)
    key = CHUNK_KEYS.encode((0,) * node.ndim)
    payload = [np.frombuffer(data, np.uint8) for data in (written, chunk)]
    job = Job(
        array=_number(written),
        zarr_format=3,
        shape=list(node.chunk_shape),
        dtype="",
        needed_bytes=needed_bytes,
        cpu_s=cpu_s(needed_bytes),
        is_fill=True,
        brought=[(Wanted("zarr.json"), len(written)), (Wanted(key), len(chunk))],
    )
    try:
        reply, found = WORKERS.do(job, payload)
    except (Crashed, OSError) as error:
        log.warning("a chunk is stored as it is: it cannot be decoded: %s", text_of(error))
        return False
    if reply.outcome != "done":
        log.debug(
            "a chunk is stored as it is: it cannot be decoded: %s", reply.text or reply.outcome
        )
        return False
    return bool(found[0])


@lru_cache(maxsize=64)
def _number(_written: bytes) -> int:
    """The same number for the same document: a worker keeps the array open."""
    return next(array_numbers)
