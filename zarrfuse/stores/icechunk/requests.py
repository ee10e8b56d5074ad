"""`IcechunkRequests`: the requests of a remote store, made to a snapshot of an Icechunk repository.

Used by `opening`. Every key of a snapshot has the id of the snapshot as its version. A tag and a snapshot
never change. A branch is looked up again from time to time: from then on keys are found in its newest
snapshot, while files that are open are read from the snapshot in which they were found.
"""

import asyncio
from typing import TYPE_CHECKING

from zarrfuse import caching
from zarrfuse.stores.icechunk.source import IcechunkSource
from zarrfuse.stores.remote.requests import Found, Listing
from zarrfuse.stores.zarr_store.failures import told
from zarrfuse.stores.zarr_store.requests import ZarrRequests

if TYPE_CHECKING:
    from icechunk import IcechunkStore, Repository

_SNAPSHOTS_KEPT = 4


class IcechunkRequests:
    """Implements `remote.requests.Requests`. `begin` before anything else."""

    lists_all = False  # listings say no sizes

    def __init__(self, repository: "Repository", named: IcechunkSource, ttl_s: float) -> None:
        self.url = named.source
        self.permanent = named.kind != "branch"
        self._repository = repository
        self._named = named
        self._ttl_s = ttl_s
        self._looked_up_at = 0.0
        self._looking = asyncio.Lock()
        self._newest = ""
        self._snapshots: dict[str, ZarrRequests] = {}

    async def begin(self) -> None:
        """Find the snapshot. Raises `icechunk.IcechunkError`."""
        named = self._named
        self._looked_up_at = caching.now()
        if named.kind == "tag":
            self._newest = await self._repository.lookup_tag_async(named.name)
        elif named.kind == "branch":
            self._newest = await self._repository.lookup_branch_async(named.name)
        else:
            self._newest = named.name
        await self._snapshot(self._newest)

    async def find(self, path: str) -> Found:
        """See `Requests`."""
        return await (await self._shown(path)).find(path)

    async def list(self, path: str) -> Listing:
        """See `Requests`. Sizes are not listed."""
        return await (await self._shown(path)).list(path)

    async def get(self, path: str, start: int, stop: int, of: Found) -> bytes | memoryview:
        """See `Requests`. From the snapshot in which the object was found."""
        with told(self.url, path):
            snapshot = await self._snapshot(of.version or self._newest)
        return await snapshot.get(path, start, stop, of)

    def close(self) -> None:
        """See `Requests`. Repositories have nothing to close."""

    async def _shown(self, path: str) -> ZarrRequests:
        with told(self.url, path):
            if not self.permanent:
                await self._follow()
            return await self._snapshot(self._newest)

    async def _follow(self) -> None:
        """Look up the branch again if that is due."""
        async with self._looking:
            if not caching.is_fresh(self._looked_up_at, self._ttl_s):
                began_at = caching.now()
                self._newest = await self._repository.lookup_branch_async(self._named.name)
                self._looked_up_at = began_at

    async def _snapshot(self, snapshot: str) -> ZarrRequests:
        """The requests to a snapshot; of those before the newest, some are kept open."""
        if snapshot not in self._snapshots:
            session = await self._repository.readonly_session_async(snapshot_id=snapshot)
            opened = ZarrRequests(session.store, self.url, version=snapshot, permanent=True)
            while len(self._snapshots) >= _SNAPSHOTS_KEPT:
                del self._snapshots[next(iter(self._snapshots))]
            self._snapshots[snapshot] = opened
        return self._snapshots[snapshot]


def requests_of_session(store: "IcechunkStore") -> ZarrRequests:
    """The requests to the store of a session that a program has opened.

    A read-only session shows one snapshot; one that can be written, what was written until now.
    """
    session = store.session
    if not session.read_only:
        return ZarrRequests(store, f"icechunk:{session.branch}")
    snapshot = session.snapshot_id
    return ZarrRequests(store, f"icechunk:{snapshot}", version=snapshot, permanent=True)
