"""Files on a mount and on a plain folder side by side: what a program does to both must go the same way.

Chunks are compared with the files of a disk, too. What parts of given sizes cannot hold is not tried
(`SideBySide.apply`), nor is the link of a chunk.
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


class Side:
    """A folder, and the files in it that are open. Its methods are what programs do."""

    def __init__(self, root: Path, layout: Layout) -> None:
        self.root = root
        self.handles: list[int] = []
        self._listed = layout.listed

    # -- handles -----------------------------------------------------------------------------

    def open(self, name: str, flags: int) -> None:
        self.handles.append(os.open(self.root / name, flags, 0o644))

    def put(self, name: str, data: bytes) -> None:
        """Write a whole file, of at least a byte."""
        (self.root / name).write_bytes(data)

    def write(self, number: int, offset: int, data: bytes) -> int:
        return os.pwrite(self.handles[number], data, offset)

    def read(self, number: int, offset: int, size: int) -> bytes:
        return os.pread(self.handles[number], size, offset)

    def size(self, number: int) -> int:
        return os.fstat(self.handles[number]).st_size

    def links(self, number: int) -> int:
        return os.fstat(self.handles[number]).st_nlink

    def ftruncate(self, number: int, size: int) -> None:
        os.ftruncate(self.handles[number], size)

    def fsync(self, number: int) -> None:
        os.fsync(self.handles[number])

    def close(self, number: int) -> None:
        os.close(self.handles.pop(number))

    # -- names -------------------------------------------------------------------------------

    def truncate(self, name: str, size: int) -> None:
        os.truncate(self.root / name, size)

    def rename(self, name: str, new_name: str) -> None:
        os.rename(self.root / name, self.root / new_name)

    def move_by_link(self, name: str, new_name: str) -> None:
        """A second name, and then the first one is deleted."""
        os.link(self.root / name, self.root / new_name)
        os.unlink(self.root / name)

    def unlink(self, name: str) -> None:
        os.unlink(self.root / name)

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
        for folder in self._listed:
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


class SideBySide:
    """Does the same on a mount and on a plain folder, and compares what they say."""

    def __init__(self, mount: Path, disk: Path, layout: Layout) -> None:
        self.headers = layout.headers
        self.mount = Side(mount, layout)
        self.disk = Side(disk, layout)
        self.done: list[str] = []

    def both(self, operation: str, *arguments: object) -> None:
        """One operation on both: the same is returned, or raised."""
        self.done.append(f"{operation}{arguments}")
        here = _outcome(lambda: getattr(self.mount, operation)(*arguments))
        there = _outcome(lambda: getattr(self.disk, operation)(*arguments))
        assert here == there, "\n".join([*self.done, f"mount: {here}", f"disk:  {there}"])

    def apply(self, operation: str, *arguments: object) -> None:
        """`both`, unless a chunk would be stored of which parts are missing, or be linked."""
        if operation in _ON_HANDLES:
            self._apply_to_handle(operation, *arguments)
            return
        name, *rest = arguments
        header = self.headers.get(str(name), 0)
        if operation == "put":
            [data] = rest
            assert isinstance(data, bytes)
            rest = [data.ljust(header, b".")]
        elif operation == "truncate":
            [size] = rest
            assert isinstance(size, int)
            rest = [max(size, header)]
        elif operation == "move_by_link" and (name in self.headers or name == rest[0]):
            return
        elif operation in ("rename", "move_by_link"):
            path = self.disk.root / str(name)
            if path.is_file() and path.stat().st_size < self.headers.get(str(rest[0]), 0):
                return
        self.both(operation, name, *rest)

    def _apply_to_handle(self, operation: str, number: object, *rest: object) -> None:
        if not self.disk.handles:
            return
        assert isinstance(number, int)
        number %= len(self.disk.handles)
        if operation in ("fsync", "close"):
            chunk = self._chunk_of(number)
            size = self.disk.size(number)
            if chunk is not None and size < self.headers[chunk]:
                self.both("truncate", chunk, self.headers[chunk])
            elif chunk is not None and not size:
                # At the last close, which nobody waits for, an empty one is stored.
                self.both("fsync", number)
        self.both(operation, number, *rest)

    def _chunk_of(self, number: int) -> str | None:
        """The name of a chunk that is open; None for other files, and if it has no name any more."""
        opened = os.fstat(self.disk.handles[number])
        for name in self.headers:
            with suppress(FileNotFoundError, NotADirectoryError):
                if os.path.samestat(opened, os.stat(self.disk.root / name)):
                    return name
        return None

    def compare(self) -> None:
        """What there is in the end is the same."""
        for number in range(len(self.disk.handles)):
            self.both("size", number)
            self.both("links", number)
        while self.disk.handles:
            self.apply("close", len(self.disk.handles) - 1)
        here, there = dict(self.mount.tree()), dict(self.disk.tree())
        assert here == there, "\n".join([*self.done, f"mount: {here}", f"disk:  {there}"])


_ON_HANDLES = frozenset({"write", "read", "size", "links", "ftruncate", "fsync", "close"})


def _outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except OSError as error:
        assert error.errno is not None
        return errno.errorcode[error.errno]
