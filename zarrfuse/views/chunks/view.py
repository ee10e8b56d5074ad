"""The `chunks` view: the store after its storage transformers, one file per chunk.

A chunk stored in parts is one file under its own key, of the summed size and the newest time; its
parts are hidden. Everything else is as it is stored: `zarr.json` verbatim, files that are no chunks
of the grid, folders without metadata. A node that must not be loaded keeps its document and its
child nodes, and its chunks are refused. Generic extensions act on what is opened and told: those of
the node, and those that it inherits from the groups above, whose folders are at hand here.

Owns what is shown and read. How parts are one file is `in_parts`' to say, and what writing does
`chunk_writing`'s.
"""

import logging
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from zarrfuse.errors import Elsewhere, NotFound, NotSupported, ReadOnly
from zarrfuse.spec.active import Active, below, joined
from zarrfuse.spec.chunk_keys import METADATA_NAMES
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.zep10 import TieredStorage
from zarrfuse.stores.access import Access, Change
from zarrfuse.stores.base import Entry, Kind, Reader, Store, Writer
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.working_copy import WorkingCopy
from zarrfuse.views.base import Folder, join
from zarrfuse.views.chunks.merged_chunks import OPEN_PARTS, WRITABLE_OPEN_PARTS, InParts, PartStore
from zarrfuse.views.chunks.storing import IsFill
from zarrfuse.views.chunks.writing import ChunkWriting
from zarrfuse.views.extension_hooks import before_opening
from zarrfuse.views.facts import ChunkFacts, Facts, kind_and_size
from zarrfuse.views.nodes import Changes, Loaded, NodeOf, ReferencedNodes

log = logging.getLogger(__name__)

_PROBLEMS_KEPT = 10_000
_FOLDERS_KEPT = 4096
"""So many folders are kept while nobody uses them: those that were made last."""


class ChunksView:
    """What the folders of one view share.

    The store, the nodes that others refer to, what is known to have changed, and the problems that were
    reported.

    `commits`: what stores chunks, for a view that can be written. `is_fill`: whether the bytes of a
    chunk hold nothing but the fill value; without it no chunk is taken to be empty. `links`: whether
    symlinks to files are shown as symlinks, except in the folders of arrays.
    """

    __slots__ = (
        *("_folders", "_kept", "_reported", "_writing", "changes", "commits", "parts"),
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
        self._kept: deque[ChunksFolder] = deque(maxlen=_FOLDERS_KEPT)
        self.root: Final = ChunksFolder(self, None, "")

    @property
    def writing(self) -> ChunkWriting:
        """What writes in this view. Raises `ReadOnly`."""
        if self._writing is None:
            raise ReadOnly("the view cannot be written")
        return self._writing

    def child(self, parent: "ChunksFolder", name: str) -> "ChunksFolder":
        """A folder by its path: one object for all who use it, because it keeps what it has read."""
        path = join(parent.path, name)
        folder = self._folders.get(path)
        if folder is None:
            folder = self._folders.setdefault(path, ChunksFolder(self, parent, path))
            self._kept.append(folder)
        return folder

    def report(self, problem: str, state: object = None) -> None:
        """Log a broken chunk or document; once as long as it is in the same `state`."""
        seen = (problem, state)
        if seen not in self._reported and len(self._reported) < _PROBLEMS_KEPT:
            self._reported.add(seen)
            log.warning("%s", problem)


class _Home(NamedTuple):
    """What the files in a folder belong to: the nearest node at or above it. `folder` is that of the node.

    `array` is set if chunks are stored in parts, as seen from the folder of the files.
    """

    folder: "ChunksFolder"
    node: Loaded
    array: InParts | None


class ChunksFolder(Folder):
    """A folder of the view."""

    __slots__ = (
        *("_above", "_above_at", "_known_home", "_node", "_parent", "_view", "path"),
        "__weakref__",
    )

    def __init__(self, view: ChunksView, parent: "ChunksFolder | None", path: str) -> None:
        self._view = view
        self._parent = parent
        self._node = NodeOf(view.store, path, view.ttl_s, view.report, view.referenced)
        self._above: tuple[Active, ...] = ()
        self._above_at: tuple[float, int] = (-inf, 0)
        """When that was looked at: the time, and the count of changes."""
        self._known_home: tuple[_Home | None, float, int] = (None, -inf, 0)
        """How long that counts: the time, and the count of changes."""
        self.path = path

    def scan(self) -> Iterator[Entry]:
        """See `views.base.Folder`. Where parts are merged, nothing is shown before all are seen."""
        home = self.home()
        array = None if home is None else home.array
        if array is None:
            return self._view.store.scan(self.path, follow=self._follows(home))
        return iter(array.merged(self._view.store.list(self.path)).values())

    def lookup(self, name: str, *, wait: bool = True) -> Entry:
        """See `views.base.Folder`."""
        home = self.home(wait=wait)
        array = None if home is None else home.array
        if array is None:
            key, follow = join(self.path, name), self._follows(home)
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
        """The folder at a path in this one; `""` is this one."""
        folder = self
        for name in path.split("/") if path else ():
            folder = folder.child(name)
        return folder

    def open(self, name: str, *, wait: bool = True) -> Reader:
        """See `views.base.Folder`. A chunk that is not whole opens, and each read says why."""
        is_replaced = name in METADATA_NAMES  # when it is written, rather than changed in place
        home = None if is_replaced else self.home(wait=wait)
        if home is not None:
            folder, owner, array = home
            if owner.error is not None and not owner.is_group:
                raise NotSupported(owner.error)
            if isinstance(owner.node, ArrayNode):
                acting = folder._acting(owner, wait)
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

        Of a folder, those of its own node; of a file, those of its array too, with `key`,
        `chunk_coords` and the stored `parts` if it is a chunk, and `error` if it cannot be read.
        Behind them, those that extensions tell.
        """
        if name is None:
            path, owner = self.path, self.loaded()
            folder, entry = self, None
        else:
            path = join(self.path, name)
            folder, owner, _ = self.home() or (self, None, None)
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
        acting = folder._acting(owner, True)  # its own are the last
        return replace(facts, node=node, inherited=acting[: len(acting) - len(node.active)])

    def _chunk_facts(self, facts: Facts, name: str, owner: Loaded) -> Facts:
        """With those of the chunk, if the name is one."""
        key = self._prefix(owner.path) + name
        coords = owner.node.chunk_at(key) if isinstance(owner.node, ArrayNode) else None
        if coords is None:
            return facts
        array = self._in_parts(owner)
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
        """See `views.base.Folder`, and `chunk_writing` for this and all that follow."""
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
        """The node that this folder itself is, or None; see `views.nodes.NodeOf.get`."""
        return self._node.get(wait=wait, fresh=fresh)

    @property
    def parent(self) -> "ChunksFolder | None":
        """The folder above; None for the root."""
        return self._parent

    def owner(self, *, wait: bool = True) -> Loaded | None:
        """The nearest node at or above this folder: what is in it belongs to that.

        `BlockingIOError` as for stores.
        """
        home = self.home(wait=wait)
        return None if home is None else home.node

    def home(self, *, wait: bool = True) -> _Home | None:
        """What the files in this folder belong to. `BlockingIOError` as for stores."""
        found, until, seen = self._known_home
        count = self._view.changes.count
        if seen == count and time.monotonic() < until:
            return found
        found, until = None, inf
        folder: ChunksFolder | None = self
        while folder is not None and found is None:
            loaded = folder.loaded(wait=wait)
            until = min(until, folder._node.good_until)
            if loaded is not None:
                found = _Home(folder, loaded, self._in_parts(loaded))
            folder = folder._parent
        self._known_home = (found, until, count)
        return found

    @property
    def follows(self) -> bool:
        """Whether symlinks to files are shown here as these files: chunks and parts may be such."""
        return self._follows(self.home())

    def _follows(self, home: _Home | None) -> bool:
        return not self._view.links or (home is not None and not home.node.is_group)

    def _prefix(self, node_path: str) -> str:
        """What leads from a node to this folder, with a slash behind it; empty in its own folder."""
        below = self.path[len(node_path) :].lstrip("/")
        return f"{below}/" if below else ""

    def in_parts(self, *, wait: bool = True) -> InParts | None:
        """The array whose chunks lie here, if these are in parts. `BlockingIOError` as for stores."""
        home = self.home(wait=wait)
        return None if home is None else home.array

    def _in_parts(self, owner: Loaded) -> InParts | None:
        if not isinstance(owner.node, ArrayNode) or owner.node.parts is None:
            return None
        prefix = self._prefix(owner.path)
        return InParts(self._view.parts, owner.node, owner.node.parts, owner.path, prefix)

    # -- extensions --------------------------------------------------------------------------

    def tier(self, *, wait: bool = True) -> str | None:
        """`slow` where nothing should be read before somebody asks for it (ZEP 10, Tiered storage).

        None elsewhere, and where there is no node. `BlockingIOError` as for stores.
        """
        home = self.home(wait=wait)
        if home is None:
            return None
        folder, owner, _ = home
        for acting in folder._acting(owner, wait):
            if isinstance(acting.extension, TieredStorage):
                tier = acting.extension.tier(acting.array)
                if tier is not None:
                    return tier
        return None

    def before_opening(self, coords: Sequence[int] | None = None, *, wait: bool = True) -> None:
        """Tell the extensions that act on the array of this folder that a chunk is about to be read.

        Without `coords`, of a file that is made of all chunks, they are told of the first one.
        Raises what they refuse with; `BlockingIOError` as for stores.
        """
        loaded = self.loaded(wait=wait)
        if loaded is not None and isinstance(loaded.node, ArrayNode):
            acting = self._acting(loaded, wait)
            if acting:
                key = loaded.node.chunk_key(coords or (0,) * loaded.node.ndim)
                before_opening(acting, loaded.path, key, self._view.report, wait=wait)

    def _acting(self, loaded: Loaded, wait: bool) -> tuple[Active, ...]:
        """The extensions that act on the node of this folder: those of the groups above, its own."""
        own = () if loaded.node is None else loaded.node.active
        now, count = time.monotonic(), self._view.changes.count
        checked_at, seen = self._above_at
        if now - checked_at >= self._view.ttl_s or seen != count:
            self._above = self._inherited(wait)
            self._above_at = (now, count)
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
