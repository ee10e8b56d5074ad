"""Opens an HTTP source: checks the URL, asks whether it is there, and finds out how the server lists.

Owns the message for each reason why a source cannot be used. Used by `stores.opening`.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, ClassVar, TypeVar

from zarrfuse.config import RemoteConfig
from zarrfuse.errors import (
    Denied,
    NotFound,
    SourceDenied,
    SourceError,
    SourceTimedOut,
    UnusableSource,
    ZarrfuseError,
)
from zarrfuse.spec.paths import join
from zarrfuse.stores.http.client import Client
from zarrfuse.stores.http.listing import find_way
from zarrfuse.stores.http.objects import Objects
from zarrfuse.stores.http.requests import HttpRequests
from zarrfuse.stores.http.url import HttpUrl, without_secrets
from zarrfuse.stores.remote.loop import LOOP
from zarrfuse.stores.remote.requests import Found, Listing, TryAgain
from zarrfuse.stores.remote.store import RemoteStore
from zarrfuse.stores.unlisted.documents import CONSOLIDATED_V2, V2, V3
from zarrfuse.stores.unlisted.folders import UnlistedFolders
from zarrfuse.stores.zip.file import ZIP_ENDINGS
from zarrfuse.stores.zip.on_server import zip_in
from zarrfuse.stores.zip.store import ZipStore

T = TypeVar("T")

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TO_SET = "set --header 'Authorization: Bearer ...', or use a URL that is signed"
_PAUSE_S = 0.25


def open_url(source: str, config: RemoteConfig) -> RemoteStore | ZipStore:
    """The folder at a URL, or the members of the zip there. Raises `SourceError`."""
    headers = dict(config.headers)
    if config.settings or config.profile is not None:
        names = [name for name, _ in config.settings] or ["profile"]
        raise UnusableSource(
            f"the source {without_secrets(source)} has no setting {names[0]}: buckets do"
        )
    if HttpUrl.parse(source).path.endswith(ZIP_ENDINGS):
        try:
            asked, key = _run(
                http_file(source, headers=headers, timeout_s=config.timeout_s), source, config
            )
        except SourceError as error:
            if type(error) is not SourceError:
                raise
        else:  # else it may be a folder with such a name
            title = without_secrets(source)
            archive = zip_in(RemoteStore(asked, config), key, title)
            if archive is not None:
                return archive
    requests = _run(
        http_requests(source, headers=headers, timeout_s=config.timeout_s, kept_s=config.ttl_s),
        source,
        config,
    )
    return RemoteStore(requests, config)


def _run(work: Coroutine[Any, Any, T], source: str, config: RemoteConfig) -> T:
    # The work ends within `timeout_s` itself, with an error that says more.
    return LOOP.run(work, timeout_s=config.timeout_s + _PAUSE_S, what=without_secrets(source))


async def http_requests(
    source: str,
    *,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
    kept_s: float = 60.0,
) -> HttpRequests:
    """The requests to the folder at a URL, in the event loop that will run them.

    `headers`: those of each request. `kept_s`: for how long the documents that make listings are kept.
    Raises `SourceError`, and its `SourceDenied`, `SourceTimedOut` and `UnusableSource`.
    """
    objects = Objects(Client(HttpUrl.parse(source), _checked(headers), timeout_s / 3))
    return await _opened(objects, timeout_s, lambda: _folder(objects, timeout_s, kept_s))


async def http_file(
    source: str, *, headers: Mapping[str, str] | None = None, timeout_s: float = 30.0
) -> tuple[HttpRequests, str]:
    """The requests to the folder of the file at a URL, such as a zip, and the file's key; see above."""
    url = HttpUrl.parse(source)
    if not url.path:
        raise UnusableSource(f"the source {url} names no file")
    above, name = url.split()
    objects = Objects(Client(above, _checked(headers), timeout_s / 3))
    return await _opened(objects, timeout_s, lambda: _file(objects, name)), name


def _checked(headers: Mapping[str, str] | None) -> Mapping[str, str]:
    for name, value in (headers or {}).items():
        if not _HEADER_NAME.fullmatch(name):
            raise UnusableSource(f"--header: {name!r} is no name of a header: write 'Name: value'")
        if re.search(r"[\0\r\n]", value):
            raise UnusableSource(f"--header: the value of {name} has more than one line")
    return headers or {}


async def _opened(
    objects: Objects, timeout_s: float, ask: Callable[[], Awaitable[HttpRequests]]
) -> HttpRequests:
    """What `ask` returns, repeated while that may help; closes the connections if it raises."""
    url = objects.client.url
    last: TryAgain | None = None
    try:
        async with asyncio.timeout(timeout_s):
            pause_s = _PAUSE_S
            while True:
                try:
                    return await ask()
                except TryAgain as error:
                    last = error
                    if pause_s > 2 * _PAUSE_S:
                        raise
                await asyncio.sleep(last.retry_after_s or pause_s)
                pause_s *= 2
    except BaseException as error:
        objects.client.close()
        if isinstance(error, SourceError):
            raise
        if isinstance(error, TimeoutError):
            why = f": {last}" if last is not None else ""
            raise SourceTimedOut(
                f"the source {url} does not answer within {timeout_s:g} s{why}: look at the name of the"
                " server and the port, or set a longer --timeout"
            ) from None
        if isinstance(error, Denied):
            raise SourceDenied(f"the source {url} may not be read: {error}: {_TO_SET}") from None
        if isinstance(error, TryAgain):
            raise SourceError(
                f"the source {url} cannot be asked: {error}: look at the name of the server and the port"
            ) from None
        if isinstance(error, ZarrfuseError | OSError):
            raise SourceError(f"the source {url} cannot be used: {error}") from None
        raise


async def _folder(objects: Objects, timeout_s: float, kept_s: float) -> HttpRequests:
    url = objects.client.url
    way = await find_way(objects)
    if way is not None:
        return HttpRequests(objects, way)
    objects.denied_is_missing = True
    folders = UnlistedFolders(objects, kept_s, timeout_s)
    if await folders.is_store():
        return HttpRequests(objects, folders)
    objects.denied_is_missing = False
    names = (*V3, *V2, CONSOLIDATED_V2)
    for name in names:
        with suppress(NotFound):
            await objects.find(name)  # which raises `Denied`, if that is why
    raise SourceError(
        f"the source {url} is no Zarr: the server does not list it, and there is none of"
        f" {', '.join(names)}: give the URL of the folder with zarr.json or .zgroup in it"
    )


async def _file(objects: Objects, name: str) -> HttpRequests:
    try:
        await objects.find(name)
    except NotFound:
        raise SourceError(f"the source {objects.client.url.title(name)} does not exist") from None
    return HttpRequests(objects, _OneFile(objects, name))


class _OneFile:
    """The folder of a file of which nothing but the file is wanted."""

    lists_all: ClassVar[bool] = True

    def __init__(self, objects: Objects, name: str) -> None:
        self._objects = objects
        self._name = name

    async def list(self, path: str) -> Listing:
        """See `listing.Folders`."""
        if path:
            raise NotFound(f"no folder {join(str(self._objects.client.url), path)}")
        return Listing({self._name: await self._objects.find(self._name)})

    def saw(self, key: str, found: Found | None) -> None:
        """See `listing.Folders`."""
