"""The clients of `obstore`: their settings, and what their errors mean.

Used by `bucket` and `requests`. Owns what is read from the environment, and every message of `obstore`.
"""

import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeAlias

from obstore import exceptions
from obstore.store import AzureStore, GCSStore, S3Store

from zarrfuse.errors import (
    Denied,
    Exists,
    NotFound,
    NotSupported,
    Stale,
    TimedOut,
    UnusableSource,
    ZarrfuseError,
)
from zarrfuse.stores.object.url import ObjectUrl
from zarrfuse.stores.remote.requests import TryAgain

Client: TypeAlias = S3Store | GCSStore | AzureStore

_HTTP_ALLOWED = ("AWS_ALLOW_HTTP", "AZURE_ALLOW_HTTP", "GOOGLE_ALLOW_HTTP", "ALLOW_HTTP")
ENDPOINTS = {
    "AWS_": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "AZURE_": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
"""Variables that name the server, by how they begin."""
CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or --profile (for a public bucket:"
    " --no-sign-request, or AWS_SKIP_SIGNATURE=true)",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS (for a public bucket: GOOGLE_SKIP_SIGNATURE=true)",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}

# What `obstore` takes as an option of its HTTP client.
_CLIENT_OPTIONS = frozenset(
    {
        "allow_invalid_certificates",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "user_agent",
    }
)

_OF_SERVER = re.compile("endpoint|account_name|base_url|emulator")
_HAS_EXPIRED = re.compile("ExpiredToken|TokenRefreshRequired|RequestExpired")
# Where `obstore` looks for credentials if none are set: the services of virtual machines.
_ASKED_FOR_CREDENTIALS = re.compile(
    "/latest/(?:api/token|meta-data)|/computeMetadata/|/metadata/identity/"
)


class Expired(Denied):
    """The credentials were right once: others have to be fetched."""


def account_of(given: Mapping[str, str]) -> str:
    """Which server and account a URL is of, as far as settings and the environment say so."""
    settings = {name.lower(): value for name, value in (*os.environ.items(), *given.items())}
    told = (pair for pair in sorted(settings.items()) if _OF_SERVER.search(pair[0]))
    return " ".join(f"{name}={value}" for name, value in told)


@contextmanager
def told(what: str, *, again: bool = False) -> Iterator[None]:
    """A block that turns exceptions of `obstore` into those of `errors`.

    `again`: what may pass is `TryAgain`.
    """
    errors: Any = exceptions
    try:
        yield
    except FileNotFoundError:
        raise NotFound(f"no key {what}") from None
    except errors.AlreadyExistsError:
        raise Exists(f"{what} exists already") from None
    except errors.PreconditionError:
        raise Stale(f"{what} was replaced while it was open") from None
    except (errors.PermissionDeniedError, errors.UnauthenticatedError) as error:
        kind = Expired if _HAS_EXPIRED.search(str(error)) else Denied
        raise kind(f"{what}: the object store refuses: {said(error)}") from None
    except errors.InvalidPathError as error:
        raise NotSupported(
            f"{what} cannot be listed, since it holds a key that is no path: {said(error)}"
        ) from None
    except errors.NotSupportedError as error:
        raise NotSupported(f"{what}: {said(error)}") from None
    except errors.BaseError as error:
        raise _failed(what, error, again=again) from None


def _failed(what: str, error: Exception, *, again: bool) -> ZarrfuseError | OSError:
    """The exception for an error that `obstore` has no class for, or not in every call."""
    whole = str(error)
    if "NoSuchBucket" in whole or "ContainerNotFound" in whole:
        return NotFound(f"{what}: there is no such bucket")
    if _HAS_EXPIRED.search(whole):
        return Expired(f"{what}: the object store refuses: {said(error)}")
    if _ASKED_FOR_CREDENTIALS.search(whole):
        return Denied(f"{what}: no credentials are set, and this machine has none")
    if "TimedOut" in whole or "kind: Timeout" in whole:
        message = f"{what}: the object store did not answer in time"
        return TryAgain(message) if again else TimedOut(message)
    status = re.search(r"status code: (\d+)", whole)
    match status[1] if status else "":
        case "401" | "403":
            return Denied(f"{what}: the object store refuses: {said(error)}")
        case "416":  # of a range: the object ends before it
            return Stale(f"{what} became shorter while it was open")
        case "501":
            return NotSupported(f"{what}: the object store cannot do that: {said(error)}")
        case "507":
            return OSError(errno.ENOSPC, f"{what}: the object store is full: {said(error)}")
        case code:
            passes = again and (code in ("", "408", "429") or code.startswith("5"))
    message = f"{what}: the object store failed: {said(error)}"
    return TryAgain(message) if passes else ZarrfuseError(message)


def said(error: Exception) -> str:
    """The core of a long message of `obstore`, without URLs, which may hold secrets."""
    whole = str(error)
    code, message = (re.search(rf"<{tag}>([^<]+)</{tag}>", whole) for tag in ("Code", "Message"))
    if code or message:
        return ": ".join(part[1] for part in (code, message) if part)
    if system := re.search(r'message: "([^"]+)"', whole):
        return system[1]
    first = whole.split("\n", 1)[0].strip()
    return re.sub(r"\?\S*", "", first)[:300]


def client(
    url: ObjectUrl,
    *,
    connect_s: float,
    answer_s: float,
    retries: int,
    retry_s: float,
    given: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    credentials: object = None,
) -> Client:
    """The client for a bucket, by the environment and by what is `given`, which counts more.

    `headers`: sent with each request. `credentials`: what `obstore` calls for credentials. Raises
    `UnusableSource` for wrong settings.
    """
    environment = os.environ
    allow_http = any(environment.get(name, "").lower() in ("true", "1") for name in _HTTP_ALLOWED)
    allow_http |= any(
        environment.get(name, "").startswith("http://")
        for names in ENDPOINTS.values()
        for name in names
    )
    settings: Any = {**(given or {})}
    options: Any = {
        "allow_http": allow_http,
        "connect_timeout": timedelta(seconds=connect_s),
        "timeout": timedelta(seconds=answer_s),
    }
    for name in _CLIENT_OPTIONS & settings.keys():
        options[name] = settings.pop(name)
    if any(str(value).startswith("http://") for value in settings.values()):
        options["allow_http"] = True
    if headers:
        options["default_headers"] = {name: value.encode() for name, value in headers.items()}
    settings["client_options"] = options
    settings["retry_config"] = {
        "max_retries": retries,
        "retry_timeout": timedelta(seconds=retry_s),
    }
    if credentials is not None:
        settings["credential_provider"] = credentials
    try:
        if url.scheme == "gs":
            return GCSStore(url.bucket, **settings)
        if url.scheme == "az":
            return AzureStore(url.bucket, **settings)
        if "AWS_COPY_IF_NOT_EXISTS" not in environment:
            settings.setdefault("copy_if_not_exists", "multipart")  # the way of Amazon's
        return S3Store(url.bucket, **settings)
    except (exceptions.BaseError, ValueError, TypeError) as error:
        raise UnusableSource(
            f"the source {url} cannot be used: {said(error)}: look at {CREDENTIALS[url.scheme]}"
        ) from None
