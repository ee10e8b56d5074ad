"""Sets owner, group, mode and ACL of new files and folders.

They are set through the descriptor of the new file before it gets its name. Used by `writing`.

A file that replaces another one takes over its owner, group, mode and ACL. A new one has those that are
given, or those of `access.new_file` with the default ACL of its folder. Only root can set the owner. Other
users keep the group if they can; if not, the group gets no more permissions than others. Setuid and setgid
are not taken over, because the bytes may be others, and are not set for an owner or group that could not be
set.
"""

import errno
import os
import struct
from contextlib import suppress
from stat import S_IMODE, S_ISGID, S_ISLNK, S_ISREG, S_ISUID

from zarrfuse.stores.access import Access, new_file, new_folder
from zarrfuse.stores.descriptor import closing_on_error
from zarrfuse.stores.local.new_file import discarding_on_error

_ACL = "system.posix_acl_access"
_DEFAULT_ACL = "system.posix_acl_default"
_NO_ACL = frozenset({errno.ENODATA, errno.EOPNOTSUPP})
_MAY_NOT = frozenset({errno.EPERM, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS})
"""EINVAL: of an owner that a container does not have."""
# include/uapi/linux/posix_acl_xattr.h: a version, then entries of a tag, permissions and an id.
_ACL_HEADER = struct.Struct("<I")
_ACL_ENTRY = struct.Struct("<HHI")
_OF_A_FILE = 0o6
_PERMISSIONS = 0o777


def like_replaced(fd: int, folder: int, name: str) -> None:
    """Give a new file, before it is renamed to a name in a folder, the owner, mode and ACL for that name.

    `fd` must not be an O_PATH descriptor; `folder` may be one.
    """
    try:
        old = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        _make_new(fd, folder)
        return
    try:
        if S_ISREG(os.fstat(old).st_mode):
            like(fd, old)
        else:
            _make_new(fd, folder)
    finally:
        os.close(old)


def like(fd: int, old: int) -> None:
    """Give a new file the owner, mode and ACL of an open one, which may be an O_PATH descriptor."""
    _give(fd, Access.of(os.fstat(old)), _acl(old, _ACL))


def give(fd: int, access: Access) -> None:
    """Set owner, group and mode of a new file, as far as permitted, and remove its ACL."""
    _give(fd, access, None)


def make_file(folder: int, name: str, flags: int, given: Access | None) -> int:
    """Make a file in a folder and open it; the descriptor.

    `given`: its mode, owner and group, as far as they can be set. None: the mode by the umask, and the
    owner of the folder if this process is root. Raises `FileExistsError`.
    """
    mode = 0o666 if given is None else _first_mode(folder, given)
    new = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags | new, mode, dir_fd=folder)
    with discarding_on_error(folder, name), closing_on_error(fd):
        if given is not None:
            _give_new(fd, folder, given)
        elif os.geteuid() == 0:
            above = os.fstat(folder)
            _chown(fd, above.st_uid, above.st_gid)
    return fd


def make_folder(folder: int, name: str, given: Access | None) -> None:
    """Make a folder in a folder; `given`: see `make_file`.

    One that replaced it meanwhile is not changed.
    """
    above = Access.of(os.fstat(folder))
    os.mkdir(name, 0o777 if given is None else _first_mode(folder, given), dir_fd=folder)
    if given is None and (os.geteuid() or above[1:] == (0, os.getegid())):
        return
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(name, flags, dir_fd=folder)
    except OSError:
        return
    try:
        if os.fstat(fd).st_uid != os.geteuid() or os.listdir(fd):
            return
        if given is not None:
            _give_new(fd, folder, given)
        elif (access := new_folder(above)) is not None:
            _chown(fd, access.uid, access.gid)
    finally:
        os.close(fd)


def make_symlink(folder: int, name: str, text: str, given: Access | None) -> None:
    """Make a symlink in a folder; `given`: its owner and group; see `make_file`.

    A file that replaced it meanwhile is not changed.
    """
    os.symlink(text, name, dir_fd=folder)
    if given is None:
        return
    try:
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return
    try:
        status = os.fstat(fd)
        if S_ISLNK(status.st_mode) and status.st_uid == os.geteuid():
            for owner in (given.uid, -1):
                with suppress(OSError):
                    os.chown(f"/proc/self/fd/{fd}", owner, given.gid)
                    break
    finally:
        os.close(fd)


def _first_mode(folder: int, given: Access) -> int:
    """The mode with which to create what `_give_new` will set.

    In a folder with a default ACL the umask does not apply, but the kernel has applied it to the request of
    the program. So the bits of the group do not limit the ACL, unless there are none.
    """
    mode = given.mode & _PERMISSIONS
    if _acl(folder, _DEFAULT_ACL) is None:
        return mode & 0o700
    return mode | (mode & 0o700) >> 3 if mode & 0o070 else mode


def _give_new(fd: int, folder: int, given: Access) -> None:
    """Set owner, group and mode of a new, empty file or folder; a default ACL has set the mode already."""
    is_of_group = _chown(fd, given.uid, given.gid)
    status = os.fstat(fd)
    mode = S_IMODE(status.st_mode)
    if _acl(folder, _DEFAULT_ACL) is None:
        mode = given.mode if is_of_group else given.mode & _like_others(given.mode)
    mode |= given.mode & ~_PERMISSIONS
    if status.st_uid != given.uid:
        mode &= ~S_ISUID
    if not is_of_group:
        mode &= ~S_ISGID
    if S_IMODE(status.st_mode) != mode:
        os.fchmod(fd, mode)


def _make_new(fd: int, folder: int) -> None:
    access = new_file(Access.of(os.fstat(folder)))
    assert access is not None
    default = _acl(folder, _DEFAULT_ACL)
    if default is None:
        _give(fd, access, None)
    else:
        mode, acl = _for_a_file(default)
        _give(fd, access._replace(mode=mode), acl)


def _give(fd: int, access: Access, acl: bytes | None) -> None:
    """Set the owner, then the mode, which a change of owner may clear, then the ACL."""
    mode = access.mode & _PERMISSIONS
    if not _chown(fd, access.uid, access.gid):
        acl = None  # it is about another group
        mode &= _like_others(mode)
    elif acl is not None:  # the bits of the group are its mask, until it is set
        mode &= _like_others(mode)
    if S_IMODE(os.fstat(fd).st_mode) != mode:
        with suppress(PermissionError):  # somebody else's, whose write is finished
            os.fchmod(fd, mode)
    try:
        if acl is not None:
            os.setxattr(fd, _ACL, acl)
        else:
            os.removexattr(fd, _ACL)
    except OSError as error:
        if error.errno not in _NO_ACL and error.errno not in _MAY_NOT:
            raise


def _like_others(mode: int) -> int:
    """A mask that reduces the permissions of the group to those of others."""
    return ~0o070 | (mode & 0o007) << 3


def _chown(fd: int, uid: int, gid: int) -> bool:
    """Set owner and group as far as permitted; returns whether the group was set."""
    status = os.fstat(fd)
    if (status.st_uid, status.st_gid) == (uid, gid):
        return True
    for owner in (uid, -1):
        try:
            os.fchown(fd, owner, gid)
        except OSError as error:
            if error.errno not in _MAY_NOT:
                raise
        else:
            return True
    return status.st_gid == gid


def _acl(fd: int, name: str) -> bytes | None:
    """The ACL of a file, or None. It is read through /proc, which works for O_PATH descriptors."""
    try:
        return os.getxattr(f"/proc/self/fd/{fd}", name)
    except OSError as error:
        if error.errno in _NO_ACL:
            return None
        raise


def _for_a_file(default: bytes) -> tuple[int, bytes]:
    """Mode and ACL of a new file in a folder with a default ACL. Source: acl(5)."""
    owner, group_, mask, others = 0x01, 0x04, 0x10, 0x20
    entries = list(_ACL_ENTRY.iter_unpack(default[_ACL_HEADER.size :]))
    tags = {tag for tag, _, _ in entries}
    limited = {owner, others, mask if mask in tags else group_}
    made = default[: _ACL_HEADER.size]
    mode = 0
    for tag, permissions, who in entries:
        if tag in limited:
            mode |= (permissions & _OF_A_FILE) << {owner: 6, others: 0}.get(tag, 3)
            made += _ACL_ENTRY.pack(tag, permissions & _OF_A_FILE, who)
        else:
            made += _ACL_ENTRY.pack(tag, permissions, who)
    return mode, made
