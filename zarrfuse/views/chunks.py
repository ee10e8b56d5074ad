"""The `chunks` view: the store after its storage transformers, one file per chunk.

A chunk stored in parts is one file under its own key, of the summed size and the newest time; its
parts are hidden. Everything else is as it is stored: `zarr.json` verbatim, files that are no chunks
of the grid, folders without metadata. A node that must not be loaded keeps its document and its
child nodes, and its chunks are refused. Generic extensions act on what is opened and told: those of
the node, and those that it inherits from the groups above, whose folders are at hand here.
"""

import errno
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Any

from zarrfuse.errors import Corrupt, Denied, NotFound, NotSupported
from zarrfuse.files.segments import Broken, Segmented, Stored
from zarrfuse.spec.active import Active, add_facts, below, joined
from zarrfuse.spec.chunk_keys import METADATA_NAMES
from zarrfuse.spec.concat_parts import StoredParts
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.zep10 import TieredStorage
from zarrfuse.stores.base import Entry, Kind, Reader, Store
from zarrfuse.views.acting import before_opening
from zarrfuse.views.base import Facts, Folder, join
from zarrfuse.views.nodes import Loaded, NodeOf, ReferencedNodes

log = logging.getLogger(__name__)

_OPEN_PARTS = 16
"""A chunk of up to so many parts holds them open; of more, each is opened when it is read."""
_PROBLEMS_KEPT = 10_000


class ChunksView:
    """What the folders of one view share: the store, the nodes that others refer to, and the
    problems already reported."""

    __slots__ = ("_reported", "referenced", "store", "ttl_s")

    def __init__(self, store: Store, ttl_s: float) -> None:
        self.store = store
        self.ttl_s = ttl_s
        self.referenced = ReferencedNodes(store, ttl_s)
        self._reported: set[object] = set()

    @property
    def root(self) -> "ChunksFolder":
        """The root of the tree."""
        return ChunksFolder(self, None, "")

    def report(self, problem: str, state: object = None) -> None:
        """Log a broken chunk or document; once as long as it is in the same `state`."""
        seen = (problem, state)
        if seen not in self._reported and len(self._reported) < _PROBLEMS_KEPT:
            self._reported.add(seen)
            log.warning("%s", problem)


class _Array:
    """An array of parts, seen from a folder at or below it; `prefix` leads from it to the folder."""

    __slots__ = ("node", "parts", "path", "prefix")

    def __init__(self, node: ArrayNode, parts: StoredParts, path: str, prefix: str) -> None:
        self.node = node
        self.parts = parts
        self.path = path
        self.prefix = prefix

    def is_chunk(self, name: str) -> bool:
        """Whether a name in the folder is a chunk key of the grid."""
        return self.node.chunk_at(self.prefix + name) is not None

    def chunk_of(self, name: str) -> str | None:
        """The key, relative to the array, of the chunk that a stored name is a part of."""
        for key, _ in self.parts.candidates(self.prefix + name):
            if self.node.chunk_at(key) is not None:
                return key
        return None

    def part_keys(self, name: str) -> list[str]:
        """The stored keys of a chunk's parts, in order."""
        chunk = join(self.path, self.prefix + name)
        return [chunk + leaf.key_suffix for leaf in self.parts.leaves]


class ChunksFolder(Folder):
    """A folder of the view."""

    __slots__ = ("_above", "_above_at", "_node", "_parent", "_view", "path")

    def __init__(self, view: ChunksView, parent: "ChunksFolder | None", path: str) -> None:
        self._view = view
        self._parent = parent
        self._node = NodeOf(view.store, path, view.ttl_s, view.report, view.referenced)
        self._above: tuple[Active, ...] = ()
        self._above_at = -inf
        self.path = path

    def scan(self) -> Iterator[Entry]:
        """See `views.base.Folder`. Where parts are merged, nothing is shown before all are seen."""
        array = self._array(self._owner())
        if array is None:
            return self._view.store.scan(self.path)
        return iter(self._merged(self._view.store.list(self.path), array).values())

    def lookup(self, name: str, *, wait: bool = True) -> Entry:
        """See `views.base.Folder`."""
        array = self._array(self._owner(wait=wait))
        if array is None:
            return self._view.store.stat(join(self.path, name), wait=wait)
        if array.is_chunk(name):
            entry = self._chunk_entry(name, array, wait)
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
        return ChunksFolder(self._view, self, join(self.path, name))

    def open(self, name: str, *, wait: bool = True) -> Reader:
        """See `views.base.Folder`. A chunk that is not whole opens, and each read says why."""
        home = None if name in METADATA_NAMES else self._home(wait)
        if home is not None:
            folder, owner = home
            if owner.error is not None and not owner.is_group:
                raise NotSupported(owner.error)
            if isinstance(owner.node, ArrayNode):
                acting = folder._acting(owner, wait)
                key = self._prefix(owner.path) + name if acting else ""
                if acting and owner.node.chunk_at(key) is not None:
                    before_opening(acting, owner.path, key, self._view.report, wait=wait)
            array = self._array(owner)
            if array is not None:
                if array.is_chunk(name):
                    return self._open_chunk(name, array, wait)
                if array.chunk_of(name) is not None:
                    raise NotFound(f"{name} in {self.path} is a part of a chunk, shown merged")
        return self._view.store.open(join(self.path, name), wait=wait)

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
            home, entry = self, None
        else:
            path = join(self.path, name)
            home, owner = self._home(True) or (self, None)
            entry = self.lookup(name)
        facts: dict[str, Any] = {"view": "chunks", "path": path}
        if entry is not None:
            facts |= {"kind": entry.kind.name.lower()}
            if entry.kind is Kind.FILE:
                facts |= {"size": entry.size}
        if owner is None or (name in METADATA_NAMES and owner.path != self.path):
            return facts
        facts |= {"node": owner.path}
        if owner.error is not None:
            return {**facts, "error": owner.error}
        if owner.node is not None and (name is None or name in METADATA_NAMES):
            facts |= owner.node.facts()
        elif isinstance(owner.node, ArrayNode) and name is not None:
            of_chunk = self._chunk_facts(name, owner, owner.node)
            if not of_chunk:
                return facts
            facts |= of_chunk
        else:
            return facts
        acting = home._acting(owner, True)  # of which its own, the last, have told already
        add_facts(facts, acting[: len(acting) - len(owner.node.active)])
        return facts

    # -- nodes -------------------------------------------------------------------------------

    def loaded(self, *, wait: bool = True, fresh: bool = False) -> Loaded | None:
        """The node that this folder itself is, or None; see `views.nodes.NodeOf.get`."""
        return self._node.get(wait=wait, fresh=fresh)

    @property
    def parent(self) -> "ChunksFolder | None":
        """The folder above; None for the root."""
        return self._parent

    def _owner(self, *, wait: bool = True) -> Loaded | None:
        """The nearest node at or above this folder: what is in it belongs to that."""
        home = self._home(wait)
        return None if home is None else home[1]

    def _home(self, wait: bool) -> "tuple[ChunksFolder, Loaded] | None":
        """The folder of the nearest node at or above this one, and the node."""
        folder: ChunksFolder | None = self
        while folder is not None:
            loaded = folder.loaded(wait=wait)
            if loaded is not None:
                return folder, loaded
            folder = folder._parent
        return None

    def _prefix(self, node_path: str) -> str:
        """What leads from a node to this folder, with a slash behind it; empty in its own folder."""
        below = self.path[len(node_path) :].lstrip("/")
        return f"{below}/" if below else ""

    def _array(self, owner: Loaded | None) -> _Array | None:
        if owner is None or not isinstance(owner.node, ArrayNode) or owner.node.parts is None:
            return None
        return _Array(owner.node, owner.node.parts, owner.path, self._prefix(owner.path))

    # -- extensions --------------------------------------------------------------------------

    def tier(self, *, wait: bool = True) -> str | None:
        """`slow` where nothing should be read before somebody asks for it (ZEP 10, Tiered storage).

        None elsewhere, and where there is no node. `BlockingIOError` as for stores.
        """
        home = self._home(wait)
        if home is None:
            return None
        folder, owner = home
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
        now = time.monotonic()
        if now - self._above_at >= self._view.ttl_s:
            self._above = self._inherited(wait)
            self._above_at = now
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

    # -- parts -------------------------------------------------------------------------------

    def _merged(self, stored: dict[str, Entry], array: _Array) -> dict[str, Entry]:
        shown = dict(stored)
        found: dict[str, list[Entry]] = {}
        for name, entry in stored.items():
            if entry.kind is not Kind.FILE:
                if entry.kind is Kind.FOLDER:
                    for chunk, part in self._parts_below(name, array):
                        found.setdefault(chunk, []).append(part)
                continue
            key = array.chunk_of(name)
            if key is not None:
                del shown[name]
                folder, slash, own_name = key.rpartition("/")
                if array.prefix == folder + slash:
                    found.setdefault(own_name, []).append(entry)
            elif array.is_chunk(name):
                del shown[name]  # a file under a chunk's key that is none of its parts
        for chunk, parts in found.items():
            shown[chunk] = _summed(chunk, parts)
        return shown

    def _parts_below(self, name: str, array: _Array) -> Iterable[tuple[str, Entry]]:
        """(chunk name, stored part) for the parts of chunks of this folder in its sub-folder."""
        for suffix in array.parts.nested:
            head = suffix.partition("/")[0]
            if name.endswith(head):
                chunk = name[: len(name) - len(head)]
                if chunk and array.is_chunk(chunk):
                    try:
                        part = self._view.store.stat(join(self.path, chunk + suffix))
                    except (NotFound, Denied):
                        continue
                    if part.kind is Kind.FILE:
                        yield chunk, part

    def _chunk_entry(self, name: str, array: _Array, wait: bool) -> Entry | None:
        parts = self._stat_parts(array.part_keys(name), wait)
        present = [part for part in parts if part is not None]
        return _summed(name, present) if present else None

    def _stat_parts(self, keys: Sequence[str], wait: bool) -> list[Entry | None]:
        if not wait and len(keys) > _OPEN_PARTS:
            raise BlockingIOError(errno.EAGAIN, "so many parts take their time")
        entries: list[Entry | None] = []
        for key in keys:
            try:
                entry = self._view.store.stat(key, wait=wait)
            except (NotFound, Denied):  # denied: the folder it would lie in leads out of the store
                entries.append(None)
            else:
                entries.append(entry if entry.kind is Kind.FILE else None)
        return entries

    def _open_chunk(self, name: str, array: _Array, wait: bool) -> Reader:
        keys = array.part_keys(name)
        opened: list[Reader | None] = []
        try:
            if len(keys) <= _OPEN_PARTS:
                self._open_parts(keys, opened, wait)
            else:
                for key, entry in zip(keys, self._stat_parts(keys, wait), strict=True):
                    opened.append(None if entry is None else self._stored(key, entry))
            present = [reader for reader in opened if reader is not None]
            if not present:
                raise NotFound(f"the chunk {name} in {self.path} has no stored part")
            problem = array.parts.problem(
                [None if reader is None else reader.size for reader in opened]
            )
            if problem is None:
                return present[0] if len(present) == 1 else Segmented(present)
            problem = f"{array.path or 'the root array'}: chunk {array.prefix}{name}: {problem}"
            self._view.report(problem)
            size = sum(reader.size for reader in present)
            if not size:  # of an empty file nothing is ever read, so opening must say it
                raise Corrupt(problem)
            broken = Broken(size, max(reader.mtime_ns for reader in present), problem)
        except BaseException:
            _close(opened)
            raise
        _close(opened)
        return broken

    def _stored(self, key: str, entry: Entry) -> Stored:
        return Stored(self._view.store, key, entry.size, entry.mtime_ns)

    def _open_parts(self, keys: Sequence[str], opened: list[Reader | None], wait: bool) -> None:
        for key in keys:
            try:
                opened.append(self._view.store.open(key, wait=wait))
            except NotFound:
                opened.append(None)
            except Denied:
                if self._stat_parts((key,), wait)[0] is not None:
                    raise
                opened.append(None)

    def _chunk_facts(self, name: str, owner: Loaded, node: ArrayNode) -> Facts:
        key = self._prefix(owner.path) + name
        coords = node.chunk_at(key)
        if coords is None:
            return {}
        facts = {**node.facts(), "key": key, "chunk_coords": list(coords)}
        array = self._array(owner)
        if array is None:
            return facts
        keys = array.part_keys(name)
        entries = self._stat_parts(keys, True)
        sizes = [None if entry is None else entry.size for entry in entries]
        facts["parts"] = [
            {**leaf.to_json(), "key": key, "stored_size": size}
            for leaf, key, size in zip(array.parts.leaves, keys, sizes, strict=True)
        ]
        problem = array.parts.problem(sizes)
        return facts if problem is None else {**facts, "error": f"chunk {key}: {problem}"}


def _summed(name: str, parts: Sequence[Entry]) -> Entry:
    return Entry(
        name, Kind.FILE, sum(part.size for part in parts), max(part.mtime_ns for part in parts)
    )


def _close(readers: Iterable[Reader | None]) -> None:
    for reader in readers:
        if reader is not None:
            reader.close()
