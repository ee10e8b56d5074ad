"""What is said of a bucket that cannot be used: the server, what was asked of it, and what to set.

Used by `opening` and `bucket`. It makes no requests.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from zarrfuse.errors import (
    Denied,
    NotFound,
    NotSupported,
    SourceDenied,
    SourceError,
    SourceTimedOut,
    TimedOut,
    ZarrfuseError,
)
from zarrfuse.stores.object.client import CREDENTIALS, ENDPOINTS
from zarrfuse.stores.object.url import ObjectUrl

_SERVER_IS_SET = {
    "s3": "--endpoint-url and --region (AWS_ENDPOINT_URL, AWS_REGION)",
    "gs": "the network of this machine",
    "az": "AZURE_STORAGE_ACCOUNT_NAME",
}
_OWNERS = {"s3": "Amazon S3", "gs": "Google Cloud Storage", "az": "Azure"}


def server_of(url: ObjectUrl, settings: Mapping[str, str]) -> str:
    """The server that is asked for a bucket, for messages."""
    given = {name.lower(): value for name, value in settings.items()}
    given = {name: value for name, value in given.items() if "endpoint" in name}
    address = next(iter(given.values()), None)
    if address is None and url.scheme != "gs":
        own = "AWS_" if url.scheme == "s3" else "AZURE_"
        address = next((os.environ[name] for name in ENDPOINTS[own] if os.environ.get(name)), None)
    if address is None:
        return _OWNERS[url.scheme]
    scheme, separator, rest = address.partition("?")[0].partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


@contextmanager
def refused(url: ObjectUrl, settings: Mapping[str, str]) -> Iterator[None]:
    """A block in which a source is opened: raises `SourceError` with a sentence for each reason."""
    where = f"the source {url} at {server_of(url, settings)}"
    try:
        yield
    except SourceError:
        raise
    except NotFound:
        raise SourceError(f"{where}: there is no bucket {url.bucket}") from None
    except Denied as error:
        raise SourceDenied(
            f"{where} may not be listed with the credentials that are set: look at"
            f" {CREDENTIALS[url.scheme]} ({error})"
        ) from None
    except TimedOut as error:
        raise SourceTimedOut(
            f"{where} does not answer: look at {_SERVER_IS_SET[url.scheme]} ({error})"
        ) from None
    except NotSupported as error:
        raise SourceError(f"{where}: {error}") from None
    except (ZarrfuseError, OSError) as error:
        raise SourceError(
            f"{where} cannot be listed: look at {_SERVER_IS_SET[url.scheme]}: {error}"
        ) from None
