"""A new file of a local store before it has its name: what is in it, and what it is to be.

Owns the copying of bytes, and the mode that a file is stored with. Used by `local_writing`. All goes by
descriptors: names may be another file by now.
"""

import errno
import os
from contextlib import suppress
from stat import S_IMODE, S_ISREG

from zarrfuse.errors import Stale

_COPIED_AT_ONCE = 1 << 20
# Errors of copy_file_range(2) that say that it cannot, not that the disk could not.
_CANNOT_COPY = frozenset(
    {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF}
)


def status_of(folder: int, name: str) -> os.stat_result | None:
    """What is under a name, not followed; None where there is nothing."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def inode_of(status: os.stat_result) -> tuple[int, int]:
    """Which file it is."""
    return status.st_dev, status.st_ino


def dress(fd: int, old: os.stat_result | None) -> None:
    """Give a new file what it is to have when it is stored: the mode of the one that it replaces, else
    what the umask leaves.

    Never set-user-ID: the new file may belong to somebody else than the old one, and so may its bytes.
    """
    mode = 0o666 & ~_umask() if old is None or not S_ISREG(old.st_mode) else old.st_mode & 0o777
    if S_IMODE(os.fstat(fd).st_mode) != mode:
        os.fchmod(fd, mode)


def _umask() -> int:
    """The umask of this process; os.umask(2) would change it, for other threads too."""
    with open("/proc/self/status", "rb") as status:
        for line in status:
            if line.startswith(b"Umask:"):
                return int(line[6:], 8)
    return 0o022


def write_new(
    fd: int,
    folder: int,
    name: str,
    source: int,
    start: int,
    stop: int,
    *,
    sync: bool,
    mtime_ns: int | None = None,
) -> None:
    """Write bytes [start, stop) of `source` to a new file and close it; delete it if that fails."""
    try:
        try:
            _copy(source, start, stop, fd, name)
            if mtime_ns is not None:
                os.utime(fd, ns=(mtime_ns, mtime_ns))
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
    except BaseException:
        discard(folder, name)
        raise


def _copy(source: int, start: int, stop: int, target: int, name: str) -> None:
    """Copy bytes [start, stop) of one file to the beginning of another, in the kernel if it can."""
    at = start
    while at < stop:
        try:
            count = os.copy_file_range(source, target, stop - at, at, at - start)
        except OSError as error:
            if error.errno not in _CANNOT_COPY:
                raise
            count = 0
        if not count:
            break
        at += count
    while at < stop:
        data = memoryview(os.pread(source, min(_COPIED_AT_ONCE, stop - at), at))
        if not data:
            raise Stale(f"the bytes for {name} end at {at}, they were to end at {stop}")
        while data:
            count = os.pwrite(target, data, at - start)
            if not count:
                raise OSError(errno.ENOSPC, f"{name} takes no more bytes")
            data = data[count:]
            at += count


def discard(folder: int, name: str) -> None:
    with suppress(OSError):  # there is an error on the way already
        os.unlink(name, dir_fd=folder)
