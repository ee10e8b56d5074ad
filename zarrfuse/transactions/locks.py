"""Locks of chunk keys: commits of one chunk run one after the other.

Between threads of a process each chunk has a lock; between processes it has a byte of the lock file of the
workspace. Used by `commits`, and by `check`, which asks whether a process is writing. It must not know what
is done under a lock. Readers take none (`snapshot`): only users who may write can make writers wait.

A lock file that was deleted by its last user is no lock.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from zarrfuse.config import Tuning
from zarrfuse.errors import TimedOut, ZarrfuseError
from zarrfuse.stores.descriptor import close_quietly
from zarrfuse.stores.local.own_folder import OwnFolder
from zarrfuse.transactions import journal as journals
from zarrfuse.transactions import ofd
from zarrfuse.transactions.lock_file import open_lock_file
from zarrfuse.transactions.workspace import LOCK_NAME, STRIPES, Workspace, say_no_locks

log = logging.getLogger(__name__)

SAID_AFTER_S = 5.0
"""A thread that waits longer for a lock (s) logs that, once."""
_LONGEST_NAP_S = 0.02
_LOCK = os.fsencode(LOCK_NAME)


def stripe_of(chunk_key: str) -> int:
    """The byte of the lock file that is the lock of a chunk."""
    return journals.stripe_of(journals.name_of(chunk_key))


def is_locked(own: OwnFolder, chunk_key: str) -> bool:
    """Whether a process holds the lock of a chunk; False if that is not known."""
    try:
        fd = own.open(_LOCK, os.O_RDONLY | os.O_NONBLOCK)
    except (ZarrfuseError, OSError):
        return False
    try:
        return ofd.is_locked(fd, stripe_of(chunk_key))
    except ofd.NoLocksHere:
        return False
    finally:
        os.close(fd)


class Patience:
    """Waits for a lock: logs after a while what it waits for, and times out."""

    def __init__(self, what: str, timeout_s: float) -> None:
        self._what = what
        self._began = time.monotonic()
        self._timeout_s = timeout_s
        self._nap_s = 0.0005
        self._is_said = False

    @property
    def left_s(self) -> float:
        """Seconds until the time-out."""
        return max(0.0, self._timeout_s - (time.monotonic() - self._began))

    def nap(self) -> None:
        """Wait a little. Raises `TimedOut`."""
        waited_s = time.monotonic() - self._began
        if waited_s >= self._timeout_s:
            raise TimedOut(f"after {waited_s:.0f} s others still have the lock of {self._what}")
        if waited_s >= SAID_AFTER_S and not self._is_said:
            self._is_said = True
            log.warning("waiting for another process, which holds the lock of %s", self._what)
        time.sleep(min(self._nap_s, self.left_s))
        self._nap_s = min(2 * self._nap_s, _LONGEST_NAP_S)


class _LockFile:
    """The open lock file. It is closed when its last lock is released."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def is_linked(self) -> bool:
        return os.fstat(self.fd).st_nlink > 0

    def __del__(self) -> None:
        close_quietly(self.fd)


class Locks:
    """Locks of chunk keys; `own`: the workspace, None in a store without locks between processes."""

    def __init__(
        self, own: OwnFolder | None, workspace: Workspace, timeout_s: float | None = None
    ) -> None:
        self._own = own
        self._workspace = workspace
        self._timeout_s = Tuning().store_timeout_s if timeout_s is None else timeout_s
        self._new_process()

    def _new_process(self) -> None:
        """Open the lock file again in a child process, which would share the locks of its parent."""
        self._pid = os.getpid()
        self._threads = [threading.Lock() for _ in range(STRIPES)]
        self._file: _LockFile | None = None

    def close(self) -> None:
        """Close the lock file after the release of its last lock."""
        self._file = None

    def exclusive(
        self, chunk_key: str, *, timeout_s: float | None = None
    ) -> AbstractContextManager[None]:
        """A block that holds the lock of a chunk. Take several in the order of `stripe_of`.

        Raises `TimedOut` after `timeout_s` (seconds; None: that of the store), and the errors of an
        unusable workspace.
        """
        return self._held(stripe_of(chunk_key), chunk_key, timeout_s)

    def of_journal(
        self, name: str, *, timeout_s: float | None = None
    ) -> AbstractContextManager[None]:
        """A block that holds the lock of the chunk with the journal of this name."""
        return self._held(journals.stripe_of(name), name, timeout_s)

    @contextmanager
    def _held(self, stripe: int, what: str, timeout_s: float | None) -> Iterator[None]:
        if self._pid != os.getpid():
            self._new_process()
        if self._own is not None:
            what = f"{what}, by {self._own.path}/{LOCK_NAME}"
        patience = Patience(what, self._timeout_s if timeout_s is None else timeout_s)
        lock = self._threads[stripe]
        while not lock.acquire(timeout=min(patience.left_s, SAID_AFTER_S)):
            patience.nap()
        try:
            file = None if self._own is None else self._taken(self._own, stripe, patience)
            try:
                yield
            finally:
                if file is not None:
                    ofd.unlock(file.fd, stripe)
        finally:
            lock.release()

    def _taken(self, own: OwnFolder, stripe: int, patience: Patience) -> _LockFile | None:
        """Take the lock of a stripe between processes; None if there are no such locks."""
        while True:
            self._workspace.folder()
            file = self._file
            if file is None:
                file = self._file = _opened(own)
            if file is None:
                patience.nap()
                continue
            try:
                ofd.lock(file.fd, stripe)
            except BlockingIOError:
                patience.nap()
                continue
            except ofd.NoLocksHere:
                say_no_locks(own.root.path)
                return None
            if file.is_linked():
                return file
            ofd.unlock(file.fd, stripe)
            if self._file is file:
                self._file = None


def _opened(own: OwnFolder) -> _LockFile | None:
    """The lock file; None if the workspace has just been deleted."""
    try:
        folder = own.opened()
    except FileNotFoundError:
        return None
    try:
        with suppress(FileNotFoundError):
            return _LockFile(open_lock_file(own, folder))
        return None
    finally:
        os.close(folder)
