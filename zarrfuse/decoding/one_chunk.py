"""Decodes one chunk that is at hand, by itself, in a worker process.

Used by `fill_values` and `indexing`. It must not know stores.
"""

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

_TEXT_BYTES = 64
"""The bytes of an element without fixed size in zarr-python."""


class Undecodable(Exception):
    """A chunk that cannot be decoded within the limits; the text says why, as a clause."""


def decoded_bytes(node: ArrayNode) -> int:
    """The bytes that a chunk of an array has when it is decoded."""
    return prod(node.chunk_shape) * (parse_data_type(node.data_type).itemsize or _TEXT_BYTES)


def holds_only_fill_values(node: ArrayNode, chunk: bytes | bytearray) -> bool:
    """Whether the elements of `chunk`, a whole chunk or shard of Zarr v3, all are the fill value.

    Bit for bit, and elements beyond the shape of the array count, too. Raises `Undecodable`.
    """
    clause = problem(node)
    if clause is not None:
        raise Undecodable(clause)
    needed_bytes = decoded_bytes(node)
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
        raise Undecodable(text_of(error)) from error
    if reply.outcome == "memory":
        raise Undecodable(f"it takes more than {reply.nbytes} bytes of memory")
    if reply.outcome != "done":
        raise Undecodable(reply.text or reply.outcome)
    return bool(found[0])


@lru_cache(maxsize=64)
def _number(_written: bytes) -> int:
    """The same number for the same document: a worker keeps the array open."""
    return next(array_numbers)
