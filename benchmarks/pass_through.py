"""A folder passed through by pyfuse3 with as little Python as that takes: what Python itself costs.

    python -m benchmarks.pass_through SOURCE MOUNTPOINT

It answers each request from the event loop by the system call that the request stands for, and keeps
names for a second as zarrfuse does. It does not think of folders that hang, symlinks that lead out, or
changes by others. Read-only; serves until it is unmounted.
"""

import os
import stat
import sys

import pyfuse3
import trio

_TTL_S = 1.0


class PassThrough(pyfuse3.Operations):
    """The files below a folder; an inode is a path."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self._paths = {pyfuse3.ROOT_INODE: os.fsencode(source)}
        self._inodes: dict[bytes, int] = {}
        self._entry = pyfuse3.EntryAttributes()
        self._entry.entry_timeout = self._entry.attr_timeout = _TTL_S

    def _told(self, path: bytes, inode: int) -> pyfuse3.EntryAttributes:
        try:
            found = os.lstat(path)
        except OSError as error:
            raise pyfuse3.FUSEError(error.errno or 0) from None
        entry = self._entry
        entry.st_ino = inode
        entry.st_mode, entry.st_nlink = found.st_mode, found.st_nlink
        entry.st_uid, entry.st_gid = found.st_uid, found.st_gid
        entry.st_size, entry.st_mtime_ns = found.st_size, found.st_mtime_ns
        return entry

    async def lookup(
        self, parent_inode: int, name: bytes, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        """A name in a folder."""
        path = self._paths[parent_inode] + b"/" + name
        inode = self._inodes.get(path) or len(self._paths) + 1
        entry = self._told(path, inode)
        self._paths[inode], self._inodes[path] = path, inode
        return entry

    async def getattr(self, inode: int, ctx: pyfuse3.RequestContext) -> pyfuse3.EntryAttributes:
        """Attributes."""
        return self._told(self._paths[inode], inode)

    async def open(self, inode: int, flags: int, ctx: pyfuse3.RequestContext) -> pyfuse3.FileInfo:
        """Open a file. What the kernel has in its cache stays."""
        fd = os.open(self._paths[inode], flags & ~os.O_TRUNC | os.O_CLOEXEC)
        return pyfuse3.FileInfo(fh=fd, keep_cache=True)

    async def read(self, fh: int, off: int, size: int) -> bytes:
        """Bytes of an open file."""
        return os.pread(fh, size, off)

    async def release(self, fh: int) -> None:
        """Close a file."""
        os.close(fh)

    async def opendir(self, inode: int, ctx: pyfuse3.RequestContext) -> int:
        """Open a folder."""
        return inode

    async def readdir(self, fh: int, start_id: int, token: pyfuse3.ReaddirToken) -> None:
        """The names in a folder."""
        names = sorted(os.listdir(self._paths[fh]))
        for number, name in enumerate(names[start_id:], start_id + 1):
            entry = await self.lookup(fh, name, None)  # type: ignore[arg-type]  # not looked at
            if not pyfuse3.readdir_reply(token, name, entry, number):
                return


def main() -> None:
    """Mount in the background, and serve."""
    source, mountpoint = map(os.path.abspath, sys.argv[1:])
    assert stat.S_ISDIR(os.stat(source).st_mode)
    pyfuse3.init(
        PassThrough(source), mountpoint, {*pyfuse3.default_options, "fsname=pass-through", "ro"}
    )
    if os.fork():
        os._exit(0)
    for fd in range(3):  # who waits for the end of its output waits for the mount alone
        os.dup2(os.open(os.devnull, os.O_RDWR), fd)
    try:
        trio.run(pyfuse3.main)
    finally:
        pyfuse3.close(unmount=False)


if __name__ == "__main__":
    main()
