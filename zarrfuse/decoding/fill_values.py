"""Whether a chunk holds nothing but the fill value of its array, as zarr-python decodes it.

Used by `opening` and `plain_store`, which hand it to the `chunks` view for arrays that want no such
chunks (ZEP 10, `example.skip_empty_chunks`). A process of `decoding` decodes the chunk, within its limits.
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
"""A chunk of more decoded bytes is not judged: however few bytes it is stored as, all are decoded."""
_TEXT_BYTES = 64
"""Of an element of any length: what zarr-python makes of it."""


def is_fill(node: ArrayNode, chunk: bytes | bytearray) -> bool:
    """Whether the elements of `chunk`, a whole chunk or shard, all are the fill value, bit for bit.

    So nothing is lost where it is not stored: -0.0 is not 0.0, and a NaN is no other NaN. Bytes that
    nobody can decode within the limits are not empty, nor are chunks of very many. Elements beyond the
    shape of the array count like all others.
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
