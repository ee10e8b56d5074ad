"""The files that are indexed: listed, and opened by any process of any machine.

Used by `headers`, `target` and `run`. It must not know what is in a file.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import BinaryIO, cast

from zarrfuse.config import RemoteConfig
from zarrfuse.spec.paths import join
from zarrfuse.stores.base import Entry, Kind, Reader, Store
from zarrfuse.stores.opening import is_url, open_store

_LOCAL_BUFFER = 4 << 10
"""Bytes of a read of a header; a small one, since the tables of tiles are somewhere else in the file."""
_REMOTE_BUFFER = 64 << 10


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file by its path below the folder, with its size in bytes and its time in ns since 1970."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Files:
    """A folder with files, by its path or URL; it can be sent to another process."""

    address: str
    remote: RemoteConfig = field(default_factory=RemoteConfig, repr=False)

    @property
    def store(self) -> Store:
        """The store of the folder, which this process opens once."""
        return _store(self.address, self.remote)

    def found(self, left_out: str = "") -> Iterator[FoundFile]:
        """All files, except those below the folder `left_out` and in hidden folders, in order of names."""
        for path, entry in walk(self.store):
            if not (left_out and path.startswith(f"{left_out}/")):
                yield FoundFile(path, entry.size, entry.mtime_ns)

    def open(self, path: str) -> "CountedFile":
        """A file, open for reading. Raises what the store raises."""
        return CountedFile(self.store.open(path))


def walk(store: Store, folder: str = "") -> Iterator[tuple[str, Entry]]:
    """The files below a folder of a store, with their keys, in order of names."""
    folders = []
    for name, entry in sorted(store.list(folder).items()):
        key = join(folder, name)
        if entry.kind is Kind.FILE:
            yield key, entry
        elif entry.kind is Kind.FOLDER and not name.startswith("."):
            folders.append(key)
    for key in folders:
        yield from walk(store, key)


@lru_cache(maxsize=8)
def _store(address: str, remote: RemoteConfig) -> Store:
    return open_store(address, remote=remote)


class CountedFile(io.RawIOBase):
    """An open file of a store as a file of Python; `bytes_read` counts what was read of it."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._at = 0
        self.bytes_read = 0

    def buffered(self) -> BinaryIO:
        """The same file, read in blocks."""
        return cast(
            BinaryIO,
            io.BufferedReader(self, _REMOTE_BUFFER if self._reader.is_remote else _LOCAL_BUFFER),
        )

    def readable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def seekable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """See `io.RawIOBase`."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._reader.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        """See `io.RawIOBase`."""
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """See `io.RawIOBase`."""
        into = memoryview(buffer).cast("B")
        count = max(0, min(len(into), self._reader.size - self._at))
        if count:
            self._reader.readinto(into[:count], self._at)
            self._at += count
            self.bytes_read += count
        return count

    def close(self) -> None:
        """See `io.RawIOBase`."""
        if not self.closed:
            self._reader.close()
        super().close()


def is_bucket(address: str) -> bool:
    """Whether an address is a URL of a store that can be written."""
    return is_url(address) and address.partition("://")[0].lower() in ("s3", "gs", "az")
