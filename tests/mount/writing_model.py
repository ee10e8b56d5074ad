"""Files on a mount and on a plain folder side by side: what a program does to both must go the same way.

Ordinary files are the same on both. A chunk differs as `docs/semantics.md` says, and here is the model of
that: the plain folder holds what is stored of it, and who has it open to write has a copy (`_Copy`) that
is stored when it is closed or synced.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR

OLD_NS = 1_500_000_000_000_000_000
"""Times before this were set; those of what was written since are not compared."""


@dataclass(frozen=True)
class Layout:
    """The names of a folder that programs use. `headers`: by chunk, how many bytes it has at least."""

    files: tuple[str, ...]
    folders: tuple[str, ...]
    headers: dict[str, int]
    listed: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.files, *self.headers, *self.folders)


class _Copy:
    """A chunk that is open to write: read from what is stored (`base`) until the first change."""

    def __init__(self, name: str, base: int | None, flags: int) -> None:
        self.name = name
        self.base = base
        self.appends = bool(flags & os.O_APPEND)
        self.readable = flags & os.O_ACCMODE != os.O_WRONLY
        self.is_new = bool(flags & os.O_EXCL)
        self.is_deleted = False
        self.data: bytearray | None = None if base is not None else bytearray()
        self.changed = base is None

    def bytes_now(self) -> bytes:
        if self.data is not None:
            return bytes(self.data)
        assert self.base is not None
        return _content_of(self.base)

    def change(self) -> bytearray:
        self.data = self.data if self.data is not None else bytearray(self.bytes_now())
        self.changed = True
        return self.data


class Disk:
    """A plain folder, with the chunks of the layout modelled. Its methods are what programs do."""

    def __init__(self, root: Path, layout: Layout) -> None:
        self.root = root
        self.layout = layout
        self.handles: list[int | _Copy] = []
        self.names: list[str] = []
        """What each handle was opened as."""

    # -- handles -----------------------------------------------------------------------------

    def open(self, name: str, flags: int) -> None:
        path = self.root / name
        if name not in self.layout.headers:
            self._add(name, os.open(path, flags, 0o644))
            return
        writes = flags & os.O_ACCMODE != os.O_RDONLY
        if not path.exists():
            if not flags & os.O_CREAT:
                raise FileNotFoundError(errno.ENOENT, name)
            base = None
        elif flags & os.O_EXCL:
            raise FileExistsError(errno.EEXIST, name)
        elif not writes:
            self._add(name, os.open(path, os.O_RDONLY))
            return
        else:
            base = None if flags & os.O_TRUNC else os.open(path, os.O_RDONLY)
        if flags & os.O_EXCL and any(not copy.is_deleted for copy in self._copies(name)):
            raise FileExistsError(errno.EEXIST, name)
        self._add(name, _Copy(name, base, flags))

    def put(self, name: str, data: bytes) -> None:
        """Write a whole file, of at least a byte."""
        self.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        last = len(self.handles) - 1
        try:
            self.write(last, 0, data)
        finally:
            self.close(last)

    def _copies(self, name: str) -> "Iterator[_Copy]":
        for handle in self.handles:
            if isinstance(handle, _Copy) and handle.name == name:
                yield handle

    def _add(self, name: str, handle: "int | _Copy") -> None:
        self.handles.append(handle)
        self.names.append(name)

    def write(self, number: int, offset: int, data: bytes) -> int:
        handle = self.handles[number]
        if isinstance(handle, int):
            return os.pwrite(handle, data, offset)
        if not data:
            return 0
        own = handle.change()
        offset = len(own) if handle.appends else offset
        own.extend(bytes(max(0, offset - len(own))))
        own[offset : offset + len(data)] = data
        return len(data)

    def read(self, number: int, offset: int, size: int) -> bytes:
        handle = self.handles[number]
        if isinstance(handle, int):
            return os.pread(handle, size, offset)
        if not handle.readable:
            raise OSError(errno.EBADF, handle.name)
        return handle.bytes_now()[offset : offset + size]

    def size(self, number: int) -> int:
        handle = self.handles[number]
        return os.fstat(handle).st_size if isinstance(handle, int) else len(handle.bytes_now())

    def ftruncate(self, number: int, size: int) -> None:
        handle = self.handles[number]
        if isinstance(handle, int):
            os.ftruncate(handle, size)
            return
        own = handle.change()
        del own[size:]
        own.extend(bytes(size - len(own)))

    def fsync(self, number: int) -> None:
        handle = self.handles[number]
        if isinstance(handle, int):
            os.fsync(handle)
        elif handle.changed:
            self._store(handle)

    def close(self, number: int) -> None:
        handle = self.handles.pop(number)
        del self.names[number]
        if isinstance(handle, int):
            os.close(handle)
            return
        try:
            # What is empty is stored at the last close, which nobody waits for: `both` syncs it.
            if handle.changed and handle.bytes_now():
                self._store(handle)
        finally:
            if handle.base is not None:
                os.close(handle.base)

    def _store(self, copy: _Copy) -> None:
        if copy.is_deleted:
            return
        data = copy.bytes_now()
        if len(data) < self.layout.headers[copy.name]:
            raise OSError(errno.EINVAL, copy.name)
        if copy.is_new and (self.root / copy.name).exists():
            raise FileExistsError(errno.EEXIST, copy.name)
        self._put(copy.name, data)
        copy.changed = copy.is_new = False

    def _put(self, name: str, data: bytes) -> None:
        if len(data) < self.layout.headers[name]:
            raise OSError(errno.EINVAL, name)
        temporary = self.root.parent / "being stored"
        temporary.write_bytes(data)
        temporary.rename(self.root / name)

    # -- names -------------------------------------------------------------------------------

    def truncate(self, name: str, size: int) -> None:
        path = self.root / name
        if name not in self.layout.headers:
            os.truncate(path, size)
            return
        data = path.read_bytes()
        self._put(name, data[:size].ljust(size, b"\0"))

    def rename(self, name: str, new_name: str) -> None:
        old, new = self.root / name, self.root / new_name
        headers = self.layout.headers
        if (
            name == new_name
            or not old.is_file()
            or not (headers.get(name) or headers.get(new_name))
        ):
            os.rename(old, new)
            return
        if new.is_dir():
            raise IsADirectoryError(errno.EISDIR, new_name)
        if not new.parent.is_dir():
            os.stat(new)
        data, status = old.read_bytes(), old.stat()
        if new_name in headers:
            self._put(new_name, data)
        else:
            temporary = self.root.parent / "being stored"
            temporary.write_bytes(data)
            temporary.rename(new)
        os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
        old.unlink()

    def move_by_link(self, name: str, new_name: str) -> None:
        """A link of an ordinary file, and then its first name is deleted."""
        old, new = self.root / name, self.root / new_name
        if new_name in self.layout.headers and old.is_file() and not new.exists():
            self.rename(name, new_name)
            return
        os.link(old, new)
        os.unlink(old)

    def unlink(self, name: str) -> None:
        os.unlink(self.root / name)
        for copy in self._copies(name):
            copy.is_deleted = True

    def mkdir(self, name: str) -> None:
        os.mkdir(self.root / name)

    def rmdir(self, name: str) -> None:
        os.rmdir(self.root / name)

    def utime(self, name: str, mtime_ns: int) -> None:
        os.utime(self.root / name, ns=(mtime_ns, mtime_ns))

    def stat(self, name: str) -> tuple[bool, int, int]:
        """Whether it is a folder, its size, and its time if that was set."""
        found = os.stat(self.root / name)
        if S_ISDIR(found.st_mode):
            return True, 0, 0
        return False, found.st_size, found.st_mtime_ns if found.st_mtime_ns < OLD_NS else 0

    def listdir(self, name: str) -> list[str]:
        return sorted(os.listdir(self.root / name))

    def content(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    # -- the whole ---------------------------------------------------------------------------

    def tree(self) -> Iterator[tuple[str, bytes | None]]:
        """Every name that is listed, with the content of files."""
        pending = list(self.layout.listed)
        for folder in pending:
            with suppress(FileNotFoundError, NotADirectoryError):
                for name in sorted(os.listdir(self.root / folder)):
                    path = f"{folder}/{name}" if folder else name
                    is_file = (self.root / path).is_file()
                    yield path, (self.root / path).read_bytes() if is_file else None

    def let_go(self) -> None:
        """Close what is open, whatever that says."""
        while self.handles:
            with suppress(OSError):
                self.close(len(self.handles) - 1)


class Mounted(Disk):
    """The folder of a mount: nothing is modelled."""

    def __init__(self, root: Path, layout: Layout) -> None:
        super().__init__(root, Layout(layout.names, layout.folders, {}, layout.listed))


class SideBySide:
    """Does the same on a mount and on the model of it, and compares what they say."""

    def __init__(self, mount: Path, disk: Path, layout: Layout) -> None:
        self.layout = layout
        self.mount = Mounted(mount, layout)
        self.disk = Disk(disk, layout)
        self.done: list[str] = []

    def both(self, operation: str, *arguments: object) -> None:
        """One operation on both: the same is returned, or raised."""
        self.done.append(f"{operation}{arguments}")
        here = _outcome(lambda: getattr(self.mount, operation)(*arguments))
        there = _outcome(lambda: getattr(self.disk, operation)(*arguments))
        assert here == there, "\n".join([*self.done, f"mount: {here}", f"disk:  {there}"])

    def apply(self, operation: str, *arguments: object) -> None:
        """`both`, unless `docs/semantics.md` says that a mount differs in that."""
        if operation in _ON_HANDLES:
            if not self.disk.handles:
                return
            number, *rest = arguments
            assert isinstance(number, int)
            number %= len(self.disk.handles)
            handle = self.disk.handles[number]
            if operation == "close" and isinstance(handle, _Copy) and not handle.bytes_now():
                self.both("fsync", number)
            self.both(operation, number, *rest)
            return
        if operation in ("rename", "move_by_link") and self._differs(operation, *arguments):
            return
        self.both(operation, *arguments)

    def _differs(self, operation: str, name: object, new_name: object) -> bool:
        chunks = self.layout.headers
        is_chunk = name in chunks
        if operation == "move_by_link":
            return is_chunk or name == new_name
        if is_chunk == (new_name in chunks) and not is_chunk:
            return False
        # A chunk that gets or loses its name while it is open: what becomes of the handles differs.
        return name in self.disk.names

    def compare(self) -> None:
        """What there is in the end is the same."""
        for number in range(len(self.disk.handles)):
            self.both("size", number)
        while self.disk.handles:
            self.apply("close", len(self.disk.handles) - 1)
        here, there = dict(self.mount.tree()), dict(self.disk.tree())
        assert here == there, "\n".join([*self.done, f"mount: {here}", f"disk:  {there}"])


_ON_HANDLES = frozenset({"write", "read", "size", "ftruncate", "fsync", "close"})


def _outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except OSError as error:
        assert error.errno is not None
        return errno.errorcode[error.errno]


def _content_of(fd: int) -> bytes:
    return os.pread(fd, 1 << 20, 0)
