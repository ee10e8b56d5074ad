"""Opens paths that cannot leave a folder, also without waiting.

Owns the one system call that the standard library lacks: `openat2(2)`. Used by `store`, `own_folder` and
`root`.

`RESOLVE_BENEATH` makes the kernel refuse a path that leads out of the folder, so swapping in a symlink
between a check and an open has no effect. `RESOLVE_CACHED` answers only from the kernel's dentry cache, so
that the event loop can open a file of a local file system without waiting for a disk. Another file system
that is mounted below the folder may ask a server at each open: without waiting it is not entered. If the
kernel (before 5.6), or the filter of a container, lacks the call, the opened descriptor is checked instead,
and every call without waiting raises `BlockingIOError`.
"""

import ctypes
import errno
import os

_OPENAT2 = 437  # the same number on every architecture
_RESOLVE_NO_XDEV = 0x01
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_RESOLVE_CACHED = 0x20
_RACES_TOLERATED = 16  # openat2 answers EAGAIN when something was renamed meanwhile


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = [
    ctypes.c_long,
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.POINTER(_OpenHow),
    ctypes.c_size_t,
]
_HOW_SIZE = ctypes.sizeof(_OpenHow)
_hows: dict[tuple[int, bool, bool], "_OpenHow"] = {}


def _how(flags: int, beneath: bool, wait: bool) -> _OpenHow:
    resolve = _RESOLVE_NO_MAGICLINKS
    if beneath:
        resolve |= _RESOLVE_BENEATH
    if not wait:
        resolve |= _RESOLVE_CACHED | _RESOLVE_NO_XDEV
    how = _hows[flags, beneath, wait] = _OpenHow(flags | os.O_CLOEXEC, 0, resolve)
    return how


def _probe() -> bool:
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        fd: int = _syscall(_OPENAT2, root, b".", _how(os.O_PATH, True, True), _HOW_SIZE)
    finally:
        os.close(root)
    if fd >= 0:
        os.close(fd)
    return fd >= 0


OPENAT2 = _probe()
"""Whether this kernel offers the call (`zarrfuse doctor` tells)."""


def open_beneath(root_fd: int, path: bytes, flags: int, *, beneath: bool, wait: bool) -> int:
    """A descriptor for `path` (relative, no NUL) below the folder `root_fd`.

    With `beneath`, raises `OSError` EXDEV for a path that leads out of the folder, also by an absolute
    symlink. With `wait=False`, raises `BlockingIOError` for what is not in the kernel's dentry cache, and
    EXDEV for other file systems, too. Other errors are those of open(2).
    """
    if not OPENAT2:
        return _open_checked(root_fd, path, flags, beneath=beneath, wait=wait)
    how = _hows.get((flags, beneath, wait)) or _how(flags, beneath, wait)
    path = path or b"."
    for _ in range(_RACES_TOLERATED):
        fd: int = _syscall(_OPENAT2, root_fd, path, how, _HOW_SIZE)
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if not wait and code in (errno.EAGAIN, errno.EINVAL):  # EINVAL: before Linux 5.12
            raise BlockingIOError(errno.EAGAIN, "not in the kernel's name cache")
        if code not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code), os.fsdecode(path))


def open_without_symlinks(path: bytes, flags: int) -> int:
    """A descriptor for an absolute path of which no segment is a symlink. Raises `OSError`."""
    if OPENAT2:
        how = _OpenHow(flags | os.O_CLOEXEC, 0, _RESOLVE_NO_SYMLINKS)
        fd: int = _syscall(_OPENAT2, -1, path, how, _HOW_SIZE)
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fsdecode(path))
    at = os.open("/", os.O_PATH | os.O_CLOEXEC)
    names = [name for name in path.split(b"/") if name]
    for number, name in enumerate(names):
        is_last = number == len(names) - 1
        how_opened = flags if is_last else os.O_PATH | os.O_DIRECTORY
        try:
            below = os.open(name, how_opened | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        finally:
            os.close(at)
        at = below
    return at


def _open_checked(root_fd: int, path: bytes, flags: int, *, beneath: bool, wait: bool) -> int:
    if not wait:
        raise BlockingIOError(errno.EAGAIN, "without openat2 every open may wait")
    fd = os.open(path or b".", flags | os.O_CLOEXEC, dir_fd=root_fd)
    if beneath:
        root = os.readlink(f"/proc/self/fd/{root_fd}").rstrip("/")
        real = os.readlink(f"/proc/self/fd/{fd}")
        if real != (root or "/") and not real.startswith(root + "/"):
            os.close(fd)
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), os.fsdecode(path))
    return fd
