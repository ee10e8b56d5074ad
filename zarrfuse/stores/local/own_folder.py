"""The workspace of a local store, `.zarrfuse/`: which files in it are trusted.

Owns the rule of trust, and opens files of the workspace. Used by `store`, and by `transactions`, which
keeps journals, locks and temporary files there. Everything is opened beneath the root of the store, never
through a symlink, and checked by its own descriptor. What is not trusted is neither used nor deleted, and
is logged once.

A file or folder is trusted if it belongs to the user of this process or, for root, to the owner of the
store's root, and if nobody else may write or replace it. Users who write a store together share a group: if
the group of the root may write it, and others may not, what belongs to that group is trusted, too.

Files in a trusted folder of a process are not checked again: a temporary part has the owner and mode
already with which it will be stored.
"""

import errno
import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from stat import S_IMODE, S_IRWXG, S_IRWXO, S_ISDIR, S_ISREG, S_ISVTX, S_IWGRP, S_IWOTH

from zarrfuse.errors import Denied, NotFound
from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.descriptor import closing_on_error, sync_folder
from zarrfuse.stores.local.beneath import open_beneath
from zarrfuse.stores.local.new_file import discarding_on_error
from zarrfuse.stores.local.root import Root

log = logging.getLogger(__name__)

_OWN = os.fsencode(OWN_NAME)
_FOLDER = os.O_PATH | os.O_DIRECTORY
_LIST = os.O_RDONLY | os.O_DIRECTORY
_NO_FOLDER = frozenset({errno.ENOTDIR, errno.ELOOP})
_RACES_TOLERATED = 1000
_LET_IN_WITHIN_S = 0.2
_NAP_S = 0.002
_PROCESSES = 1
"""How deep in it the folders of processes lie."""


class OwnFolder:
    """`.zarrfuse/` below a root."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self.path = os.path.join(root.path, OWN_NAME)
        """For messages."""
        self._held: dict[bytes, int] = {}
        self._told: set[str] = set()

    def open(self, path: bytes, flags: int, *, wait: bool = True) -> int:
        """A descriptor of the file or folder at `path` in it (empty: itself).

        Raises `Denied` if it is not trusted, and `OSError` as `beneath.open_beneath`.
        """
        names = path.split(b"/") if path else []
        if any(name in (b"", b".", b"..") for name in names):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(path))
        held = self._held.get(names[0]) if names else None
        if held is None:
            names.insert(0, _OWN)
            fd = os.dup(self.root.fd)
        else:  # a folder that this process has made, wherever others have moved it
            names[0] = b"."
            fd = os.dup(held)
        shown = OWN_NAME if held is None else os.path.join(OWN_NAME, os.fsdecode(path))
        first = 0 if held is None else _PROCESSES
        for depth, name in enumerate(names, first):
            is_last = depth == first + len(names) - 1
            try:
                below = self._step(fd, name, flags if is_last else _FOLDER, wait, shown, depth)
            finally:
                os.close(fd)
            fd = below
            shown = os.path.join(OWN_NAME, os.fsdecode(path))
        return fd

    def open_in(self, folder: int, name: str, flags: int) -> int:
        """The same for a name in the workspace, which is open as `folder`.

        Raises `Denied`, also if this user may not open it.
        """
        shown = os.path.join(OWN_NAME, name)
        path = os.fsencode(name)
        try:
            return self._in_time(lambda: self._step(folder, path, flags, True, shown, _PROCESSES))
        except PermissionError:
            raise self._refused(shown, "may not be used by this user") from None

    def opened(self) -> int:
        """A descriptor of the workspace, which is made private if possible. Raises as `open_in`."""
        try:
            fd = self._in_time(lambda: self.open(b"", _LIST))
        except PermissionError:
            os.close(self.open(b"", _FOLDER))  # it may be plain why
            raise self._refused(OWN_NAME, "may not be used by this user") from None
        with closing_on_error(fd):
            self._set_mode(fd)
        return fd

    def _in_time(self, open_: Callable[[], int]) -> int:
        """The result of `open_`, tried again for a moment: its maker may still be setting its mode."""
        until = time.monotonic() + _LET_IN_WITHIN_S
        while True:
            try:
                return open_()
            except (Denied, PermissionError):
                if not _is_shared(self.root.status()) or time.monotonic() >= until:
                    raise
            time.sleep(_NAP_S)

    def _step(self, fd: int, name: bytes, flags: int, wait: bool, shown: str, depth: int) -> int:
        try:
            below = open_beneath(fd, name, flags | os.O_NOFOLLOW, beneath=True, wait=wait)
        except OSError as error:
            if error.errno in _NO_FOLDER:
                raise self._refused(shown, "is a symlink, or no folder") from None
            raise
        try:
            status = os.fstat(below)
            fault = _fault(status, self.root.status(), is_part=depth > _PROCESSES)
            if fault is not None:
                left_by = status.st_uid if depth == 0 and status.st_uid != os.geteuid() else None
                raise self._refused(shown, fault, left_by)
        except BaseException:
            os.close(below)
            raise
        return below

    def make(self) -> int:
        """A descriptor of the workspace, which is made if it is missing.

        Raises `Denied` if it is not trusted, or cannot be protected from others, and `NotFound` if the root
        was deleted.
        """
        self.refuse_root()
        for _ in range(_RACES_TOLERATED):
            try:
                os.mkdir(_OWN, 0o700, dir_fd=self.root.fd)
            except FileExistsError:
                pass
            except FileNotFoundError:
                if not self.root.follow():
                    raise NotFound(f"{self.root.path} does not exist") from None
                continue
            except PermissionError:
                raise Denied(f"{OWN_NAME} may not be made in {self.root.path}") from None
            else:
                self._sync_root()
            try:
                return self.opened()
            except FileNotFoundError:
                continue  # its last user has just deleted it
        raise OSError(errno.EBUSY, f"{self.path} is made and deleted all the time")

    def _sync_root(self) -> None:
        """Make the name of the workspace durable, without which its journals are not."""
        with suppress(PermissionError):  # the root may be written and not read
            fd = os.open(".", _LIST | os.O_CLOEXEC, dir_fd=self.root.fd)
            try:
                sync_folder(fd)
            finally:
                os.close(fd)

    def is_there(self) -> bool:
        """Whether the workspace exists, trusted or not: another process may be storing."""
        try:
            os.stat(_OWN, dir_fd=self.root.fd, follow_symlinks=False)
        except OSError:
            return False
        return True

    def delete(self) -> None:
        """Delete the workspace, if it is empty. Raises `OSError`."""
        os.rmdir(_OWN, dir_fd=self.root.fd)

    def hold(self, name: str, fd: int) -> None:
        """Use this open folder, which this process has made, for its name from now on."""
        self._held[os.fsencode(name)] = fd

    def let_go(self, name: str) -> None:
        """The opposite of `hold`."""
        self._held.pop(os.fsencode(name), None)

    def _set_mode(self, fd: int) -> None:
        """Open it to the group that writes the store together, and to nobody else."""
        own, root = os.fstat(fd), self.root.status()
        if os.geteuid() not in (0, own.st_uid):
            return
        is_of_group = own.st_gid == root.st_gid
        if _is_shared(root) and not is_of_group:  # without setgid it has the group of its maker
            with suppress(OSError):  # this user is not in the group
                os.fchown(fd, -1, root.st_gid)
                is_of_group = True
        wanted = 0o2770 if _is_shared(root) and is_of_group else 0o700
        if S_IMODE(own.st_mode) != wanted:
            os.fchmod(fd, wanted)

    # -- who is believed

    def is_private(self, status: os.stat_result) -> bool:
        """Whether only its owner, and the group that writes the store together, may open it."""
        root = self.root.status()
        is_of_group = _is_shared(root) and status.st_gid == root.st_gid
        return not status.st_mode & (S_IRWXO if is_of_group else S_IRWXO | S_IRWXG)

    def refuse_root(self) -> None:
        """Raises `Denied` if others could replace the workspace."""
        fault = _root_fault(self.root.status())
        if fault is not None:
            raise self._refused("", fault)

    def _refused(self, shown: str, fault: str, left_by: int | None = None) -> Denied:
        path = os.path.join(self.root.path, shown) if shown else self.root.path
        text = f"{path} {fault}: what is in {OWN_NAME} is neither used nor deleted"
        if left_by is not None:
            text += (
                f". If no program is writing, run zarrfuse check --repair as user {left_by}, "
                f"or rename {path}"
            )
        if text not in self._told:
            self._told.add(text)
            log.warning("%s", text)
        return Denied(text)


def new_file(folder: int, name: str, flags: int) -> int:
    """Make a file in a folder of the workspace, for those alone who may use the folder."""
    new = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags | new, 0o600, dir_fd=folder)
    with discarding_on_error(folder, name), closing_on_error(fd):
        if os.fstat(folder).st_mode & S_IWGRP:  # the umask may keep the group out
            os.fchmod(fd, 0o660)
    return fd


def new_folder(folder: int, name: str) -> int:
    """Make a folder in a folder of the workspace; a descriptor of it."""
    os.mkdir(name, 0o700, dir_fd=folder)
    fd = os.open(name, _LIST | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    with closing_on_error(fd):
        if os.fstat(folder).st_mode & S_IWGRP:
            os.fchmod(fd, 0o2770)
    return fd


def _is_shared(root: os.stat_result) -> bool:
    """Whether a group writes the store together."""
    return bool(root.st_mode & S_IWGRP) and not root.st_mode & S_IWOTH


def _root_fault(root: os.stat_result) -> str | None:
    if root.st_mode & S_IWOTH and not root.st_mode & S_ISVTX:
        return "may be written by everybody, and is not sticky"
    return None


def _fault(status: os.stat_result, root: os.stat_result, *, is_part: bool) -> str | None:
    """Why a folder or file of the workspace does not count; None if it does."""
    if not (S_ISDIR(status.st_mode) or S_ISREG(status.st_mode)):
        return "is a symlink, or no file and no folder"
    if is_part:
        return None
    is_of_group = _is_shared(root) and status.st_gid == root.st_gid
    user = os.geteuid()
    owners = {user, root.st_uid} if user == 0 else {user}
    if status.st_uid not in owners and not is_of_group:
        return f"belongs to user {status.st_uid}, not to user {user}, who runs this process"
    if status.st_mode & S_IWOTH:
        return "may be written by everybody"
    if status.st_mode & S_IWGRP and not is_of_group:
        return f"may be written by group {status.st_gid}, which does not write the store together"
    return _root_fault(root)
