"""The files that are indexed: listed, and opened by any process of any machine.

Used by `headers`, `target` and `run`. It must not know what is in a file.
"""

import io
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import BinaryIO, cast
from uuid import uuid4

from zarrfuse.config import RemoteConfig
from zarrfuse.spec.paths import join
from zarrfuse.stores.base import UNKNOWN_SIZE, Entry, Kind, Reader, Store
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
    """A folder with files, by its path or URL; it can be sent to another process.

    `run`: another one for each run: a store that was opened before may know what is no longer true.
    """

    address: str
    remote: RemoteConfig = field(default_factory=RemoteConfig, repr=False)
    run: str = field(default_factory=lambda: uuid4().hex, repr=False)

    @property
    def store(self) -> Store:
        """The store of the folder, which this process opens once for a run."""
        return _store(self.address, self.remote, self.run)

    def found(self, left_out: str = "") -> Iterator[FoundFile]:
        """All files in order of names.

        Except those below the folder `left_out`, in hidden folders, and in folders that are Zarr nodes.
        """
        for path, entry in walk(self.store, enter=self._is_own):
            if not (left_out and path.startswith(f"{left_out}/")):
                # A listing as HTML has no sizes.
                known = self.store.stat(path) if entry.size == UNKNOWN_SIZE else entry
                yield FoundFile(path, known.size, known.mtime_ns)

    def local_paths(self) -> Iterator[str]:
        """The paths of all files, if they are on this machine."""
        for file in self.found():
            yield os.path.join(self.address, file.path)

    def open(self, path: str) -> "CountedFile":
        """A file, open for reading. Raises what the store raises."""
        return CountedFile(self.store.open(path))

    def _is_own(self, folder: str, names: Collection[str]) -> bool:
        """Whether a folder is no Zarr node, and no symlink, which may lead to a folder above."""
        if "zarr.json" in names:
            return False
        return is_url(self.address) or not os.path.islink(os.path.join(self.address, folder))

    def is_still(self, file: FoundFile) -> bool:
        """Whether a file is as it was found. Of a URL that is not asked."""
        if is_url(self.address):
            return True
        try:
            status = os.stat(os.path.join(self.address, file.path))
        except FileNotFoundError:
            return False
        return (status.st_size, status.st_mtime_ns) == (file.size, file.mtime_ns)


def walk(
    store: Store,
    folder: str = "",
    enter: Callable[[str, Collection[str]], bool] | None = None,
) -> Iterator[tuple[str, Entry]]:
    """The files below a folder of a store, with their keys, in order of names.

    Hidden folders are left out, and those below for which `enter` is false; it takes the names in it, too.
    """
    found = store.list(folder)
    if folder and enter is not None and not enter(folder, found):
        return
    folders = []
    for name, entry in sorted(found.items()):
        key = join(folder, name)
        if entry.kind is Kind.FILE:
            yield key, entry
        elif entry.kind is Kind.FOLDER and not name.startswith("."):
            folders.append(key)
    for key in folders:
        yield from walk(store, key, enter)


@lru_cache(maxsize=8)
def _store(address: str, remote: RemoteConfig, run: str) -> Store:
    del run
    # Datasets are often folders of links, and who indexes a folder may read all that these lead to.
    return open_store(address, follow_symlinks=True, remote=remote)


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
