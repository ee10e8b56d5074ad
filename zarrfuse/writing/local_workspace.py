"""The folder of our own in a folder of this machine: who uses it, and its end.

Owns all that is made and deleted in it but for journals, and tells who lives. Used by `commits`. It must
not know chunks.

A process locks its file `alive` for as long as it lives, so that others can tell whose folder is left
over. Who makes or deletes anything of that holds a byte of the lock file, and looks again whether the
lock file is the one of that name: the last user deletes it with the folder. All is done by descriptors of
the folder, and a symlink in its place is not followed.
"""

import errno
import itertools
import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from stat import S_IMODE, S_ISDIR

from zarrfuse.errors import Denied, NotFound
from zarrfuse.stores.base import OWN_NAME
from zarrfuse.writing import ofd
from zarrfuse.writing.journal import is_name
from zarrfuse.writing.workspace import FOLDER, LOCK_NAME, OLD_S, STRIPES, say_no_locks

log = logging.getLogger(__name__)

_SET_UP = STRIPES
"""The byte of the lock file of who sets up or deletes."""
_ALIVE = "alive"
_PUT = re.compile(r"put-[0-9a-f]+")
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_FOLDER = frozenset({errno.ENOTDIR, errno.ELOOP})
_RACES_TOLERATED = 1000


class _Ours:
    """What is open of a workspace that was set up."""

    def __init__(self, name: str, folder: int, alive: int) -> None:
        self.name = name
        self.folder = folder
        self.alive = alive
        self.pid = os.getpid()
        self.count = itertools.count()

    def is_there(self) -> bool:
        """Whether it is ours and has not been deleted."""
        return self.pid == os.getpid() and os.fstat(self.alive).st_nlink > 0

    def close(self) -> None:
        os.close(self.folder)
        os.close(self.alive)


class LocalWorkspace:
    """A workspace in a folder of this machine; made when it is first needed."""

    def __init__(self, root: str) -> None:
        self._root = root
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
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, 0o666, dir_fd=ours.folder), f"{OWN_NAME}/{ours.name}/{name}"

    def clean(self, named: Callable[[], Container[str]]) -> None:
        """See `Workspace`."""
        with self._set_up_lock(create=False) as own:
            if own is not None:
                dead = _dead(own)
                kept = named()
                for name in dead:
                    if name not in kept:
                        _delete_folder(own, name)

    def close(self, named: Container[str] = ()) -> None:
        """See `Workspace`."""
        with self._guard:
            ours, self._ours = self._ours, None
        # Who holds the lock of a chunk may need `_guard`, and the lock file is waited for here.
        try:
            if ours is not None and ours.is_there() and ours.name not in named:
                with self._set_up_lock(create=False) as own:
                    if own is not None:
                        _delete_folder(own, ours.name)
        except (Denied, OSError) as error:
            log.warning("%s cannot be deleted: %s", os.path.join(self._root, OWN_NAME), error)
        finally:
            if ours is not None:
                ours.close()
        try:
            self._delete_unused()
        except (Denied, OSError) as error:
            log.warning("%s cannot be deleted: %s", os.path.join(self._root, OWN_NAME), error)

    # -- making

    def _there(self) -> _Ours:
        ours = self._ours
        if ours is not None and ours.is_there():
            return ours
        with self._guard:
            if self._ours is not None and self._ours.is_there():
                return self._ours
            # Another thread may be using the descriptors of one that somebody has deleted, and a
            # child process shares those of its parent: neither is closed.
            self._ours = self._made()
            return self._ours

    def _made(self) -> _Ours:
        try:
            with self._set_up_lock(create=True) as own:
                assert own is not None
                name = f"w-{secrets.token_hex(8)}"
                os.mkdir(name, 0o777, dir_fd=own)
                folder = os.open(name, _OPEN_FOLDER, dir_fd=own)
                try:
                    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                    alive = os.open(_ALIVE, flags, 0o666, dir_fd=folder)
                except BaseException:
                    os.close(folder)
                    raise
                self._share(folder)
                with suppress(ofd.NoLocksHere):
                    ofd.lock(alive, 0, exclusive=True, wait=False)
                return _Ours(name, folder, alive)
        except PermissionError:
            raise Denied(f"{OWN_NAME} may not be made in {self._root}") from None

    @contextmanager
    def _set_up_lock(
        self, *, create: bool, byte: int = _SET_UP, count: int = 1
    ) -> Iterator[int | None]:
        """The folder as a descriptor, while nobody else makes or deletes anything of it.

        None if there is none and `create` is false.
        """
        for _ in range(_RACES_TOLERATED):
            own = self._opened(create=create)
            if own is None:
                yield None
                return
            try:
                lock = os.open(LOCK_NAME, _OPEN_LOCK, 0o666, dir_fd=own)
            except FileNotFoundError:
                os.close(own)
                continue  # the folder has just been deleted
            except BaseException:
                os.close(own)
                raise
            try:
                try:
                    ofd.lock(lock, byte, exclusive=True, wait=True, count=count)
                except ofd.NoLocksHere:
                    say_no_locks(self._root)
                if os.fstat(lock).st_nlink:
                    if create:
                        self._share(own, lock)
                    yield own
                    return
            finally:
                os.close(lock)
                os.close(own)
        raise OSError(f"{OWN_NAME} is made and deleted all the time")

    def _opened(self, *, create: bool) -> int | None:
        path = os.path.join(self._root, OWN_NAME)
        if create:
            try:
                os.mkdir(path, 0o777)
            except FileNotFoundError:
                raise NotFound(f"{self._root} does not exist") from None
            except FileExistsError:
                pass
        try:
            return os.open(path, _OPEN_FOLDER)
        except FileNotFoundError:  # just deleted, if it has just been there
            return self._opened(create=create) if create else None
        except OSError as error:
            if error.errno in _NO_FOLDER:
                raise Denied(f"{path} is no folder, and zarrfuse needs one there") from None
            raise

    def _share(self, *fds: int) -> None:
        """Let whoever may write the store write here: also members of its group, say."""
        mode = S_IMODE(os.stat(self._root).st_mode) & 0o777
        for fd in fds:
            wanted = mode | 0o700 if S_ISDIR(os.fstat(fd).st_mode) else mode & 0o666 | 0o600
            if S_IMODE(os.fstat(fd).st_mode) & wanted != wanted:
                with suppress(PermissionError):  # somebody else's: it is up to him
                    os.fchmod(fd, wanted)

    # -- deleting

    def _delete_unused(self) -> None:
        """Delete the folder, if nobody uses it and it holds nothing that is needed."""
        if not os.path.isdir(os.path.join(self._root, OWN_NAME)):
            return
        with self._set_up_lock(create=False) as own:
            if own is None or not self._is_unused(own):
                return
        # Readers hold other bytes for a moment. All are taken at once, so nobody waits for another.
        with self._set_up_lock(create=False, byte=0, count=STRIPES + 1) as own:
            if own is not None and self._is_unused(own):
                os.unlink(LOCK_NAME, dir_fd=own)
                with suppress(OSError):  # there is something of somebody else's in it
                    os.rmdir(os.path.join(self._root, OWN_NAME))

    def _is_unused(self, own: int) -> bool:
        """Whether nobody lives and there is no journal; who is dead is deleted then."""
        dead = _dead(own)
        names = os.listdir(own)
        if any(is_name(name) for name in names):
            return False
        for name in dead:
            _delete_folder(own, name)
        for name in names:
            if _PUT.fullmatch(name):
                _delete_old_file(own, name)
        return not any(FOLDER.fullmatch(name) for name in os.listdir(own))


def _dead(own: int) -> list[str]:
    """The folders of processes that died."""
    names = os.listdir(own)
    return [name for name in names if FOLDER.fullmatch(name) and not _is_alive(own, name)]


def _is_alive(own: int, name: str) -> bool:
    """Whether the process of a folder lives; where that cannot be told, if it is not old."""
    try:
        folder = os.open(name, _OPEN_FOLDER, dir_fd=own)
    except FileNotFoundError:
        return False
    except OSError:  # no folder, or somebody else's
        return True
    try:
        try:
            alive = os.open(_ALIVE, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except FileNotFoundError:  # whoever makes one holds the lock that we hold
            return False
        except OSError:
            return True
        try:
            ofd.lock(alive, 0, exclusive=True, wait=False)
        except BlockingIOError:
            return True
        except ofd.NoLocksHere:
            return time.time() - os.fstat(folder).st_mtime < OLD_S
        finally:
            os.close(alive)
        return False
    finally:
        os.close(folder)


def _delete_folder(own: int, name: str) -> None:
    """Delete a process's folder with all in it. `alive` goes last: until then it can be judged."""
    with suppress(FileNotFoundError):
        folder = os.open(name, _OPEN_FOLDER, dir_fd=own)
        try:
            for file in sorted(os.listdir(folder), key=lambda file: file == _ALIVE):
                with suppress(FileNotFoundError):
                    os.unlink(file, dir_fd=folder)
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=own)


def _delete_old_file(own: int, name: str) -> None:
    with suppress(FileNotFoundError):
        if time.time() - os.stat(name, dir_fd=own, follow_symlinks=False).st_mtime >= OLD_S:
            os.unlink(name, dir_fd=own)
