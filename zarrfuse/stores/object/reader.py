"""An open object: its bytes are fetched in blocks, and kept when this process replaces it.

Used by `store`.

The kernel reads 128 KiB at a time, and a request takes milliseconds. So bytes are fetched in blocks of 1
MiB, up to four in one request when a file is read in order, and the last 16 blocks are cached. Reads of 4
MiB or more bypass the blocks, in requests of up to 8 MiB.

Object stores do not keep replaced objects. Before this process replaces or deletes an object that it has
open, `keep` fetches it into a temporary file without a name. An object that another process replaces is
`Stale`.
"""

import errno
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from zarrfuse.errors import Stale
from zarrfuse.stores.base import Reader
from zarrfuse.stores.cache import Flight
from zarrfuse.stores.descriptor import read_full
from zarrfuse.stores.object.bucket import Bucket, Found

BLOCK_BYTES = 1 << 20
_BLOCKS_AT_ONCE = 4
_BLOCKS_KEPT = 16
_PAST_BLOCKS_BYTES = 4 << 20
_PIECE_BYTES = 8 << 20

Blocks = dict[int, bytes]


class ObjectReader(Reader):
    """See `base.Reader`. `found` is set before the first read."""

    def __init__(self, bucket: Bucket, path: str, readers: "OpenReaders") -> None:
        self.path = path
        self.size = 0
        self.mtime_ns = 0
        self.found: Found | None = None
        self.missed = False
        """Whether it was replaced while it was being opened."""
        self._bucket = bucket
        self._readers = readers
        self._lock = threading.Lock()
        self._keeping = threading.Lock()
        self._blocks: Blocks = {}
        self._flights: dict[int, Flight[Blocks]] = {}
        self._next = 0
        self._kept_fd = -1
        self._closed = False

    @property
    def outlives_deletion(self) -> bool:
        """Whether the store keeps replaced objects: S3, in a bucket with versions."""
        version = None if self.found is None else self.found.version
        return self._bucket.url.scheme == "s3" and version not in (None, "null")

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `base.Reader`. Without `wait`, only from cached blocks."""
        while buffer:
            if self._closed:
                raise OSError(errno.EBADF, f"{self.path} is closed")
            index = offset // BLOCK_BYTES
            block = self._at_hand(index)
            if block is None:
                if self._kept_fd >= 0:
                    read_full(self._kept_fd, buffer, offset, self.path, wait=wait)
                    return
                if not wait:
                    raise BlockingIOError(errno.EAGAIN, "the bytes have to be fetched")
                try:
                    if len(buffer) >= _PAST_BLOCKS_BYTES:
                        size = min(len(buffer), _PIECE_BYTES)
                        buffer[:size] = self._get(offset, offset + size)
                        buffer = buffer[size:]
                        offset += size
                        continue
                    block = self._fetch(index, (offset + len(buffer) - 1) // BLOCK_BYTES)
                except Stale:
                    if self._kept_fd < 0:
                        raise
                    continue  # it was replaced by this process just now, and kept before
            piece = memoryview(block)[offset - index * BLOCK_BYTES :][: len(buffer)]
            if not piece:
                raise Stale(f"{self.path} became shorter while it was open")
            buffer[: len(piece)] = piece
            buffer = buffer[len(piece) :]
            offset += len(piece)

    def find(self) -> Found:
        """The object that has its path now. Raises `NotFound`."""
        return self._bucket.find(self.path)

    def keep(self) -> None:
        """Fetch all of it, before it is replaced. Raises `Stale` if it was replaced already."""
        with self._keeping:
            if self._kept_fd >= 0 or self._closed or not self.size:
                return
            with tempfile.TemporaryFile(buffering=0) as file:
                for start in range(0, self.size, _PIECE_BYTES):
                    data = self._get(start, min(start + _PIECE_BYTES, self.size))
                    while data:
                        data = data[file.write(data) :]
                self._adopt(os.dup(file.fileno()))

    def keep_as(self, other: "ObjectReader") -> bool:
        """Share the kept bytes of another reader of the same object; False if it has none."""
        if other.found != self.found:
            return False
        with other._lock:
            if other._kept_fd < 0:
                return False
            fd = os.dup(other._kept_fd)
        self._adopt(fd)
        return True

    def close(self) -> None:
        """Drop blocks and kept bytes; a second call does nothing."""
        self._readers.drop(self)
        with self._lock:
            fd, self._kept_fd, self._closed = self._kept_fd, -1, True
            self._blocks.clear()
        if fd >= 0:
            os.close(fd)

    def _adopt(self, fd: int) -> None:
        with self._lock:
            if not self._closed and self._kept_fd < 0:
                self._kept_fd = fd
                return
        os.close(fd)

    def _get(self, start: int, stop: int) -> memoryview:
        assert self.found is not None
        return self._bucket.get(self.path, start, stop, self.found)

    def _at_hand(self, index: int) -> bytes | None:
        with self._lock:
            block = self._blocks.pop(index, None)
            if block is not None:
                self._blocks[index] = block  # now the one used last
            return block

    def _fetch(self, index: int, last: int) -> bytes:
        """A block that is not cached: one thread fetches it, others that need it wait."""
        with self._lock:
            if (block := self._blocks.get(index)) is not None:
                return block
            flight = self._flights.get(index)
            if mine := flight is None:
                flight = Flight()
                wanted = self._to_fetch(index, last)
                self._flights.update(dict.fromkeys(wanted, flight))
        assert flight is not None
        if not mine:
            return flight.wait()[index]
        fetched: Blocks = {}
        try:
            start = index * BLOCK_BYTES
            data = self._get(start, min(wanted.stop * BLOCK_BYTES, self.size))
            for at in wanted:
                fetched[at] = bytes(data[at * BLOCK_BYTES - start :][:BLOCK_BYTES])
        except BaseException as error:
            with self._lock:
                for at in wanted:
                    del self._flights[at]
            flight.fail(error)
            raise
        with self._lock:
            for at in wanted:
                del self._flights[at]
            if not self._closed:
                self._blocks.update(fetched)
                while len(self._blocks) > _BLOCKS_KEPT:
                    del self._blocks[next(iter(self._blocks))]
            self._next = wanted.stop
        flight.land(fetched)
        return fetched[index]

    def _to_fetch(self, index: int, last: int) -> range:
        """The blocks from `index` on that are fetched in one request."""
        count = last - index + 1
        if index == self._next != 0:  # read front to back
            count = _BLOCKS_AT_ONCE
        of_object = -(-self.size // BLOCK_BYTES)
        stop = index + 1
        most = min(index + min(count, _BLOCKS_AT_ONCE), of_object)
        while stop < most and stop not in self._blocks and stop not in self._flights:
            stop += 1
        return range(index, stop)


class OpenReaders:
    """The open readers of a store, by path, so that they keep their bytes when this process replaces them.

    A reader is entered before its object is looked up. If the object is replaced meanwhile, either its
    bytes are kept, or it is looked up again.
    """

    size: int
    mtime_ns: int

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: dict[str, list[ObjectReader]] = {}
        self._changing: dict[str, int] = {}

    def open(self, bucket: Bucket, path: str) -> ObjectReader:
        """Open an object as it is now. Raises `NotFound`."""
        while True:
            reader = ObjectReader(bucket, path, self)
            with self._lock:
                self._readers.setdefault(path, []).append(reader)
            try:
                if self._find(reader):
                    return reader
            except BaseException:
                reader.close()
                raise
            reader.close()

    @contextmanager
    def replacing(self, *paths: str) -> Iterator[None]:
        """A block that replaces or deletes objects. Their open readers keep the bytes."""
        with self._lock:
            for path in paths:
                self._changing[path] = self._changing.get(path, 0) + 1
        try:
            for path in paths:
                with self._lock:
                    readers = [one for one in self._readers.get(path, ()) if one.found is not None]
                kept: list[ObjectReader] = []
                for reader in readers:
                    if not any(reader.keep_as(other) for other in kept):
                        with suppress(Stale):  # others have replaced it: so it was stale before
                            self._keep(reader)
                            kept.append(reader)
            yield
        finally:
            with self._lock:
                for path in paths:
                    self._changing[path] -= 1
                    if not self._changing[path]:
                        del self._changing[path]
                    for reader in self._readers.get(path, ()):
                        if reader.found is None:
                            reader.missed = True

    def drop(self, reader: ObjectReader) -> None:
        """Remove a closed reader."""
        with self._lock:
            readers = self._readers.get(reader.path, [])
            if reader in readers:
                readers.remove(reader)
            if not readers:
                self._readers.pop(reader.path, None)

    def _find(self, reader: ObjectReader) -> bool:
        """Set the object of a reader; False if it is being replaced, and has to be looked up again."""
        found = reader.find()
        with self._lock:
            if reader.missed:
                return False
            reader.size, reader.mtime_ns, reader.found = found.size, found.mtime_ns, found
            is_changing = reader.path in self._changing
        if is_changing:
            try:
                self._keep(reader)
            except Stale:
                return False
        return True

    def _keep(self, reader: ObjectReader) -> None:
        if not reader.outlives_deletion:
            reader.keep()
