"""A zip on a server, of which only the ranges are fetched that are needed.

Used by `object.opening` and `http.opening`. The server's store has caches and reads ahead.
"""

from zarrfuse.errors import NotFound, Stale
from zarrfuse.stores.access import Access
from zarrfuse.stores.base import Kind, Store
from zarrfuse.stores.zip.file import ZIP_ENDINGS
from zarrfuse.stores.zip.store import ZipStore


def zip_in(store: Store, key: str, path: str) -> ZipStore | None:
    """The zip that is a file of a store; None if there is no such file, or its name is no zip's.

    `path`: the URL of the zip, for messages. The store is closed with the zip. Raises `SourceError` for
    what is no zip, and what the store raises.
    """
    if not key.endswith(ZIP_ENDINGS):
        return None
    try:
        if store.stat(key).kind is not Kind.FILE:
            return None
    except NotFound:
        return None
    return ZipStore(_StoredZip(store, key, path))


class _StoredZip:
    """Implements `ZipBytes`."""

    access: Access | None = None
    is_remote = True

    def __init__(self, store: Store, key: str, path: str) -> None:
        self._store = store
        self._key = key
        self.path = path
        self.cache = store.cache
        self._reader = store.open(key)
        self.size, self.mtime_ns = self._reader.size, self._reader.mtime_ns
        self.prefetch = self._reader.prefetch

    def __del__(self) -> None:
        self._store.close()

    def check_unchanged(self, *, wait: bool = True) -> None:
        """See `ZipBytes`: as far as is known, and for sure when bytes are fetched."""
        if not self._store.is_still(self._key, self._reader, wait=wait):
            raise Stale(f"{self.path} was changed while it was mounted")

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool) -> None:
        """See `ZipBytes`."""
        self._reader.readinto(buffer, offset, wait=wait)

    def read(self, start: int, stop: int) -> bytes:
        """See `ZipBytes`."""
        buffer = bytearray(stop - start)
        self._reader.readinto(memoryview(buffer), start)
        return bytes(buffer)

    def space(self) -> tuple[int, int]:
        """See `ZipBytes`."""
        return self._store.space()

    def status(self) -> dict[str, object]:
        """See `ZipBytes`."""
        return self._store.status()
