"""A new file of a local store before it has its name: what is in it.

Owns the copying of bytes. Used by `local_writing`. All goes by descriptors: names may be another file by
now. Owner and mode are `ownership`'s.
"""

import errno
import os
from collections.abc import Callable
from contextlib import suppress

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
    dress: Callable[[int], None] | None = None,
) -> None:
    """Write bytes [start, stop) of `source` to a new file and close it; delete it if that fails.

    `dress` gives the file its owner and mode.
    """
    try:
        try:
            _copy(source, start, stop, fd, name)
            if dress is not None:
                dress(fd)
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
    """Delete a file that is not to be kept."""
    with suppress(OSError):  # there is an error on the way already
        os.unlink(name, dir_fd=folder)
