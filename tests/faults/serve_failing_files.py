"""A file system that fails: `python serve_failing_files.py FOLDER MOUNTPOINT FAULTS`.

Shows FOLDER as it is. While the file FAULTS exists, it holds JSON: of the requests in `calls`, every
`every`th fails with `errno`. Only what a store on it needs is there, and nothing is cached.
"""

import errno
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyfuse3
import trio
from pyfuse3 import FUSEError


def failing(call: Callable[..., Any]) -> Callable[..., Any]:
    """A request that fails when it is its turn, or as the system call did."""

    async def wrapper(self: "FailingFiles", *arguments: Any) -> Any:
        self.fail(call.__name__)
        try:
            return await call(self, *arguments)
        except OSError as error:
            raise FUSEError(error.errno or errno.EIO) from None

    return wrapper


class FailingFiles(pyfuse3.Operations):
    """A folder, by paths; inode numbers are given out by path and never taken back."""

    enable_writeback_cache = False

    def __init__(self, root: Path, faults: Path) -> None:
        super().__init__()
        self._faults = faults
        self._asked = 0
        self._paths = {pyfuse3.ROOT_INODE: os.fsencode(root)}

    def fail(self, call: str) -> None:
        """Raise if it is the turn of this request."""
        try:
            faults = json.loads(self._faults.read_text())
        except FileNotFoundError:
            return
        if call in faults["calls"]:
            self._asked += 1
            if self._asked % faults["every"] == 0:
                raise FUSEError(faults["errno"])

    def _at(self, folder: int, name: bytes) -> bytes:
        return os.path.join(self._paths[folder], name)

    def _told(self, path: bytes) -> pyfuse3.EntryAttributes:
        status = os.lstat(path)
        told = pyfuse3.EntryAttributes()
        # The path may have been another file: a file has the number of the stored one.
        told.st_ino = pyfuse3.ROOT_INODE if path == self._paths[1] else status.st_ino + 10
        self._paths[told.st_ino] = path
        for name in ("mode", "nlink", "uid", "gid", "rdev", "size", "atime_ns", "mtime_ns"):
            setattr(told, f"st_{name}", getattr(status, f"st_{name}"))
        told.st_ctime_ns = status.st_ctime_ns
        told.st_blocks, told.st_blksize = status.st_blocks, 4096
        told.entry_timeout = told.attr_timeout = 0
        return told

    @failing
    async def lookup(self, folder: int, name: bytes, ctx: Any) -> pyfuse3.EntryAttributes:
        return self._told(self._at(folder, name))

    @failing
    async def getattr(self, inode: int, ctx: Any) -> pyfuse3.EntryAttributes:
        return self._told(self._paths[inode])

    @failing
    async def setattr(
        self, inode: int, attr: Any, fields: Any, handle: int | None, ctx: Any
    ) -> pyfuse3.EntryAttributes:
        path: Any = self._paths[inode] if handle is None else handle
        if fields.update_size:
            os.truncate(path, attr.st_size)
        if fields.update_mode:
            os.chmod(path, attr.st_mode & 0o7777)
        if fields.update_uid or fields.update_gid:
            os.chown(
                path,
                attr.st_uid if fields.update_uid else -1,
                attr.st_gid if fields.update_gid else -1,
            )
        if fields.update_mtime:
            os.utime(path, ns=(attr.st_mtime_ns, attr.st_mtime_ns))
        return self._told(self._paths[inode])

    @failing
    async def opendir(self, inode: int, ctx: Any) -> int:
        return inode

    @failing
    async def readdir(self, inode: int, start: int, token: Any) -> None:
        for at, name in enumerate(sorted(os.listdir(self._paths[inode]))[start:], start + 1):
            try:
                told = self._told(self._at(inode, name))
            except FileNotFoundError:
                continue
            if not pyfuse3.readdir_reply(token, name, told, at):
                break

    @failing
    async def open(self, inode: int, flags: int, ctx: Any) -> pyfuse3.FileInfo:
        return pyfuse3.FileInfo(fh=os.open(self._paths[inode], flags & ~os.O_NOFOLLOW))

    @failing
    async def create(
        self, folder: int, name: bytes, mode: int, flags: int, ctx: Any
    ) -> tuple[pyfuse3.FileInfo, pyfuse3.EntryAttributes]:
        path = self._at(folder, name)
        fd = os.open(path, flags | os.O_CREAT, mode)
        return pyfuse3.FileInfo(fh=fd), self._told(path)

    @failing
    async def read(self, fd: int, offset: int, size: int) -> bytes:
        return os.pread(fd, size, offset)

    @failing
    async def write(self, fd: int, offset: int, data: bytes) -> int:
        return os.pwrite(fd, data, offset)

    @failing
    async def flush(self, fd: int) -> None:
        os.close(os.dup(fd))

    @failing
    async def fsync(self, fd: int, datasync: bool) -> None:
        """The machine does not crash: nothing is synced, so that tests are quick."""

    @failing
    async def fsyncdir(self, fd: int, datasync: bool) -> None:
        """See `fsync`."""

    async def release(self, fd: int) -> None:
        os.close(fd)

    async def releasedir(self, fd: int) -> None:
        pass

    @failing
    async def mkdir(self, folder: int, name: bytes, mode: int, ctx: Any) -> Any:
        os.mkdir(self._at(folder, name), mode)
        return self._told(self._at(folder, name))

    @failing
    async def unlink(self, folder: int, name: bytes, ctx: Any) -> None:
        os.unlink(self._at(folder, name))

    @failing
    async def rmdir(self, folder: int, name: bytes, ctx: Any) -> None:
        os.rmdir(self._at(folder, name))

    @failing
    async def rename(
        self, folder: int, name: bytes, to: int, new: bytes, flags: int, ctx: Any
    ) -> None:
        if flags & pyfuse3.RENAME_NOREPLACE and os.path.lexists(self._at(to, new)):
            raise FUSEError(errno.EEXIST)
        if flags & ~pyfuse3.RENAME_NOREPLACE:
            raise FUSEError(errno.EINVAL)
        inode = os.lstat(self._at(folder, name)).st_ino + 10
        os.rename(self._at(folder, name), self._at(to, new))
        self._paths[inode] = self._at(to, new)

    @failing
    async def link(self, inode: int, folder: int, name: bytes, ctx: Any) -> Any:
        os.link(self._paths[inode], self._at(folder, name))
        return self._told(self._at(folder, name))

    @failing
    async def statfs(self, ctx: Any) -> pyfuse3.StatvfsData:
        found, told = os.statvfs(self._paths[pyfuse3.ROOT_INODE]), pyfuse3.StatvfsData()
        for name in ("bsize", "frsize", "blocks", "bfree", "bavail", "files", "ffree", "favail"):
            setattr(told, f"f_{name}", getattr(found, f"f_{name}"))
        return told


def main() -> None:
    """Serve until unmounted."""
    folder, point, faults = map(Path, sys.argv[1:])
    pyfuse3.init(
        FailingFiles(folder, faults), str(point), {"fsname=failing", "default_permissions"}
    )
    trio.run(pyfuse3.main)
    pyfuse3.close(unmount=False)


if __name__ == "__main__":
    main()
