"""Which files and folders of this machine no other user could have written or put there.

Owns the rule, which is that of sshd for its files (`StrictModes`). Used by `remote.disk` for the cache, by
`mounts` for spool files, and for files of configuration. `local.own_folder` has the rule for the workspace
of a store, which a group may share.

A path is trusted if it, each folder and each symlink on the way to it belong to root or to the user of this
process, and if neither their groups nor others may write them. In a sticky folder, such as `/tmp`, others
can make names, but not replace those of the user.
"""

import errno
import os
from pathlib import PurePath
from stat import S_ISDIR, S_ISLNK, S_ISVTX, S_IWGRP, S_IWOTH

from zarrfuse.errors import SourceDenied, SourceError

_OTHERS = S_IWGRP | S_IWOTH
_MOST_SYMLINKS = 40  # as the kernel: path_resolution(7)


def check_trusted(path: str, what: str, *, may_be_sticky: bool = False) -> None:
    """Raises `SourceDenied` for a path that is not trusted, and `SourceError` if there is none.

    `what`: what the path is, for the message. `may_be_sticky`: see `fault_of`.
    """
    try:
        fault = fault_of(path, may_be_sticky=may_be_sticky)
    except OSError as error:
        raise SourceError(f"the {what} {path}: {error.strerror}") from None
    if fault is not None:
        raise SourceDenied(f"the {what} {path} is not trusted, because {fault}")


def fault_of(path: str, *, may_be_sticky: bool = False) -> str | None:
    """Why an absolute path is not trusted, as a clause; None: it is trusted.

    `may_be_sticky`: whether it may be a sticky folder itself, in which others can make files. Raises
    `OSError` if there is no such path.
    """
    at, *names = PurePath(path).parts
    names.reverse()
    symlinks = 0
    fault = _fault(at, os.lstat(at))
    while names and fault is None:
        name = names.pop()
        here = os.path.dirname(at) if name == ".." else os.path.join(at, name)
        status = os.lstat(here)
        fault = _fault(here, status)
        if not S_ISLNK(status.st_mode):
            at = here
            continue
        symlinks += 1
        if symlinks > _MOST_SYMLINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = PurePath(os.readlink(here))
        at = target.anchor or at
        names += reversed(target.parts[1:] if target.anchor else target.parts)
    if fault is None and not may_be_sticky:
        fault = _fault(at, os.lstat(at), is_last=True)
    return fault


def _fault(path: str, status: os.stat_result, *, is_last: bool = False) -> str | None:
    if status.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to another user"
    mode = status.st_mode
    is_protected = S_ISDIR(mode) and mode & S_ISVTX and not is_last
    if mode & _OTHERS and not is_protected and not S_ISLNK(mode):  # whose mode means nothing
        return f"{path} can be written by others"
    return None
