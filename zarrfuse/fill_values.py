"""Whether a chunk holds nothing but the fill value of its array, as zarr-python decodes it.

Used by `opening`, which hands it to the `chunks` view for arrays that want no such chunks (ZEP 10,
`example.skip_empty_chunks`). Nothing of zarr-python is imported before such a chunk is stored: it
takes 0.3 s.
"""

import logging
import math
import os
import threading
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zarrfuse.errors import text_of
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.plain import CHUNK_KEYS, document, problem

log = logging.getLogger(__name__)

_MOST_ELEMENTS = 1 << 27
"""A chunk of more elements is not judged: however few bytes it is stored as, all are decoded."""

_one_at_a_time = threading.Lock()
"""Held while a chunk is decoded, so that many at once do not fill the memory."""


def _forked() -> None:
    """The thread that held the lock is not there in the child."""
    global _one_at_a_time  # noqa: PLW0603
    _one_at_a_time = threading.Lock()


os.register_at_fork(after_in_child=_forked)


def is_fill(node: ArrayNode, chunk: bytes | bytearray) -> bool:
    """Whether the elements of `chunk`, a whole chunk or shard, all are the fill value, bit for bit.

    So nothing is lost where it is not stored: -0.0 is not 0.0, and a NaN is no other NaN. Bytes that
    nobody can decode are not empty, nor are chunks of very many elements. Elements beyond the shape of
    the array count like all others.
    """
    if node.zarr_format != 3 or problem(node) is not None:
        return False
    if math.prod(node.chunk_shape) > _MOST_ELEMENTS:
        return False
    try:
        with _one_at_a_time:
            return _all_are(*_decoded(node, chunk))
    except MemoryError:
        raise
    except Exception as error:  # whatever zarr-python and its codecs raise
        log.debug("a chunk is stored as it is: it cannot be decoded: %s", text_of(error))
        return False


def _decoded(node: ArrayNode, chunk: bytes | bytearray) -> tuple[NDArray[Any], Any]:
    """The elements of a chunk, and the fill value."""
    import zarr  # noqa: PLC0415
    from zarr.core.buffer import default_buffer_prototype  # noqa: PLC0415
    from zarr.storage import MemoryStore  # noqa: PLC0415

    of_one_chunk = replace(node, shape=node.chunk_shape, dimension_names=None)
    key = CHUNK_KEYS.encode((0,) * node.ndim)
    buffer = default_buffer_prototype().buffer
    stored = {
        "zarr.json": buffer.from_bytes(document(of_one_chunk)),
        key: buffer.from_bytes(bytes(chunk)),
    }
    array: zarr.Array[Any] = zarr.open_array(MemoryStore(stored), mode="r", zarr_format=3)
    return np.asarray(array[...]), array.fill_value


def _all_are(found: NDArray[Any], fill_value: Any) -> bool:
    if fill_value is None:
        return False
    if found.dtype.hasobject or found.dtype.kind == "T":  # strings of any length
        return bool(np.all(found == fill_value))
    fill = np.array(fill_value, found.dtype).tobytes()
    elements = np.ascontiguousarray(found).reshape(-1).view(np.uint8).reshape(found.size, -1)
    return bool((elements == np.frombuffer(fill, np.uint8)).all())
