"""What is where in a remote store: listings of folders and single look-ups, kept for a time.

Used by `store`. Owns how a look-up becomes requests:

* From the listing of its folder, if that is kept: also that there is nothing of that name.
* Else the object is asked for, and the folder is listed at the same moment: what answers first counts. So
  the next look-up there is for nothing. Where the listing takes longer, or has too many names to be kept,
  the key is asked for as a file and as a folder, so a folder with a million names holds up nobody.
* A name that is listed without being known to be there, and one that an incomplete listing lacks, is asked
  for by itself; if there is no object, a folder of that name is listed.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from cachetools import LRUCache

from zarrfuse import caching
from zarrfuse.errors import NotAFolder, NotFound, ZarrfuseError
from zarrfuse.spec.paths import split
from zarrfuse.stores.remote.calls import Calls
from zarrfuse.stores.remote.requests import Found, Listing, Requests

T = TypeVar("T")

_MOST_NAMES = 200_000  # of all listings that are kept
_MOST_FOUND = 50_000
_LISTING_S = 1.0  # so long a name is waited for that is no file, before it is asked for as a folder
_LISTING_FACTOR = 10  # a listing may consist of a thousand requests


class _Kept(Generic[T]):
    """Answers by path, for a time; None: there is nothing."""

    def __init__(self, ttl_s: float, most: int) -> None:
        self._ttl_s = ttl_s
        self._lock = threading.Lock()
        self._answers: LRUCache[str, tuple[float, T | None]] = LRUCache(most, getsizeof=_names)

    def get(self, path: str) -> tuple[T | None] | None:
        with self._lock:
            kept = self._answers.get(path)
            if kept is None:
                return None
            if not caching.is_fresh(kept[0], self._ttl_s):
                del self._answers[path]
                return None
            return (kept[1],)

    def put(self, path: str, answer: T | None, asked_at: float) -> bool:
        """Keep an answer; False if it is too large."""
        made = (asked_at, answer)
        with self._lock:
            self._answers.pop(path, None)
            if _names(made) > self._answers.maxsize:
                return False
            self._answers[path] = made
            return True

    def drop(self, path: str) -> None:
        with self._lock:
            self._answers.pop(path, None)


def _names(kept: tuple[float, Any]) -> int:
    return 1 + len(kept[1].files) if isinstance(kept[1], Listing) else 1


class Listings:
    """The names of one store. `known`, `note` and `forget` are for any thread, the rest is of the loop."""

    def __init__(self, requests: Requests, calls: Calls, ttl_s: float) -> None:
        self._requests = requests
        self._calls = calls
        self._listings: _Kept[Listing] = _Kept(ttl_s, _MOST_NAMES)
        self._too_large: _Kept[Listing] = _Kept(ttl_s, _MOST_FOUND)
        self._found: _Kept[Found] = _Kept(ttl_s, _MOST_FOUND)
        self._flights: dict[tuple[str, str], asyncio.Task[Any]] = {}

    def known(self, key: str) -> Found | Listing | None:
        """What is known to be at a key: an object, or a folder, whose listing may be empty.

        None: it has to be looked up. Raises `NotFound` if nothing is there.
        """
        listed = self._listings.get(key)
        if listed is not None and listed[0] is not None:
            return listed[0]
        folder, name = split(key)
        above = self._listings.get(folder) if key else None
        if above is not None and above[0] is None:
            raise NotFound(f"no key {key}")
        listing = above[0] if above is not None else None
        if listing is not None:
            if listing.has_folder(name):
                return _SOME_FOLDER
            if (listed_as := listing.files.get(name)) is not None:
                return listed_as
            if listing.lacks(name):
                raise NotFound(f"no key {key}")
        found = self._found.get(key)
        if found is None:
            return None
        if found[0] is not None:
            return found[0]
        if listed is not None or (listing is not None and name in listing.files):
            raise NotFound(f"no key {key}")
        return None

    def listing(self, folder: str) -> Listing | None:
        """The listing of a folder, if it is kept. Raises `NotFound` if it is known not to be there."""
        kept = self._listings.get(folder)
        if kept is not None and kept[0] is None:
            raise NotFound(f"no folder {folder}")
        return kept[0] if kept is not None else None

    def note(self, folder: str, listing: Listing) -> None:
        """Keep a listing that somebody else asked for."""
        self._listings.put(folder, listing, caching.now())

    def forget(self, key: str) -> None:
        """Ask anew for a key, and for its folder."""
        self._found.drop(key)
        self._listings.drop(split(key)[0])

    async def list(self, folder: str) -> Listing:
        """The names in a folder. Raises `NotFound`, `NotAFolder`."""
        kept = self.listing(folder)
        if kept is not None:
            return kept
        if folder and isinstance(self.known(folder), Found):
            raise NotAFolder(f"{folder} is not a folder")
        try:
            return await self._once("list", folder, self._list(folder))
        except NotFound:
            if folder and isinstance(await self.look_up(folder), Found):
                raise NotAFolder(f"{folder} is not a folder") from None
            raise

    async def look_up(self, key: str) -> Found | Listing:
        """What is at a key: an object or a folder. Raises `NotFound`."""
        known = self.known(key)
        if known is not None:
            return known
        folder, name = split(key)
        if key and self._listings.get(folder) is None and self._too_large.get(folder) is None:
            return await self._race(key, folder, name)
        listing = self.listing(folder) if key else None
        return await self._ask(key, is_listed=listing is not None and name in listing.files)

    async def find(self, key: str) -> Found:
        """The object at a key. Raises `NotFound`."""
        found = self._found.get(key)
        if found is None:
            return await self._once("find", key, self._find(key))
        if found[0] is None:
            raise NotFound(f"no key {key}")
        return found[0]

    async def _race(self, key: str, folder: str, name: str) -> Found | Listing:
        """Look a key up, and list its folder; the first that knows wins."""
        finding = asyncio.ensure_future(self.find(key))
        listing = asyncio.ensure_future(self._once("list", folder, self._list(folder)))
        for task in (finding, listing):
            task.add_done_callback(_seen)
        await asyncio.wait((finding, listing), return_when=asyncio.FIRST_COMPLETED)
        if finding.done() and finding.exception() is None:
            return finding.result()
        await asyncio.wait((listing,), timeout=_LISTING_S)
        if not listing.done():
            return await self._ask(key, is_listed=False)
        try:
            listed = await listing
        except NotFound:
            raise NotFound(f"no key {key}") from None
        except (ZarrfuseError, OSError):
            return await finding  # the folder cannot be listed
        if listed.has_folder(name):
            return _SOME_FOLDER
        if listed.lacks(name):
            raise NotFound(f"no key {key}")
        there = listed.files.get(name)
        if there is not None:
            return there
        return await self._ask(key, is_listed=name in listed.files)

    async def _ask(self, key: str, *, is_listed: bool) -> Found | Listing:
        """The object at a key or, unless it is listed as one, the folder."""
        try:
            return await self.find(key)
        except NotFound:
            if is_listed:
                raise
            return await self._once("list", key, self._list(key))

    async def _list(self, folder: str) -> Listing:
        asked_at = caching.now()
        try:
            listing = await self._calls.call(
                folder or "the root",
                lambda: self._requests.list(folder),
                try_s=self._calls.patience.timeout_s * _LISTING_FACTOR,
            )
        except NotFound:
            self._listings.put(folder, None, asked_at)
            raise
        if not self._listings.put(folder, listing, asked_at):
            self._too_large.put(folder, None, asked_at)
        return listing

    async def _find(self, key: str) -> Found:
        asked_at = caching.now()
        try:
            found = await self._calls.call(key, lambda: self._requests.find(key))
        except NotFound:
            self._found.put(key, None, asked_at)
            raise
        self._found.put(key, found, asked_at)
        return found

    async def _once(self, what: str, key: str, work: Coroutine[Any, Any, T]) -> T:
        """The result of work that is done once for all who want it, also if one of them gives up."""
        task = self._flights.get((what, key))
        if task is not None:
            work.close()
        else:
            task = self._flights[what, key] = asyncio.ensure_future(work)
            task.add_done_callback(lambda _: self._flights.pop((what, key)))
            task.add_done_callback(_seen)
        return await asyncio.shield(task)


def _seen(task: asyncio.Future[Any]) -> None:
    """Take note of an error that perhaps nobody waits for."""
    if not task.cancelled():
        task.exception()


_SOME_FOLDER = Listing({})
