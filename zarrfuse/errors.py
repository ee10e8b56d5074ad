"""The exceptions of zarrfuse, each with its errno.

Used by all packages. A message is one sentence that names the file, the node and the member: the log, the
control files and the command line print it.
"""

import errno
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class ZarrfuseError(Exception):
    """An error that zarrfuse reports; `errno` is what a program on the mount gets."""

    errno = errno.EIO


class NotFound(ZarrfuseError):
    """No such key or name."""

    errno = errno.ENOENT


class Exists(ZarrfuseError):
    """A new name exists already."""

    errno = errno.EEXIST


class IsAFolder(ZarrfuseError):
    """A folder was used as a file."""

    errno = errno.EISDIR


class NotEmpty(ZarrfuseError):
    """A folder that is not empty cannot be deleted or replaced."""

    errno = errno.ENOTEMPTY


class NotAFolder(ZarrfuseError):
    """A key was used as a folder."""

    errno = errno.ENOTDIR


class ReadOnly(ZarrfuseError):
    """A write to a read-only mount."""

    errno = errno.EROFS


class NotSupported(ZarrfuseError):
    """The node must not be loaded, or there is no such rendering."""

    errno = errno.ENOTSUP


class MetadataError(NotSupported):
    """A metadata document breaks a rule, or needs an extension that is not known here.

    The message names the member. A caller that knows the path of the document puts it in front.
    """


class PartsDoNotFit(ZarrfuseError):
    """Bytes given for a chunk do not fit the sizes of its parts."""

    errno = errno.EINVAL


class Invalid(ZarrfuseError):
    """A change that is not possible: a folder moved into itself."""

    errno = errno.EINVAL


class Elsewhere(ZarrfuseError):
    """A rename to another file system; programs copy the file instead."""

    errno = errno.EXDEV


class Contradiction(ZarrfuseError):
    """A written metadata document contradicts the members that stay of the stored one."""

    errno = errno.EINVAL


class Stale(ZarrfuseError):
    """The stored file was replaced or changed while it was open."""

    errno = errno.ESTALE


class Corrupt(ZarrfuseError):
    """A chunk that cannot be read: a missing part, a wrong size or checksum, a damaged zip."""

    errno = errno.EIO


class Denied(ZarrfuseError):
    """The store refuses, or a symlink leads out of it."""

    errno = errno.EACCES


class NotPermitted(ZarrfuseError):
    """A change of an owner or mode that the options of the mount decide."""

    errno = errno.EPERM


class TimedOut(ZarrfuseError):
    """The store does not answer in time."""

    errno = errno.ETIMEDOUT


class Interrupted(ZarrfuseError):
    """The program that asks is to end, by Ctrl-C for example."""

    errno = errno.EINTR


class NameTooLong(ZarrfuseError):
    """A name or key longer than the store takes."""

    errno = errno.ENAMETOOLONG


class MountError(ZarrfuseError):
    """A mount cannot be made or unmounted; the message is for the user."""

    errno = errno.EIO


class SourceError(MountError):
    """The source does not exist, or is neither a folder nor a zip."""

    errno = errno.ENOENT


class SourceDenied(SourceError):
    """The source may not be read: credentials are missing or wrong, or it belongs to another user."""

    errno = errno.EACCES


class SourceTimedOut(SourceError):
    """The source does not answer in time."""

    errno = errno.ETIMEDOUT


class UnusableSource(SourceError):
    """The source cannot be used at all: a URL of an unknown scheme, wrong settings."""

    errno = errno.EINVAL


class JobsFailed(ZarrfuseError):
    """The processes or the cluster that work on many items have failed, not the work."""

    errno = errno.EIO


# Errnos of the operating system that are passed on to programs. Any other one of a store is EIO.
_PASSED_ON = frozenset(
    {
        errno.EACCES,
        errno.EBUSY,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EIO,
        errno.ELOOP,
        errno.EMFILE,
        errno.EMLINK,
        errno.ENAMETOOLONG,
        errno.ENFILE,
        errno.ENOENT,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.ENOTDIR,
        errno.EROFS,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)
_TRANSLATED = {errno.EPERM: errno.EACCES, errno.EISDIR: errno.EIO, errno.EXDEV: errno.EACCES}


FAULTS = frozenset(
    {
        errno.EDQUOT,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.ETIMEDOUT,
    }
)
"""Errnos that mean a fault of the store, the machine or zarrfuse; all others are refusals."""


def errno_of(error: BaseException) -> int:
    """The errno a program on the mount gets for `error` (`docs/design.md`, Errors)."""
    if isinstance(error, ZarrfuseError):
        return error.errno or errno.EIO
    if isinstance(error, TimeoutError):
        return errno.ETIMEDOUT
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    if isinstance(error, OSError) and isinstance(error.errno, int):
        if error.errno in _PASSED_ON:
            return error.errno
        return _TRANSLATED.get(error.errno, errno.EIO)
    return errno.EIO


def printable(text: str) -> str:
    """`text` with control characters escaped, which could end a line or change a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def text_of(error: BaseException) -> str:
    """The message of `error` in one line that can be printed, logged and encoded."""
    try:
        message = str(error)
    except Exception:  # an exception of a plug-in whose `__str__` fails
        message = "(no message)"
    line = " ".join(message.encode("utf-8", "backslashreplace").decode().split())
    return f"{type(error).__name__}: {line[:1000]}"


def is_expected(error: BaseException) -> bool:
    """Whether `error` is an expected one, which is logged without a traceback."""
    return isinstance(error, ZarrfuseError | OSError)


def guarded(call: Callable[[], T]) -> T:
    """The result of `call`; a `BaseException` of the store becomes a `RuntimeError`.

    A store may be any library: one in Rust panics with a `BaseException`, which would end the mount.
    Ctrl-C, which only the main thread gets, is raised as it is.
    """
    try:
        return call()
    except Exception:
        raise
    except BaseException as error:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and isinstance(error, KeyboardInterrupt):
            raise
        raise RuntimeError(f"the store raised {type(error).__name__}") from error
