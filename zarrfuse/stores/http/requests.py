"""The requests of a remote store to an HTTP server.

Implements `remote.requests.Requests` by the files of a server and the way in which it lists. Used by
`opening`, and through the protocol by `remote`.
"""

from zarrfuse.errors import Stale
from zarrfuse.stores.http.listing import Folders
from zarrfuse.stores.http.objects import Objects
from zarrfuse.stores.remote.requests import Found, Listing


class HttpRequests:
    """The files below a URL; `folders`: how they are listed. Made by `opening`."""

    permanent = False

    def __init__(self, objects: Objects, folders: Folders) -> None:
        self._objects = objects
        self._folders = folders
        self.lists_all = folders.lists_all
        self.url = str(objects.client.url)

    async def find(self, path: str) -> Found:
        """See `Requests`."""
        found = await self._objects.find(path)
        self._folders.saw(path, found)
        return found

    async def list(self, path: str) -> Listing:
        """See `Requests`."""
        return await self._folders.list(path)

    async def get(self, path: str, start: int, stop: int, of: Found) -> bytes:
        """See `Requests`."""
        try:
            return await self._objects.get(path, start, stop, of)
        except Stale:
            self._folders.saw(path, None)
            raise

    def close(self) -> None:
        """See `Requests`."""
        self._objects.client.close()
