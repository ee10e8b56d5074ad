"""Decides which hierarchies of Zarr v2 the `plain` view shows as Zarr v3: those in which every node can be.

A reader of Zarr v3 does not see nodes of Zarr v2 in a group, nor the other way round. So the topmost group
and all nodes of Zarr v2 below it are shown in one format. The decision depends on documents only. Used by
`view` and `nodes`.
"""

import threading
from itertools import islice
from weakref import WeakValueDictionary

from zarrfuse.errors import MetadataError, NotAFolder, NotFound, text_of
from zarrfuse.spec.consolidated_v2 import reason_to_stay
from zarrfuse.spec.paths import join
from zarrfuse.spec.plain_v2 import as_v3
from zarrfuse.stores.base import Kind, Store, read
from zarrfuse.stores.pool import Threads
from zarrfuse.views.chunks.view import ChunksFolder
from zarrfuse.views.nodes import LARGEST_DOCUMENT, Loaded

LARGEST_HIERARCHY = 5000
"""How many names outside of arrays are looked at in a hierarchy without consolidated metadata."""
_AT_ONCE = 16
"""How many folders are listed at one time: an object store takes some 0.1 s for each."""


class Hierarchy:
    """A topmost group of Zarr v2, and all nodes of Zarr v2 below it.

    `kept`: why they stay nodes of Zarr v2; None if they are shown as nodes of Zarr v3.
    """

    def __init__(self, path: str) -> None:
        self.kept: str | None = None
        self._path = path
        self._seen: Loaded | None = None
        self._lock = threading.Lock()

    def look(self, store: Store, folder: ChunksFolder, loaded: Loaded) -> None:
        """Decide, unless that was done since the documents of the group were read."""
        with self._lock:
            if loaded is not self._seen:
                reason = _reason_to_stay(store, folder)
                self.kept = None if reason is None else self._because(reason)
                self._seen = loaded

    def keep(self, reason: str) -> None:
        """Keep all of it as Zarr v2 because of one node; `reason` names its document."""
        if self.kept is None:
            self.kept = self._because(reason)

    def _because(self, reason: str) -> str:
        return f"{self._path or 'the root group'} stays Zarr v2 as a whole: {reason}"


AS_STORED = Hierarchy("")
"""For views that show no node of Zarr v2 as Zarr v3."""
AS_STORED.keep("it is shown as it is stored")


class Hierarchies:
    """The hierarchies of one view that are in use. For any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: WeakValueDictionary[str, Hierarchy] = WeakValueDictionary()
        self._lock = threading.Lock()

    def of(self, folder: ChunksFolder, loaded: Loaded, above: Hierarchy | None) -> Hierarchy | None:
        """The hierarchy of a node of Zarr v2; None for an array that is in no group of Zarr v2.

        `above`: the hierarchy of the nearest node above. The decision on a topmost group is made here: it
        reads the consolidated metadata of the group, or all documents below it.
        """
        if above is not None or not loaded.is_group:
            return above
        with self._lock:
            hierarchy = self._known.get(folder.path)
            if hierarchy is None:
                hierarchy = self._known[folder.path] = Hierarchy(folder.path)
        hierarchy.look(self._store, folder, loaded)
        return hierarchy


def _reason_to_stay(store: Store, folder: ChunksFolder) -> str | None:
    """Why a hierarchy cannot be shown as Zarr v3, or None."""
    try:
        text = read(store, join(folder.path, ".zmetadata"), limit=LARGEST_DOCUMENT)
        reason = reason_to_stay(text)
    except Exception:  # there is none, or none that can be used
        return _found_below(folder)
    return None if reason is None else join(folder.path, reason)


def _found_below(topmost: ChunksFolder) -> str | None:
    """The same, from the documents of all nodes."""
    threads = Threads(_AT_ONCE, "zarr-v2")
    try:
        names = 0
        level = [topmost]
        while level:
            below: list[ChunksFolder] = []
            for reason, count, folders in threads.map(_look, level):
                names += count
                if names > LARGEST_HIERARCHY:
                    return f"it has more than {LARGEST_HIERARCHY} names, and no .zmetadata"
                if reason is not None:
                    return reason
                below += folders
            level = below
    finally:
        threads.shutdown()
    return None


def _look(folder: ChunksFolder) -> tuple[str | None, int, list[ChunksFolder]]:
    """Why a node has to stay Zarr v2, or None; the number of names in its folder, and the folders."""
    names = 0
    below = []
    try:
        loaded = folder.loaded()
        if loaded is not None:
            if loaded.is_v2 and loaded.node is not None:
                as_v3(loaded.node)
            if not (loaded.is_v2 and loaded.is_group):
                return None, 0, []
        for entry in islice(folder.scan(), LARGEST_HIERARCHY + 1):
            names += 1
            if entry.kind is Kind.FOLDER and not entry.denied:
                below.append(folder.child(entry.name))
    except MetadataError as error:
        return join(folder.path, str(error)), 0, []
    except (NotFound, NotAFolder):  # it has just gone
        return None, 0, []
    except Exception as error:  # whatever a store raises
        return f"{folder.path or 'the root'} cannot be looked at: {text_of(error)}", 0, []
    return None, names, below
