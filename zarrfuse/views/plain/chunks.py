"""The chunks of one array under the keys of the `default` encoding, whatever its own encoding is.

Owns the folders `c`, `c/0`, ... of the `plain` view: what is in them, and which stored name each entry
stands for. Used by the `plain` and `images` views. It reads through the `chunks` view, which merges parts.
"""

import dataclasses
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import inf
from posixpath import normpath

from msgspec.structs import replace

from zarrfuse import caching
from zarrfuse.errors import Denied, NotAFolder, NotEmpty, NotFound
from zarrfuse.spec.chunk_keys import METADATA_NAMES
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.paths import folder_of, join, relative, split
from zarrfuse.spec.plain import CHUNK_KEYS
from zarrfuse.spec.plain_keys import coordinate, key_layout
from zarrfuse.stores.access import Access, both, way_through
from zarrfuse.stores.base import Entry, Kind, Reader
from zarrfuse.views.chunks.view import ChunksFolder, ChunksView
from zarrfuse.views.facts import ChunkFacts, Facts

Coords = tuple[int, ...]
TOP = "c"
"""The folder of all chunks; of a scalar, its one chunk."""

_FOLDERS_KEPT = 1000
"""How many folders are kept while nothing else uses them: those that were used last."""
_TIMES_AS_LONG = 10
"""A listing of all keys of an array is cached for so many times the seconds that it took."""


class PlainChunks:
    """The chunks of one array; `folder`: that of the array in the `chunks` view.

    `changes`: counts the chunks that this process stores and deletes, so that they are seen at once.
    """

    def __init__(
        self,
        view: ChunksView,
        folder: ChunksFolder,
        node: ArrayNode,
        changes: Callable[[], int] = int,
    ) -> None:
        self._view = view
        self._changes = changes
        self._root = folder
        self._node = node
        self._layout = key_layout(node.chunk_keys, node.ndim)
        self._kept: deque[ChunksFolder] = deque(maxlen=_FOLDERS_KEPT)
        self._lock = threading.Lock()
        self._all: dict[Coords, dict[str, Entry]] = {}
        self._all_at, self._all_kept_s = -inf, 0.0
        self._all_changes = 0

    @property
    def path(self) -> str:
        """The path of the array."""
        return self._root.path

    def is_complete(self, coords: Coords) -> bool:
        """Whether these are the coordinates of a chunk, not only the first ones."""
        return len(coords) == self._node.ndim

    def coords_below(self, prefix: Coords, name: str) -> Coords | None:
        """The coordinates of `name` in the chunk folder `prefix`; None if it is no coordinate."""
        number = coordinate(name, self._node.grid_shape[len(prefix)])
        return None if number is None else (*prefix, number)

    # -- in the array's own folder -----------------------------------------------------------

    def top(self, *, wait: bool = True) -> Entry:
        """The entry of `c`. Raises `NotFound`."""
        return self._entry((), wait)

    def is_taken(self, name: str, kind: Kind) -> bool:
        """Whether a stored name, relative to the array, holds chunks, which are shown below `c`.

        It is hidden in its own place. So is a file that is named `c`.
        """
        if name == TOP:
            return True
        if kind is Kind.FILE:
            return self._node.chunk_at(name) is not None
        return self._nested(name) is not None or self._is_moved(name)

    def _is_moved(self, name: str) -> bool:
        """Whether the folder `name` in the array's folder is shown in `c` instead."""
        if self._layout.way != "folders" or self._layout.lead or self._node.ndim < 2:
            return False
        return coordinate(name, self._node.grid_shape[0]) is not None

    def scan_array(self) -> Iterator[Entry]:
        """The entries of the array's own folder, also of metadata documents."""
        layout, is_scalar = self._layout, not self._node.ndim
        holds_chunks = is_scalar
        for entry in self._root.scan():
            name, kind = entry.name, entry.kind
            if name == TOP and layout.lead == TOP:
                if _may_be_folder(entry):
                    yield _as_folder(TOP, entry)
            elif self.is_taken(name, kind):
                holds_chunks = holds_chunks or name != TOP or layout.way == "unknown"
            else:
                yield entry
                if layout.way == "unknown" and kind is Kind.FOLDER:
                    holds_chunks = True  # perhaps: it is not listed to find out
        if holds_chunks:
            try:
                yield self.top()
            except (NotFound, Denied):
                return

    # -- in chunk folders --------------------------------------------------------------------

    def lookup(self, prefix: Coords, name: str, *, wait: bool = True) -> Entry:
        """The entry of a name in the chunk folder `prefix`. Raises `NotFound`.

        If chunk folders are not stored as such, there is one for all coordinates of the grid: whether it is
        empty is known only from a listing of all keys.
        """
        coords = self.coords_below(prefix, name)
        if coords is not None:
            return self._entry(coords, wait)
        return self.beside(prefix, name).lookup(name, wait=wait)

    def scan(self, prefix: Coords) -> Iterator[Entry]:
        """The entries of the chunk folder `prefix`."""
        if self._layout.way == "folders":
            return self._scan_folder(prefix)
        return iter(self._gathered().get(prefix, {}).values())

    def open(self, prefix: Coords, name: str, *, wait: bool = True) -> Reader:
        """Open a chunk, or another file in a chunk folder. Raises `NotFound`."""
        coords = self.coords_below(prefix, name)
        if coords is None:
            return self.beside(prefix, name).open(name, wait=wait)
        return self.open_chunk(coords, wait=wait)

    def open_chunk(self, coords: Coords, *, wait: bool = True) -> Reader:
        """Open the chunk at these coordinates. Raises `NotFound`."""
        folder, name = self.place(coords)
        return folder.open(name, wait=wait)

    def facts(self, coords: Coords) -> Facts:
        """The facts of the `chunks` view on a chunk, with its key in this view and its stored key."""
        folder, name = self.place(coords)
        facts = folder.facts(name)
        chunk = ChunkFacts(
            key=CHUNK_KEYS.encode(coords),
            coords=coords,
            parts=None if facts.chunk is None else facts.chunk.parts,
            stored_key=self._node.chunk_key(coords),
        )
        return dataclasses.replace(facts, chunk=chunk)

    def some(self) -> Iterator[Coords]:
        """Yield the coordinates of stored chunks, as they are found."""
        if self._layout.way != "folders":
            yield from (coords for coords, _ in self._every_chunk())
            return
        todo: list[Iterator[Coords]] = [self._below(())]
        while todo:
            coords = next(todo[-1], None)
            if coords is None:
                todo.pop()
            elif self.is_complete(coords):
                yield coords
            else:
                todo.append(self._below(coords))

    def _below(self, prefix: Coords) -> Iterator[Coords]:
        """The coordinates of what is stored in a chunk folder; none if it cannot be listed."""
        try:
            for entry in self.scan(prefix):
                coords = self.coords_below(prefix, entry.name)
                if coords is not None and not entry.denied:
                    yield coords
        except (NotFound, NotAFolder, Denied):
            return

    def readlink(self, prefix: Coords, name: str) -> str:
        """The shown target of a symlink in a chunk folder. Raises `NotFound`."""
        return self.shown_link(self.beside(prefix, name), name)

    def shown_link(self, folder: ChunksFolder, name: str) -> str:
        """The shown target of the symlink `name` in a stored folder."""
        there = normpath(join(folder.path, folder.readlink(name)))
        if there == ".":  # the root
            there = ""
        return relative(self._shown_path(there), self._shown_path(folder.path)) or "."

    def _shown_path(self, path: str) -> str:
        """The path in the view of a stored path in this array; any other path as it is."""
        below = path[len(self._root.path) :].lstrip("/")
        if join(self._root.path, below) == path and self._is_moved(below.partition("/")[0]):
            return join(self._root.path, join(TOP, below))
        return path

    def beside(self, prefix: Coords, name: str) -> ChunksFolder:
        """The stored folder of a `name` in a chunk folder that is no chunk.

        Raises `NotFound` for names of metadata, and for those that hold chunks.
        """
        path = self._stored_path(prefix)
        if path and not self.is_reserved(prefix, name):
            return self._at(path)
        raise NotFound(f"no {name} in {join(self._root.path, CHUNK_KEYS.encode(prefix))}")

    def is_reserved(self, prefix: Coords, name: str) -> bool:
        """Whether a name in a chunk folder cannot be that of an ordinary file.

        It is a name of metadata, or holds a chunk in the store.
        """
        if name in METADATA_NAMES:
            return True
        path = self._stored_path(prefix)
        stored = join(path, name)
        return bool(path) and (
            self._node.chunk_at(stored) is not None or self._nested(stored) is not None
        )

    # -- stored folders ----------------------------------------------------------------------

    def stored_folder(self, prefix: Coords) -> ChunksFolder | None:
        """The stored folder of a chunk folder; None if it is not stored as such."""
        path = self._stored_path(prefix)
        return self._at(path) if path else None

    def prune(self, coords: Coords) -> None:
        """Delete the folders that hold only the chunk at these coordinates, if they are empty."""
        if self._layout.nested is None:
            return
        path = folder_of(self._node.chunk_key(coords))
        top = self._layout.folder(coords[:-1]) if self._layout.way == "folders" else ""
        with suppress(NotFound, NotEmpty):
            while len(path) > len(top):
                above, name = split(path)
                self._at(above).remove_folder(name)
                path = above

    def _stored_path(self, prefix: Coords) -> str:
        """The path of the stored folder, relative to the array; `""` if there is none."""
        return self._layout.folder(prefix) if self._layout.way == "folders" else ""

    def _at(self, path: str) -> ChunksFolder:
        """The folder at `path`, relative to the array."""
        folder = self._root.below(path)
        self._kept.append(folder)
        return folder

    def place(self, coords: Coords) -> tuple[ChunksFolder, str]:
        """The stored folder of the chunk at these coordinates, and its name in it."""
        folder, name = split(self._node.chunk_key(coords))
        return self._at(folder), name

    # -- entries -----------------------------------------------------------------------------

    def _entry(self, coords: Coords, wait: bool) -> Entry:
        """The entry of a chunk, or of a chunk folder."""
        shown = str(coords[-1]) if coords else TOP
        if self.is_complete(coords):
            folder, name = self.place(coords)
            entry = folder.lookup(name, wait=wait)
            if not _may_be_chunk(entry):
                raise NotFound(f"{name} in {folder.path} is a folder, not a chunk")
            return replace(_as_file(shown, entry), access=self._reached(entry, coords, wait))
        path = self._stored_path(coords)
        if not path:
            return self._virtual(shown, wait=wait)
        above, name = split(path)
        entry = self._at(above).lookup(name, wait=wait)
        if not _may_be_folder(entry):
            raise NotFound(f"{path} in {self._root.path} is a file, not a folder of chunks")
        return _as_folder(shown, entry)

    def _reached(self, entry: Entry, coords: Coords, wait: bool) -> Access | None:
        """The access of a chunk, restricted by the stored folders above it that are not shown."""
        access = entry.access
        if self._layout.way == "unknown" or self._layout.nested is not None:
            shown = self._layout.folder(coords[:-1]) if self._layout.way == "folders" else ""
            folder = folder_of(self._node.chunk_key(coords))
            while len(folder) > len(shown):
                stored = self._view.store.stat(join(self._root.path, folder), wait=wait)
                access = both(access, way_through(stored.access))
                folder = folder_of(folder)
        return access

    def _virtual(self, name: str, *, wait: bool = True) -> Entry:
        """The entry of a chunk folder that is not stored, with the time of the array's folder."""
        entry = self._view.store.stat(self._root.path, wait=wait)
        return _as_folder(name, entry)

    def _nested(self, stored: str) -> Coords | None:
        """The coordinates of the chunk that a stored folder holds; None if it holds none."""
        head = self._layout.nested
        if head is None or not stored.endswith(head):
            return None
        return self._node.chunk_at(stored[: len(stored) - len(head)] + self._layout.suffix)

    def _nested_chunk(self, coords: Coords) -> Iterator[Entry]:
        """The entry of the chunk; none if it is not in its folder, or that is denied."""
        try:
            yield self._entry(coords, True)
        except (NotFound, Denied):
            return

    # -- listings ----------------------------------------------------------------------------

    def _scan_folder(self, prefix: Coords) -> Iterator[Entry]:
        layout = self._layout
        path = layout.folder(prefix)
        suffix = layout.suffix
        behind = len(suffix)
        count = self._node.grid_shape[len(prefix)]
        holds_chunks = len(prefix) == self._node.ndim - 1
        for entry in self._at(path).scan():
            name = entry.name
            if not holds_chunks:
                if coordinate(name, count) is not None:
                    if _may_be_folder(entry):
                        yield _as_folder(name, entry)
                    continue
            elif name.endswith(suffix):
                number = name[: len(name) - behind]
                if coordinate(number, count) is not None:
                    if _may_be_chunk(entry):
                        yield _as_file(number, entry) if behind else entry
                    continue
            elif (coords := self._nested(join(path, name))) is not None:
                yield from self._nested_chunk(coords)
                continue
            if path and name not in METADATA_NAMES and coordinate(name, count) is None:
                yield entry

    def _gathered(self) -> dict[Coords, dict[str, Entry]]:
        """The entries of every chunk folder, by its coordinates, from a listing of all keys.

        A program lists a tree folder by folder. So the listing is cached, for longer the longer it took.
        """
        with self._lock:
            began_at, changes = caching.now(), self._changes()
            is_fresh = caching.is_fresh(self._all_at, self._all_kept_s, began_at)
            if not is_fresh or changes != self._all_changes:
                self._all = self._gather()
                self._all_at, self._all_changes = began_at, changes
                took_s = caching.now() - began_at
                self._all_kept_s = max(self._view.ttl_s, _TIMES_AS_LONG * took_s)
            return self._all

    def _gather(self) -> dict[Coords, dict[str, Entry]]:
        found: dict[Coords, dict[str, Entry]] = {}
        for coords, entry in self._every_chunk():
            name = str(coords[-1])
            found.setdefault(coords[:-1], {})[name] = _as_file(name, entry)
        virtual = self._virtual(TOP)
        for coords in list(found):
            for depth in reversed(range(len(coords))):
                folders = found.setdefault(coords[:depth], {})
                name = str(coords[depth])
                if name in folders:
                    break
                folders[name] = _as_folder(name, virtual)
        return found

    def _every_chunk(self) -> Iterator[tuple[Coords, Entry]]:
        """Every stored chunk with its entry, for arrays whose chunk folders are not stored as such."""
        todo: list[tuple[ChunksFolder, str, Access | None]] = [(self._root, "", None)]
        while todo:
            folder, base, way = todo.pop()
            for entry in folder.scan():
                key = base + entry.name
                if entry.kind is Kind.FILE:
                    coords = self._node.chunk_at(key)
                    if coords is not None:
                        if way is None:
                            yield coords, entry
                        else:
                            yield coords, replace(entry, access=both(entry.access, way))
                elif self._layout.way == "unknown":
                    below = folder.child(entry.name)
                    if entry.kind is Kind.FOLDER and not entry.denied and below.loaded() is None:
                        way_below = both(way_through(entry.access), way)
                        todo.append((below, f"{key}/", way_below))
                elif (coords := self._nested(key)) is not None:
                    for chunk in self._nested_chunk(coords):
                        yield coords, chunk


def _as_file(name: str, entry: Entry) -> Entry:
    return replace(entry, name=name, kind=Kind.FILE)


# A denied name may be a chunk or a folder of chunks. It is shown as one: a reader would take a missing
# chunk for one of fill values.


def _may_be_chunk(entry: Entry) -> bool:
    return entry.kind is Kind.FILE or entry.denied


def _may_be_folder(entry: Entry) -> bool:
    """Also a symlink, which may lead to a folder."""
    return entry.kind is not Kind.FILE or entry.denied


def _as_folder(name: str, entry: Entry) -> Entry:
    if entry.denied:
        return Entry(name, entry.kind, entry.size, entry.mtime_ns, True)
    return Entry(name, Kind.FOLDER, 0, entry.mtime_ns, access=entry.access)
