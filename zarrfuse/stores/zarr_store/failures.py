"""The exceptions of the libraries below zarr-python's stores, as those of zarrfuse.

Used by `requests` and `stores.icechunk`. It imports none of these libraries: their exceptions are known by
name, since a store may be of any of them.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from zarrfuse.errors import Denied, NotFound, NotSupported, Stale, ZarrfuseError, text_of
from zarrfuse.stores.remote.requests import TryAgain

_MISSING = (FileNotFoundError, KeyError, NotADirectoryError, IsADirectoryError)
_NOT_OFFERED = (NotImplementedError,)
_UNREACHED = (TimeoutError, ConnectionError, EOFError)

# Of obstore, aiohttp (fsspec), botocore (s3fs) and the clients of Google and Azure.
_BY_NAME: dict[str, type[ZarrfuseError]] = {
    "NotFoundError": NotFound,
    "PermissionDeniedError": Denied,
    "UnauthenticatedError": Denied,
    "NoCredentialsError": Denied,
    "NotSupportedError": NotSupported,
    "PreconditionError": Stale,
    "ClientConnectionError": TryAgain,
    "ClientPayloadError": TryAgain,
    "HTTPClientError": TryAgain,
    "ConnectTimeoutError": TryAgain,
    "EndpointConnectionError": TryAgain,
    "ServiceRequestError": TryAgain,
}
# Icechunk has one class; what is no key of Zarr is refused there rather than missing.
_USER = re.compile(r"://[^/?#\s\"'<>]*@")
_QUERY = re.compile(r"(://[^?\s\"'<>]*)\?[^\s\"'<>)]*")
_ICECHUNK_MISSING = re.compile("invalid zarr key format|node not found|bad key prefix")


@contextmanager
def told(url: str, path: str) -> Iterator[None]:
    """A block whose exceptions become those of zarrfuse, with the path and the store in the message."""
    try:
        yield
    except ZarrfuseError:
        raise
    except Exception as error:
        raise translated(error, url, path) from error


def translated(error: Exception, url: str, path: str) -> ZarrfuseError:
    """The exception of zarrfuse for one that a library raised."""
    kind = _kind(error)
    if kind is NotFound:
        return NotFound(f"no key {path}")
    return kind(f"{path or 'the root'}: {url}: {first_line(error)}")


def without_secrets(text: str) -> str:
    """A text without users, passwords and queries of the URLs in it."""
    return _USER.sub("://", _QUERY.sub(r"\1", text))


def first_line(error: Exception) -> str:
    """The message of an exception without what follows its first line: traces, contexts, advice."""
    lines = [line.strip() for line in without_secrets(str(error)).splitlines()]
    first = next((line for line in lines if line), "")
    name = type(error).__name__
    if name == "IcechunkError":  # it draws a cross in front
        return first.removeprefix("x ")
    return f"{name}: {first[:1000]}" if first else text_of(error)


def _kind(error: Exception) -> type[ZarrfuseError]:
    if isinstance(error, _MISSING):
        return NotFound
    if isinstance(error, PermissionError):
        return Denied
    if isinstance(error, _UNREACHED):
        return TryAgain
    if isinstance(error, _NOT_OFFERED):
        return NotSupported
    for base in type(error).__mro__:
        if base.__name__ in _BY_NAME:
            return _BY_NAME[base.__name__]
        if base.__name__ == "IcechunkError" and _ICECHUNK_MISSING.search(str(error)):
            return NotFound
    return ZarrfuseError
