"""Locks of single bytes of a file that belong to an open file description (`F_OFD_SETLK`).

Owns the system call, and what a file system that has no locks says. Used by `locks` and
`local_workspace`. The kernel lets go of them when the last descriptor is closed, so also when a process is
killed. None is waited for in the kernel: there would be no end to it, and nobody could say for what.
"""

import errno
import fcntl
import struct

# struct flock: type, whence, start, length, process (0), padded as C does it.
_FLOCK = struct.Struct("hhqqi0q")
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


class NoLocksHere(Exception):
    """The file system has no such locks."""


def lock(fd: int, byte: int, *, count: int = 1) -> None:
    """Lock `count` bytes from `byte` on, alone; `fd` may write.

    Raises `BlockingIOError` if they are taken, and `NoLocksHere`.
    """
    _call(fd, fcntl.F_OFD_SETLK, fcntl.F_WRLCK, byte, count)


def unlock(fd: int, byte: int, *, count: int = 1) -> None:
    """Let go of them."""
    _call(fd, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, byte, count)


def is_locked(fd: int, byte: int) -> bool:
    """Whether somebody has locked a byte. Raises `NoLocksHere`."""
    found = _call(fd, fcntl.F_OFD_GETLK, fcntl.F_WRLCK, byte, 1)
    return bool(_FLOCK.unpack(found)[0] != fcntl.F_UNLCK)


def _call(fd: int, command: int, kind: int, byte: int, count: int) -> bytes:
    try:
        return fcntl.fcntl(fd, command, _FLOCK.pack(kind, 0, byte, count, 0))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise BlockingIOError(errno.EAGAIN, "somebody else has the lock") from None
        if error.errno in _NO_LOCKS:
            raise NoLocksHere from error
        raise
