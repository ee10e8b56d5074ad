"""What the libraries below some stores of zarr-python tell: sizes, times, versions, kinds of names.

Used by `requests`. zarr-python's own interface has none of these. Only public attributes of its stores
are used (`ObjectStore.store`, `FsspecStore.fs` and `.path`, `LocalStore.root`), and only of these very
classes: a subclass may mean something else by a key. `_info` and `_ls` are what fsspec documents for
asynchronous use.
"""

import asyncio
import os
import stat
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from zarrfuse.errors import NotFound
from zarrfuse.stores.remote.requests import Found, Listing
from zarrfuse.stores.zarr_store.listing import listing

if TYPE_CHECKING:
    from zarr.abc.store import Store
    from zarr.storage import FsspecStore, LocalStore, ObjectStore


class Library(Protocol):
    """`find` and `list` of `remote.requests.Requests`, as a library can answer them."""

    async def find(self, path: str) -> Found:
        """See `Requests`."""

    async def list(self, path: str) -> Listing:
        """See `Requests`."""


def library_of(store: "Store") -> Library | None:
    """What tells more of a store than zarr-python does; None if nothing is known to."""
    from zarr.storage import FsspecStore, LocalStore, ObjectStore  # noqa: PLC0415  # takes 0.3 s

    if type(store) is ObjectStore:
        return Obstore(store)
    if type(store) is FsspecStore:
        return Fsspec(store)
    if type(store) is LocalStore:
        return Local(store)
    return None


def tells_sizes(store: "Store") -> bool:
    """Whether a listing of a store has the sizes of files."""
    from zarr.storage import MemoryStore  # noqa: PLC0415  # takes 0.3 s

    return isinstance(store, MemoryStore) or library_of(store) is not None


class Obstore:
    """The objects of an obstore store, and ranges of those that have not changed."""

    def __init__(self, store: "ObjectStore[Any]") -> None:
        self._store = store.store

    async def find(self, path: str) -> Found:
        """See `Requests`."""
        import obstore  # noqa: PLC0415  # there is none without a store of it

        return _object(await obstore.head_async(self._store, path))

    async def list(self, path: str) -> Listing:
        """See `Requests`. One request for each thousand names."""
        import obstore  # noqa: PLC0415  # as above

        got = await obstore.list_with_delimiter_async(self._store, path or None)
        files: dict[str, Found | None] = {
            one["path"].rpartition("/")[2]: _object(one)
            for one in got["objects"]
            if one["path"] != path
        }
        folders = [one.rstrip("/").rpartition("/")[2] for one in got["common_prefixes"]]
        if path and not got["objects"] and not folders:
            raise NotFound(f"no key {path}")
        return listing(files, folders)

    async def get(self, path: str, start: int, stop: int, of: Found) -> memoryview:
        """See `Requests`; for an object with an ETag."""
        import obstore  # noqa: PLC0415  # as above

        asked: Any = {"range": (start, stop), "if_match": of.version}
        got = await obstore.get_async(self._store, path, options=asked)
        return memoryview(await got.bytes_async())


def _object(meta: Mapping[str, Any]) -> Found:
    return Found(meta["size"], _nanoseconds(meta["last_modified"]), meta["e_tag"])


class Fsspec:
    """The files of a file system of fsspec; which times and ETags there are differs between them."""

    def __init__(self, store: "FsspecStore") -> None:
        self._fs = store.fs
        self._root = store.path.rstrip("/")

    async def find(self, path: str) -> Found:
        """See `Requests`."""
        at = self._at(path)
        self._fs.invalidate_cache(at)
        row = await self._fs._info(at)
        found = _file(row)
        if row["type"] == "directory" or found is None:
            raise NotFound(f"no key {path}")
        return found

    async def list(self, path: str) -> Listing:
        """See `Requests`."""
        at = self._at(path)
        self._fs.invalidate_cache(at)
        try:
            rows = await self._fs._ls(at, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            rows = []
        files: dict[str, Found | None] = {}
        folders = []
        for row in rows:
            whole = row["name"].rstrip("/")
            if whole.strip("/") == at.strip("/"):  # the folder itself, or that it is a file
                continue
            name = whole.rpartition("/")[2]
            if row["type"] == "directory":
                folders.append(name)
            else:
                files[name] = _file(row)
        if path and not files and not folders and not await self._is_folder(at):
            raise NotFound(f"no key {path}")
        return listing(files, folders)

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}".rstrip("/")

    async def _is_folder(self, at: str) -> bool:
        try:
            return bool((await self._fs._info(at))["type"] == "directory")
        except FileNotFoundError:
            return False


def _file(row: Mapping[str, Any]) -> Found | None:
    """A file as fsspec describes it; None if it does not say how large it is."""
    size = row.get("size")
    if size is None:
        return None
    changed = next((row[name] for name in _CHANGED if row.get(name) is not None), None)
    version = next((row[name] for name in _VERSIONS if isinstance(row.get(name), str)), None)
    return Found(int(size), _nanoseconds(changed), version)


# Of S3, Google, Azure, SFTP and local files; `created` is no time of change.
_CHANGED = ("LastModified", "mtime", "last_modified", "updated")
_VERSIONS = ("ETag", "etag", "e_tag")


def _nanoseconds(changed: object) -> int:
    if isinstance(changed, str):
        try:
            changed = datetime.fromisoformat(changed)
        except ValueError:
            return 0
    if isinstance(changed, datetime):
        changed = changed.timestamp()
    return int(changed * 1e9) if isinstance(changed, int | float) else 0


class Local:
    """The files of a local folder."""

    def __init__(self, store: "LocalStore") -> None:
        self._root = str(store.root)

    async def find(self, path: str) -> Found:
        """See `Requests`."""
        found = await asyncio.to_thread(os.stat, self._at(path))
        if not stat.S_ISREG(found.st_mode):
            raise NotFound(f"no key {path}")
        return Found(found.st_size, found.st_mtime_ns, None)

    async def list(self, path: str) -> Listing:
        """See `Requests`. Links that lead nowhere, FIFOs, sockets and devices are left out."""
        return await asyncio.to_thread(self._list, path)

    def _list(self, path: str) -> Listing:
        files: dict[str, Found | None] = {}
        folders = []
        with os.scandir(self._at(path)) as entries:
            for entry in entries:
                try:
                    if entry.is_dir():
                        folders.append(entry.name)
                    elif entry.is_file():
                        found = entry.stat()
                        files[entry.name] = Found(found.st_size, found.st_mtime_ns, None)
                except FileNotFoundError:  # deleted meanwhile
                    continue
        return listing(files, folders)

    def _at(self, path: str) -> str:
        return os.path.join(self._root, path) if path else self._root
