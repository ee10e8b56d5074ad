"""The working copy of a chunk or document: written at any offset, and stored whole.

Owns when bytes are copied, and whether it has changed. Views make and store it; all programs that have the
file open in a mount share one. It must not know chunks.
"""

import errno
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from zarrfuse.stores.access import Access, Change
from zarrfuse.stores.base import Reader, Writer
from zarrfuse.stores.descriptor import OnDisk, read_full
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.spool import Spool, StoreOptions


class WorkingCopy(Writer):
    """The bytes of a file that is stored whole, while it is being changed.

    `base`: the stored file, which is read until the first change copies it; None for an empty copy, which
    is `changed`. `is_new`: the first store must not replace a file. `given`: owner and mode of the stored
    file; None: those of the replaced one.
    """

    def __init__(
        self, commits: Commits, base: Reader | None = None, *, is_new: bool = False
    ) -> None:
        self.access: Access | None = None if base is None else base.access
        self.identity: int = 0 if base is None else base.identity
        self.is_new = is_new
        self.given: Access | None = None
        self._commits = commits
        self._guard = threading.Lock()
        self._base = base
        self._spool: Spool | None = None
        self._changed = base is None
        self._set_mtime_ns: int | None = None
        self._mtime_ns = time.time_ns() if base is None else base.mtime_ns

    @property
    def size(self) -> int:  # type: ignore[override]
        """Bytes in it now."""
        while True:  # no lock: another thread may put a new spool in the place of the old one
            base = self._base  # first: it goes when there is a spool
            spool = self._spool
            try:
                if spool is not None:
                    return spool.size
                return 0 if base is None else base.size
            except (OSError, ValueError):
                if self._spool is spool and self._base is base:
                    raise

    @property
    def mtime_ns(self) -> int:  # type: ignore[override]
        """The time of its last change, or the one that was set since."""
        return self._mtime_ns

    @property
    def changed(self) -> bool:
        """Whether it has changes that are not stored."""
        return self._changed

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `stores.base.Reader`. Raises `Stale` for bytes behind the end."""
        with self._held(wait):
            if self._spool is not None:
                read_full(self._spool.fd, buffer, offset, "the spool file", wait=wait)
            elif self._base is not None:
                self._base.readinto(buffer, offset, wait=wait)

    def write(self, data: bytes | memoryview, offset: int) -> None:
        """Write all of `data` at `offset`; a gap in front of it becomes zeros."""
        with self._held():
            self._writable(None).write(data, offset)
            self._has_changed()

    def truncate(self, size: int) -> None:
        """Make it `size` bytes long."""
        with self._held():
            os.ftruncate(self._writable(size).fd, size)
            self._has_changed()

    def change(self, change: Change) -> None:
        """Set the time with which it will be stored. Mode and owner are those of what is stored."""
        if change.mtime_ns is not None:
            with self._held():
                self._set_mtime_ns = self._mtime_ns = change.mtime_ns
                self._changed = True

    @contextmanager
    def to_store(self, *, sync: bool = False) -> Iterator[tuple[Spool, StoreOptions]]:
        """A block that stores the yielded bytes with the yielded options.

        At its end the copy is no longer `changed`; after an error it is as before.
        """
        with self._held():
            spool = self._writable(None)
            try:
                yield spool, StoreOptions(self._set_mtime_ns, self.given, sync, self.is_new)
            except BaseException:
                if spool.is_given:  # it is stored, though what came behind that failed
                    self.is_new = False
                raise
            self.is_new = False
            self._changed = False
            self._set_mtime_ns = None

    def sync(self) -> None:
        """Make the stored file durable."""
        with self._held():
            if self._spool is not None:
                if self._spool.is_given:  # else it was synced when it was stored
                    self._commits.sync(self._spool)
            elif isinstance(self._base, OnDisk):
                os.fsync(self._base.fileno())

    def close(self) -> None:
        """Drop it with changes that are not stored. A second call does nothing."""
        with self._held():
            spool, base = self._spool, self._base
            self._spool = self._base = None
            if spool is not None:
                spool.close()
            if base is not None:
                base.close()

    @contextmanager
    def _held(self, wait: bool = True) -> Iterator[None]:
        if not self._guard.acquire(blocking=wait):
            raise BlockingIOError(errno.EAGAIN, "another thread writes")
        try:
            yield
        finally:
            self._guard.release()

    def _writable(self, kept: int | None) -> Spool:
        """The spool file; it is made with the current bytes, or the first `kept` of them."""
        old = self._spool
        if old is not None and not old.is_given:
            return old
        size = self.size if kept is None else min(kept, self.size)
        spool = self._commits.spool()
        try:
            if old is not None:
                spool.copy(_SpoolReader(old), size)
            elif self._base is not None:
                spool.copy(self._base, size)
        except BaseException:
            spool.close()
            raise
        base = self._base
        self._spool = spool
        self._base = None
        if old is not None:
            old.close()
        if base is not None:
            base.close()
        return spool

    def _has_changed(self) -> None:
        self._changed = True
        self._set_mtime_ns = None
        self._mtime_ns = time.time_ns()


class _SpoolReader(Reader):
    """A reader of a spool file that is copied."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self.size = spool.size
        self.mtime_ns = 0

    def fileno(self) -> int:
        return self._spool.fd

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        read_full(self._spool.fd, buffer, offset, "the spool file", wait=wait)

    def close(self) -> None:
        """It stays open."""
