"""An open file of a local store that is read and written in place.

Owns the system calls on its descriptor, and how a file's status becomes an entry and is changed. Used by
`store` and `writing`. It must not know folders.
"""

import os
from stat import S_ISLNK

from zarrfuse.stores.access import Access, Change
from zarrfuse.stores.base import Entry, Kind, Writer
from zarrfuse.stores.descriptor import read_full, write_full


def entry_at(name: str, status: os.stat_result, access: Access | None = None) -> Entry:
    """The entry of a file or symlink; `access`: its own unless given."""
    return Entry(
        name,
        Kind.LINK if S_ISLNK(status.st_mode) else Kind.FILE,
        status.st_size,
        status.st_mtime_ns,
        False,
        status.st_ino,
        access or Access.of(status),
        status.st_nlink,
        status.st_ctime_ns,
        status.st_atime_ns,
    )


def change_status(file: int | str, status: os.stat_result, change: Change) -> None:
    """Set times, mode and owner of an open file, or of a path; `status`: as it is now."""
    known = Access.of(status)
    access = change.of(known)
    if access[1:] != known[1:]:
        os.chown(file, access.uid, access.gid)
    if change.mode is not None:  # behind the owner, whose change takes setuid away
        os.chmod(file, access.mode)
    if change.mtime_ns is not None or change.atime_ns is not None:
        atime_ns = status.st_atime_ns if change.atime_ns is None else change.atime_ns
        mtime_ns = status.st_mtime_ns if change.mtime_ns is None else change.mtime_ns
        os.utime(file, ns=(atime_ns, mtime_ns))


class LocalFile(Writer):
    """An open file; holds one descriptor. Implements `base.Writer`."""

    __slots__ = ("_fd", "_key")

    def __init__(self, fd: int, key: str) -> None:
        self._fd = fd
        self._key = key

    @property
    def is_live(self) -> bool:  # type: ignore[override]
        """See `base.Reader`."""
        return True

    @property
    def access(self) -> Access:  # type: ignore[override]
        """Mode and owner now."""
        return Access.of(os.fstat(self._fd))

    @property
    def size(self) -> int:  # type: ignore[override]
        """Bytes in the file now."""
        return os.fstat(self._fd).st_size

    @property
    def mtime_ns(self) -> int:  # type: ignore[override]
        """Its modification time now."""
        return os.fstat(self._fd).st_mtime_ns

    def seen(self) -> Entry:
        """See `base.Writer`."""
        return entry_at("", os.fstat(self._fd))

    def fileno(self) -> int:
        """The descriptor, to copy from; the file closes it."""
        return self._fd

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `base.Reader`. Without waiting, only the page cache is read."""
        read_full(self._fd, buffer, offset, self._key, wait=wait)

    def write(self, data: bytes | memoryview, offset: int) -> None:
        """See `base.Writer`. What was written before an error stays written, as on a disk."""
        write_full(self._fd, data, offset, self._key)

    def truncate(self, size: int) -> None:
        """See `base.Writer`."""
        os.ftruncate(self._fd, size)

    def change(self, change: Change) -> None:
        """See `base.Writer`."""
        change_status(self._fd, os.fstat(self._fd), change)

    def sync(self) -> None:
        """See `base.Writer`."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
