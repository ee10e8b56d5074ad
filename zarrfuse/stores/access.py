"""The mode and owner of files and folders, which a mount shows and the kernel checks.

Owns the arithmetic of permission bits. Used by stores, and by views for names that stand for several stored
files or for none.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache, reduce
from stat import S_IMODE, S_ISGID
from typing import NamedTuple

_CLASS = 0o7
_ALL = 0o777


class Access(NamedTuple):
    """Permission bits (with setuid, setgid and sticky), owner and group of a file or folder."""

    mode: int
    uid: int
    gid: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Access":
        """The mode and owner of a stored file or folder."""
        return _access(status.st_mode, status.st_uid, status.st_gid)


@lru_cache(256)  # nearly all files of a store have the same
def _access(mode: int, uid: int, gid: int) -> Access:
    return Access(S_IMODE(mode), uid, gid)


class Change(NamedTuple):
    """The attributes to set on a file or folder; None leaves one as it is.

    Modification time (ns since 1970), mode, owner, group, access time (ns since 1970).
    """

    mtime_ns: int | None = None
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    atime_ns: int | None = None

    def of(self, access: Access) -> Access:
        """The mode and owner after the change."""
        mode = access.mode if self.mode is None else self.mode
        uid = access.uid if self.uid is None else self.uid
        return Access(mode, uid, access.gid if self.gid is None else self.gid)


@lru_cache(4096)
def both(first: Access | None, second: Access | None) -> Access | None:
    """The access that permits only what both files permit, with the owner of the first.

    None stands for a file without known access, and permits everything.
    """
    if first is None or second is None:
        return first or second
    if first == second:
        return first
    mode = second.mode
    owner, group, others = mode >> 6 & _CLASS, mode >> 3 & _CLASS, mode & _CLASS
    # A user may be in another class (owner, group, others) of the second file than of the first. Which one
    # is not known, so all of them must permit it.
    if first.uid != second.uid and first.gid != second.gid:
        owner = group = others = owner & group & others
    elif first.uid != second.uid:
        owner, group, others = group & others, owner & group, owner & others
    elif first.gid != second.gid:
        group = others = group & others
    return Access(first.mode & (owner << 6 | group << 3 | others), first.uid, first.gid)


def all_of(accesses: Iterable[Access | None]) -> Access | None:
    """What several files permit together, see `both`."""
    return reduce(both, accesses, None)


def of_parts(accesses: Iterable[Access | None]) -> Access | None:
    """What all parts of one file permit, in any order; the owner is the one with the lowest number."""
    known = sorted({(access.uid, access.gid, access.mode) for access in accesses if access})
    return all_of(Access(mode, uid, gid) for uid, gid, mode in known)


def as_folder(file: Access | None) -> Access | None:
    """The access of a folder that stands for a file: who may read the file may enter the folder."""
    if file is None:
        return None
    mode = file.mode & _ALL
    return file._replace(mode=mode | mode >> 2 & 0o111)


def way_through(folder: Access | None) -> Access | None:
    """What a folder permits for a file below it: everything, to users who may enter the folder."""
    return None if folder is None else folder._replace(mode=(folder.mode & 0o111) * _CLASS)


def new_file(folder: Access | None) -> Access | None:
    """The access of a new file in a folder; None if that of the folder is not known.

    The owner is this process, or, if it is root, the owner of the folder; the group follows setgid.
    """
    return None if folder is None else _new(folder, 0o666 & ~_umask())


def made_by(asked: Access, folder: Access | None, *, is_folder: bool = False) -> Access:
    """The access of a new file or folder, as on a disk; `asked`: the requested mode, and the caller.

    A setgid folder gives its group, and setgid to new folders.
    """
    if folder is None or not folder.mode & S_ISGID:
        return asked
    mode = asked.mode
    if is_folder:
        mode |= S_ISGID
    elif asked.uid and asked.gid != folder.gid:  # perhaps not a member of the group
        mode &= ~S_ISGID
    return Access(mode, asked.uid, folder.gid)


def new_folder(folder: Access | None) -> Access | None:
    """The access of a new folder in a folder; see `new_file`."""
    if folder is None:
        return None
    return _new(folder, 0o777 & ~_umask() | folder.mode & S_ISGID)


def _new(folder: Access, mode: int) -> Access:
    uid = os.geteuid()
    if uid == 0:
        return Access(mode, folder.uid, folder.gid)
    return Access(mode, uid, folder.gid if folder.mode & S_ISGID else os.getegid())


def _umask() -> int:
    # umask(2) tells it only by changing it, for all threads.
    with suppress(OSError), open("/proc/self/status", "rb") as status:
        for line in status:
            if line.startswith(b"Umask:"):
                return int(line.split()[1], 8)
    return 0o022
