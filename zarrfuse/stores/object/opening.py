"""Opens a bucket to be read. Used by `stores.opening`."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from zarrfuse.config import RemoteConfig
from zarrfuse.errors import NotFound, SourceError
from zarrfuse.spec.paths import split
from zarrfuse.stores.object.client import account_of
from zarrfuse.stores.object.refusals import refused
from zarrfuse.stores.object.requests import BucketRequests
from zarrfuse.stores.object.url import ObjectUrl, parse
from zarrfuse.stores.remote.loop import LOOP
from zarrfuse.stores.remote.requests import Listing, TryAgain
from zarrfuse.stores.remote.store import RemoteStore
from zarrfuse.stores.zip.file import ZIP_ENDINGS
from zarrfuse.stores.zip.on_server import zip_in
from zarrfuse.stores.zip.store import ZipStore

T = TypeVar("T")

_PAUSES_S = (0.1, 0.5)
"""Between the tries of the first request."""


def open_bucket(source: str, config: RemoteConfig) -> RemoteStore | ZipStore:
    """The keys below a URL, or the members of the zip there.

    Raises `SourceError` if the keys cannot be listed, or there are none. The first requests are made here
    and not by the store, which repeats them until its time is over: a refused connection is said at once.
    """
    url = parse(source)
    with refused(url, dict(config.settings)):
        if url.prefix.endswith(ZIP_ENDINGS):
            archive = _zip(url, config)
            if archive is not None:
                return archive
        requests = BucketRequests(url, config)
        listing = _repeated(lambda: requests.list(""))
        root = LOOP.run(listing, timeout_s=config.timeout_s, what="the listing")
    if url.prefix and not root.files and not root.folders:
        raise SourceError(f"the source {url} does not exist: there are no keys below it")
    return _store(requests, config, root)


def _zip(url: ObjectUrl, config: RemoteConfig) -> ZipStore | None:
    """The zip at a URL; None if there is none."""
    folder, name = split(url.prefix)
    requests = BucketRequests(replace(url, prefix=folder), config)
    try:
        LOOP.run(_repeated(lambda: requests.find(name)), timeout_s=config.timeout_s, what=name)
    except NotFound:
        return None
    return zip_in(_store(requests, config), name, str(url))


def _store(
    requests: BucketRequests, config: RemoteConfig, root: Listing | None = None
) -> RemoteStore:
    account = account_of(dict(config.settings))
    return RemoteStore(requests, config, root=root, server=account)


async def _repeated(ask: Callable[[], Awaitable[T]]) -> T:
    for pause_s in _PAUSES_S:
        try:
            return await ask()
        except TryAgain as error:
            await asyncio.sleep(pause_s if error.retry_after_s is None else error.retry_after_s)
    return await ask()
