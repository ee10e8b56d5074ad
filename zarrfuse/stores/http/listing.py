"""The ways in which servers list a folder, and which of them a server knows.

Owns the requests for listings: S3's, WebDAV's, and index pages in HTML. Used by `opening`, which finds out
the way once, and by `requests`. It must not know Zarr, but for the documents that index pages hide.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol
from urllib.parse import quote

from zarrfuse.errors import Denied, NotFound, NotSupported, ZarrfuseError
from zarrfuse.spec.paths import folder_of, join
from zarrfuse.stores.http.client import Client, body_of, refused
from zarrfuse.stores.http.objects import Objects
from zarrfuse.stores.http.pages import (
    PROPFIND,
    Item,
    holds_marker,
    index_page,
    s3_page,
    webdav_page,
)
from zarrfuse.stores.http.url import HttpUrl
from zarrfuse.stores.remote.requests import Found, Listing, TryAgain
from zarrfuse.stores.unlisted.documents import CONSOLIDATED_V2, V2, V3

# A page of 100,000 names takes 10 MB in HTML, and 60 MB in WebDAV.
_LARGEST_PAGE = 256 << 20
_MOST_NAMES = 20_000_000  # some GB of memory
# How many names of the path may be in front of the keys: none if the host is the bucket, one for a bucket
# in the path, two for a server below a path.
_NAMES_OF_BUCKETS = (0, 1, 2)


class Folders(Protocol):
    """A way to list folders."""

    lists_all: ClassVar[bool]
    """See `remote.requests.Requests`."""

    async def list(self, path: str) -> Listing:
        """See `remote.requests.Requests`."""

    def saw(self, key: str, found: Found | None) -> None:
        """Note a file as it is now; None: it was replaced. A way that keeps nothing ignores it."""


@dataclass(frozen=True, slots=True)
class S3Folders:
    """ListObjectsV2 of a bucket: the keys below `prefix`."""

    client: Client
    bucket: HttpUrl
    prefix: str
    lists_all: ClassVar[bool] = True

    async def list(self, path: str) -> Listing:
        """See `Folders`."""
        prefix = "".join(f"{name}/" for name in (self.prefix, path) if name)
        title = self.client.url.title(path)
        items: list[Item] = []
        following: str | None = None
        is_there = not path
        while True:
            asked = f"list-type=2&delimiter=%2F&encoding-type=url&prefix={_quoted(prefix)}"
            if following is not None:
                asked += f"&continuation-token={_quoted(following)}"
            address = self.bucket.of_folder("", asked)
            async with self.client.ask("GET", address, title) as answer:
                if answer.status != 200:
                    raise refused(answer, title)
                body = await body_of(answer, title, _LARGEST_PAGE)
            page = await asyncio.to_thread(s3_page, body, prefix)
            if page is None:
                raise NotSupported(f"{title}: the server does not list as S3 does")
            items += page.items
            is_there |= bool(page.items) or holds_marker(body, prefix)
            if page.following is None:
                break
            if page.following == following or len(items) > _MOST_NAMES:
                raise NotSupported(f"{title}: the server's listing does not end")
            following = page.following
        if not is_there:
            raise NotFound(f"no folder {title}")
        return _listing(items)

    def saw(self, key: str, found: Found | None) -> None:
        """See `Folders`."""


class WebDavFolders:
    """PROPFIND with Depth 1. Some servers leave out names that begin with a dot, nginx among them.

    `has_versions`: whether a listing had ETags.
    """

    lists_all: ClassVar[bool] = False

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._hidden = HiddenDocuments(objects)
        self.has_versions = False

    async def list(self, path: str) -> Listing:
        """See `Folders`. A listing is whole if the server is known to list names with dots."""
        client = self._objects.client
        title = client.url.title(path)
        headers = {"Depth": "1", "Content-Type": "application/xml"}
        address = client.url.of_folder(path)
        async with client.ask("PROPFIND", address, title, headers, PROPFIND) as answer:
            if answer.status != 207:
                raise refused(answer, title)
            body = await body_of(answer, title, _LARGEST_PAGE)
        page = await asyncio.to_thread(webdav_page, body)
        if page is None:
            raise NotFound(f"no folder {title}")
        self.has_versions |= any(item.found and item.found.version for item in page.items)
        hidden = await self._hidden.beside(path, page.items)
        items = [*hidden, *(self._as_found(item) for item in page.items)]
        return _listing(items, is_whole=self._hidden.are_shown)

    def _as_found(self, item: Item) -> Item:
        """An item with the version that the file has by itself."""
        found, has_versions = item.found, self._objects.has_versions
        if found is None or (found.version is not None) is has_versions:
            return item
        if has_versions:
            return item._replace(found=None)
        return item._replace(found=Found(found.size, found.mtime_ns, None))

    def saw(self, key: str, found: Found | None) -> None:
        """See `Folders`."""


class IndexFolders:
    """Index pages in HTML: names without sizes, and without those that begin with a dot on most servers."""

    lists_all: ClassVar[bool] = False

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._hidden = HiddenDocuments(objects)

    async def list(self, path: str) -> Listing:
        """See `Folders`. Pages may hide any name, so no listing is whole."""
        client = self._objects.client
        title = client.url.title(path)
        headers = {"Accept": "text/html, */*"}
        async with client.ask("GET", client.url.of_folder(path), title, headers) as answer:
            if answer.status != 200:
                raise refused(answer, title)
            if "html" not in answer.headers.get("Content-Type", "").lower():
                raise NotFound(f"no folder {title}: the server sends no index page")
            address = str(answer.url)
            body = await body_of(answer, title, _LARGEST_PAGE)
        page = await asyncio.to_thread(index_page, body, address)
        if page is None:
            raise NotFound(f"no folder {title}: the server sends no index page")
        hidden = await self._hidden.beside(path, page.items)
        return _listing([*hidden, *page.items], is_whole=False)

    def saw(self, key: str, found: Found | None) -> None:
        """See `Folders`."""


class HiddenDocuments:
    """The documents of Zarr v2 that a server does not list, since their names begin with a dot.

    `are_shown`: whether the server is known to list such names.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.are_shown = False
        # Folders with a document below which none of v2 are hidden: chunks, or nodes of v3.
        self._settled: set[str] = set()

    async def beside(self, path: str, items: Sequence[Item]) -> Sequence[Item]:
        """The hidden documents in a folder with these items."""
        names = {item.name for item in items}
        self.are_shown |= any(name.startswith(".") for name in names)
        if not names.isdisjoint(V3):
            self._settled.add(path)
        if self.are_shown or self._is_settled(path):
            return ()
        asked = (*V2, CONSOLIDATED_V2)
        answers = await asyncio.gather(*(self._found(join(path, name)) for name in asked))
        found = {name: one for name, one in zip(asked, answers, strict=True) if one is not None}
        if ".zarray" in found:
            self._settled.add(path)
        return [Item(name, False, one) for name, one in found.items()]

    def _is_settled(self, path: str) -> bool:
        while path and path not in self._settled:
            path = folder_of(path)
        return path in self._settled

    async def _found(self, key: str) -> Found | None:
        try:
            return await self._objects.find(key)
        except (NotFound, Denied):
            return None


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogateescape")


def _listing(items: Sequence[Item], *, is_whole: bool = True) -> Listing:
    files = {item.name: item.found for item in items if not item.is_folder}
    folders = [item.name for item in items if item.is_folder and item.name not in files]
    return Listing(files, folders, is_whole)


async def find_way(objects: Objects) -> Folders | None:
    """The way in which a server lists the root, the most exact one if there are several; None: none.

    Sets `Objects.has_versions` to whether listings have versions. Raises what no way can answer: `TryAgain`
    if the server is not reached at all.
    """
    client = objects.client
    ways: list[Folders] = []
    for count in _NAMES_OF_BUCKETS:
        split = client.url.above(count)
        if split is not None:
            ways.append(S3Folders(client, *split))
    ways += [WebDavFolders(objects), IndexFolders(objects)]
    answers = await asyncio.gather(*(_tried(way) for way in ways))
    for way, answer in zip(ways, answers, strict=True):
        if isinstance(answer, Listing):
            if isinstance(way, WebDavFolders):
                objects.has_versions = way.has_versions
            return way
    if all(isinstance(answer, TryAgain) for answer in answers):
        assert isinstance(answers[0], TryAgain)
        raise answers[0]
    return None


async def _tried(way: Folders) -> Listing | ZarrfuseError | OSError:
    try:
        listing = await way.list("")
    except (ZarrfuseError, OSError) as error:
        return error
    if isinstance(way, S3Folders) and not listing.files and not listing.folders:
        return NotFound("no key of the bucket begins so: it may be another bucket")
    return listing
