"""Locks of chunk keys: who opens the parts of a chunk gets all old or all new ones.

Owns the way to a lock: between threads of one process a lock each, between processes a byte of the lock
file of the workspace, shared to read and exclusive to write. Used by views, which read, and by `commits`.
It must not know what is done under a lock.

Who only reads makes nothing: where there is no workspace, nobody writes, and a lock file that may not
be opened is no obstacle. One that has been deleted, because its last user is gone, is no lock.
"""

import errno
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha1
from typing import NamedTuple

from zarrfuse.errors import NotFound, Stale, ZarrfuseError
from zarrfuse.stores.base import OWN_NAME, Store
from zarrfuse.stores.descriptor import is_remote
from zarrfuse.writing import ofd
from zarrfuse.writing.forward import RolledForward, rolled_forward
from zarrfuse.writing.workspace import LOCK_NAME, STRIPES, Workspace, root_of, say_no_locks

log = logging.getLogger(__name__)

_LOCK_KEY = f"{OWN_NAME}/{LOCK_NAME}"
_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _LockFile:
    """The open lock file; closed when nobody holds a lock of it any more."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.is_remote = is_remote(fd)

    def is_linked(self) -> bool:
        return os.fstat(self.fd).st_nlink > 0

    def __del__(self) -> None:
        os.close(self.fd)


class _Held(NamedTuple):
    """What was locked: `file` is None where other processes are not kept out."""

    file: _LockFile | None
    nobody_writes: bool


class Locks:
    """Locks of chunk keys, for who only reads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        shown = rolled_forward(store)
        self._look = shown.look if isinstance(shown, RolledForward) else None
        self._root = root_of(store)
        self._path = None if self._root is None else os.path.join(self._root, _LOCK_KEY)
        self._new_process()

    def _new_process(self) -> None:
        """A child process has locks of its own: it would share those of its parent."""
        self._pid = os.getpid()
        self._threads = [threading.Lock() for _ in range(STRIPES)]
        self._file: _LockFile | None = None

    @contextmanager
    def locked(self, chunk_key: str, *, wait: bool = True) -> Iterator[None]:
        """Hold the lock of a chunk, shared with all who read.

        The store is told to look for a journal of the chunk (`RolledForward`), so it shows the whole of
        what was committed. Raises `BlockingIOError` if not `wait` and the lock is taken or what has
        to be asked is not at hand; at the end of the block this, or `Stale`, if the first writer of
        all came meanwhile and nobody was kept out. A thread holds one lock at a time.
        """
        with self._of_thread(chunk_key, wait) as stripe:
            held = self._taken(stripe, exclusive=False, wait=wait)
            try:
                if not held.nobody_writes and self._look is not None:
                    self._look(chunk_key, wait=wait)
                yield
            finally:
                if held.file is not None:
                    ofd.unlock(held.file.fd, stripe)
            # The name was looked up a moment ago, so the kernel has the answer at hand.
            if held.nobody_writes and self._path is not None and os.access(self._path, os.F_OK):
                if not wait:
                    raise BlockingIOError(errno.EAGAIN, "somebody has begun to write")
                raise Stale(f"{chunk_key}: somebody began to write while it was opened")

    def close(self) -> None:
        """Let go of the lock file. Locks that are held stay so."""
        self._file = None

    @contextmanager
    def _of_thread(self, chunk_key: str, wait: bool) -> Iterator[int]:
        if self._pid != os.getpid():
            self._new_process()
        stripe = sha1(os.fsencode(chunk_key), usedforsecurity=False).digest()[0]
        lock = self._threads[stripe]
        if not lock.acquire(blocking=wait):
            raise BlockingIOError(errno.EAGAIN, "another thread has the lock")
        try:
            yield stripe
        finally:
            lock.release()

    def _taken(self, stripe: int, *, exclusive: bool, wait: bool) -> _Held:
        """Take the lock of a stripe between processes."""
        if self._path is None or self._root is None:
            return _Held(None, nobody_writes=False)
        while True:
            file = self._file
            if file is None:
                if wait and not exclusive and not os.access(self._path, os.F_OK):
                    return _Held(None, nobody_writes=True)
                try:
                    file = self._file = self._opened(exclusive=exclusive, wait=wait)
                except (FileNotFoundError, NotFound):
                    return _Held(None, nobody_writes=True)
                except (BlockingIOError, ZarrfuseError):
                    raise
                except OSError:
                    if exclusive:
                        raise
                    return _Held(None, nobody_writes=False)
            if file.is_remote and not wait:
                raise BlockingIOError(errno.EAGAIN, "a server has to be asked for the lock")
            try:
                ofd.lock(file.fd, stripe, exclusive=exclusive, wait=wait)
            except ofd.NoLocksHere:
                say_no_locks(self._root)
                return _Held(None, nobody_writes=False)
            if file.is_linked():
                return _Held(file, nobody_writes=False)
            ofd.unlock(file.fd, stripe)
            if self._file is file:
                self._file = None

    def _opened(self, *, exclusive: bool, wait: bool) -> _LockFile:
        assert self._path is not None
        if not wait:
            self._store.stat(_LOCK_KEY, wait=False)  # so that the kernel has the name at hand
        return _LockFile(os.open(self._path, os.O_RDONLY | _OPEN))


class WritersLocks(Locks):
    """The same, for who writes: exclusive locks, too."""

    def __init__(self, store: Store, workspace: Workspace) -> None:
        super().__init__(store)
        self._workspace = workspace

    @contextmanager
    def exclusive(self, chunk_key: str, *, wait: bool = True) -> Iterator[None]:
        """Hold the lock of a chunk alone. Raises `BlockingIOError` if not `wait` and it is taken."""
        with self._of_thread(chunk_key, wait) as stripe:
            while True:
                self._workspace.folder()  # with it, the lock file is there
                held = self._taken(stripe, exclusive=True, wait=wait)
                if not held.nobody_writes:
                    break
            try:
                yield
            finally:
                if held.file is not None:
                    ofd.unlock(held.file.fd, stripe)

    def _opened(self, *, exclusive: bool, wait: bool) -> _LockFile:
        assert self._path is not None
        if not exclusive and not wait:
            self._store.stat(_LOCK_KEY, wait=False)
        try:
            return _LockFile(os.open(self._path, os.O_RDWR | _OPEN))
        except PermissionError:
            if exclusive:
                raise
            return super()._opened(exclusive=False, wait=wait)
