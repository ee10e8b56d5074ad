"""What a daemon serves: file operations on the view of a store. Used by `daemon`.

Owns how the options of a mount become times to live, caches, commits and a view. It must not know the
process.
"""

import os
from typing import cast

from zarrfuse import __version__
from zarrfuse.config import FOLDER_TTL_S, PERMANENT_TTL_S, VIEWS, MountConfig
from zarrfuse.fuse.operations import Operations
from zarrfuse.stores.base import Entry, Kind, Store, WritableStore
from zarrfuse.stores.cache import ByteCache, default_cache_bytes
from zarrfuse.stores.opening import printable_source
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.recovered_view import rolled_forward
from zarrfuse.views.base import Folder
from zarrfuse.views.choice import open_view
from zarrfuse.views.chunks.journals import judge_of
from zarrfuse.views.source import root_name


class Served:
    """The operations on a store, which this object closes.

    Attributes:
        store: The store as it is once what was interrupted is completed.
        operations: They answer the kernel.
    """

    def __init__(self, config: MountConfig, store: Store) -> None:
        self._stored = store
        self._cache = _cache(config, store)
        self._commits = _commits(config, store)
        self.store = rolled_forward(store, judge_of(store))
        ttl_s = _ttl_s(config, store)
        root = open_view(
            config.view,
            self.store,
            ttl_s,
            commits=self._commits,
            root_name=root_name(printable_source(config.source)) or "root",
            formats=config.formats,
            cache=self._cache,
        )
        self.operations = Operations(
            root,
            _entry_of(root),
            ttl_s=ttl_s,
            names_ttl_s=ttl_s if store.permanent else min(ttl_s, FOLDER_TTL_S),
            space=store.space,
            writable=config.read_write,
            xattrs=config.xattrs,
            tuning=config.tuning,
            about={
                "version": __version__,
                "pid": os.getpid(),
                "source": printable_source(config.source),
                "mountpoint": config.mountpoint,
                "view": config.view,
            },
            counted=self._counted,
            lists_all=store.lists_all,
            shown=config.shown_access,
        )

    def _counted(self) -> dict[str, object]:
        cache = {} if self._cache is None else {"cache": self._cache.status()}
        return {**cache, **self._stored.status()}

    async def outdate(self) -> None:
        """Let all that is kept of the store count as old, here and in the kernel."""
        if self._cache is not None:
            self._cache.drop_all(lambda _: True)
        await self.operations.outdate()

    def close(self) -> None:
        """Close the store, after what is left to be stored."""
        if self._commits is not None:
            self._commits.close()
        self._stored.close()


def _ttl_s(config: MountConfig, store: Store) -> float:
    """How long the kernel may keep names and attributes."""
    asked, longest = config.cache_ttl_s, PERMANENT_TTL_S if store.permanent else FOLDER_TTL_S
    if asked is None:
        return longest
    return min(asked, longest) if store.keeps_names else asked


def _cache(config: MountConfig, store: Store) -> ByteCache | None:
    """The cache of the store, which views share, or one for decoded chunks."""
    if store.cache is not None or not VIEWS[config.view].decodes:
        return store.cache
    asked = config.cache_bytes
    return ByteCache(default_cache_bytes() if asked is None else asked)


def _commits(config: MountConfig, store: Store) -> Commits | None:
    """What stores chunks as a whole, if the mount can be written; it has completed what was interrupted."""
    if not config.read_write:
        return None
    commits = Commits(
        cast(WritableStore, store),
        config.spool_dir,
        judge=judge_of(store),
        timeout_s=config.tuning.store_timeout_s,
    )
    commits.recover()
    return commits


def _entry_of(root: Folder) -> Entry:
    entry = root.lookup("")
    return Entry("", Kind.FOLDER, 0, entry.mtime_ns, access=entry.access)
