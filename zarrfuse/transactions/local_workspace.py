"""The workspace of a local store: its folders of processes, and its end.

Owns everything that is made and deleted in it, except journals. Used by `commits`. It must not know chunks,
or which files are trusted (`stores.local.own_folder`).

A process holds a lock of its file `alive` as long as it lives, so that others know whose folder is left
over. To make or delete these files, a process locks a byte of the lock file, and checks that the lock file
still has its name: the last user deletes it with the folder. Everything is done by descriptors of the
folder. What is not trusted is left alone.
"""

import itertools
import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from zarrfuse.errors import Denied, TimedOut
from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.descriptor import close_quietly, closing_on_error, sync_folder
from zarrfuse.stores.local.own_folder import OwnFolder, new_file, new_folder
from zarrfuse.transactions import ofd
from zarrfuse.transactions.journal import is_name
from zarrfuse.transactions.lock_file import open_lock_file
from zarrfuse.transactions.locks import Patience
from zarrfuse.transactions.workspace import FOLDER, LOCK_NAME, OLD_S, STRIPES, Named, say_no_locks

log = logging.getLogger(__name__)

_SET_UP = STRIPES
"""The byte of the lock file for setting up and deleting."""
_PATIENCE_S = 30.0
"""How long to wait for it (s): it is held for a moment only."""
_ALIVE = "alive"
_PUT = re.compile(r"put-[0-9a-f]+")
_LIST = os.O_RDONLY | os.O_DIRECTORY
_LOCK = os.O_RDWR | os.O_NONBLOCK
_RACES_TOLERATED = 1000


class _Ours:
    """The open descriptors of a workspace."""

    def __init__(self, name: str, folder: int, alive: int) -> None:
        self.name = name
        self.folder = folder
        self.alive = alive
        self.pid = os.getpid()
        self.count = itertools.count()

    def is_there(self) -> bool:
        """Whether it was made by this process, and still exists."""
        return self.pid == os.getpid() and os.fstat(self.alive).st_nlink > 0

    def close(self) -> None:
        close_quietly(self.folder)
        close_quietly(self.alive)


class LocalWorkspace:
    """A workspace in a local folder, made when it is first needed."""

    def __init__(self, own: OwnFolder) -> None:
        self._own = own
        self._guard = threading.Lock()
        self._ours: _Ours | None = None

    @property
    def is_used(self) -> bool:
        """See `Workspace`."""
        return self._ours is not None

    def folder(self) -> str:
        """See `Workspace`."""
        return f"{OWN_NAME}/{self._there().name}"

    def temporary(self) -> str:
        """See `Workspace`."""
        return self.temporaries(1)[0]

    def temporaries(self, count: int) -> list[str]:
        """See `Workspace`."""
        ours = self._there()
        return [f"{OWN_NAME}/{ours.name}/{next(ours.count)}" for _ in range(count)]

    def open_spool(self) -> tuple[int, str] | None:
        """See `Workspace`."""
        ours = self._there()
        name = str(next(ours.count))
        return new_file(ours.folder, name, os.O_RDWR), f"{OWN_NAME}/{ours.name}/{name}"

    def check(self) -> None:
        """See `Workspace`."""
        self._own.refuse_root()
        with suppress(FileNotFoundError, PermissionError):
            os.close(self._own.opened())
            # With a lock file of another user every write would be refused.
            os.close(self._own.open(os.fsencode(LOCK_NAME), os.O_PATH))

    def clean(self, named: Callable[[], Named]) -> None:
        """See `Workspace`."""
        with self._set_up_lock(create=False) as own:
            if own is not None:
                dead = self._dead(own)
                kept = named()
                for name in dead:
                    if not kept.may_be(name, _made_at(own, name)):
                        self._delete_folder(own, name)

    def close(self, *, keep: bool = False) -> None:
        """See `Workspace`."""
        with self._guard:
            ours, self._ours = self._ours, None
        # Who holds the lock of a chunk may need `_guard`, and the lock file is waited for here.
        if ours is not None:
            if not keep:
                self._try(partial(self._delete_ours, ours))
            self._own.let_go(ours.name)
            ours.close()
        self._try(self._delete_unused)

    def _try(self, delete: Callable[[], None]) -> None:
        """Delete files; errors are ignored."""
        try:
            delete()
        except Denied:
            pass  # `own_folder` has said why
        except (TimedOut, OSError) as error:
            log.warning("%s cannot be deleted: %s", self._own.path, error)

    # -- making

    def _there(self) -> _Ours:
        ours = self._ours
        if ours is not None and ours.is_there():
            return ours
        with self._guard:
            if self._ours is not None and self._ours.is_there():
                return self._ours
            # Another thread may still use the descriptors of a deleted workspace, and a child process
            # shares those of its parent: neither is closed.
            self._ours = self._made()
            return self._ours

    def _made(self) -> _Ours:
        with self._set_up_lock(create=True) as own:
            assert own is not None
            name = f"w-{secrets.token_hex(8)}"
            folder = new_folder(own, name)
            with closing_on_error(folder):
                sync_folder(own)  # a journal must not outlive the folder of its parts
                alive = new_file(folder, _ALIVE, os.O_RDWR)
                with closing_on_error(alive), suppress(ofd.NoLocksHere):
                    ofd.lock(alive, 0)
            self._own.hold(name, folder)
            return _Ours(name, folder, alive)

    @contextmanager
    def _set_up_lock(
        self, *, create: bool, byte: int = _SET_UP, count: int = 1
    ) -> Iterator[int | None]:
        """A block with a descriptor of the workspace in which no other process makes or deletes its files.

        None if it is missing and `create` is false. Raises `Denied`, `TimedOut`.
        """
        patience = Patience(f"{self._own.path}/{LOCK_NAME}", _PATIENCE_S)
        for _ in range(_RACES_TOLERATED):
            own = self._own.make() if create else self._opened()
            if own is None:
                yield None
                return
            try:
                try:
                    lock = open_lock_file(self._own, own)
                except FileNotFoundError:  # one of both has just been deleted
                    continue
                try:
                    self._wait_for(lock, byte, count, patience)
                    if os.fstat(lock).st_nlink:
                        yield own
                        return
                finally:
                    close_quietly(lock)
            finally:
                close_quietly(own)
        raise OSError(f"{self._own.path} is made and deleted all the time")

    def _opened(self) -> int | None:
        try:
            return self._own.opened()
        except FileNotFoundError:
            return None

    def _wait_for(self, lock: int, byte: int, count: int, patience: Patience) -> None:
        while True:
            try:
                ofd.lock(lock, byte, count=count)
            except ofd.NoLocksHere:
                say_no_locks(self._own.root.path)
                return
            except BlockingIOError:
                patience.nap()
            else:
                return

    # -- deleting

    def _delete_ours(self, ours: _Ours) -> None:
        if ours.is_there():
            with self._set_up_lock(create=False) as own:
                if own is not None:
                    self._delete_folder(own, ours.name)

    def _delete_unused(self) -> None:
        """Delete the workspace, if no process uses it and it has no journals."""
        with self._set_up_lock(create=False) as own:
            if own is None or not self._is_unused(own):
                return
        # Writers hold other bytes for a moment. All are locked at once, so no two processes wait for each
        # other.
        with self._set_up_lock(create=False, byte=0, count=STRIPES + 1) as own:
            if own is not None and self._is_unused(own):
                os.unlink(LOCK_NAME, dir_fd=own)
                with suppress(OSError):  # there is something of somebody else's in it
                    self._own.delete()

    def _is_unused(self, own: int) -> bool:
        """Whether no process lives and there is no journal; folders of dead processes are deleted then."""
        dead = self._dead(own)
        with os.scandir(own) as found:
            names = [entry.name for entry in found if entry.is_file(follow_symlinks=False)]
        if any(is_name(name) for name in names):
            return False
        for name in dead:
            self._delete_folder(own, name)
        for name in names:
            if _PUT.fullmatch(name):
                _delete_old_file(own, name)
        return not any(FOLDER.fullmatch(name) for name in os.listdir(own))

    def _dead(self, own: int) -> list[str]:
        """The folders of processes that died."""
        names = os.listdir(own)
        return [name for name in names if FOLDER.fullmatch(name) and not self._is_alive(own, name)]

    def _is_alive(self, own: int, name: str) -> bool:
        """Whether the process of a folder lives; if that is not known, whether the folder is new."""
        try:
            folder = self._own.open(os.fsencode(name), _LIST)
        except FileNotFoundError:
            return False
        except (Denied, OSError):  # it does not count, or is somebody else's
            return True
        try:
            try:
                alive = self._own.open(os.fsencode(f"{name}/{_ALIVE}"), _LOCK)
            except FileNotFoundError:  # whoever makes one holds the lock that we hold
                return False
            except (Denied, OSError):
                return True
            try:
                if self._others_may_lock(own, alive):
                    return False
                ofd.lock(alive, 0)
            except BlockingIOError:
                return True
            except ofd.NoLocksHere:
                return time.time() - os.fstat(folder).st_mtime < OLD_S
            finally:
                close_quietly(alive)
            return False
        finally:
            os.close(folder)

    def _others_may_lock(self, own: int, alive: int) -> bool:
        """Whether other users may open `alive`, so that no process of zarrfuse made it.

        If they may open the lock file, too, all files of this file system have that mode.
        """
        if self._own.is_private(os.fstat(alive)):
            return False
        lock = os.stat(LOCK_NAME, dir_fd=own, follow_symlinks=False)
        return self._own.is_private(lock)

    def _delete_folder(self, own: int, name: str) -> None:
        """Delete the folder of a process. `alive` is deleted last: it tells whether the process lives."""
        with suppress(FileNotFoundError):
            folder = self._own.open(os.fsencode(name), _LIST)
            try:
                for file in sorted(os.listdir(folder), key=lambda file: file == _ALIVE):
                    with suppress(FileNotFoundError):
                        os.unlink(file, dir_fd=folder)
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=own)


def _made_at(own: int, name: str) -> int | None:
    """When a process's folder was made, in nanoseconds since 1970; None if that cannot be told."""
    try:
        status = os.stat(f"{name}/{_ALIVE}", dir_fd=own, follow_symlinks=False)
    except OSError:
        return None
    return status.st_mtime_ns


def _delete_old_file(own: int, name: str) -> None:
    with suppress(FileNotFoundError):
        if time.time() - os.stat(name, dir_fd=own, follow_symlinks=False).st_mtime >= OLD_S:
            os.unlink(name, dir_fd=own)
