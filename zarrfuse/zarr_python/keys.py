"""The files of a view as a store of zarr-python.

Owns zarr-python's interface of a store: keys, byte ranges, listings, and errors as `OSError`. The view
decides what keys hold and how they are stored. Used by `store`, which opens a source.
"""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TypeVar

import numpy as np
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from zarrfuse.errors import NotAFolder, NotFound, Stale, ZarrfuseError, errno_of
from zarrfuse.views.chunks.view import ChunksView
from zarrfuse.views.keys import Keys
from zarrfuse.views.plain.view import PlainView

T = TypeVar("T")

_AT_ONCE = 256 * 1024
"""Reads of at most so many bytes run in the event loop, if they need not wait."""
_BATCH = 100


class KeysOfAView(Store):
    """The files of a view for zarr-python."""

    supports_listing = True

    _opened: Keys | None = None

    @abstractmethod
    def ensure_open(self) -> Keys:
        """Open the source, if it is not open: its files by their keys."""

    @property
    def supports_writes(self) -> bool:
        """Whether the store was made with `read_only=False`."""
        return not self.read_only

    @property
    def supports_deletes(self) -> bool:
        """See `supports_writes`."""
        return not self.read_only

    # -- reading -----------------------------------------------------------------------------

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """See `get`; for callers without an event loop."""
        return self._read(key, prototype or default_buffer_prototype(), byte_range)

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """The bytes of a key, or of a range of it; None if there is no such key."""
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
        """`get` for each key and range, in order."""
        return await asyncio.gather(
            *(self.get(key, prototype, byte_range) for key, byte_range in key_ranges)
        )

    async def exists(self, key: str) -> bool:
        """Whether there is a file under a key."""
        return await self._in_thread(self._size, key) is not None

    async def getsize(self, key: str) -> int:
        """The size of a key in bytes. Raises `FileNotFoundError`."""
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
        with os_errors():
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
        with os_errors():
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
        """Iterate in threads, in batches."""

        def take() -> list[str]:
            with os_errors():
                return list(islice(found, _BATCH))

        while batch := await self._in_thread(take):
            for name in batch:
                yield name

    async def _in_thread(self, call: Callable[..., T], *args: object) -> T:
        return await asyncio.to_thread(call, *args)

    # -- writing -------------------------------------------------------------------------------

    def set_sync(self, key: str, value: Buffer) -> None:
        """See `set`; for callers without an event loop."""
        self._check_writable()
        self._store(key, value, False)

    async def set(self, key: str, value: Buffer) -> None:
        """Store bytes under a key, atomically."""
        self._check_writable()
        await self._in_thread(self._store, key, value, False)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """`set`, unless the key exists."""
        self._check_writable()
        with suppress(FileExistsError):
            await self._in_thread(self._store, key, value, True)

    def delete_sync(self, key: str) -> None:
        """See `delete`; for callers without an event loop."""
        self._check_writable()
        self._change(Keys.remove, key)

    async def delete(self, key: str) -> None:
        """Delete a key, if it exists; a chunk with all its parts."""
        self._check_writable()
        await self._in_thread(self._change, Keys.remove, key)

    async def delete_dir(self, prefix: str) -> None:
        """Delete all keys below a folder. Raises `ValueError` for a key."""
        self._check_writable()
        try:
            await self._in_thread(self._change, Keys.remove_folder, prefix.strip("/"))
        except NotADirectoryError:
            raise ValueError(f"delete_dir was passed a {prefix=!r} that is a file") from None

    def _store(self, key: str, value: Buffer, new: bool) -> None:
        if not isinstance(value, Buffer):
            raise TypeError(f"a Buffer can be stored under {key}, not a {type(value).__name__}")
        data = np.ascontiguousarray(value.as_numpy_array()).view(np.uint8)
        self._change(Keys.store, key, data.data, new=new)

    def _change(
        self, change: Callable[..., None], key: str, *args: object, **options: bool
    ) -> None:
        keys = self.ensure_open()
        with os_errors():
            change(keys, key, *args, **options)


def keys_of(chunks: ChunksView) -> Keys:
    """The files of the `plain` view over `chunks`, by their keys."""
    return Keys(PlainView(chunks).root, chunks.ttl_s)


def _span(byte_range: ByteRequest | None, size: int) -> tuple[int, int]:
    """The start and stop of a range in a file of `size` bytes.

    It is clipped at the end of the file (`zarr.abc.store.Store.get`). Raises `ValueError` for a range
    before the start, and `TypeError` for an unknown kind of range.
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
def os_errors() -> Iterator[None]:
    """A block that turns exceptions of zarrfuse into `OSError` with the errno of a mount."""
    try:
        yield
    except ZarrfuseError as error:
        raise OSError(errno_of(error), str(error)) from error
