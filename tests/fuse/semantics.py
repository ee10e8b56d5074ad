"""What programs do with files and folders: operations that say how they went.

Each is a row of the tables in `docs/semantics.md`, or is not in them, because it goes as on a disk.

An operation is given a place (`semantics_places`) that nobody has used before. It says `yes` if all of
it goes as it does on a disk, else, in a word or two, how; an `OSError` that leaves it is its errno.
`None` says that the place has nothing to try this with. On a folder of a disk all of them say `yes`.
"""

import ctypes
import errno
import fcntl
import json
import mmap
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from builders.mounts import wait_for
from semantics_places import Place

Operation = Callable[[Place], str | None]

FILES: dict[str, Operation] = {}
"""The rows of the table of files."""
FOLDERS: dict[str, Operation] = {}
"""The rows of the table of folders."""
READING: set[str] = set()
"""The rows of operations that change nothing: they go well where nothing can be written, too."""
DISKS_DIFFER = {
    "`O_TMPFILE`",
    "`fallocate`",
    "`rename` with `RENAME_EXCHANGE`",
    "`rename` into another view",
    "`setxattr`, `removexattr`",
    "`getxattr`, `listxattr`",
    "`chown` to somebody else",
    "`st_nlink` counts the folders in it",
    "`inotify` of what changes in another view",
}
"""Not every disk has these, or they need rights, or a disk has no such thing."""

OBJECTS = {
    "a new name is there for others once it is created",
    "read what somebody else writes, before he closes it",
    "read what somebody else has written, when opened before",
    "two writers at a time",
    "`close` of a copy of an open file (`dup`, `fork`)",
    "`rename` while it is open to write: what is written later is under the new name",
    "`rename` over a file that is open to write: what is written later is lost with it",
    "`rename` of a temporary file that is open to write: what is written later is in the file",
    "`unlink` while it is open to write: it stays deleted",
    "the inode number stays the same when it is written, while it is open to read",
    "`flock`, between two writers",
    "OFD locks, between two writers",
    "POSIX locks (`lockf`), between two writers",
    "`flock`, `lockf` of a lock file beside it (`0.__lock`)",
}
"""What is tried on object stores, where every file is a working copy, besides what differs there."""

WRITE = os.O_WRONLY
BOTH = os.O_RDWR
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_C = ctypes.CDLL(None, use_errno=True)
_FALLOCATE = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
_IN_CREATE = 0x100


def _row(
    table: dict[str, Operation], name: str, *, reads: bool
) -> Callable[[Operation], Operation]:
    def add(operation: Operation) -> Operation:
        assert name not in table
        table[name] = operation
        if reads:
            READING.add(name)
        return operation

    return add


def file(name: str, *, reads: bool = False) -> Callable[[Operation], Operation]:
    """The operation is a row of the table of files; `reads`: it changes nothing."""
    return _row(FILES, name, reads=reads)


def folder(name: str, *, reads: bool = False) -> Callable[[Operation], Operation]:
    """The operation is a row of the table of folders; `reads`: it changes nothing."""
    return _row(FOLDERS, name, reads=reads)


def said(operation: Operation, place: Place) -> str | None:
    """What an operation says of a place."""
    try:
        return operation(place) or "yes"
    except NothingToTry:
        return None
    except OSError as error:
        assert error.errno is not None
        return {errno.ENOTSUP: "ENOTSUP"}.get(error.errno) or errno.errorcode[error.errno]


class NothingToTry(Exception):
    """The place has nothing to try an operation with."""


# -- how


@contextmanager
def opened(path: Path, flags: int, mode: int = 0o666) -> Iterator[int]:
    """A file, open; its close is part of what is tried, unless something was raised before."""
    fd = os.open(path, flags, mode)
    try:
        yield fd
    except BaseException:
        with suppress(OSError):
            os.close(fd)
        raise
    os.close(fd)


def content(path: Path) -> bytes:
    """What who opens a file now reads."""
    with opened(path, os.O_RDONLY) as fd:
        return all_of(fd)


def all_of(fd: int) -> bytes:
    """All bytes of an open file."""
    return b"".join(iter(_Pieces(fd), b""))


class _Pieces:
    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._offset = 0

    def __call__(self) -> bytes:
        piece = os.pread(self._fd, 1 << 16, self._offset)
        self._offset += len(piece)
        return piece


def write(path: Path, data: bytes, flags: int = os.O_CREAT | os.O_TRUNC) -> None:
    """Write a whole file."""
    with opened(path, WRITE | flags) as fd:
        assert os.write(fd, data) == len(data)


def is_there(path: Path) -> bool:
    """Whether a name is there, asked for by itself and in the listing, which agree."""
    there = os.path.lexists(path)
    assert there == (path.name in os.listdir(path.parent)), f"{path.name} is listed: {not there}"
    return there


def refused(code: int, call: Callable[[], object]) -> None:
    """What is not possible on a disk either fails in the same way."""
    try:
        call()
    except OSError as error:
        if error.errno != code:
            raise
    else:
        raise AssertionError(f"that should have been {errno.errorcode[code]}")


def open_files(path: Path) -> int:
    """How many handles are open in the mount that a path lies in; none on a disk."""
    point = next(above for above in path.parents if os.path.ismount(above))
    status = point / ".zarrfuse/status.json"
    return int(json.loads(status.read_bytes())["open_files"]) if status.exists() else 0


def holds(place: Place, path: Path, data: bytes) -> str:
    """A file is stored with these bytes, and everybody sees so."""
    shown, stored = content(path), place.stored(path)
    assert path.stat().st_size == len(shown)
    if shown == stored == data:
        return "yes"
    if place.is_rewritten and stored is not None:
        assert json.loads(shown) == json.loads(stored) == json.loads(data)
        return "yes" if shown == data else "as JSON"
    raise AssertionError(f"{path}: {shown!r} is shown and {stored!r} stored, not {data!r}")


def patched(place: Place, data: bytes | None = None, *, patch: bytes | None = None) -> bytes:
    """The content of the file, or `data`, with a few bytes in its middle overwritten, or `patch`."""
    data = place.content if data is None else data
    offset, patch = place.patch[0], place.patch[1] if patch is None else patch
    return data[:offset] + patch + data[offset + len(patch) :]


def patch(place: Place, fd: int) -> None:
    """Overwrite these bytes."""
    offset, data = place.patch
    assert os.pwrite(fd, data, offset) == len(data)


def rename2(old: Path, new: Path, flags: int) -> None:
    """`renameat2(2)`."""
    if _C.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(old))


# -- looking


@file("lookup, `stat`", reads=True)
def stat(place: Place) -> str | None:
    found = os.stat(place.file)
    assert found.st_size == len(place.content)
    assert found.st_mode & 0o170000 == 0o100000
    assert found.st_nlink == 1
    return None


@file("`stat` of a name that is not there", reads=True)
def stat_of_nothing(place: Place) -> str | None:
    refused(errno.ENOENT, lambda: os.stat(place.new))
    refused(errno.ENOENT, lambda: os.open(place.new, os.O_RDONLY))
    return None


@file("`readdir`", reads=True)
def readdir(place: Place) -> str | None:
    with os.scandir(place.file.parent) as entries:
        found = {entry.name: entry.is_file() for entry in entries}
    assert found[place.file.name]
    assert place.new.name not in os.listdir(place.new.parent)
    return None


@file("`statfs`", reads=True)
def statfs(place: Place) -> str | None:
    found, space = os.statvfs(place.file), place.source.space()
    assert space is None or found.f_blocks * found.f_frsize == space
    assert 0 < found.f_bavail <= found.f_blocks
    return None


# -- opening


@file("`open` to read", reads=True)
def open_to_read(place: Place) -> str | None:
    assert content(place.file) == place.content
    with opened(place.file, os.O_RDONLY) as fd:
        refused(errno.EBADF, lambda: os.write(fd, b"1"))
    return None


@file("`open` to write, also to read and write")
def open_to_write(place: Place) -> str | None:
    with opened(place.file, WRITE) as fd:
        refused(errno.EBADF, lambda: os.read(fd, 1))
    assert content(place.file) == place.content
    with opened(place.file, BOTH) as fd:
        assert all_of(fd) == place.content
        assert os.fstat(fd).st_size == len(place.content)
    return holds(place, place.file, place.content)


@file("`O_TRUNC`")
def truncating(place: Place) -> str | None:
    data = place.make(1)
    with opened(place.file, WRITE | os.O_TRUNC) as fd:
        assert os.fstat(fd).st_size == 0
        os.write(fd, data)
    return holds(place, place.file, data)


@file("`O_CREAT`, of a new name")
def create(place: Place) -> str | None:
    data = place.make(1)
    with opened(place.new, BOTH | os.O_CREAT) as fd:
        assert os.fstat(fd).st_size == 0
        os.write(fd, data)
        assert all_of(fd) == data
    assert is_there(place.new)
    return holds(place, place.new, data)


@file("`O_CREAT`, of a name that is there")
def create_what_is_there(place: Place) -> str | None:
    with opened(place.file, BOTH | os.O_CREAT) as fd:
        assert all_of(fd) == place.content
        patch(place, fd)
    return holds(place, place.file, patched(place))


@file("`O_CREAT \\| O_EXCL`, of a new name")
def create_exclusively(place: Place) -> str | None:
    data = place.make(1)
    write(place.new, data, os.O_CREAT | os.O_EXCL)
    return holds(place, place.new, data)


@file("`O_CREAT \\| O_EXCL`, of a name that is there: `EEXIST`", reads=True)
def create_exclusively_what_is_there(place: Place) -> str | None:
    refused(errno.EEXIST, lambda: os.open(place.file, WRITE | os.O_CREAT | os.O_EXCL))
    return holds(place, place.file, place.content)


@file("a new name is there for others once it is created")
def is_there_at_once(place: Place) -> str | None:
    with opened(place.new, WRITE | os.O_CREAT | os.O_EXCL) as fd:
        assert is_there(place.new)
        os.write(fd, place.make(1))
        assert content(place.new) == place.make(1)
    return holds(place, place.new, place.make(1))


@file("two `O_CREAT \\| O_EXCL` of one name at a time: the second is `EEXIST`")
def create_exclusively_twice(place: Place) -> str | None:
    with opened(place.new, WRITE | os.O_CREAT | os.O_EXCL) as fd:
        os.write(fd, place.make(1))
        refused(errno.EEXIST, lambda: os.open(place.new, WRITE | os.O_CREAT | os.O_EXCL))
    return holds(place, place.new, place.make(1))


@file("`O_APPEND`")
def append(place: Place) -> str | None:
    data = place.content
    for _ in range(2):
        with opened(place.file, WRITE | os.O_APPEND) as fd:
            os.lseek(fd, 0, os.SEEK_SET)
            os.write(fd, place.tail)
            os.write(fd, place.tail)
        data += 2 * place.tail
    return holds(place, place.file, data)


@file("`O_SYNC`, `O_DSYNC`: stored when `write` returns")
def synchronous(place: Place) -> str | None:
    data = place.make(1)
    with opened(place.file, WRITE | os.O_TRUNC | os.O_SYNC) as fd:
        os.write(fd, data)
        return holds(place, place.file, data)


@file("`O_TMPFILE`")
def nameless(place: Place) -> str | None:
    with opened(place.file.parent, WRITE | os.O_TMPFILE):
        pass
    return None


# -- reading


@file("`read`, `pread` at any offset", reads=True)
def read(place: Place) -> str | None:
    size = len(place.content)
    with opened(place.file, os.O_RDONLY) as fd:
        assert os.read(fd, 3) == place.content[:3]
        assert os.read(fd, 3) == place.content[3:6]
        assert os.pread(fd, 1000, size - 2) == place.content[-2:]
        assert os.pread(fd, 10, size) == b""
        assert os.pread(fd, 10, size + 5000) == b""
    return None


@file("`lseek`, also `SEEK_DATA` and `SEEK_HOLE`", reads=True)
def seek(place: Place) -> str | None:
    size = len(place.content)
    with opened(place.file, os.O_RDONLY) as fd:
        assert os.lseek(fd, -1, os.SEEK_END) == size - 1
        assert os.lseek(fd, 1, os.SEEK_DATA) == 1
        assert os.lseek(fd, 0, os.SEEK_HOLE) == size
        refused(errno.ENXIO, lambda: os.lseek(fd, size, os.SEEK_DATA))
    return None


@file("`mmap` to read, private or shared", reads=True)
def map_to_read(place: Place) -> str | None:
    with opened(place.file, os.O_RDONLY) as fd:
        for flags in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
            with mmap.mmap(fd, 0, flags=flags, prot=mmap.PROT_READ) as mapped:
                assert mapped[:] == place.content
        with mmap.mmap(fd, 0, access=mmap.ACCESS_COPY) as mapped:
            mapped[0:1] = b"?"
    return None if place.view == "images" else holds(place, place.file, place.content)


@file("read what was written, with the same handle")
def read_back(place: Place) -> str | None:
    with opened(place.file, BOTH) as fd:
        patch(place, fd)
        assert all_of(fd) == patched(place)
        assert os.fstat(fd).st_size == len(place.content)
    return None


@file("read what somebody else writes, before he closes it")
def read_of_others(place: Place) -> str | None:
    data = place.make(1)
    with (
        opened(place.file, os.O_RDONLY) as before,
        opened(place.file, WRITE | os.O_TRUNC) as fd,
        opened(place.file, os.O_RDONLY) as reader,
    ):
        os.write(fd, data[:20])
        for each in (before, reader):
            assert all_of(each) == data[:20]
            assert os.fstat(each).st_size == 20
        assert content(place.file) == data[:20]
        os.pwrite(fd, data[20:], 20)
        with mmap.mmap(reader, 0, prot=mmap.PROT_READ) as mapped:
            assert mapped[:] == data
    return holds(place, place.file, data)


@file("read what somebody else has written, when opened before")
def read_when_opened_before(place: Place) -> str | None:
    with opened(place.file, os.O_RDONLY) as reader:
        assert os.pread(reader, 2, 0) == place.content[:2]
        with opened(place.file, BOTH) as fd:
            patch(place, fd)
        assert all_of(reader) == patched(place)
    return holds(place, place.file, patched(place))


# -- writing


@file("`write`, `pwrite` at any offset")
def write_anywhere(place: Place) -> str | None:
    with opened(place.file, WRITE) as fd:
        patch(place, fd)
        os.lseek(fd, 0, os.SEEK_SET)
        os.write(fd, place.content[:3])
    return holds(place, place.file, patched(place))


@file("`write` behind the end: zeros between")
def write_a_hole(place: Place) -> str | None:
    with opened(place.file, BOTH) as fd:
        end = os.lseek(fd, 5000, os.SEEK_END)
        os.write(fd, b"end")
        assert os.fstat(fd).st_size == end + 3
        assert all_of(fd) == place.content + bytes(5000) + b"end"
    return holds(place, place.file, place.content + bytes(5000) + b"end")


@file("`truncate` to fewer bytes")
def truncate(place: Place) -> str | None:
    os.truncate(place.file, len(place.content) - 1)
    return holds(place, place.file, place.content[:-1])


@file("`truncate` to more bytes: zeros")
def extend(place: Place) -> str | None:
    os.truncate(place.file, len(place.content) + 5000)
    return holds(place, place.file, place.content + bytes(5000))


@file("`truncate` to nothing")
def empty(place: Place) -> str | None:
    os.truncate(place.file, 0)
    return holds(place, place.file, b"")


@file("`ftruncate`")
def truncate_open(place: Place) -> str | None:
    with opened(place.file, BOTH) as fd:
        os.ftruncate(fd, 7000)
        assert os.fstat(fd).st_size == 7000
        assert all_of(fd) == place.content + bytes(7000 - len(place.content))
        os.ftruncate(fd, 0)
        data = place.make(1)
        os.pwrite(fd, data + b"more", 0)
        os.ftruncate(fd, len(data))
        assert all_of(fd) == data
    return holds(place, place.file, data)


@file("`mmap` shared, to write")
def map_to_write(place: Place) -> str | None:
    offset, data = place.patch
    with opened(place.file, BOTH) as fd:
        with mmap.mmap(fd, 0) as mapped:
            mapped[offset : offset + len(data)] = data
            mapped.flush()
        assert all_of(fd) == patched(place)
    return holds(place, place.file, patched(place))


@file("`fallocate`")
def allocate(place: Place) -> str | None:
    fallocate = _C.fallocate
    fallocate.argtypes = _FALLOCATE
    with opened(place.file, BOTH) as fd:
        if fallocate(fd, 0, 0, 9000):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        assert os.fstat(fd).st_size == 9000
    return None


@file("`posix_fallocate`")
def allocate_somehow(place: Place) -> str | None:
    with opened(place.new, BOTH | os.O_CREAT) as fd:
        os.posix_fallocate(fd, 0, 9000)
        assert os.fstat(fd).st_size == 9000
        data = place.make(1)
        os.ftruncate(fd, 0)
        os.write(fd, data)
    return holds(place, place.new, data)


@file("`copy_file_range`, `sendfile`, `splice`")
def copy_range(place: Place) -> str | None:
    size = len(place.other_content)
    with (
        opened(place.other, os.O_RDONLY) as source,
        opened(place.new, BOTH | os.O_CREAT) as target,
    ):
        assert os.copy_file_range(source, target, size) == size
        os.ftruncate(target, 0)
        os.lseek(target, 0, os.SEEK_SET)
        assert os.sendfile(target, source, 0, size) == size
    return holds(place, place.new, place.other_content)


@file("two writers at a time")
def two_writers(place: Place) -> str | None:
    offset, data = place.patch
    with opened(place.file, WRITE) as first, opened(place.file, BOTH) as second:
        os.pwrite(first, data[:1], offset)
        assert all_of(second) == patched(place, patch=data[:1])
        os.pwrite(second, data[1:], offset + 1)
    return holds(place, place.file, patched(place))


# -- storing


@file("`close`: what was written is stored")
def close(place: Place) -> str | None:
    data = place.make(2)
    fd = os.open(place.file, WRITE | os.O_TRUNC)
    os.write(fd, data)
    os.close(fd)
    return holds(place, place.file, data)


@file("`close` of a copy of an open file (`dup`, `fork`)")
def close_a_copy(place: Place) -> str | None:
    data = place.make(2)
    with opened(place.new, WRITE | os.O_CREAT) as fd:
        os.close(os.dup(fd))
        os.write(fd, data[:10])
        with suppress(OSError):  # it may be stored, or refused: so far it is not whole
            os.close(os.dup(fd))
        os.write(fd, data[10:])
    return holds(place, place.new, data)


@file("`close` of a new, empty file: it is there")
def close_an_empty_one(place: Place) -> str | None:
    if not place.may_be_empty:
        raise NothingToTry
    before = open_files(place.new)
    with opened(place.new, WRITE | os.O_CREAT):
        pass
    # The last close is not waited for: then it is stored, or is not there any more.
    wait_for(lambda: open_files(place.new) == before)
    return holds(place, place.new, b"")


@file("`close` of bytes that make no such file")
def close_what_does_not_fit(place: Place) -> str | None:
    if place.unfit is None:
        raise NothingToTry
    with opened(place.file, WRITE | os.O_TRUNC) as fd:
        os.write(fd, place.unfit)
        stored = place.stored(place.file)
        try:
            os.fsync(fd)
        except OSError as error:
            assert content(place.file) == place.unfit
            assert place.stored(place.file) == stored
            with suppress(OSError):  # else its own error is told
                refused(error.errno or 0, lambda: os.close(os.dup(fd)))
            refused_again = error
        else:
            return holds(place, place.file, place.unfit)
        with suppress(OSError):
            os.close(fd)
        wait_for(lambda: content(place.file) == place.content)
        raise refused_again


@file("`fsync`: what was written is stored")
def sync(place: Place) -> str | None:
    first, second = place.make(2), place.make(3)
    with opened(place.file, WRITE | os.O_TRUNC) as fd:
        os.write(fd, first)
        os.fsync(fd)
        assert holds(place, place.file, first) == "yes"
        os.ftruncate(fd, 0)
        os.pwrite(fd, second, 0)
        os.fsync(fd)
        assert holds(place, place.file, second) == "yes"
    return holds(place, place.file, second)


@file("`fdatasync`: what was written is stored")
def sync_data(place: Place) -> str | None:
    data = place.make(2)
    with opened(place.file, WRITE | os.O_TRUNC) as fd:
        os.write(fd, data)
        os.fdatasync(fd)
        return holds(place, place.file, data)


@file("`fsync` of the folder", reads=True)
def sync_the_folder(place: Place) -> str | None:
    with opened(place.file.parent, os.O_RDONLY | os.O_DIRECTORY) as fd:
        os.fsync(fd)
    return None


# -- names


@file("`rename` to a new name")
def rename(place: Place) -> str | None:
    os.rename(place.file, place.new)
    assert not is_there(place.file)
    assert place.stored(place.file) is None
    return holds(place, place.new, place.content)


@file("`rename` over a file")
def replace(place: Place) -> str | None:
    os.rename(place.other, place.file)
    assert not is_there(place.other)
    return holds(place, place.file, place.other_content)


@file("`rename` into another folder")
def move(place: Place) -> str | None:
    os.rename(place.file, place.beside)
    assert not is_there(place.file)
    return holds(place, place.beside, place.content)


@file("`rename` to its own name", reads=True)
def rename_to_itself(place: Place) -> str | None:
    os.rename(place.file, place.file)
    return holds(place, place.file, place.content)


@file("`rename` while it is open to read")
def rename_what_is_read(place: Place) -> str | None:
    with opened(place.file, os.O_RDONLY) as fd:
        os.rename(place.file, place.new)
        assert all_of(fd) == place.content
    return holds(place, place.new, place.content)


@file("`rename` while it is open to write: what is written later is under the new name")
def rename_what_is_written(place: Place) -> str | None:
    with opened(place.file, BOTH) as fd:
        os.rename(place.file, place.new)
        patch(place, fd)
        assert all_of(fd) == patched(place)
    assert not is_there(place.file)
    return holds(place, place.new, patched(place))


@file("`rename` over a file that is open to write: what is written later is lost with it")
def replace_what_is_written(place: Place) -> str | None:
    with opened(place.file, BOTH) as fd:
        patch(place, fd)
        os.rename(place.other, place.file)
        os.pwrite(fd, b"?", 0)
        assert all_of(fd) == b"?" + patched(place)[1:]
        assert content(place.file) == place.other_content
        assert os.fstat(fd).st_ino != os.stat(place.file).st_ino
    assert not is_there(place.other)
    return holds(place, place.file, place.other_content)


@file("`rename` over a file that is open to read: the reader keeps the old bytes")
def replace_what_is_read(place: Place) -> str | None:
    with opened(place.file, os.O_RDONLY) as fd:
        assert os.pread(fd, 2, 0) == place.content[:2]
        os.rename(place.other, place.file)
        assert all_of(fd) == place.content
    return holds(place, place.file, place.other_content)


@file("`rename` of a temporary file (`0.3f2a.partial`) to its name")
def put_by_rename(place: Place) -> str | None:
    for path, number in ((place.new, 1), (place.file, 2)):
        data = place.make(number)
        write(place.temporary, data)
        assert content(place.temporary) == data
        os.rename(place.temporary, path)
        assert not is_there(place.temporary)
        assert holds(place, path, data) == "yes"
    return None


@file("`rename` of a temporary file that is open to write: what is written later is in the file")
def put_by_rename_too_early(place: Place) -> str | None:
    data = place.make(1)
    with opened(place.temporary, WRITE | os.O_CREAT) as fd:
        os.write(fd, data)
        os.rename(place.temporary, place.new)
        os.pwrite(fd, place.patch[1], place.patch[0])
    assert not is_there(place.temporary)
    return holds(place, place.new, patched(place, data))


@file("`rename` of it to another kind of name")
def become_ordinary(place: Place) -> str | None:
    os.rename(place.file, place.temporary)
    assert not is_there(place.file)
    assert content(place.temporary) == place.content
    return None


@file("`rename` with `RENAME_NOREPLACE`")
def rename_to_a_new_name_only(place: Place) -> str | None:
    refused(errno.EEXIST, lambda: rename2(place.file, place.other, _RENAME_NOREPLACE))
    assert content(place.other) == place.other_content
    rename2(place.file, place.new, _RENAME_NOREPLACE)
    assert not is_there(place.file)
    return holds(place, place.new, place.content)


@file("`rename` with `RENAME_EXCHANGE`")
def exchange(place: Place) -> str | None:
    rename2(place.file, place.other, _RENAME_EXCHANGE)
    assert content(place.file) == place.other_content
    return None


@file("`rename` into another view")
def leave(place: Place) -> str | None:
    if place.elsewhere is None:
        raise NothingToTry
    os.rename(place.file, place.elsewhere)
    return None


@file("`link`: a second name")
def link(place: Place) -> str | None:
    os.link(place.file, place.new)
    assert holds(place, place.file, place.content) == "yes"
    assert is_there(place.new)
    assert holds(place, place.new, place.content) == "yes"
    with opened(place.new, BOTH) as fd:
        patch(place, fd)
    return holds(place, place.new, patched(place))


@file("`link`: both names have one inode number, and count as two")
def link_numbers(place: Place) -> str | None:
    os.link(place.file, place.new)
    first, second = os.stat(place.file), os.stat(place.new)
    assert os.stat(place.file).st_ino == first.st_ino
    if first.st_ino == second.st_ino and first.st_nlink == second.st_nlink == 2:
        return None
    assert first.st_nlink == second.st_nlink == 1
    return "no"


@file("`link` of a temporary file to its name, then `unlink`: exclusive creation")
def put_by_link(place: Place) -> str | None:
    data = place.make(1)
    write(place.temporary, data)
    refused(errno.EEXIST, lambda: os.link(place.temporary, place.file))
    assert holds(place, place.file, place.content) == "yes"
    os.link(place.temporary, place.new)
    os.unlink(place.temporary)
    assert not is_there(place.temporary)
    return holds(place, place.new, data)


@file("`unlink`")
def unlink(place: Place) -> str | None:
    os.unlink(place.file)
    assert not is_there(place.file)
    assert place.stored(place.file) is None
    refused(errno.ENOENT, lambda: os.unlink(place.new))
    return None


@file("`unlink` while it is open to read")
def unlink_what_is_read(place: Place) -> str | None:
    with opened(place.file, os.O_RDONLY) as fd:
        os.unlink(place.file)
        assert all_of(fd) == place.content
        assert os.fstat(fd).st_size == len(place.content)
    assert not is_there(place.file)
    return None


@file("`unlink` while it is open to read: it counts no name (`st_nlink`)")
def links_of_unlinked(place: Place) -> str | None:
    with opened(place.file, os.O_RDONLY) as fd:
        os.unlink(place.file)
        assert os.fstat(fd).st_nlink == 0
    return None


@file("`unlink` while it is open to write: it stays deleted")
def unlink_what_is_written(place: Place) -> str | None:
    with opened(place.file, BOTH) as fd:
        os.unlink(place.file)
        assert not is_there(place.file)
        patch(place, fd)
        assert all_of(fd) == patched(place)
    assert not is_there(place.file)
    assert place.stored(place.file) is None
    return None


@file("`unlink` and `O_CREAT` again, while the old one is open to read")
def make_anew(place: Place) -> str | None:
    data = place.make(1)
    with opened(place.file, os.O_RDONLY) as fd:
        os.unlink(place.file)
        write(place.file, data, os.O_CREAT | os.O_EXCL)
        assert all_of(fd) == place.content
    return holds(place, place.file, data)


@file("`open` of an unlinked file by way of `/proc/self/fd`, to read or write as before")
def open_unlinked_again(place: Place) -> str | None:
    with opened(place.file, BOTH) as fd:
        patch(place, fd)
        os.unlink(place.file)
        again = Path(f"/proc/self/fd/{fd}")
        assert content(again) == patched(place)
        with opened(again, BOTH) as other:
            os.pwrite(other, b"?", 0)
        assert all_of(fd) == b"?" + patched(place)[1:]
    assert not is_there(place.file)
    return None


@file("`open` of an unlinked file by way of `/proc/self/fd`, to write what was opened to read")
def write_unlinked_again(place: Place) -> str | None:
    with opened(place.file, os.O_RDONLY) as fd:
        os.unlink(place.file)
        with opened(Path(f"/proc/self/fd/{fd}"), WRITE) as other:
            patch(place, other)
        assert all_of(fd) == patched(place)
    return None


@file("`symlink`")
def symlink(place: Place) -> str | None:
    os.symlink(place.file.name, place.new)
    refused(errno.EEXIST, lambda: os.symlink("other", place.new))
    assert is_there(place.new)
    assert os.readlink(place.new) == place.file.name
    status = os.lstat(place.new)
    assert place.new.is_symlink()
    assert (status.st_uid, status.st_gid) == (os.getuid(), os.getgid())
    if place.new.parent == place.file.parent:
        assert content(place.new) == place.content
    os.unlink(place.new)
    os.symlink("nothing", place.new)
    assert is_there(place.new)
    assert not place.new.exists()
    return None


@file("`symlink` that leads out of the store, or says an absolute path")
def symlink_out(place: Place) -> str | None:
    os.symlink(place.file, place.new)
    assert os.readlink(place.new) == str(place.file)
    return None


@file("`mknod`, `mkfifo`, `bind` of a socket")
def special(place: Place) -> str | None:
    os.mkfifo(place.new)
    return None


@file("a name that desktops look for everywhere (`.DS_Store`, `._*`)")
def of_desktops(place: Place) -> str | None:
    for name in (".DS_Store", "._README"):
        with opened(place.file.with_name(name), WRITE | os.O_CREAT):
            pass
    return None


# -- attributes


@file("`chmod`")
def change_mode(place: Place) -> str | None:
    before = os.stat(place.file).st_mode
    os.chmod(place.file, 0o600 if before & 0o777 != 0o600 else 0o640)
    return "no effect" if os.stat(place.file).st_mode == before else None


@file("the mode of a new file")
def mode_when_created(place: Place) -> str | None:
    with opened(place.new, WRITE | os.O_CREAT, 0o600) as fd:
        os.write(fd, place.make(1))
    mode = os.stat(place.new).st_mode & 0o777
    if mode == 0o600:
        return None
    assert mode == os.stat(place.file).st_mode & 0o777
    return "no effect"


@file("`chown` to who it belongs to")
def keep_owner(place: Place) -> str | None:
    os.chown(place.file, os.getuid(), os.getgid())
    os.chown(place.file, -1, -1)
    return None


@file("`chown` to somebody else")
def change_owner(place: Place) -> str | None:
    if os.getuid():
        raise NothingToTry
    os.chown(place.file, 1, 1)
    assert os.stat(place.file).st_uid == 1
    return None


@file("`utimens`: the time of the last change")
def set_time(place: Place) -> str | None:
    before = os.stat(place.file).st_mtime_ns
    for mtime_ns in (1_500_000_000_123_000_000, 1_000_000_000_000_000_000):
        os.utime(place.file, ns=(mtime_ns, mtime_ns))
        if os.stat(place.file).st_mtime_ns == before:
            return "no effect"
        assert os.stat(place.file).st_mtime_ns == mtime_ns
    assert holds(place, place.file, place.content) == "yes"
    os.utime(place.file)
    assert os.stat(place.file).st_mtime_ns > mtime_ns
    return None


@file("`utimens`: the time of the last access")
def set_access_time(place: Place) -> str | None:
    atime_ns = time.time_ns() + 3600 * 10**9  # of the past, it is set anew when the file is read
    os.utime(place.file, ns=(atime_ns, 10**18))
    return None if os.stat(place.file).st_atime_ns == atime_ns else "no effect"


@file("`futimens` of what is being written, as `cp -p` and `tar` do")
def set_time_of_open(place: Place) -> str | None:
    mtime_ns = 1_500_000_000_123_000_000
    data = place.make(1)
    with opened(place.new, WRITE | os.O_CREAT) as fd:
        os.write(fd, data)
        os.utime(fd, ns=(mtime_ns, mtime_ns))
    assert holds(place, place.new, data) == "yes"
    found = os.stat(place.new).st_mtime_ns
    if found == mtime_ns:
        return None
    assert found > mtime_ns
    return "no effect"


@file("`fchmod`, `futimens` while it is open and deleted")
def attributes_of_deleted(place: Place) -> str | None:
    with opened(place.file, BOTH) as fd:
        os.unlink(place.file)
        os.fchmod(fd, 0o604)
        os.utime(fd, ns=(10**18, 10**18))
        found = os.fstat(fd)
        assert (found.st_mode & 0o777, found.st_mtime_ns) == (0o604, 10**18)
    assert not is_there(place.file)
    return None


@file("the time of the last change, when it is written")
def time_when_written(place: Place) -> str | None:
    os.utime(place.file, ns=(10**18, 10**18))
    with opened(place.file, BOTH) as fd:
        patch(place, fd)
    assert os.stat(place.file).st_mtime_ns > 10**18
    return None


@file("`st_ctime`: another time than that of the last change")
def time_of_status(place: Place) -> str | None:
    os.utime(place.file, ns=(10**18, 10**18))
    found = os.stat(place.file)
    return "no" if found.st_ctime_ns == found.st_mtime_ns else None


@file("`setxattr`, `removexattr`")
def set_attribute(place: Place) -> str | None:
    os.setxattr(place.file, "user.x", b"1")
    os.removexattr(place.file, "user.x")
    return None


@file("`getxattr`, `listxattr`")
def get_attribute(place: Place) -> str | None:
    os.listxattr(place.file)
    os.getxattr(place.file, "user.zarr.shape")
    return None


@file("the inode number stays the same when it is written, while it is open to read")
def number(place: Place) -> str | None:
    with opened(place.file, os.O_RDONLY) as reader:
        before = os.stat(place.file).st_ino
        with opened(place.file, BOTH) as fd:
            patch(place, fd)
        assert os.fstat(reader).st_ino == os.stat(place.file).st_ino == before
    assert os.stat(place.file).st_ino == before
    return None


# -- locks


def _exclude(place: Place, lock: Callable[[int], object]) -> str | None:
    """Whether of two who have a file open to write only one gets a lock."""
    with opened(place.file, BOTH) as first, opened(place.file, BOTH) as second:
        lock(first)
        refused(errno.EAGAIN, lambda: lock(second))
        patch(place, second)
    with opened(place.file, BOTH) as third:  # another working copy, the same inode
        lock(third)
    return holds(place, place.file, patched(place))


@file("`flock`, between two writers")
def lock_whole(place: Place) -> str | None:
    return _exclude(place, lambda fd: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB))


@file("OFD locks, between two writers")
def lock_range(place: Place) -> str | None:
    wanted = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 5, 0)
    return _exclude(place, lambda fd: fcntl.fcntl(fd, fcntl.F_OFD_SETLK, wanted))


@file("POSIX locks (`lockf`), between two writers")
def lock_of_process(place: Place) -> str | None:
    code = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'r+b')\n"
        "try: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except BlockingIOError: sys.exit(3)"
    )
    with opened(place.file, BOTH) as fd:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        other = subprocess.run([sys.executable, "-c", code, place.file], check=False)
    assert other.returncode == 3
    return None


@file("`flock`, `lockf` of a lock file beside it (`0.__lock`)")
def lock_file(place: Place) -> str | None:
    path = place.file.with_name(f"{place.file.name}.__lock")
    with (
        opened(path, BOTH | os.O_CREAT | os.O_EXCL) as first,
        opened(path, BOTH | os.O_CREAT) as second,
    ):
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        refused(errno.EAGAIN, lambda: fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB))
        os.unlink(path)
    assert not is_there(path)
    return None


# -- being told


@contextmanager
def _watched(path: Path) -> Iterator[Callable[[], list[str]]]:
    """The names that appear in a folder, as inotify tells of them."""
    fd = _C.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert fd >= 0
    try:
        assert _C.inotify_add_watch(fd, os.fsencode(path), _IN_CREATE) >= 0

        def told() -> list[str]:
            try:
                events = os.read(fd, 1 << 16)
            except BlockingIOError:
                return []
            names = []
            while events:
                length = struct.unpack_from("iIII", events)[3]
                names.append(os.fsdecode(events[16 : 16 + length].rstrip(b"\0")))
                events = events[16 + length :]
            return names

        yield told
    finally:
        os.close(fd)


@file("`inotify` of what changes in this view")
def told_of_own(place: Place) -> str | None:
    with _watched(place.new.parent) as told:
        write(place.new, place.make(1))
        assert told() == [place.new.name]
    return None


@file("`inotify` of what changes in another view")
def told_of_others(place: Place) -> str | None:
    if place.elsewhere is None:
        raise NothingToTry
    with _watched(place.elsewhere.parent) as told:
        write(place.elsewhere, place.make(1))
        assert told()
    with _watched(place.new.parent) as told:
        write(place.elsewhere, place.make(2))
        names = told()
    return "yes" if names else "no"


# -- folders


@folder("`stat`, `readdir`", reads=True)
def look_at_folder(place: Place) -> str | None:
    assert os.path.isdir(place.full)
    with os.scandir(place.full.parent) as entries:
        found = {entry.name: entry.is_dir() for entry in entries}
    assert found[place.full.name]
    assert os.listdir(place.full)
    return None


@folder("`mkdir`")
def make(place: Place) -> str | None:
    os.mkdir(place.absent)
    assert is_there(place.absent)
    assert os.listdir(place.absent) == []
    return None


@folder("`mkdir` of a folder that is there: `EEXIST`", reads=True)
def make_again(place: Place) -> str | None:
    refused(errno.EEXIST, lambda: os.mkdir(place.full))
    refused(errno.EEXIST, lambda: os.mkdir(place.empty))
    os.makedirs(place.full, exist_ok=True)
    return None


@folder("`mkdir` in a folder that is not there: `ENOENT`", reads=True)
def make_in_nothing(place: Place) -> str | None:
    refused(errno.ENOENT, lambda: os.mkdir(place.nowhere / "new"))
    return None


@folder("`rmdir`")
def remove(place: Place) -> str | None:
    os.rmdir(place.empty)
    assert not is_there(place.empty)
    refused(errno.ENOENT, lambda: os.rmdir(place.empty))
    return None


@folder("`rmdir` of a folder that is not empty: `ENOTEMPTY`")
def remove_full(place: Place) -> str | None:
    names = sorted(os.listdir(place.full))
    refused(errno.ENOTEMPTY, lambda: os.rmdir(place.full))
    assert sorted(os.listdir(place.full)) == names
    return None


@folder("`rmdir` of a file: `ENOTDIR`; `unlink` of a folder: `EISDIR`", reads=True)
def remove_the_other(place: Place) -> str | None:
    refused(errno.ENOTDIR, lambda: os.rmdir(place.file))
    refused(errno.EISDIR, lambda: os.unlink(place.full))
    return None


@folder("all files of a folder deleted, then `rmdir`, as `rm -r` does")
def remove_tree(place: Place) -> str | None:
    for path in list(place.full.iterdir()):
        os.unlink(path)
    os.rmdir(place.full)
    assert not is_there(place.full)
    return None


@folder("`rename` to a new name")
def rename_folder(place: Place) -> str | None:
    names = sorted(os.listdir(place.full))
    os.rename(place.full, place.absent)
    assert not is_there(place.full)
    assert is_there(place.absent)
    assert sorted(os.listdir(place.absent)) == names
    assert content(place.absent / place.file.name) == place.content
    return None


@folder("`rename` over an empty folder")
def replace_empty_folder(place: Place) -> str | None:
    names = sorted(os.listdir(place.full))
    os.rename(place.full, place.empty)
    assert not is_there(place.full)
    assert sorted(os.listdir(place.empty)) == names
    assert content(place.empty / place.file.name) == place.content
    return None


@folder("`rename` over a folder that is not empty: `ENOTEMPTY`")
def replace_full_folder(place: Place) -> str | None:
    names = sorted(os.listdir(place.full))
    refused(errno.ENOTEMPTY, lambda: os.rename(place.empty, place.full))
    assert sorted(os.listdir(place.full)) == names
    return None


@folder("`rename` with `RENAME_NOREPLACE`")
def rename_folder_to_a_new_name_only(place: Place) -> str | None:
    refused(errno.EEXIST, lambda: rename2(place.full, place.empty, _RENAME_NOREPLACE))
    rename2(place.full, place.absent, _RENAME_NOREPLACE)
    assert content(place.absent / place.file.name) == place.content
    return None


@folder("`rename` into itself: `EINVAL`", reads=True)
def rename_into_itself(place: Place) -> str | None:
    refused(errno.EINVAL, lambda: os.rename(place.full, place.full / "in"))
    assert content(place.file) == place.content
    return None


@folder("`rename` over a file: `ENOTDIR`; of a file over a folder: `EISDIR`", reads=True)
def replace_the_other(place: Place) -> str | None:
    refused(errno.ENOTDIR, lambda: os.rename(place.empty, place.file))
    refused(errno.EISDIR, lambda: os.rename(place.file, place.empty))
    assert content(place.file) == place.content
    return None


@folder("`rename` while a file in it is open to read")
def rename_folder_of_open(place: Place) -> str | None:
    with opened(place.file, os.O_RDONLY) as fd:
        os.rename(place.full, place.absent)
        assert all_of(fd) == place.content
    assert content(place.absent / place.file.name) == place.content
    return None


@folder("`rename` while a file in it is open to write: what is written later is in it")
def rename_folder_of_written(place: Place) -> str | None:
    with opened(place.file, BOTH) as fd:
        os.rename(place.full, place.absent)
        patch(place, fd)
        assert content(place.absent / place.file.name) == patched(place)
    assert not is_there(place.full)
    return holds(place, place.absent / place.file.name, patched(place))


@folder("`rename` while it is open, and listed on")
def rename_open_folder(place: Place) -> str | None:
    names = sorted(os.listdir(place.full))
    with opened(place.full, os.O_RDONLY | os.O_DIRECTORY) as fd:
        os.rename(place.full, place.absent)
        assert sorted(os.listdir(fd)) == names
        assert os.stat(place.file.name, dir_fd=fd).st_size == len(place.content)
    return None


@folder("`readdir` while files are deleted: each of the others once")
def list_while_deleting(place: Place) -> str | None:
    names = sorted(os.listdir(place.full))
    found = []
    with os.scandir(place.full) as entries:
        for entry in entries:
            found.append(entry.name)
            os.unlink(entry.path)
    assert sorted(found) == names
    assert os.listdir(place.full) == []
    return None


@folder("`open` to write: `EISDIR`", reads=True)
def open_folder(place: Place) -> str | None:
    refused(errno.EISDIR, lambda: os.open(place.full, WRITE))
    refused(errno.EISDIR, lambda: os.open(place.full, WRITE | os.O_CREAT))
    return None


@folder("`link`: `EPERM`", reads=True)
def link_folder(place: Place) -> str | None:
    refused(errno.EPERM, lambda: os.link(place.full, place.absent))
    return None


@folder("`fsync`", reads=True)
def sync_folder(place: Place) -> str | None:
    with opened(place.full, os.O_RDONLY | os.O_DIRECTORY) as fd:
        os.fsync(fd)
        os.fdatasync(fd)
    return None


@folder("`st_nlink` counts the folders in it")
def links_of_folder(place: Place) -> str | None:
    return None if os.stat(place.full.parent).st_nlink > 1 else "no"


@folder("`chmod`")
def change_mode_of_folder(place: Place) -> str | None:
    before = os.stat(place.full).st_mode
    os.chmod(place.full, 0o700)
    return "no effect" if os.stat(place.full).st_mode == before else None


@folder("`utimens`: the time of the last change")
def set_time_of_folder(place: Place) -> str | None:
    mtime_ns = 1_500_000_000_123_000_000
    os.utime(place.full, ns=(mtime_ns, mtime_ns))
    found = os.stat(place.full).st_mtime_ns
    if found == mtime_ns:
        return None
    return "no effect"


@folder("the time of the last change, when a name in it is deleted")
def time_of_folder(place: Place) -> str | None:
    os.utime(place.full, ns=(10**18, 10**18))
    with os.scandir(place.full.parent) as entries:
        assert {entry.stat().st_mtime_ns for entry in entries if entry.name == place.full.name}
    os.unlink(place.file)
    assert os.stat(place.full).st_mtime_ns > 10**18
    return None


@folder("`flock`", reads=True)
def lock_folder(place: Place) -> str | None:
    with (
        opened(place.full, os.O_RDONLY | os.O_DIRECTORY) as first,
        opened(place.full, os.O_RDONLY | os.O_DIRECTORY) as second,
    ):
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        refused(errno.EAGAIN, lambda: fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB))
    return None
