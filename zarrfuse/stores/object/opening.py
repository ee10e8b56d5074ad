"""Opens a bucket to be read. Used by `stores.opening`.

Owns what is said if that fails: the server, what was asked of it, and what to set.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

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
from zarrfuse.spec.paths import split
from zarrfuse.stores.object.client import CREDENTIALS, server_of
from zarrfuse.stores.object.requests import BucketRequests
from zarrfuse.stores.object.url import ObjectUrl, parse
from zarrfuse.stores.remote.store import RemoteStore
from zarrfuse.stores.zip.file import ZIP_ENDINGS
from zarrfuse.stores.zip.on_server import zip_in
from zarrfuse.stores.zip.store import ZipStore


def open_bucket(source: str, config: RemoteConfig) -> RemoteStore | ZipStore:
    """The keys below a URL, or the members of the zip there.

    Raises `SourceError` if the keys cannot be listed, or there are none.
    """
    url = parse(source)
    if url.prefix.endswith(ZIP_ENDINGS):
        folder, name = split(url.prefix)
        with _told(url):
            archive = zip_in(_store(replace(url, prefix=folder), config), name, str(url))
        if archive is not None:
            return archive
    store = _store(url, config)
    with _told(url):
        is_empty = not any(True for _ in store.scan(""))
    if is_empty and url.prefix:
        raise SourceError(f"the source {url} does not exist: there are no keys below it")
    return store


def _store(url: ObjectUrl, config: RemoteConfig) -> RemoteStore:
    requests = BucketRequests(
        url, timeout_s=config.timeout_s, settings=dict(config.settings), profile=config.profile
    )
    return RemoteStore(requests, config, server=server_of(dict(config.settings)))


@contextmanager
def _told(url: ObjectUrl) -> Iterator[None]:
    """A block whose errors name the source."""
    try:
        yield
    except SourceError:
        raise
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
