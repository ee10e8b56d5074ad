"""The `plain` view: the same data as a core Zarr v3 store, for every Zarr v3 reader.

Chunks have the keys of the `default` encoding, with parts merged. Each `zarr.json` is rewritten: without
storage transformers and extensions, names spelled out. Nodes of Zarr v2 are shown as nodes of Zarr v3 if
that can express them, else as they are stored. A node that must not be loaded, or that no reader could
decode, is refused: it is listed, and opening its document or a chunk fails with the reason. All else is as
in the `chunks` view, on which this one is built.

Owns what is shown and read; `writing` has the rules of what is written.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Self, TypeAlias

from zarrfuse.errors import Elsewhere, IsAFolder, NotAFolder, NotEmpty, NotFound, NotSupported
from zarrfuse.spec.chunk_keys import METADATA_NAMES
from zarrfuse.spec.paths import join
from zarrfuse.stores.access import Access, Change
from zarrfuse.stores.base import Entry, Kind, Reader, Writer
from zarrfuse.transactions.working_copy import WorkingCopy
from zarrfuse.views.base import Folder
from zarrfuse.views.chunks.view import ChunksFolder, ChunksView
from zarrfuse.views.facts import Facts, kind_and_size
from zarrfuse.views.nodes import Loaded
from zarrfuse.views.plain import files as plain_files
from zarrfuse.views.plain import folders as plain_folders
from zarrfuse.views.plain.chunks import TOP, Coords, PlainChunks
from zarrfuse.views.plain.files import file_at, transient_key
from zarrfuse.views.plain.folders import folder_at
from zarrfuse.views.plain.hierarchies import AS_STORED, Hierarchies
from zarrfuse.views.plain.nodes import DOCUMENT, PlainNode
from zarrfuse.views.plain.resolve import ChunkFolder, ResolvedFolder, Resolver, StoredFolder
from zarrfuse.views.plain.writing import PlainWriting

_StoredFolder: TypeAlias = StoredFolder[PlainNode]
_ChunkFolder: TypeAlias = ChunkFolder[PlainNode]


class PlainView:
    """What the folders of one view share: the `chunks` view below, and what writes.

    `v2_as_v3`: whether nodes of Zarr v2 are shown as nodes of Zarr v3.
    """

    __slots__ = ("_hierarchies", "chunks", "writing")

    def __init__(self, chunks: ChunksView, *, v2_as_v3: bool = True) -> None:
        self.chunks = chunks
        self.writing = PlainWriting(chunks)
        self._hierarchies = Hierarchies(chunks.store) if v2_as_v3 else None

    @property
    def root(self) -> "PlainFolder":
        """The root of the tree."""
        return PlainFolder(Resolver(self.chunks, self._shown), self.writing)

    def _shown(self, folder: ChunksFolder, loaded: Loaded, above: PlainNode | None) -> PlainNode:
        changes = self.writing.changes(folder.path)
        if not loaded.is_v2:
            return PlainNode(self.chunks, folder, loaded, changes)
        if self._hierarchies is None:
            return PlainNode(self.chunks, folder, loaded, changes, AS_STORED)
        hierarchy = self._hierarchies.of(folder, loaded, above.hierarchy if above else None)
        return PlainNode(self.chunks, folder, loaded, changes, hierarchy)


class PlainFolder(ResolvedFolder[PlainNode]):
    """A folder of the view."""

    __slots__ = ("_writing",)

    def __init__(self, placed: Resolver[PlainNode], writing: PlainWriting) -> None:
        super().__init__(placed)
        self._writing = writing

    def child(self, name: str) -> Self:
        """See `views.base.Folder`."""
        return type(self)(self._resolver.below(name), self._writing)

    def scan(self) -> Iterator[Entry]:
        """See `views.base.Folder`."""
        place = self._resolver.now()
        if isinstance(place, ChunkFolder):
            return self._scan_chunks(place.chunks, place.prefix)
        if _is_v3(place):
            return self._scan_node(place)
        return place.scan()

    def lookup(self, name: str, *, wait: bool = True) -> Entry:
        """See `views.base.Folder`."""
        place = self._place_of(name, wait)
        if isinstance(place, ChunkFolder):
            return self._lookup_in_chunks(place.chunks, place.prefix, name, wait)
        if _is_v3(place) and place.node is not None:
            if name == DOCUMENT:
                return place.node.entry(wait=wait)
            self._refuse_metadata(name)
            if name == TOP and place.chunks is not None:
                return place.chunks.top(wait=wait)
        try:
            return place.lookup(name, wait=wait)
        except NotFound:
            if name == TOP and place.is_node and place.node is not None:
                _check_shown(place.node)
            raise

    def open(self, name: str, *, wait: bool = True) -> Reader:
        """See `views.base.Folder`."""
        place = self._place_of(name, wait)
        if isinstance(place, ChunkFolder):
            return self._open_in_chunks(place.chunks, place.prefix, name, wait)
        node = place.node
        if node is not None and node.refused is not None:
            if name in METADATA_NAMES and node.folder is place.folder:
                place.lookup(name, wait=wait)  # which raises if there is none
                raise NotFound(node.refused)  # so that readers of the group go on without it
            if not node.loaded.is_group:
                raise NotSupported(node.refused)
        if _is_v3(place) and node is not None:
            if name == DOCUMENT:
                return node.document(wait=wait)
            self._refuse_metadata(name)
            if name == TOP and place.chunks is not None:
                return place.chunks.open_chunk((), wait=wait)
        if place.is_taken(name, Kind.FILE):
            raise NotFound(f"{name} in {self.path} holds chunks, shown under {TOP}")
        if name == TOP:
            self.lookup(name, wait=wait)  # which raises for an array that is kept as Zarr v2
        return place.folder.open(name, wait=wait)

    def facts(self, name: str | None) -> Facts:
        """See `views.base.Folder`.

        Those of the `chunks` view, with the node that the rewritten document describes. A chunk has its
        `key` in this view, and its `stored_key`. `kept_as_v2`: why a node is not shown as Zarr v3; `error`:
        why it is refused.
        """
        place = self._resolver.now()
        path = self.path if name is None else join(self.path, name)
        facts = _facts(place, name, None if name is None else self.lookup(name))
        return replace(facts, view="plain", path=path)

    def _refuse_metadata(self, name: str) -> None:
        if name in METADATA_NAMES:
            raise NotFound(f"{name} in {self.path}: the node is shown as one of Zarr v3")

    # -- listings ----------------------------------------------------------------------------

    def _scan_node(self, place: _StoredFolder) -> Iterator[Entry]:
        assert place.node is not None
        chunks, has_top = place.chunks, False
        for entry in place.folder.scan() if chunks is None else chunks.scan_array():
            has_top = has_top or entry.name == TOP
            if entry.name not in METADATA_NAMES:
                yield entry
        if chunks is not None and not has_top and self._has_loose(chunks):
            yield chunks.top()
        try:
            yield place.node.entry()
        except NotFound:  # it has just gone
            return

    def _has_loose(self, chunks: PlainChunks) -> bool:
        return next(self._writing.transient.entries(chunks.path, ()), None) is not None

    def _scan_chunks(self, chunks: PlainChunks, prefix: Coords) -> Iterator[Entry]:
        """The entries of a chunk folder: chunks, ordinary and transient files."""
        transient = {
            entry.name: entry for entry in self._writing.transient.entries(chunks.path, prefix)
        }
        for entry in chunks.scan(prefix):
            transient.pop(entry.name, None)  # a folder in which there are chunks, too
            yield entry
        yield from transient.values()

    def _lookup_in_chunks(
        self, chunks: PlainChunks, prefix: Coords, name: str, wait: bool
    ) -> Entry:
        try:
            return chunks.lookup(prefix, name, wait=wait)
        except NotFound:
            return self._writing.transient.entry(transient_key(chunks, prefix, name))

    def _open_in_chunks(self, chunks: PlainChunks, prefix: Coords, name: str, wait: bool) -> Reader:
        try:
            return chunks.open(prefix, name, wait=wait)
        except NotFound:
            return self._writing.transient.open(transient_key(chunks, prefix, name))

    # -- writing: see `views.base.Folder`, and `plain_writing` for what these do --------------

    def create(self, name: str, *, exclusive: bool = False, given: Access | None = None) -> Writer:
        """See `views.base.Folder`."""
        return self._file(name).create(exclusive=exclusive, given=given)

    def write(self, name: str) -> Writer:
        """See `views.base.Folder`."""
        return self._file(name).write()

    def store(self, name: str, copy: WorkingCopy, *, sync: bool = False) -> None:
        """See `views.base.Folder`."""
        self._file(name).store(copy, sync=sync)

    def remove(self, name: str) -> None:
        """See `views.base.Folder`."""
        if self.lookup(name).kind is Kind.FOLDER:
            raise IsAFolder(f"{join(self.path, name)} is a folder")
        self._file(name).remove()
        self._forget_if_empty()

    def rename(self, name: str, to: Folder, new_name: str, *, replace: bool = True) -> bool:
        """See `views.base.Folder`."""
        if not isinstance(to, PlainFolder):
            raise Elsewhere(f"{join(self.path, name)} cannot be renamed into another view")
        if self.lookup(name).kind is not Kind.FOLDER:
            is_same = plain_files.rename(self._file(name), to._file(new_name), replace=replace)
            self._forget_if_empty()
            return is_same
        plain_folders.rename_folder(
            self._writing,
            folder_at(self._writing, self._place_of(name, True), name),
            join(self.path, name),
            folder_at(self._writing, to._place_of(new_name, True), new_name),
            join(to.path, new_name),
            replace=replace,
        )
        self._forget_if_empty()
        return True

    def link(self, name: str, to: Folder, new_name: str) -> None:
        """See `views.base.Folder`."""
        if not isinstance(to, PlainFolder):
            raise Elsewhere(f"{join(self.path, name)} cannot be linked into another view")
        if self.lookup(name).kind is Kind.FOLDER:
            raise IsAFolder(f"{join(self.path, name)} is a folder")
        plain_files.link(self._file(name), to._file(new_name))

    def symlink(self, name: str, text: str, given: Access | None = None) -> None:
        """See `views.base.Folder`."""
        file = self._file(name)
        if not isinstance(file, plain_files.StoredFile):
            raise NotSupported(f"{join(self.path, name)} cannot be a symlink")
        file.folder.symlink(file.name, text, given)

    def make_folder(self, name: str, given: Access | None = None) -> None:
        """See `views.base.Folder`."""
        found = folder_at(self._writing, self._place_of(name, True), name)
        plain_folders.make_folder(found, given)

    def remove_folder(self, name: str) -> None:
        """See `views.base.Folder`."""
        path = join(self.path, name)
        if self.lookup(name).kind is not Kind.FOLDER:
            raise NotAFolder(f"{path} is no folder")
        found = folder_at(self._writing, self._place_of(name, True), name)
        if found.above is None and next(self.child(name).scan(), None) is not None:
            raise NotEmpty(f"{path} is not empty")
        plain_folders.remove_folder(self._writing, found, path)
        self._forget_if_empty()

    def change(self, name: str, change: Change) -> None:
        """See `views.base.Folder`."""
        if self.lookup(name).kind is not Kind.FOLDER:
            self._file(name).change(change)
            return
        found = folder_at(self._writing, self._place_of(name, True), name)
        if found.above is not None:
            found.above.change(found.name, change)

    def sync(self) -> None:
        """See `views.base.Folder`."""
        place = self._resolver.now()
        if isinstance(place, ChunkFolder):
            (place.chunks.stored_folder(place.prefix) or place.node.folder).sync()
        else:
            place.folder.sync()

    def _forget_if_empty(self) -> None:
        """Forget the deleted document of this folder if it is empty: the next one is of a new node."""
        if self._writing.remembered(self.path) is None:  # nearly always
            return
        try:
            is_empty = next(self.scan(), None) is None
        except (NotFound, NotAFolder):  # deleted meanwhile
            is_empty = True
        if is_empty:
            self._writing.forget(self.path)

    def _file(self, name: str) -> plain_files.PlainFile:
        return file_at(self._writing, self._place_of(name, True), name)

    # -- places ------------------------------------------------------------------------------

    def _place_of(self, name: str, wait: bool) -> "_StoredFolder | _ChunkFolder":
        """What this folder is, for access to `name`.

        For a metadata document it is checked again: if the document was just written, the cached answer
        says that the folder is no node, and the document would be shown as it is stored.
        """
        place = self._resolver.now(wait=wait)
        if (
            name in METADATA_NAMES
            and isinstance(place, StoredFolder)
            and (place.node is None or place.node.folder is not place.folder)
            and place.folder.loaded(wait=wait, fresh=True) is not None
        ):
            return self._resolver.now(wait=wait)
        return place


def _is_v3(place: _StoredFolder) -> bool:
    """Whether the folder is a node itself that is shown as Zarr v3."""
    return place.is_node and place.node is not None and place.node.node is not None


def _check_shown(node: PlainNode) -> None:
    """Raises `NotSupported` for an array that is kept as Zarr v2.

    A program that looks for chunks below `c` has read a `zarr.json` that is no longer shown. It would take
    all chunks for missing ones.
    """
    if node.kept is not None and not node.loaded.is_group:
        raise NotSupported(node.kept)


def _facts(place: _StoredFolder | _ChunkFolder, name: str | None, entry: Entry | None) -> Facts:
    """The facts on a name in a folder, or on the folder itself."""
    node = place.node
    if node is None:
        assert isinstance(place, StoredFolder)
        return place.folder.facts(name)
    if isinstance(place, ChunkFolder):
        coords = None if name is None else place.chunks.coords_below(place.prefix, name)
        if coords is None or entry is None or entry.kind is not Kind.FILE:
            return Facts(view="plain", path="", owner=node.loaded.path, **kind_and_size(entry))
        return _facts_of_chunk(node, place.chunks, coords, entry)
    if _is_v3(place):
        if name in (None, DOCUMENT):
            return _with_rewritten(place.folder.facts(None), node, entry)
        if (
            name == TOP
            and place.chunks is not None
            and entry is not None
            and entry.kind is Kind.FILE
        ):
            return _facts_of_chunk(node, place.chunks, (), entry)
    facts = replace(place.folder.facts(name), kept_as_v2=node.kept)
    if facts.error is None and not node.loaded.is_group:
        return replace(facts, error=node.refused)
    return facts


def _facts_of_chunk(node: PlainNode, chunks: PlainChunks, coords: Coords, entry: Entry) -> Facts:
    return _with_rewritten(chunks.facts(coords), node, entry)


def _with_rewritten(facts: Facts, node: PlainNode, entry: Entry | None) -> Facts:
    """`facts` with the node that the rewritten document describes, which has no extensions of its own."""
    acting = facts.inherited if facts.node is None else (*facts.inherited, *facts.node.active)
    return replace(facts, node=node.rewritten(), inherited=acting, **kind_and_size(entry))
