"""Every exception that a store is made to raise, by the name that file names of the tests hold."""

import errno
from collections.abc import Callable

from zarrfuse import errors

Make = Callable[[], BaseException]


class BrokenText(Exception):
    """Cannot be told about."""

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class Panic(BaseException):
    """As extension modules written in Rust raise when they panic."""


class OddErrno(errors.ZarrfuseError):
    """One of ours with an errno that is none."""

    errno = 0


def _os_error(number: int) -> Make:
    return lambda: OSError(number, "as a store says it")


OS_ERRORS: dict[str, Make] = {
    name: _os_error(number)
    for number, name in errno.errorcode.items()
    if number != errno.EAGAIN  # for "not at hand"; when it may wait, it is EIO like the others
}

OURS: dict[str, Make] = {
    kind.__name__: lambda kind=kind: kind("as a store says it")  # type: ignore[misc]
    for kind in (
        errors.ZarrfuseError,
        errors.NotFound,
        errors.NotAFolder,
        errors.ReadOnly,
        errors.NotSupported,
        errors.MetadataError,
        errors.PartsDoNotFit,
        errors.Stale,
        errors.Corrupt,
        errors.Denied,
        errors.TimedOut,
        errors.NameTooLong,
        errors.MountError,
        errors.SourceError,
    )
}

UNEXPECTED: dict[str, Make] = {
    "ValueError": lambda: ValueError("not ours"),
    "MemoryError": MemoryError,
    "KeyError": lambda: KeyError("not ours"),
    "AssertionError": AssertionError,
    "RecursionError": RecursionError,
    "UnicodeDecodeError": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "not ours"),
    "StopIteration": StopIteration,
    "StopAsyncIteration": StopAsyncIteration,
    "NotImplementedError": NotImplementedError,
    "LongText": lambda: RuntimeError("x" * 1_000_000),
    "SurrogateText": lambda: RuntimeError("not UTF-8: \udcff, and alone: \ud800"),
    "TextOfLines": lambda: RuntimeError("one\ntwo\0three"),
    "ExceptionGroup": lambda: ExceptionGroup("several", [ValueError("a"), KeyError("b")]),
}

ODD: dict[str, Make] = {
    "BrokenText": BrokenText,
    "OddErrno": lambda: OddErrno("errno 0"),
    "NoErrno": OSError,
    "TextErrno": lambda: OSError("no number", "as a store says it"),
    "ListErrno": lambda: OSError([], "as a store says it"),
    "NegativeErrno": lambda: OSError(-5, "as a store says it"),
    "HugeErrno": lambda: OSError(1 << 70, "as a store says it"),
}

BASE: dict[str, Make] = {
    "Panic": lambda: Panic("the worker thread panicked"),
    "KeyboardInterrupt": KeyboardInterrupt,
    "SystemExit": lambda: SystemExit(3),
    "GeneratorExit": GeneratorExit,
    "BaseExceptionGroup": lambda: BaseExceptionGroup("several", [Panic("a")]),
}

RAISED = {**OS_ERRORS, **OURS, **UNEXPECTED, **ODD, **BASE}
