"""Locks of single bytes of a file that belong to an open file description (`F_OFD_SETLK`).

Owns the system call, and what a file system that has no locks says. Used by `locks` and `workspace`.
The kernel lets go of them when the last descriptor is closed, so also when a process is killed.
"""

import errno
import fcntl
import struct

# struct flock: type, whence, start, length, process (0), padded as C does it.
_FLOCK = struct.Struct("hhqqi0q")
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


class NoLocksHere(Exception):
    """The file system has no such locks."""


def lock(fd: int, byte: int, *, exclusive: bool, wait: bool, count: int = 1) -> None:
    """Lock `count` bytes from `byte` on. An exclusive lock needs a descriptor that may write.

    Raises `BlockingIOError` if they are taken and `wait` is false, and `NoLocksHere`.
    """
    kind = fcntl.F_WRLCK if exclusive else fcntl.F_RDLCK
    try:
        _set(fd, fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK, kind, byte, count)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise BlockingIOError(errno.EAGAIN, "somebody else has the lock") from None
        if error.errno in _NO_LOCKS:
            raise NoLocksHere from error
        raise


def unlock(fd: int, byte: int, *, count: int = 1) -> None:
    """Let go of them."""
    _set(fd, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, byte, count)


def _set(fd: int, command: int, kind: int, byte: int, count: int) -> None:
    fcntl.fcntl(fd, command, _FLOCK.pack(kind, 0, byte, count, 0))
