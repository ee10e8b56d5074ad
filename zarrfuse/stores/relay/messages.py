"""What goes over the socket between a daemon and the process that has the store.

Used by `answering` and `requests`. A message is two lengths, a head in MessagePack, and bytes. Paths and
names are bytes: those of local files need not be UTF-8.
"""

import os
from asyncio import StreamReader
from collections.abc import Mapping
from struct import Struct

import msgspec

from zarrfuse import errors
from zarrfuse.errors import ZarrfuseError, text_of
from zarrfuse.stores.remote.requests import Found, Listing, TryAgain

_LENGTHS = Struct(">IQ")


class Ask(msgspec.Struct, array_like=True):
    """A request: `find`, `list` or `get` of a path; `cancel` of the request with the same number."""

    number: int
    kind: str
    path: bytes = b""
    start: int = 0
    stop: int = 0
    of: Found | None = None


class Listed(msgspec.Struct, array_like=True):
    """A `Listing`."""

    files: list[tuple[bytes, Found | None]]
    folders: list[bytes]
    is_whole: bool


class Failure(msgspec.Struct, array_like=True):
    """An exception: the name of its class in `errors`, or an errno of the operating system."""

    name: str
    message: str
    retry_after_s: float | None = None
    errno: int | None = None


class Answer(msgspec.Struct, array_like=True):
    """The answer to a request. That to `get` has the bytes behind it."""

    number: int
    found: Found | None = None
    listed: Listed | None = None
    failure: Failure | None = None


def packed(head: Ask | Answer, data: bytes | memoryview = b"") -> list[bytes | memoryview]:
    """A message, as pieces that are to be sent one after another."""
    encoded = msgspec.msgpack.encode(head)
    return [_LENGTHS.pack(len(encoded), len(data)) + encoded, data]


async def read_message(reader: StreamReader) -> tuple[bytes, bytes]:
    """The head and the bytes of the next message. Raises `EOFError` at the end, and `ConnectionError`."""
    head, data = _LENGTHS.unpack(await reader.readexactly(_LENGTHS.size))
    return await reader.readexactly(head), await reader.readexactly(data)


def listed_of(listing: Listing) -> Listed:
    """A listing, to be sent."""
    files = [(os.fsencode(name), found) for name, found in listing.files.items()]
    return Listed(files, [os.fsencode(name) for name in listing.folders], listing.is_whole)


def listing_of(listed: Listed) -> Listing:
    """A listing that was sent."""
    files: Mapping[str, Found | None] = {os.fsdecode(name): found for name, found in listed.files}
    return Listing(files, [os.fsdecode(name) for name in listed.folders], listed.is_whole)


def failure_of(error: Exception) -> Failure:
    """An exception, to be sent. One that is none of zarrfuse is sent as `ZarrfuseError`."""
    if isinstance(error, TryAgain):
        return Failure("TryAgain", _text(error), error.retry_after_s)
    if isinstance(error, ZarrfuseError):
        known = (base.__name__ for base in type(error).__mro__ if hasattr(errors, base.__name__))
        return Failure(next(known), _text(error))
    if isinstance(error, OSError) and error.errno is not None:
        return Failure("OSError", error.strerror or "", errno=error.errno)
    return Failure("ZarrfuseError", text_of(error))


def raised(failure: Failure) -> Exception:
    """The exception that was sent."""
    if failure.errno is not None:
        return OSError(failure.errno, failure.message)
    if failure.name == "TryAgain":
        return TryAgain(failure.message, failure.retry_after_s)
    kind = getattr(errors, failure.name, ZarrfuseError)
    is_ours = isinstance(kind, type) and issubclass(kind, ZarrfuseError)
    return kind(failure.message) if is_ours else ZarrfuseError(failure.message)


def _text(error: Exception) -> str:
    return str(error).encode("utf-8", "backslashreplace").decode()
