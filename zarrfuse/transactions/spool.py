"""Spool files: the bytes of working copies until they are stored.

A spool file lies in the workspace of a local store, from where it can be renamed onto a key, or in a folder
of the user's choice, without a name, so that it is gone when the process dies. Made by `commits`, filled by
`working_copy` and views.
"""

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from zarrfuse.errors import ZarrfuseError
from zarrfuse.stores.access import Access
from zarrfuse.stores.base import Reader
from zarrfuse.stores.descriptor import OnDisk, copied_by_kernel, write_full

_COPIED_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How the bytes of a spool file are stored.

    Attributes:
        mtime_ns: The time of the stored file; None: now.
        access: Its owner and mode; None: those of the file that it replaces.
        sync: Whether it is durable when the call returns. Several parts always are.
        new: Whether it must not replace a file: raises `Exists`.
    """

    mtime_ns: int | None = None
    access: Access | None = None
    sync: bool = False
    new: bool = False


class Target(NamedTuple):
    """The stored key that bytes [start, stop) of a chunk go to."""

    key: str
    start: int
    stop: int


class Spool:
    """A spool file, read and written at any offset.

    `key`: that of the file in the workspace, None if it is not there. `is_given`: it was renamed and is now
    the stored file `key`, which must not be written any more.
    """

    def __init__(self, fd: int, key: str | None, delete: Callable[[str], None] | None) -> None:
        self.fd = fd
        self.key = key
        self.is_given = False
        self._delete = delete

    @property
    def size(self) -> int:
        """Bytes in it."""
        return os.fstat(self.fd).st_size

    def write(self, data: bytes | memoryview, offset: int) -> None:
        """Write all of `data` at `offset`."""
        write_full(self.fd, data, offset, "the spool file")

    def copy(self, reader: Reader, size: int) -> None:
        """Copy the first `size` bytes of a reader to the beginning."""
        at = 0
        if isinstance(reader, OnDisk):
            at = copied_by_kernel(reader.fileno(), 0, size, self.fd)
        buffer = memoryview(bytearray(min(size - at, _COPIED_AT_ONCE)))
        while at < size:
            piece = buffer[: size - at]
            reader.readinto(piece, at)
            self.write(piece, at)
            at += len(piece)

    def give(self, key: str) -> None:
        """Note that it was renamed onto `key`."""
        self.key = key
        self.is_given = True

    def close(self) -> None:
        """Delete the file unless it was given; a second call does nothing."""
        fd, self.fd = self.fd, -1
        if fd < 0:
            return
        os.close(fd)
        if self.key is not None and not self.is_given and self._delete is not None:
            with suppress(ZarrfuseError, OSError):  # else it goes with the workspace
                self._delete(self.key)


def nameless_spool(folder: str | None) -> Spool:
    """A spool without a name, in `folder` or in the folder of temporary files."""
    fd = _opened(folder or tempfile.gettempdir())
    return Spool(fd, None, None)


def _opened(folder: str) -> int:
    with suppress(OSError):  # not every file system can
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fd, path = tempfile.mkstemp(prefix="zarrfuse-", dir=folder)
    os.unlink(path)
    return fd
