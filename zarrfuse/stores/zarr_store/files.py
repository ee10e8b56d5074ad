"""The files of a store of zarr-python that cannot list, as `stores.unlisted` asks for them.

Used by `requests`. Implements `unlisted.documents.Files`.
"""

from typing import Protocol

from zarrfuse.errors import NotSupported
from zarrfuse.stores.remote.requests import Found


class Keys(Protocol):
    """What `requests.ZarrRequests` does with single keys."""

    url: str

    async def find(self, path: str) -> Found:
        """See `remote.requests.Requests`."""

    async def get(self, path: str, start: int, stop: int, of: Found) -> bytes | memoryview:
        """See `remote.requests.Requests`."""


class ZarrFiles:
    """The files of a store, by its requests."""

    html_is_missing = False

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def title(self, key: str) -> str:
        """See `Files`."""
        return f"{key or 'the root'} of {self._keys.url}"

    async def find(self, key: str) -> Found:
        """See `Files`."""
        return await self._keys.find(key)

    async def fetch(self, key: str, limit: int) -> tuple[bytes, Found]:
        """See `Files`."""
        found = await self._keys.find(key)
        if found.size > limit:
            raise NotSupported(f"{self.title(key)} has {found.size} bytes, more than {limit}")
        return bytes(await self._keys.get(key, 0, found.size, found)), found
