"""Every exception of ours, and the only table that turns one into an errno.

Used by all; imports nothing of ours. A message is one sentence that names the file, the node and
the member concerned, because it is what the log, the control files and the command line print.
"""

import errno
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class ZarrfuseError(Exception):
    """Anything that zarrfuse itself reports; `errno` is what a program on the mount sees."""

    errno = errno.EIO


class NotFound(ZarrfuseError):
    """No such key or name."""

    errno = errno.ENOENT


class Exists(ZarrfuseError):
    """There is something under a name that was to be new."""

    errno = errno.EEXIST


class IsAFolder(ZarrfuseError):
    """A folder was used as a file."""

    errno = errno.EISDIR


class NotEmpty(ZarrfuseError):
    """A folder that holds something cannot be deleted or replaced."""

    errno = errno.ENOTEMPTY


class NotAFolder(ZarrfuseError):
    """A key was used as a folder."""

    errno = errno.ENOTDIR


class ReadOnly(ZarrfuseError):
    """Something would write to a read-only mount."""

    errno = errno.EROFS


class NotSupported(ZarrfuseError):
    """The node must not be loaded, or there is no such rendering."""

    errno = errno.ENOTSUP


class MetadataError(NotSupported):
    """A metadata document breaks a rule, or needs an extension that is not known here.

    The message names the member; whoever knows the path of the document puts it in front.
    """


class PartsDoNotFit(ZarrfuseError):
    """Bytes given for a chunk do not fit the sizes of its parts."""

    errno = errno.EINVAL


class Invalid(ZarrfuseError):
    """A change that makes no sense: a folder moved into itself."""

    errno = errno.EINVAL


class Busy(ZarrfuseError):
    """A folder cannot be renamed as long as something is written in it."""

    errno = errno.EBUSY


class Elsewhere(ZarrfuseError):
    """Something would be renamed to another file system; programs then copy it."""

    errno = errno.EXDEV


class Contradiction(ZarrfuseError):
    """A metadata document that is written contradicts what stays of the stored one."""

    errno = errno.EINVAL


class Stale(ZarrfuseError):
    """The object changed under an open file."""

    errno = errno.ESTALE


class Corrupt(ZarrfuseError):
    """A chunk that cannot be given back whole: missing part, wrong size, checksum, damaged zip."""

    errno = errno.EIO


class Denied(ZarrfuseError):
    """The store refuses, or a symlink leads out of it."""

    errno = errno.EACCES


class TimedOut(ZarrfuseError):
    """The store does not answer in time."""

    errno = errno.ETIMEDOUT


class NameTooLong(ZarrfuseError):
    """A name or key longer than the store takes."""

    errno = errno.ENAMETOOLONG


class MountError(ZarrfuseError):
    """The mount cannot be made or undone; the message is for the person who asked."""

    errno = errno.EIO


class SourceError(MountError):
    """What was named as a source is not there, or is no folder and no zip."""

    errno = errno.ENOENT


class SourceDenied(SourceError):
    """A source may not be read: credentials are missing or do not do, or it is another user's."""

    errno = errno.EACCES


class SourceTimedOut(SourceError):
    """A source does not answer in time."""

    errno = errno.ETIMEDOUT


class UnusableSource(SourceError):
    """What was named can be no source, whatever is there: a URL of an unknown scheme, wrong settings."""

    errno = errno.EINVAL


# What the operating system says of a store's files and a program may be told as it is. Anything
# else that a store raises is EIO.
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
"""What says that something is wrong with the store, the machine or zarrfuse; others are refusals."""


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


def text_of(error: BaseException) -> str:
    """`error` in one line that can be printed, logged and encoded, whatever it holds."""
    try:
        said = str(error)
    except Exception:  # somebody else's exception, with a fault in its own text
        said = "(its text cannot be had)"
    printable = " ".join(said.encode("utf-8", "backslashreplace").decode().split())
    return f"{type(error).__name__}: {printable[:1000]}"


def is_expected(error: BaseException) -> bool:
    """Whether `error` is an answer (no traceback in the log) rather than a fault of ours."""
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
