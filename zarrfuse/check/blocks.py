"""The bytes of a stored chunk, read in blocks.

A chunk of any size takes the memory of one block. Used by `deep`, which verifies the bytes. It must not
know codecs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from zarrfuse.check.chunks import Chunk
from zarrfuse.errors import Stale, guarded
from zarrfuse.formats.segments import Segmented, Stored
from zarrfuse.spec.paths import join
from zarrfuse.stores.base import Reader, Store

BLOCK_BYTES = 1 << 20
"""The size of a block in bytes; a smaller chunk is one block."""

_OPEN_PARTS = 16
"""A chunk of at most so many parts keeps them open. Of one with more, a part is opened when it is read."""

Bytes = NDArray[np.uint8]


class Blocks:
    """The bytes of one open chunk, read in blocks; the last one is cached.

    `count`: called with the number of bytes of each read.
    """

    def __init__(self, reader: Reader, buffer: Bytes, count: Callable[[int], None]) -> None:
        self._reader = reader
        self._buffer = buffer
        self._count = count
        self._start = 0
        self._stop = 0
        self.size = reader.size

    def pieces(self, start: int, stop: int) -> Iterator[Bytes]:
        """The bytes from `start` to `stop`, in pieces that are valid until the next one."""
        while start < stop:
            if not self._start <= start < self._stop:
                self._fill(start)
            end = min(stop, self._stop)
            yield self._buffer[start - self._start : end - self._start]
            start = end

    def _fill(self, start: int) -> None:
        if self.size <= len(self._buffer):
            start = 0
        stop = min(self.size, start + len(self._buffer))
        self._start = self._stop = 0  # in case the read fails
        into = self._buffer.data[: stop - start]
        guarded(lambda: self._reader.readinto(into, start))
        self._start, self._stop = start, stop
        self._count(stop - start)

    def checksum(self, start: int, stop: int) -> int:
        """The crc32c of the bytes from `start` to `stop`."""
        value = 0
        for piece in self.pieces(start, stop):
            value = google_crc32c.extend(value, piece)
        return value

    def take(self, start: int, stop: int) -> Bytes:
        """A copy of the bytes from `start` to `stop`."""
        found: Bytes = np.empty(stop - start, np.uint8)
        filled = 0
        for piece in self.pieces(start, stop):
            found[filled : filled + len(piece)] = piece
            filled += len(piece)
        return found

    def pass_over(self, start: int, stop: int) -> None:
        """Read the bytes from `start` to `stop`, to check that they can be read."""
        for _ in self.pieces(start, stop):
            pass


@contextmanager
def opened(store: Store, path: str, chunk: Chunk) -> Iterator[Reader]:
    """The merged bytes of a chunk of the array at `path`, closed at the end of the block.

    Raises what the store raises, and `Stale` if the size has changed since the listing.
    """
    keys = [join(path, file) for file in chunk.files]
    readers: list[Reader] = []
    try:
        for key, size in zip(keys, chunk.sizes, strict=True):
            reader = _opened(store, key)
            if len(keys) > _OPEN_PARTS:
                reader.close()
                reader = Stored(store, key, reader)
            readers.append(reader)
            if reader.size != size:
                raise Stale(f"{key} had {size} bytes when it was listed and has {reader.size} now")
        yield readers[0] if len(readers) == 1 else Segmented(readers)
    finally:
        for reader in readers:
            reader.close()


def _opened(store: Store, key: str) -> Reader:
    return guarded(lambda: store.open(key))
