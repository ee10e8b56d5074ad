"""Files in chunk folders that are not stored: writers rename them to chunks.

A writer that replaces a chunk writes `c/0.3f2a.partial` and renames it to `c/0`. If the folder `c` is not
stored as such, the first file has no place in the store. It is kept in a spool file of this process, and is
gone when the mount ends. Used by `writing`, `files` and `view`. It must not know what a chunk is.
"""

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from zarrfuse.errors import Exists, NotFound
from zarrfuse.stores.access import Access, Change, as_folder
from zarrfuse.stores.base import Entry, Kind, Reader, Writer
from zarrfuse.stores.descriptor import read_full
from zarrfuse.transactions.spool import Spool


class TransientKey(NamedTuple):
    """A file by the path of its array, the coordinates of its chunk folder, and its name."""

    array: str
    prefix: tuple[int, ...]
    name: str


_count = itertools.count(1)


class _File:
    """The bytes of one file. The last user closes the spool file."""

    __slots__ = ("access", "identity", "mtime_ns", "names", "spool", "users")

    def __init__(self, spool: Spool, access: Access | None) -> None:
        self.spool = spool
        self.access = access
        self.identity = -next(_count)
        """No file of a store has this number."""
        self.mtime_ns = time.time_ns()
        self.names = 0
        self.users = 0
        """The number of its names and openings."""


class TransientFiles:
    """All such files of one view. For any thread."""

    def __init__(self, spool: Callable[[], Spool]) -> None:
        self._spool = spool
        self._files: dict[TransientKey, _File] = {}
        self._lock = threading.Lock()

    def create(
        self, key: TransientKey, *, exclusive: bool = False, access: Access | None = None
    ) -> Writer:
        """Create a file, or empty an existing one, unless `exclusive`. Raises `Exists`."""
        with self._lock:
            file = self._files.get(key)
            if file is None:
                file = self._files[key] = _File(self._spool(), access)
                file.users = file.names = 1
            elif exclusive:
                raise Exists(f"{key.name} exists already")
            writer = self._opened(file)
        writer.truncate(0)
        return writer

    def store(self, key: TransientKey, reader: Reader, *, new: bool = False) -> None:
        """Make a file with the bytes and the time of an open one; it replaces an existing one.

        Programs that have the old file open keep it. Raises `Exists` with `new`, with nothing changed.
        """
        file = _File(self._spool(), reader.access)
        file.users = file.names = 1
        try:
            file.spool.copy(reader, reader.size)
            file.mtime_ns = reader.mtime_ns
            with self._lock:
                replaced = self._files.get(key)
                if replaced is not None and new:
                    raise Exists(f"{key.name} exists already")
                self._files[key] = file
                if replaced is not None:
                    self._unname(replaced)
        except BaseException:
            file.spool.close()
            raise

    def open(self, key: TransientKey) -> Writer:
        """Open a file for reading or writing. Raises `NotFound`."""
        with self._lock:
            return self._opened(self._file(key))

    def entry(self, key: TransientKey) -> Entry:
        """The entry of a file. Raises `NotFound`."""
        with self._lock:
            return _entry(key.name, self._file(key))

    def entries(self, array: str, prefix: tuple[int, ...]) -> Iterator[Entry]:
        """The files in a chunk folder, and its subfolders with files below them."""
        if not self._files:  # nearly always
            return
        with self._lock:
            files = list(self._files.items())
        folders = set()
        for key, file in files:
            if key.array == array and key.prefix == prefix:
                yield _entry(key.name, file)
            elif key.array == array and key.prefix[: len(prefix)] == prefix:
                name = str(key.prefix[len(prefix)])
                if name not in folders:
                    folders.add(name)
                    yield Entry(name, Kind.FOLDER, 0, file.mtime_ns, access=as_folder(file.access))

    def has_some_below(self, path: str) -> bool:
        """Whether the array at `path`, or one below, has such files."""
        with self._lock:
            return any(_is_below(key.array, path) for key in self._files)

    def change(self, key: TransientKey, change: Change) -> None:
        """Set time, mode and owner of a file. Raises `NotFound`."""
        with self._lock:
            _change(self._file(key), change)

    def remove(self, key: TransientKey) -> None:
        """Delete the name of a file. Raises `NotFound`."""
        with self._lock:
            file = self._file(key)
            del self._files[key]
            self._unname(file)

    def link(self, key: TransientKey, new_key: TransientKey) -> None:
        """Give a file a second name. Raises `NotFound`, `Exists`."""
        with self._lock:
            file = self._file(key)
            if new_key in self._files:
                raise Exists(f"{new_key.name} exists already")
            file.users += 1
            file.names += 1
            self._files[new_key] = file

    def rename(self, key: TransientKey, new_key: TransientKey, *, replace: bool = True) -> None:
        """Rename a file. Raises `NotFound`, and `Exists` without `replace`."""
        with self._lock:
            file = self._file(key)
            replaced = self._files.get(new_key)
            if replaced is not None and not replace:
                raise Exists(f"{new_key.name} exists already")
            if replaced is file:
                return
            del self._files[key]
            self._files[new_key] = file
            if replaced is not None:
                self._unname(replaced)

    def move(self, path: str, new_path: str) -> None:
        """Note that the folder at `path`, with the arrays below it, was renamed."""
        with self._lock:
            for key in [key for key in self._files if _is_below(key.array, path)]:
                array = new_path + key.array[len(path) :]
                self._files[key._replace(array=array)] = self._files.pop(key)

    def _file(self, key: TransientKey) -> _File:
        try:
            return self._files[key]
        except KeyError:
            raise NotFound(f"no {key.name} in a chunk folder of /{key.array}") from None

    def _opened(self, file: _File) -> "_OpenFile":
        file.users += 1
        return _OpenFile(file, self._closed)

    def _closed(self, file: _File) -> None:
        with self._lock:
            self._let_go(file)

    def _unname(self, file: _File) -> None:
        file.names -= 1
        self._let_go(file)

    def _let_go(self, file: _File) -> None:
        file.users -= 1
        if not file.users:
            file.spool.close()


class _OpenFile(Writer):
    """One of these files, open."""

    __slots__ = ("_closed", "_file")

    def __init__(self, file: _File, closed: Callable[[_File], None]) -> None:
        self._file = file
        self._closed: Callable[[_File], None] | None = closed

    @property
    def is_live(self) -> bool:  # type: ignore[override]
        """See `stores.base.Reader`."""
        return True

    @property
    def access(self) -> Access | None:  # type: ignore[override]
        return self._file.access

    @property
    def size(self) -> int:  # type: ignore[override]
        return self._file.spool.size

    @property
    def mtime_ns(self) -> int:  # type: ignore[override]
        return self._file.mtime_ns

    def seen(self) -> Entry:
        """See `stores.base.Writer`."""
        return _entry("", self._file)

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `stores.base.Reader`."""
        read_full(self._file.spool.fd, buffer, offset, "the file", wait=wait)

    def write(self, data: bytes | memoryview, offset: int) -> None:
        """See `stores.base.Writer`."""
        self._file.spool.write(data, offset)
        self._file.mtime_ns = time.time_ns()

    def truncate(self, size: int) -> None:
        """See `stores.base.Writer`."""
        os.ftruncate(self._file.spool.fd, size)
        self._file.mtime_ns = time.time_ns()

    def change(self, change: Change) -> None:
        """See `stores.base.Writer`."""
        _change(self._file, change)

    def sync(self) -> None:
        """See `stores.base.Writer`; it does not outlive the mount."""

    def close(self) -> None:
        """See `stores.base.Reader`."""
        closed, self._closed = self._closed, None
        if closed is not None:
            closed(self._file)


def _change(file: _File, change: Change) -> None:
    if change.mtime_ns is not None:
        file.mtime_ns = change.mtime_ns
    if file.access is not None:
        file.access = change.of(file.access)


def _entry(name: str, file: _File) -> Entry:
    return Entry(
        name,
        Kind.FILE,
        file.spool.size,
        file.mtime_ns,
        identity=file.identity,
        access=file.access,
        links=file.names,
    )


def _is_below(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")
