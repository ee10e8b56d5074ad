"""`ZarrRequests`: the requests of a remote store, made to any store of zarr-python.

Used by `stores.icechunk` and `mounts.in_python`. `libraries` tells sizes and times where the library below
the store does, `listing` what is in a folder where nothing else does, `failures` translates exceptions.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from zarrfuse.errors import NotFound, Stale
from zarrfuse.stores.remote.requests import Found, Listing
from zarrfuse.stores.unlisted.folders import UnlistedFolders
from zarrfuse.stores.zarr_store.failures import told
from zarrfuse.stores.zarr_store.files import ZarrFiles
from zarrfuse.stores.zarr_store.libraries import Library, Obstore, library_of, tells_sizes
from zarrfuse.stores.zarr_store.listing import is_name, listed

if TYPE_CHECKING:
    from zarr.abc.store import Store

# Of a store that cannot list: for how long what its documents say is kept, and how long they may take.
_KEPT_S = 60.0
_LIMIT_S = 30.0


class ZarrRequests:
    """Implements `remote.requests.Requests` for a store of zarr-python, which it opens but never closes.

    All calls run in one event loop. A store of a client that belongs to the loop of its first use (those of
    fsspec) is used through a client of its own.
    """

    def __init__(
        self, store: "Store", url: str, *, version: str | None = None, permanent: bool = False
    ) -> None:
        """`version`: that of all that is in the store, if it is a snapshot; None: there is none."""
        self.url = url
        self.permanent = permanent
        self.lists_all = store.supports_listing and tells_sizes(store)
        self._version = version
        self._given = store
        self._opening: asyncio.Task[Store] | None = None
        self._library: Library | None = None
        self._unlisted = UnlistedFolders(ZarrFiles(self), _KEPT_S, _LIMIT_S)

    async def find(self, path: str) -> Found:
        """See `Requests`. A store that offers nothing better reads the value to know its size."""
        with told(self.url, path):
            store = await self._store()
            if not _is_key(path):  # the root neither
                raise NotFound(f"no key {path}")
            if self._library is not None:
                return await self._library.find(path)
            size = await store.getsize(path)
            if size == 0 and not await store.exists(path):  # Icechunk says 0 of what is not there
                raise NotFound(f"no key {path}")
            return Found(size, 0, self._version)

    async def list(self, path: str) -> Listing:
        """See `Requests`."""
        with told(self.url, path):
            store = await self._store()
            if path and not _is_key(path):
                raise NotFound(f"no key {path}")
            if not store.supports_listing:
                return await self._unlisted.list(path)
            if self._library is not None:
                return await self._library.list(path)
            return await listed(store, path)

    async def get(self, path: str, start: int, stop: int, of: Found) -> bytes | memoryview:
        """See `Requests`."""
        if start >= stop:
            return b""
        with told(self.url, path):
            store = await self._store()
            if isinstance(self._library, Obstore) and of.version is not None:
                return await self._library.get(path, start, stop, of)
            return await self._got(store, path, start, stop, of)

    def close(self) -> None:
        """See `Requests`. The store stays open: it belongs to whoever made it."""

    async def _got(self, store: "Store", path: str, start: int, stop: int, of: Found) -> bytes:
        from zarr.abc.store import RangeByteRequest  # noqa: PLC0415  # takes 0.3 s
        from zarr.buffer import default_buffer_prototype  # noqa: PLC0415  # as above

        # By position: what stores call the third argument differs.
        got = await store.get(path, default_buffer_prototype(), RangeByteRequest(start, stop))
        if got is None:
            raise Stale(f"{path}: it was deleted while it was open")
        data = got.to_bytes()
        if len(data) > stop - start:
            raise Stale(f"{path}: {self.url} gave {len(data)} bytes for {stop - start}")
        changed = len(data) < stop - start
        if self._library is not None and of.is_certain:
            changed = await self._library.find(path) != of
        if changed:
            raise Stale(f"{path}: it changed while it was open")
        return data

    async def _store(self) -> "Store":
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._opened())
        try:
            return await asyncio.shield(self._opening)
        except Exception:
            self._opening = None  # the next request tries again
            raise

    async def _opened(self) -> "Store":
        from zarr.storage import StorePath  # noqa: PLC0415  # takes 0.3 s

        store = (await StorePath.open(_with_own_client(self._given), "")).store
        self._library = library_of(store)
        return store


def _is_key(path: str) -> bool:
    """Whether a path leads to nothing outside the store, which not every store checks."""
    return all(map(is_name, path.split("/")))


def _with_own_client(store: "Store") -> "Store":
    """The store of an asynchronous file system of fsspec with a client of its own; any other as it is.

    The connections of such a client belong to the event loop in which it was used first.
    """
    from zarr.storage import FsspecStore  # noqa: PLC0415  # takes 0.3 s

    if type(store) is not FsspecStore:
        return store
    from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper  # noqa: PLC0415  # few do

    fs: Any = store.fs
    if isinstance(fs, AsyncFileSystemWrapper):  # threads, without a loop
        return store
    options = {**fs.storage_options, "asynchronous": True, "skip_instance_cache": True}
    return FsspecStore(
        type(fs)(*fs.storage_args, **options),
        read_only=True,
        path=store.path,
        allowed_exceptions=store.allowed_exceptions,
    )
