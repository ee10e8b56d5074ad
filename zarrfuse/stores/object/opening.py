"""Opens a bucket to be read. Used by `stores.opening`.

Owns what is said if that fails: the server, what was asked of it, and what to set.
"""

from zarrfuse.config import RemoteConfig
from zarrfuse.errors import (
    Denied,
    NotFound,
    SourceDenied,
    SourceError,
    SourceTimedOut,
    TimedOut,
    ZarrfuseError,
)
from zarrfuse.stores.object.client import CREDENTIALS
from zarrfuse.stores.object.requests import BucketRequests
from zarrfuse.stores.object.url import parse
from zarrfuse.stores.remote.store import RemoteStore


def open_bucket(source: str, config: RemoteConfig) -> RemoteStore:
    """The keys below a URL. Raises `SourceError` if they cannot be listed, or there are none."""
    url = parse(source)
    requests = BucketRequests(
        url, timeout_s=config.timeout_s, settings=dict(config.settings), profile=config.profile
    )
    store = RemoteStore(requests, config)
    try:
        is_empty = not any(True for _ in store.scan(""))
    except NotFound:
        raise SourceError(f"the source {url}: there is no bucket {url.bucket}") from None
    except Denied as error:
        raise SourceDenied(
            f"the source {url} may not be listed with the credentials that are set: look at"
            f" {CREDENTIALS[url.scheme]} ({error})"
        ) from None
    except TimedOut as error:
        raise SourceTimedOut(f"the source {url} does not answer: {error}") from None
    except (ZarrfuseError, OSError) as error:
        raise SourceError(f"the source {url} cannot be listed: {error}") from None
    if is_empty and url.prefix:
        raise SourceError(f"the source {url} does not exist: there are no keys below it")
    return store
