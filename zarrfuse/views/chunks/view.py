"""The `chunks` view: the store after its storage transformers, one file for each chunk.

A chunk in parts is one file under its own key, with the sum of their sizes and the newest of their times;
the parts are hidden. Everything else is as it is stored: `zarr.json` verbatim, files that are no chunks of
the grid, folders without metadata. Of a node that must not be loaded, the document and the child nodes are
shown, and its chunks cannot be opened. Generic extensions of a node, and those that it inherits from groups
above, act when a chunk is opened and add facts.

Owns what is shown and read. `merged_chunks` merges parts, `writing` writes.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from zarrfuse import caching
from zarrfuse.errors import Elsewhere, NotFound, NotSupported, ReadOnly
from zarrfuse.spec.active import Active, below, joined
from zarrfuse.spec.chunk_keys import METADATA_NAMES
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.paths import join
from zarrfuse.spec.zep10 import TieredStorage
from zarrfuse.stores.access import Access, Change
from zarrfuse.stores.base import Entry, Kind, Reader, Store, Writer
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.working_copy import WorkingCopy
from zarrfuse.views.base import Folder
from zarrfuse.views.chunks.merged_chunks import (
    OPEN_PARTS,
    WRITABLE_OPEN_PARTS,
    MergedChunks,
    PartStore,
)
from zarrfuse.views.chunks.storing import IsFill
from zarrfuse.views.chunks.writing import ChunkWriting
from zarrfuse.views.extension_hooks import before_opening
from zarrfuse.views.facts import ChunkFacts, Facts, kind_and_size
from zarrfuse.views.nodes import Changes, Loaded, NodeOf, ReferencedNodes

log = logging.getLogger(__name__)

_PROBLEMS_KEPT = 10_000


class ChunksView:
    """What the folders of one view share.

    Attributes:
        store: Where the keys are.
        ttl_s: Seconds until cached metadata is checked again.
        commits: What stores chunks; None for a read-only view.
        changes: The changes of metadata by this process.
        referenced: The nodes that others refer to.
        links: Whether symlinks to files are shown as symlinks, except in the folders of arrays.
        root: The root folder.
    """

    __slots__ = (
        *("_folders", "_reported", "_writing", "changes", "commits", "parts"),
        *("links", "referenced", "root", "store", "ttl_s"),
    )

    def __init__(
        self,
        store: Store,
        ttl_s: float,
        commits: Commits | None = None,
        is_fill: IsFill | None = None,
        *,
        links: bool = False,
    ) -> None:
        self.store = store
        self.links = links
        self.ttl_s = ttl_s
        self.commits = commits
        self.changes = Changes()
        self.referenced = ReferencedNodes(store, ttl_s, self.changes)
        self._reported: set[object] = set()
        self._writing = None if commits is None else ChunkWriting(self.changes, commits, is_fill)
        open_parts = OPEN_PARTS if commits is None else WRITABLE_OPEN_PARTS
        self.parts = PartStore(store, open_parts, self.report)
        self._folders: WeakValueDictionary[str, ChunksFolder] = WeakValueDictionary()
        self.root: Final = ChunksFolder(self, None, "")

    @property
    def writing(self) -> ChunkWriting:
        """What writes in this view. Raises `ReadOnly` without `commits`."""
        if self._writing is None:
            raise ReadOnly("the view cannot be written")
        return self._writing

    def child(self, parent: "ChunksFolder", name: str) -> "ChunksFolder":
        """A subfolder: one object for each path as long as it is used, since it caches its metadata."""
        path = join(parent.path, name)
        folder = self._folders.get(path)
        if folder is None:
            folder = self._folders.setdefault(path, ChunksFolder(self, parent, path))
        return folder

    def report(self, problem: str, state: object = None) -> None:
        """Log a broken chunk or document, once for each `state` that it is in."""
        seen = (problem, state)
        if seen not in self._reported and len(self._reported) < _PROBLEMS_KEPT:
            self._reported.add(seen)
            log.warning("%s", problem)


class _NearestNode(NamedTuple):
    """The nearest node at or above a folder, its folder, and its chunks if they are in parts."""

    folder: "ChunksFolder"
    node: Loaded
    array: MergedChunks | None


class ChunksFolder(Folder):
    """A folder of the view."""

    __slots__ = (
        *("_above", "_above_at", "_known_nearest", "_node", "_parent", "_view", "path"),
        "__weakref__",
    )

    def __init__(self, view: ChunksView, parent: "ChunksFolder | None", path: str) -> None:
        self._view = view
        self._parent = parent
        self._node = NodeOf(view.store, path, view.ttl_s, view.report, view.referenced)
        self._above: tuple[Active, ...] = ()
        self._above_at: tuple[float, int] = (-inf, 0)
        """The time and the count of changes of the last check."""
        self._known_nearest: tuple[_NearestNode | None, float, int] = (None, -inf, 0)
        """With the time of its oldest check, and the count of changes for which it holds."""
        self.path = path

    def scan(self) -> Iterator[Entry]:
        """See `views.base.Folder`. Where parts are merged, the whole folder is listed first."""
        nearest = self.nearest_node()
        array = None if nearest is None else nearest.array
        if array is None:
            return self._view.store.scan(self.path, follow=self._follows(nearest))
        return iter(array.merged(self._view.store.list(self.path)).values())

    def lookup(self, name: str, *, wait: bool = True) -> Entry:
        """See `views.base.Folder`."""
        nearest = self.nearest_node(wait=wait)
        array = None if nearest is None else nearest.array
        if array is None:
            key, follow = join(self.path, name), self._follows(nearest)
            return self._view.store.stat(key, wait=wait, follow=follow)
        if array.is_chunk(name):
            entry = array.entry(name, wait=wait)
            if entry is not None:
                return entry
        stored = self._view.store.stat(join(self.path, name), wait=wait)
        if stored.kind is Kind.FILE:
            if array.is_chunk(name):
                raise NotFound(f"the chunk {name} in {self.path} has no stored part")
            if array.chunk_of(name) is not None:
                raise NotFound(f"{name} in {self.path} is a part of a chunk, shown merged")
        return stored

    def child(self, name: str) -> "ChunksFolder":
        """See `views.base.Folder`."""
        return self._view.child(self, name)

    def below(self, path: str) -> "ChunksFolder":
        """The folder at a path below this one; `""` is this one."""
        folder = self
        for name in path.split("/") if path else ():
            folder = folder.child(name)
        return folder

    def open(self, name: str, *, wait: bool = True) -> Reader:
        """See `views.base.Folder`. Reads of an incomplete chunk raise `Corrupt`."""
        is_replaced = name in METADATA_NAMES  # written as a working copy, not in place
        nearest = None if is_replaced else self.nearest_node(wait=wait)
        if nearest is not None:
            folder, owner, array = nearest
            if owner.error is not None and not owner.is_group:
                raise NotSupported(owner.error)
            if isinstance(owner.node, ArrayNode):
                acting = folder._active(owner, wait)
                if acting or array is not None or self._view.commits is not None:
                    key = self._prefix(owner.path) + name
                    is_replaced = owner.node.chunk_at(key) is not None
                if acting and is_replaced:
                    before_opening(acting, owner.path, key, self._view.report, wait=wait)
            if array is not None:
                if is_replaced:
                    return array.open(name, wait=wait)
                if array.chunk_of(name) is not None:
                    raise NotFound(f"{name} in {self.path} is a part of a chunk, shown merged")
        if is_replaced or self._view.commits is None:
            return self._view.store.open(join(self.path, name), wait=wait)
        return self._view.writing.open_ordinary(self, name, wait=wait)

    def readlink(self, name: str) -> str:
        """See `views.base.Folder`."""
        return self._view.store.readlink(join(self.path, name))

    def facts(self, name: str | None) -> Facts:
        """See `views.base.Folder`.

        A folder has the facts of its node, a chunk those of its array with `key`, `chunk_coords` and the
        stored `parts`. `error`: why a node is not loaded, or a chunk cannot be read.
        """
        if name is None:
            path, owner = self.path, self.loaded()
            folder, entry = self, None
        else:
            path = join(self.path, name)
            folder, owner, _ = self.nearest_node() or (self, None, None)
            entry = self.lookup(name)
        facts = Facts(view="chunks", path=path, **kind_and_size(entry))
        if owner is None or (name in METADATA_NAMES and owner.path != self.path):
            return facts
        facts = replace(facts, owner=owner.path, error=owner.error)
        node = owner.node
        if node is None:
            return facts
        if name is not None and name not in METADATA_NAMES:
            facts = self._chunk_facts(facts, name, owner)
            if facts.chunk is None:
                return facts
        acting = folder._active(owner, True)  # its own are the last
        return replace(facts, node=node, inherited=acting[: len(acting) - len(node.active)])

    def _chunk_facts(self, facts: Facts, name: str, owner: Loaded) -> Facts:
        """`facts` with those of the chunk, if the name is one."""
        key = self._prefix(owner.path) + name
        coords = owner.node.chunk_at(key) if isinstance(owner.node, ArrayNode) else None
        if coords is None:
            return facts
        array = self._merged_chunks(owner)
        if array is None:
            return replace(facts, chunk=ChunkFacts(key=key, coords=coords))
        parts, problem = array.facts(name)
        return replace(
            facts,
            chunk=ChunkFacts(key=key, coords=coords, parts=parts),
            error=None if problem is None else f"chunk {key}: {problem}",
        )

    # -- writing -----------------------------------------------------------------------------

    def create(self, name: str, *, exclusive: bool = False, given: Access | None = None) -> Writer:
        """See `views.base.Folder`; `ChunkWriting` has the rules for this method and those below."""
        return self._view.writing.create(self, name, exclusive=exclusive, given=given)

    def write(self, name: str) -> Writer:
        """See `views.base.Folder`."""
        return self._view.writing.write(self, name)

    def store(self, name: str, copy: WorkingCopy, *, sync: bool = False) -> None:
        """See `views.base.Folder`."""
        self._view.writing.store(self, name, copy, sync=sync)

    def remove(self, name: str) -> None:
        """See `views.base.Folder`."""
        self._view.writing.remove(self, name)

    def rename(self, name: str, to: Folder, new_name: str, *, replace: bool = True) -> bool:
        """See `views.base.Folder`."""
        return self._view.writing.rename(self, name, self._other(to), new_name, replace=replace)

    def link(self, name: str, to: Folder, new_name: str) -> None:
        """See `views.base.Folder`."""
        self._view.writing.link(self, name, self._other(to), new_name)

    def symlink(self, name: str, text: str, given: Access | None = None) -> None:
        """See `views.base.Folder`."""
        self._view.writing.symlink(self, name, text, given)

    def make_folder(self, name: str, given: Access | None = None) -> None:
        """See `views.base.Folder`."""
        self._view.writing.make_folder(self, name, given)

    def remove_folder(self, name: str) -> None:
        """See `views.base.Folder`."""
        self._view.writing.remove_folder(self, name)

    def change(self, name: str, change: Change) -> None:
        """See `views.base.Folder`."""
        self._view.writing.change(self, name, change)

    def sync(self) -> None:
        """See `views.base.Folder`."""
        if self._view.commits is not None:
            self._view.commits.store.sync_folder(self.path)

    def _other(self, folder: Folder) -> "ChunksFolder":
        if not isinstance(folder, ChunksFolder) or folder._view is not self._view:
            raise Elsewhere(f"{folder.path or 'the root'} is not in the same view as {self.path}")
        return folder

    # -- nodes -------------------------------------------------------------------------------

    def loaded(self, *, wait: bool = True, fresh: bool = False) -> Loaded | None:
        """The node of this folder itself, or None; see `views.nodes.NodeOf.get`."""
        return self._node.get(wait=wait, fresh=fresh)

    @property
    def parent(self) -> "ChunksFolder | None":
        """The folder above; None for the root."""
        return self._parent

    def owner(self, *, wait: bool = True) -> Loaded | None:
        """The nearest node at or above this folder. `BlockingIOError` as for stores."""
        nearest = self.nearest_node(wait=wait)
        return None if nearest is None else nearest.node

    def nearest_node(self, *, wait: bool = True) -> _NearestNode | None:
        """The nearest node at or above this folder, with its folder. `BlockingIOError` as for stores."""
        found, checked_at, seen = self._known_nearest
        count = self._view.changes.count
        if seen == count and caching.is_fresh(checked_at, self._view.ttl_s):
            return found
        found, checked_at = None, inf
        folder: ChunksFolder | None = self
        while folder is not None and found is None:
            loaded = folder.loaded(wait=wait)
            checked_at = min(checked_at, folder._node.checked_at)
            if loaded is not None:
                found = _NearestNode(folder, loaded, self._merged_chunks(loaded))
            folder = folder._parent
        self._known_nearest = (found, checked_at, count)
        return found

    @property
    def follows(self) -> bool:
        """Whether symlinks to files are shown as files here: in an array they may be chunks and parts."""
        return self._follows(self.nearest_node())

    def _follows(self, nearest: _NearestNode | None) -> bool:
        return not self._view.links or (nearest is not None and not nearest.node.is_group)

    def _prefix(self, node_path: str) -> str:
        """The path from a node to this folder with a slash at the end; empty in its own folder."""
        below = self.path[len(node_path) :].lstrip("/")
        return f"{below}/" if below else ""

    def merged_chunks(self, *, wait: bool = True) -> MergedChunks | None:
        """The chunks of this folder, if they are in parts. `BlockingIOError` as for stores."""
        nearest = self.nearest_node(wait=wait)
        return None if nearest is None else nearest.array

    def _merged_chunks(self, owner: Loaded) -> MergedChunks | None:
        if not isinstance(owner.node, ArrayNode) or owner.node.parts is None:
            return None
        prefix = self._prefix(owner.path)
        return MergedChunks(self._view.parts, owner.node, owner.node.parts, owner.path, prefix)

    # -- extensions --------------------------------------------------------------------------

    def tier(self, *, wait: bool = True) -> str | None:
        """The tier of the node (ZEP 10, Tiered storage), or None; nothing is prefetched from `slow`.

        `BlockingIOError` as for stores.
        """
        nearest = self.nearest_node(wait=wait)
        if nearest is None:
            return None
        folder, owner, _ = nearest
        for acting in folder._active(owner, wait):
            if isinstance(acting.extension, TieredStorage):
                tier = acting.extension.tier(acting.array)
                if tier is not None:
                    return tier
        return None

    def before_opening(self, coords: Sequence[int] | None = None, *, wait: bool = True) -> None:
        """Call the extensions of the array of this folder before a chunk is read.

        Without `coords`, for a file that is made of all chunks, they are called for the first one. Raises
        what they raise; `BlockingIOError` as for stores.
        """
        loaded = self.loaded(wait=wait)
        if loaded is not None and isinstance(loaded.node, ArrayNode):
            acting = self._active(loaded, wait)
            if acting:
                key = loaded.node.chunk_key(coords or (0,) * loaded.node.ndim)
                before_opening(acting, loaded.path, key, self._view.report, wait=wait)

    def _active(self, loaded: Loaded, wait: bool) -> tuple[Active, ...]:
        """The extensions that act on the node of this folder: first those of groups above, then its own."""
        own = () if loaded.node is None else loaded.node.active
        began_at, count = caching.now(), self._view.changes.count
        checked_at, seen = self._above_at
        if seen != count or not caching.is_fresh(checked_at, self._view.ttl_s, began_at):
            self._above = self._inherited(wait)
            self._above_at = (began_at, count)
        return joined(self._above, own) if self._above else own

    def _inherited(self, wait: bool) -> tuple[Active, ...]:
        inherited: tuple[Active, ...] = ()
        folder = self._parent
        while folder is not None:
            try:
                loaded = folder.loaded(wait=wait)
            except BlockingIOError:
                raise
            except (
                Exception
            ):  # who looks at that folder is told; chunks here can be read all the same
                loaded = None
            if loaded is not None and loaded.node is not None and loaded.node.active:
                path = self.path[len(folder.path) :].lstrip("/")
                inherited = below(loaded.node.active, path) + inherited
            folder = folder._parent
        return inherited
