"""One array, decoded by zarr-python in a worker process.

Owns the jobs for the worker, the stored bytes that they need, and the exceptions for its errors. Used by
`decode` and `blocks`. It must not import zarr-python.
"""

import errno
import threading
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zarrfuse.decoding.messages import Bytes, Job, Reply, Wanted, array_numbers, cpu_s
from zarrfuse.decoding.workers import WORKERS, Crashed
from zarrfuse.errors import Corrupt, Denied, NotAFolder, NotFound, NotSupported, Stale
from zarrfuse.spec.codecs import index_bytes
from zarrfuse.views.images.stored_bytes import ArrayFiles, StoredBytes, TooLarge
from zarrfuse.views.plain.chunks import Coords
from zarrfuse.views.plain.nodes import refusal

Stamp = tuple[int, int]
"""Size and time of a stored chunk."""

_STORED_BYTES, _STORED_TIMES = 8 << 20, 4
"""A chunk may have so many stored bytes for each decoded byte, and so many more. Chunks that are decoded
together have equal shares; one with more is then decoded alone."""
_MOST_INDEX_BYTES = 64 << 20
"""How many bytes of indexes the shards of a job may have. Enough for four million inner chunks."""
_LONGEST = (1 << 63) - 1
"""The longest dimension of a numpy array."""
_MOST_ROUNDS = 8
"""A worker asks for bytes three times: for the document, the index of a shard, and inner chunks."""


class ZarrArray:
    """The elements of one array. For any thread."""

    def __init__(
        self,
        stored: StoredBytes,
        files: ArrayFiles,
        report: Callable[[str, object], None],
        dtype: np.dtype[Any],
    ) -> None:
        self._stored = stored
        self._files = files
        self._chunks = files.chunks
        self._report = report
        self._loaded = files.loaded
        self._node = files.node
        self._dtype = dtype
        self._number = next(array_numbers)
        self.index_bytes = 0
        """Bytes of the index of each shard, if inner chunks are decoded by themselves; else 0."""
        if len(self._node.codecs) == 1:
            self.index_bytes = index_bytes(self._node.codecs[0], self._node.chunk_shape) or 0
        self._fill_value: bytes | None = None
        self._refused: str | None = None
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self._files.name

    def stamp(self, coords: Coords, *, wait: bool = True) -> Stamp | None:
        """Size and time of the stored chunk at these coordinates, or None if there is none."""
        try:
            if coords:
                entry = self._chunks.lookup(coords[:-1], str(coords[-1]), wait=wait)
            else:
                entry = self._chunks.top(wait=wait)
        except (NotFound, NotAFolder):
            return None
        except Denied:  # it may exist; reading it raises
            return -1, -1
        return entry.size, entry.mtime_ns

    def decode(
        self,
        low: Sequence[int],
        high: Sequence[int],
        chunks: Sequence[Coords],
        needed_bytes: int,
        *,
        alone: bool,
    ) -> NDArray[Any]:
        """The elements of a box: C-contiguous, native little-endian.

        `chunks`: the coordinates of the stored chunks that hold the box. `needed_bytes`: bytes of the
        elements that are decoded. `alone`: it is one chunk or inner chunk, and an error is logged with its
        name; without, the caller decodes each alone after an error. Raises `NotSupported` if zarr-python
        cannot decode the array, `Stale` if its document has changed, `Corrupt` if the chunk cannot be
        decoded, and what the store raises.
        """
        self.check()
        shape = tuple(b - a for a, b in zip(low, high, strict=True))
        all_indexes = len(chunks) * self.index_bytes
        if not alone and all_indexes > _MOST_INDEX_BYTES:
            raise Corrupt(
                f"{self.name}: the indexes of {len(chunks)} shards are too large together"
            )
        needed_bytes += all_indexes
        known = (
            [] if self.index_bytes else [Wanted(self._files.chunk_key(coords)) for coords in chunks]
        )
        reply, found = self._asked(list(low), list(high), needed_bytes, known, len(chunks))
        if reply.outcome == "done" and found.nbytes == prod(shape) * self._dtype.itemsize:
            return found.view(self._dtype).reshape(shape)
        problem = f"cannot be decoded: {_clause(reply)}"
        if not alone:
            raise Corrupt(f"{self.name}: {problem}")
        problem = f"{self.name}: chunk {self._node.chunk_key(chunks[0])}: {problem}"
        self._report(problem, self.stamp(chunks[0]))
        raise Corrupt(problem)

    def fill_value(self) -> bytes:
        """The bytes of one element of the fill value, as zarr-python decodes it."""
        self.check()
        assert self._fill_value is not None
        return self._fill_value

    def check(self, *, wait: bool = True) -> None:
        """Raises `NotSupported` if the array cannot be decoded, `Stale`, and what the store raises.

        A worker finds that out once. `BlockingIOError` if `wait` is false and it has not yet.
        """
        if self._fill_value is None and self._refused is None:
            if not wait:
                raise BlockingIOError(errno.EAGAIN, "a worker has to open the array")
            with self._lock:
                if self._refused is None and self._fill_value is None:
                    self._open()
        if self._refused is not None:
            raise NotSupported(self._refused)

    def _open(self) -> None:
        self._refused = refusal(self._loaded)
        if self._refused is None and max(self._node.shape, default=0) > _LONGEST:
            self._refused = (
                f"{self.name}: a dimension of more than 2^63 - 1 elements cannot be decoded"
            )
        if self._refused is None and self.index_bytes > _MOST_INDEX_BYTES:
            self._refused = f"{self.name}: the index of a shard has {self.index_bytes} bytes"
        if self._refused is not None:
            return
        reply, found = self._asked(None, None, self._dtype.itemsize, [])
        if reply.outcome == "done":
            self._fill_value = found.tobytes()
            return
        if reply.outcome != "refused":
            raise Corrupt(f"{self.name}: cannot be opened: {_clause(reply)}")
        self._refused = f"{self.name}: zarr-python cannot decode it: {reply.text}"
        self._report(self._refused, self._loaded.stamp)

    def _asked(
        self,
        low: list[int] | None,
        high: list[int] | None,
        needed_bytes: int,
        wanted: list[Wanted],
        chunks: int = 1,
    ) -> tuple[Reply, Bytes]:
        """The reply of a worker that has all the bytes that it asked for."""
        job = Job(
            array=self._number,
            zarr_format=self._node.zarr_format,
            shape=list(self._node.shape),
            dtype=repr(np.lib.format.dtype_to_descr(self._dtype)),
            needed_bytes=needed_bytes,
            cpu_s=cpu_s(needed_bytes),
            low=low,
            high=high,
        )
        most_stored = (_STORED_BYTES + _STORED_TIMES * needed_bytes) // chunks
        brought: dict[Wanted, Bytes | None] = {}
        for _ in range(_MOST_ROUNDS):
            try:
                brought |= self._stored.bring(self._files, wanted, most_stored)
                job.brought = [(key, None if p is None else p.nbytes) for key, p in brought.items()]
                reply, found = WORKERS.do(job, [p for p in brought.values() if p is not None])
            except (TooLarge, Crashed) as error:
                return Reply("failed", str(error)), np.empty(0, np.uint8)
            if reply.outcome == "stale":
                raise Stale(f"{self.name} changed while it was open")
            if reply.outcome != "missing":
                return reply, found
            wanted = [key for key in reply.wanted if key not in brought]
        raise Corrupt(f"{self.name}: zarr-python asks for more bytes again and again")


def _clause(reply: Reply) -> str:
    """The error in a reply, as a clause."""
    if reply.outcome == "memory":
        return f"it takes more than {reply.nbytes} bytes of memory"
    return reply.text


def no_memory(nbytes: int) -> OSError:
    """The error for what is too large to be decoded."""
    return OSError(errno.ENOMEM, f"no memory for {nbytes} bytes of decoded chunks")
