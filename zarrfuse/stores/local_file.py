"""An open file of a local store that is read and written in place.

Owns the system calls on its descriptor. Made by `local_writing`; it knows neither keys of folders nor
who else has the file open.
"""

import os

from zarrfuse.stores.access import Access
from zarrfuse.stores.descriptor import read_full, write_full


class LocalFile:
    """An open file; holds one descriptor. Implements `base.File`."""

    __slots__ = ("_fd", "_key")

    is_live = True

    def __init__(self, fd: int, key: str) -> None:
        self._fd = fd
        self._key = key

    @property
    def size(self) -> int:
        """How many bytes the file has now."""
        return os.fstat(self._fd).st_size

    @property
    def mtime_ns(self) -> int:
        """When it was last changed, as of now."""
        return os.fstat(self._fd).st_mtime_ns

    def seen(self) -> tuple[int, int, int, Access]:
        """See `base.File`."""
        status = os.fstat(self._fd)
        return status.st_size, status.st_mtime_ns, status.st_ino, Access.of(status)

    def fileno(self) -> int:
        """The descriptor, for who copies from it; it stays this file's to close."""
        return self._fd

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `base.Reader`. Without waiting, only the page cache is read."""
        read_full(self._fd, buffer, offset, self._key, wait=wait)

    def write(self, data: bytes | memoryview, offset: int) -> None:
        """See `base.File`. What was written before an error stays written, as on a disk."""
        write_full(self._fd, data, offset, self._key)

    def truncate(self, size: int) -> None:
        """See `base.File`."""
        os.ftruncate(self._fd, size)

    def set_mtime(self, mtime_ns: int) -> None:
        """See `base.File`. The time of the last access stays."""
        os.utime(self._fd, ns=(os.fstat(self._fd).st_atime_ns, mtime_ns))

    def sync(self) -> None:
        """See `base.File`."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
