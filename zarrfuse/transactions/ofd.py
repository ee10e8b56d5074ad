"""Locks of single bytes of a file that belong to an open file description (`F_OFD_SETLK`).

Owns the system call, and the errors of file systems without locks. Used by `locks` and `local_workspace`.
The kernel releases them when the last descriptor is closed, also when the process is killed. No call waits
in the kernel, where it could not time out.
"""

import errno
import fcntl
import struct

# struct flock: type, whence, start, length, process (0), padded as C does it.
_FLOCK = struct.Struct("hhqqi0q")
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


class NoLocksHere(Exception):
    """The file system does not support such locks."""


def lock(fd: int, byte: int, *, count: int = 1) -> None:
    """Lock `count` bytes from `byte` on, exclusively; `fd` is open for writing.

    Raises `BlockingIOError` if one is locked, and `NoLocksHere`.
    """
    _call(fd, fcntl.F_OFD_SETLK, fcntl.F_WRLCK, byte, count)


def unlock(fd: int, byte: int, *, count: int = 1) -> None:
    """Release the locks of these bytes."""
    _call(fd, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, byte, count)


def is_locked(fd: int, byte: int) -> bool:
    """Whether a byte is locked. Raises `NoLocksHere`."""
    found = _call(fd, fcntl.F_OFD_GETLK, fcntl.F_WRLCK, byte, 1)
    return bool(_FLOCK.unpack(found)[0] != fcntl.F_UNLCK)


def _call(fd: int, command: int, kind: int, byte: int, count: int) -> bytes:
    try:
        return fcntl.fcntl(fd, command, _FLOCK.pack(kind, 0, byte, count, 0))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise BlockingIOError(errno.EAGAIN, "another process holds the lock") from None
        if error.errno in _NO_LOCKS:
            raise NoLocksHere from error
        raise
