"""A remote store as a store of bytes: read-only, with a cache and reading ahead.

Used by what has `Requests`. Puts the other modules of `remote` together, and turns what they find into
entries and readers.

What a server says is kept for `ttl_s`. A file that was listed is opened as it was listed; if there is
another object by then, it is looked up anew. If the object changes while the file is open, reads are
`Stale`.
"""

import errno
import math
import time
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any, TypeVar

from zarrfuse.config import RemoteConfig
from zarrfuse.errors import NotFound, Stale
from zarrfuse.spec.paths import name_of, split
from zarrfuse.stores.base import OWN_NAME, UNKNOWN_SIZE, Entry, Kind, Reader, Store
from zarrfuse.stores.cache import ByteCache, default_cache_bytes
from zarrfuse.stores.remote.blocks import Blocks, Remote
from zarrfuse.stores.remote.calls import Calls, Patience
from zarrfuse.stores.remote.disk import DiskBlocks
from zarrfuse.stores.remote.listings import Listings
from zarrfuse.stores.remote.loop import LOOP
from zarrfuse.stores.remote.reading import RemoteReader
from zarrfuse.stores.remote.requests import Found, Listing, Requests
from zarrfuse.stores.remote.siblings import Siblings

T = TypeVar("T")

_SPACE_BYTES = 1 << 50  # servers do not say; `df` wants a number
_NAME_BYTES = 255  # Linux
_SMALL_BYTES = 2 << 20  # files that are fetched ahead of others of their folder
_FILES_AHEAD = 64
_FOLDERS_AHEAD = 16


class RemoteStore(Store):
    """Implements `base.Store` over `requests`.

    `root`: the listing of the root, if it was asked for. `server`: tells its URL from that of others.
    """

    keeps_names = True

    def __init__(
        self,
        requests: Requests,
        config: RemoteConfig,
        *,
        root: Listing | None = None,
        server: str = "",
    ) -> None:
        self.permanent = requests.permanent or config.ttl_s == math.inf
        self.url = requests.url
        self.lists_all = requests.lists_all
        self._requests = requests
        self._timeout_s = config.timeout_s
        self._calls = Calls(Patience(config.timeout_s))
        asked = config.cache_bytes
        self.cache = cache = ByteCache(default_cache_bytes() if asked is None else asked)
        self._disk = (
            DiskBlocks(config.cache_dir, config.cache_disk_bytes) if config.cache_dir else None
        )
        store_id = f"{server}\0{requests.url}"
        self._blocks = Blocks(requests, self._calls, cache, self._disk, store_id)
        ttl_s = float("inf") if requests.permanent else config.ttl_s
        self._listings = Listings(requests, self._calls, ttl_s)
        if root is not None:
            self._listings.note("", root)
        self._files = Siblings(_FILES_AHEAD)
        self._sizes = Siblings(_FILES_AHEAD)
        self._folders = Siblings(_FOLDERS_AHEAD)
        self._mtime_ns = int(time.time()) * 10**9
        self._closed = False

    def scan(self, folder: str, *, follow: bool = True) -> Iterator[Entry]:
        """See `base.Store`. A folder that is not kept takes a request for each thousand names."""
        listing = self._listings.listing(folder)
        if listing is None:
            listing = self._run(self._listings.list(folder), folder)
        self._list_siblings(folder)
        return self._entries(folder, listing)

    def stat(self, key: str, *, wait: bool = True, follow: bool = True) -> Entry:
        """See `base.Store`. Without `wait`, from what is kept."""
        if not key:
            return self._folder_entry("")
        known = self._listings.known(key)
        if known is None:
            _must_wait(wait)
            self._look_ahead(key)
            known = self._run(self._listings.look_up(key), key)
        if isinstance(known, Found):
            return Entry(name_of(key), Kind.FILE, known.size, known.mtime_ns)
        return self._folder_entry(name_of(key))

    def open(self, key: str, *, wait: bool = True) -> Reader:
        """See `base.Store`. Fetches the first block, or all of a small file."""
        reader = self._reader(key, wait=wait)
        self._fetch_siblings(key, wait=wait)
        if not reader.size or self._blocks.at_hand(reader.remote, 0) is not None:
            return reader
        try:
            reader.readinto(memoryview(bytearray(1)), 0, wait=wait)
        except Stale:  # there was another one when the folder was listed
            reader.close()
            self._listings.forget(key)
            return self._reader(key)
        except BaseException:
            reader.close()
            raise
        return reader

    def is_still(self, key: str, reader: Reader, *, wait: bool = True) -> bool:
        """See `base.Store`. By what is kept; after one part of a chunk was stale, by looking up."""
        try:
            known = self._listings.known(key)
            if known is None and wait:
                known = self._run(self._listings.look_up(key), key)
        except NotFound:
            return False
        if known is None or not isinstance(reader, RemoteReader):
            return True
        return known == reader.remote.found

    def look_up_soon(self, keys: Iterable[str], *, to_read: bool = False) -> None:
        """See `base.Store`."""
        for key in keys:
            LOOP.submit(self._fetch_ahead(key, any_size=True) if to_read else self._find_ahead(key))

    def readlink(self, key: str) -> str:
        """See `base.Store`. Remote stores have no symlinks."""
        raise NotFound(f"{key} is no symlink")

    def space(self) -> tuple[int, int]:
        """See `base.Store`. Servers do not say; it is a petabyte."""
        return _SPACE_BYTES, _SPACE_BYTES

    def status(self) -> dict[str, object]:
        """See `base.Store`: requests, and the cache of blocks on the disk."""
        told: dict[str, object] = {"server": self._calls.status()}
        if self._disk is not None:
            told["disk"] = self._disk.status()
        return told

    def close(self) -> None:
        """See `base.Store`."""
        if not self._closed:
            self._closed = True
            self._blocks.close()
            self._requests.close()

    def _run(self, work: Coroutine[Any, Any, T], what: str) -> T:
        return LOOP.run(work, timeout_s=self._timeout_s, what=what or "the root")

    def _reader(self, key: str, *, wait: bool = True) -> RemoteReader:
        if not key:
            raise NotFound("the root is no file")
        found = self._listings.known(key)
        if found is None:
            _must_wait(wait)
            found = self._run(self._listings.look_up(key), key)
        if not isinstance(found, Found):
            raise NotFound(f"{key} is no file")
        return RemoteReader(
            self._blocks,
            key,
            found,
            timeout_s=self._timeout_s,
            permanent=self.permanent,
            on_stale=lambda: self._listings.forget(key),
        )

    def _entries(self, folder: str, listing: Listing) -> Iterator[Entry]:
        hidden = OWN_NAME if not folder else ""
        for name in listing.folders:
            if name != hidden and _is_name(name):
                yield self._folder_entry(name)
        for name, found in listing.files.items():
            if name != hidden and _is_name(name):
                if found is None:
                    yield Entry(name, Kind.FILE, UNKNOWN_SIZE, self._mtime_ns)
                else:
                    yield Entry(name, Kind.FILE, found.size, found.mtime_ns)

    def _folder_entry(self, name: str) -> Entry:
        return Entry(name, Kind.FOLDER, 0, self._mtime_ns)

    # -- what is asked for before it is wanted ----------------------------------------------------

    def _look_ahead(self, key: str) -> None:
        """Look up the names that follow, if names of unknown size are looked up in order."""
        folder, name = split(key)
        listing = self._listings.listing(folder)
        if listing is None:  # it is listed now
            self._list_siblings(folder)
        elif name in listing.files:
            files = listing.files
            self.look_up_soon(self._sizes.after(folder, name, files, len(files)))

    def _list_siblings(self, folder: str) -> None:
        """List the folders that follow, if folders are listed in order."""
        above, name = split(folder)
        siblings = self._listings.listing(above) if folder else None
        if siblings is not None:
            folders = siblings.folders
            for key in self._folders.after(above, name, folders, len(folders)):
                LOOP.submit(self._list_ahead(key))

    def _fetch_siblings(self, key: str, *, wait: bool) -> None:
        """Fetch the small files that follow, if files of a folder are opened in order."""
        folder, name = split(key)
        listing = self._listings.listing(folder)
        if listing is not None:
            files = listing.files
            for wanted in self._files.after(folder, name, files, len(files), wait=wait):
                LOOP.submit(self._fetch_ahead(wanted))

    async def _fetch_ahead(self, key: str, *, any_size: bool = False) -> None:
        """Fetch all of a small file; with `any_size`, the first block of a large one."""
        found = await self._find_ahead(key)
        if found is None or not (found.is_certain or self.permanent):
            return
        remote, is_small = Remote(key, found), found.size <= _SMALL_BYTES
        if is_small or any_size:
            await self._blocks.fetch_ahead(remote, range(remote.blocks if is_small else 1))

    async def _find_ahead(self, key: str) -> Found | None:
        try:
            found = await self._listings.look_up(key)
        except Exception:  # whoever asks for it is told
            return None
        return found if isinstance(found, Found) else None

    async def _list_ahead(self, key: str) -> None:
        try:
            await self._listings.list(key)
        except Exception:  # whoever asks for it is told
            return


def _must_wait(wait: bool) -> None:
    if not wait:
        raise BlockingIOError(errno.EAGAIN, "the server has to be asked")


def _is_name(name: str) -> bool:
    # A byte that is no UTF-8 is one surrogate, and counts as one.
    return len(name) * 4 <= _NAME_BYTES or len(name.encode("utf-8", "replace")) <= _NAME_BYTES
