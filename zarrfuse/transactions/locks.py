"""Locks of chunk keys: who stores the parts of a chunk does so alone.

Owns the way to a lock: between threads of one process a lock each, between processes a byte of the lock
file of the workspace. Used by `commits`, and by `check`, which asks whether somebody is at work. It must
not know what is done under a lock. Who reads takes none (`snapshot`): whoever may lock may keep writers
waiting, so only those may who may write.

A lock file that has been deleted, because its last user is gone, is no lock.
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
"""Who waits longer for a lock says so, once."""
_LONGEST_NAP_S = 0.02
_LOCK = os.fsencode(LOCK_NAME)


def stripe_of(chunk_key: str) -> int:
    """The byte of the lock file that is the lock of a chunk."""
    return journals.stripe_of(journals.name_of(chunk_key))


def is_locked(own: OwnFolder, chunk_key: str) -> bool:
    """Whether somebody holds the lock of a chunk; no, if that cannot be told."""
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
    """Asks for a lock until it is there: says after a while what it waits for, and gives up."""

    def __init__(self, what: str, timeout_s: float) -> None:
        self._what = what
        self._began = time.monotonic()
        self._timeout_s = timeout_s
        self._nap_s = 0.0005
        self._is_said = False

    @property
    def left_s(self) -> float:
        """How long it will go on, in seconds."""
        return max(0.0, self._timeout_s - (time.monotonic() - self._began))

    def nap(self) -> None:
        """Wait a little. Raises `TimedOut`."""
        waited_s = time.monotonic() - self._began
        if waited_s >= self._timeout_s:
            raise TimedOut(f"after {waited_s:.0f} s others still have the lock of {self._what}")
        if waited_s >= SAID_AFTER_S and not self._is_said:
            self._is_said = True
            log.warning("waiting for others, who have the lock of %s", self._what)
        time.sleep(min(self._nap_s, self.left_s))
        self._nap_s = min(2 * self._nap_s, _LONGEST_NAP_S)


class _LockFile:
    """The open lock file; closed when nobody holds a lock of it any more."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def is_linked(self) -> bool:
        return os.fstat(self.fd).st_nlink > 0

    def __del__(self) -> None:
        close_quietly(self.fd)


class Locks:
    """Locks of chunk keys. `own`: None for a store in which processes do not see each other's."""

    def __init__(
        self, own: OwnFolder | None, workspace: Workspace, timeout_s: float | None = None
    ) -> None:
        self._own = own
        self._workspace = workspace
        self._timeout_s = Tuning().store_timeout_s if timeout_s is None else timeout_s
        self._new_process()

    def _new_process(self) -> None:
        """A child process has locks of its own: it would share those of its parent."""
        self._pid = os.getpid()
        self._threads = [threading.Lock() for _ in range(STRIPES)]
        self._file: _LockFile | None = None

    def close(self) -> None:
        """Let go of the lock file. Locks that are held stay so."""
        self._file = None

    def exclusive(
        self, chunk_key: str, *, timeout_s: float | None = None
    ) -> AbstractContextManager[None]:
        """Hold the lock of a chunk alone, for a block. Who takes several goes by their `stripe_of`.

        Raises `TimedOut` after `timeout_s` (seconds; by default that of the store), and what is raised
        where the workspace cannot be used.
        """
        return self._held(stripe_of(chunk_key), chunk_key, timeout_s)

    def of_journal(
        self, name: str, *, timeout_s: float | None = None
    ) -> AbstractContextManager[None]:
        """The lock of the chunk that has the journal of this name."""
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
        """Take the lock of a stripe between processes; None where there are no such locks."""
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
