"""A store of zarr-python that serves the `plain` view without a mount.

Owns what zarr-python asks of a store: keys, byte ranges, listings, and errors as `OSError`. What the
keys hold is the view's to say, so that the store and a mount give the same bytes. Used by
`zarrfuse.open_store`, which opens a source, and by `images.decode`, which has a view already.
"""

import asyncio
import os
import threading
import weakref
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from stat import S_ISDIR
from typing import Self, TypeVar

import numpy as np
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from zarrfuse.config import FOLDER_TTL_S, PERMANENT_TTL_S
from zarrfuse.errors import NotAFolder, NotFound, Stale, ZarrfuseError, errno_of
from zarrfuse.keys import Keys
from zarrfuse.stores.opening import open_store as open_stored
from zarrfuse.stores.pool import Threads
from zarrfuse.views.chunks import ChunksView
from zarrfuse.views.plain import PlainView

T = TypeVar("T")

_AT_ONCE = 256 * 1024
"""Reads of up to so many bytes are made from the event loop when the bytes are at hand."""
_BATCH = 100
_MOST_READS = 400
"""So many reads of a `KeysStore` are in threads at one time; those of a store that hangs stay there."""


class _ReadingStore(Store):
    """The files of a view for zarr-python, to be read only."""

    supports_writes = False
    supports_deletes = False
    supports_listing = True

    _opened: Keys | None = None

    @abstractmethod
    def ensure_open(self) -> Keys:
        """The files by their keys."""

    # -- reading -----------------------------------------------------------------------------

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """What `get` gives, for callers without an event loop."""
        return self._read(key, prototype or default_buffer_prototype(), byte_range)

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """The bytes under a key, or those of a range; only these are read. None: no such key."""
        prototype = prototype or default_buffer_prototype()
        if self._opened is not None:
            try:
                return self._read(key, prototype, byte_range, wait=False)
            except BlockingIOError:
                pass
        return await self._in_thread(self._read, key, prototype, byte_range)

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """What `get` gives for each key and range, in order."""
        return await asyncio.gather(
            *(self.get(key, prototype, byte_range) for key, byte_range in key_ranges)
        )

    async def exists(self, key: str) -> bool:
        """Whether there is a file under a key."""
        return await self._in_thread(self._size, key) is not None

    async def getsize(self, key: str) -> int:
        """The bytes under a key; nothing is read for it. Raises `FileNotFoundError`."""
        size = await self._in_thread(self._size, key)
        if size is None:
            raise FileNotFoundError(key)
        return size

    def _read(
        self,
        key: str,
        prototype: BufferPrototype,
        byte_range: ByteRequest | None,
        *,
        wait: bool = True,
    ) -> Buffer | None:
        keys = self.ensure_open()
        with _os_errors():
            try:
                reader = keys.open(key, wait=wait)
            except (NotFound, NotAFolder):
                return None
            try:
                start, stop = _span(byte_range, reader.size)
                if not wait and stop - start > _AT_ONCE:
                    raise BlockingIOError("so many bytes would keep the event loop from others")
                data = np.empty(stop - start, np.uint8)
                if data.size:
                    reader.readinto(data.data, start, wait=wait)
            except NotFound as error:  # not an absent chunk: a part of one that was there
                raise Stale(f"{key} changed while it was read: {error}") from error
            finally:
                reader.close()
        return prototype.buffer.from_bytes(data.data)

    def _size(self, key: str) -> int | None:
        keys = self.ensure_open()
        with _os_errors():
            try:
                return keys.lookup(key).size
            except (NotFound, NotAFolder):
                return None

    # -- listing -----------------------------------------------------------------------------

    async def list(self) -> AsyncIterator[str]:
        """Every key, as they are found."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Every key that begins with a prefix, as they are found."""
        keys = await self._in_thread(self.ensure_open)
        async for key in self._in_batches(keys.walk(prefix)):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names in a folder, of keys and of folders."""
        keys = await self._in_thread(self.ensure_open)
        async for name in self._in_batches(keys.names(prefix.rstrip("/"))):
            yield name

    async def _in_batches(self, found: Iterator[str]) -> AsyncIterator[str]:
        """What is found, some at a time, each time in a thread."""

        def take() -> list[str]:
            with _os_errors():
                return list(islice(found, _BATCH))

        while batch := await self._in_thread(take):
            for name in batch:
                yield name

    async def _in_thread(self, call: Callable[..., T], *args: object) -> T:
        return await asyncio.to_thread(call, *args)

    # -- writing, refused ----------------------------------------------------------------------

    async def set(self, key: str, value: Buffer) -> None:
        """Raises `ValueError`: the store is read-only."""
        self._check_writable()

    async def delete(self, key: str) -> None:
        """Raises `ValueError`: the store is read-only."""
        self._check_writable()


class PlainStore(_ReadingStore):
    """The `plain` view of `source`, a folder or a zip file, as a store of zarr-python.

    A missing key is `None`, as for every store. What would be an errno on a mount is an `OSError`
    with that errno and a sentence: a chunk that lacks a part (EIO), a node that must not be loaded
    (ENOTSUP), a symlink that leads out of the store (`PermissionError`). May be used by any thread
    and event loop, and be pickled; a copy opens the source anew.
    """

    def __init__(self, source: str | os.PathLike[str], *, read_only: bool = True) -> None:
        if not read_only:
            raise NotImplementedError(
                "zarrfuse does not write yet: open the store with read_only=True"
            )
        super().__init__(read_only=True)
        self.source = os.path.abspath(os.fspath(source))
        self._path = self.source  # where a symlink led when it was opened
        self._folder: tuple[int, int] | None = None  # which folder that was, unless it is a zip
        self._opening = threading.Lock()

    def __str__(self) -> str:
        return f"zarrfuse://{self.source}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.source!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlainStore) and self.source == other.source

    def __hash__(self) -> int:
        return hash(self.source)

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.source,)

    # -- life --------------------------------------------------------------------------------

    def ensure_open(self) -> Keys:
        """Open the source unless it is open. Raises `OSError` if it is not there or no source."""
        keys = self._opened
        if keys is None or self._is_replaced():
            with self._opening, _os_errors():
                keys = self._opened
                if keys is None or self._is_replaced():
                    path = os.path.realpath(self.source) if keys is None else self._path
                    folder = _folder_at(path)  # before: one that is put there meanwhile is noticed
                    stored = open_stored(path)
                    ttl_s = PERMANENT_TTL_S if stored.permanent else FOLDER_TTL_S
                    keys = keys_of(ChunksView(stored, ttl_s))
                    # When nobody reads any more, also where nobody calls `close`: a worker may
                    # unpickle a store for each task.
                    weakref.finalize(keys, stored.close)
                    self._path, self._folder = path, folder
                    self._opened = keys
                    self._is_open = True
        return keys

    def _is_replaced(self) -> bool:
        """Whether the folder that is open is no longer there: absent chunks would read as fill value.

        A zip that is open stays readable, whatever becomes of its name.
        """
        return self._folder is not None and _folder_at(self._path) != self._folder

    async def _open(self) -> None:
        if self._is_open:
            raise ValueError("store is already open")
        await self._in_thread(self.ensure_open)

    def close(self) -> None:
        """Let go of the source, when reads that are under way have ended; the next opens it again."""
        with self._opening:
            super().close()
            self._opened = self._folder = None


class KeysStore(_ReadingStore):
    """The files of a view that is open already, as a store of zarr-python.

    Errors are those of `PlainStore`, and the exception of ours is the `__cause__` of the `OSError`.
    Reads that wait have threads of their own, so that a store that hangs takes none of those in which
    zarr-python decodes. Closing it leaves the view open.
    """

    def __init__(self, keys: Keys) -> None:
        super().__init__(read_only=True)
        self._opened = keys
        self._keys = keys
        self._threads = Threads(_MOST_READS, "zarrfuse-read")
        self._is_open = True

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def ensure_open(self) -> Keys:
        """The files by their keys."""
        return self._keys

    def close(self) -> None:
        """Let go of the threads; those that read end when they have read."""
        super().close()
        self._threads.shutdown()

    async def _in_thread(self, call: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *args)


def keys_of(chunks: ChunksView) -> Keys:
    """The files of the `plain` view over `chunks`, by their keys."""
    return Keys(PlainView(chunks).root, chunks.ttl_s)


def _folder_at(path: str) -> tuple[int, int] | None:
    """Which folder lies at a path: device and inode; None if none does."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if S_ISDIR(status.st_mode) else None


def _span(byte_range: ByteRequest | None, size: int) -> tuple[int, int]:
    """Where a range starts and stops in a file of `size` bytes.

    What lies behind the end is left out (`zarr.abc.store.Store.get`). Raises `ValueError` for a
    range before the start and `TypeError` for what is no range.
    """
    match byte_range:
        case None:
            start, stop = 0, size
        case RangeByteRequest(start, stop):
            pass
        case OffsetByteRequest(start):
            stop = size
        case SuffixByteRequest(count):
            start, stop = max(0, size - count), size
        case _:
            raise TypeError(f"Unexpected byte_range, got {byte_range}.")
    if start < 0:
        raise ValueError(f"Unexpected byte_range, got {byte_range}.")
    return min(start, size), max(min(start, size), min(stop, size))


@contextmanager
def _os_errors() -> Iterator[None]:
    """Raises our exceptions as `OSError` with the errno that a mount would give."""
    try:
        yield
    except ZarrfuseError as error:
        raise OSError(errno_of(error), str(error)) from error
