"""The bytes of a zip file: a file of this machine.

Owns the descriptor, and that a zip which was written to is noticed. Used by the other modules of `zip`,
which read any `ZipBytes`; `on_server` has those of a zip on a server.
"""

import errno
import os
from stat import S_ISREG
from typing import Protocol

from zarrfuse.errors import SourceDenied, SourceError, Stale
from zarrfuse.stores.access import Access
from zarrfuse.stores.cache import ByteCache
from zarrfuse.stores.descriptor import is_remote, read_full

ZIP_ENDINGS = (".zip", ".ozx")


class ZipBytes(Protocol):
    """The bytes of one zip, at one moment. It goes with the last of the store and its readers."""

    path: str
    """The path or URL, for messages."""
    size: int
    mtime_ns: int
    access: Access | None
    """Mode and owner; None where they are not known."""
    is_remote: bool
    """See `base.Reader.is_remote`."""
    cache: ByteCache | None
    """See `base.Store.cache`."""

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool) -> None:
        """Fill `buffer`. Raises `Stale`, and `BlockingIOError` if it must not wait."""

    def read(self, start: int, stop: int) -> bytes:
        """All bytes [start, stop). Raises `Stale`."""

    def prefetch(self, start: int, stop: int) -> None:
        """See `base.Reader.prefetch`."""

    def check_unchanged(self, *, wait: bool = True) -> None:
        """Raises `Stale` when the zip was written to since it was opened."""

    def space(self) -> tuple[int, int]:
        """See `base.Store.space`."""

    def status(self) -> dict[str, object]:
        """See `base.Store.status`."""


class LocalZip:
    """A file of this machine. Its descriptor is closed with the last of the store and its readers.

    Not earlier: a reader at work in another thread would read from whatever file the kernel gave
    the same number next. Raises `SourceError`.
    """

    __slots__ = ("_fd", "_identity", "_is_elsewhere", "access", "mtime_ns", "path", "size")
    is_remote = False
    cache: ByteCache | None = None

    def __init__(self, path: str) -> None:
        self._fd = -1
        self.path = path
        try:
            # O_NONBLOCK: a FIFO named as a zip must not hang.
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise SourceError(f"{path} does not exist") from None
        except PermissionError:
            raise SourceDenied(f"{path} may not be read by this user") from None
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror}") from None
        status = os.fstat(self._fd)
        if not S_ISREG(status.st_mode):
            raise SourceError(f"{path} is not a zip file: it is no file at all")
        self.size, self.mtime_ns = status.st_size, status.st_mtime_ns
        self.access: Access | None = Access.of(status)
        self._identity = _identity(status)
        self._is_elsewhere = is_remote(self._fd)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def check_unchanged(self, *, wait: bool = True) -> None:
        """See `ZipBytes`."""
        if self._is_elsewhere and not wait:
            raise BlockingIOError(errno.EAGAIN, "the file system may have to ask a server")
        if _identity(os.fstat(self._fd)) != self._identity:
            raise Stale(f"{self.path} was changed while it was mounted")

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool) -> None:
        """See `ZipBytes`. Without waiting, from the page cache alone (`RWF_NOWAIT`)."""
        # Every range was inside the file when the zip was opened.
        read_full(self._fd, buffer, offset, self.path, wait=wait)

    def read(self, start: int, stop: int) -> bytes:
        """See `ZipBytes`."""
        buffer = bytearray(stop - start)
        read_full(self._fd, memoryview(buffer), start, self.path, wait=True)
        return bytes(buffer)

    def prefetch(self, start: int, stop: int) -> None:
        """See `ZipBytes`. The kernel reads ahead."""

    def space(self) -> tuple[int, int]:
        """See `ZipBytes`."""
        status = os.fstatvfs(self._fd)
        return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize

    def status(self) -> dict[str, object]:
        """See `ZipBytes`: nothing."""
        return {}


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
