"""The folders of the `images` view.

A folder shows what the `chunks` view shows but for chunks: documents, ordinary files, child nodes. Beside
them it shows the renderings of its node. A stored file hides a rendering of the same name; below `c`,
chunks hide stored files.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from zarrfuse.errors import Denied, NotFound
from zarrfuse.spec.chunk_keys import METADATA_NAMES
from zarrfuse.spec.node import ArrayNode, GroupNode
from zarrfuse.spec.paths import join
from zarrfuse.spec.plain import CHUNK_KEYS
from zarrfuse.stores.base import Entry, Kind, Reader
from zarrfuse.views.chunks.view import ChunksFolder
from zarrfuse.views.facts import ChunkFacts, Facts, kind_and_size
from zarrfuse.views.images.arrays import ArrayImages
from zarrfuse.views.images.chunk_files import ENDING, ChunkFiles
from zarrfuse.views.images.groups import GroupImages
from zarrfuse.views.images.nodes import Images, ImagesNode, Rendering
from zarrfuse.views.nodes import Loaded
from zarrfuse.views.plain.chunks import TOP, Coords, PlainChunks
from zarrfuse.views.plain.resolve import ChunkFolder, ResolvedFolder, Resolver, StoredFolder

_StoredFolder: TypeAlias = StoredFolder[ImagesNode]
_ChunkFolder: TypeAlias = ChunkFolder[ImagesNode]


def images_root(images: Images) -> "ImagesFolder":
    """The root of a view."""

    def shown(folder: ChunksFolder, loaded: Loaded, _: ImagesNode | None) -> ImagesNode:
        if isinstance(loaded.node, ArrayNode):
            return ArrayImages(images, folder, loaded)
        if isinstance(loaded.node, GroupNode):
            return GroupImages(images, folder, loaded)
        return ImagesNode(images, folder, loaded)

    return ImagesFolder(Resolver(images.chunks, shown))


class ImagesFolder(ResolvedFolder[ImagesNode]):
    """A folder of the view."""

    __slots__ = ()

    def scan(self) -> Iterator[Entry]:
        """See `views.base.Folder`."""
        place = self._resolver.now()
        if isinstance(place, ChunkFolder):
            return _files(place).scan(place.prefix)
        return self._scan_stored(place)

    def _scan_stored(self, place: _StoredFolder) -> Iterator[Entry]:
        node = place.node if place.is_node else None
        own = [] if node is None else [*node.names(), TOP, TOP + ENDING]
        stored = set()
        for entry in place.scan():
            if entry.name in own:
                stored.add(entry.name)
            yield entry
        for name in dict.fromkeys(own):
            if name not in stored:
                try:
                    found = self._own(place, name, True)
                except Denied:  # chunks in a folder that leads out of the store
                    continue
                if found is not None:
                    yield found if isinstance(found, Entry) else _entry(name, found)

    def lookup(self, name: str, *, wait: bool = True) -> Entry:
        """See `views.base.Folder`."""
        place = self._resolver.now(wait=wait)
        if isinstance(place, ChunkFolder):
            return _files(place, wait).lookup(place.prefix, name, wait=wait)
        if not name:
            return place.folder.lookup(name, wait=wait)
        try:
            return place.lookup(name, wait=wait)
        except NotFound:
            own = self._own(place, name, wait)
            if isinstance(own, Entry):
                return own
            if own is not None:
                return _entry(name, own)
            raise

    def _own(self, place: _StoredFolder, name: str, wait: bool) -> Entry | Rendering | None:
        """The rendering of this name, or the entry of the folder `c`; None for other names."""
        if not place.is_node or place.node is None:
            return None
        offer = place.node.rendering(name, wait=wait)
        if isinstance(offer, Rendering):
            return offer
        top = _top(place.node, wait) if name in (TOP, TOP + ENDING) else None
        return top if top is not None and top.name == name else None

    def open(self, name: str, *, wait: bool = True) -> Reader:
        """See `views.base.Folder`. `NotSupported` also for what nobody can decode."""
        place = self._resolver.now(wait=wait)
        if isinstance(place, ChunkFolder):
            return _files(place, wait).open(place.prefix, name, wait=wait)
        try:
            entry = place.lookup(name, wait=wait)
        except NotFound:
            own = self._own(place, name, wait)
            if isinstance(own, Rendering):
                reader = own.open(wait)
                reader.access = own.access
                return reader
            files = None if own is None or place.node is None else place.node.chunk_files(wait=wait)
            if not isinstance(files, ChunkFiles) or files.coords_of((), name) != ():
                raise
            return files.open((), name, wait=wait)
        if entry.kind is Kind.FOLDER:
            raise NotFound(f"{name} in {self.path} is a folder")
        return place.folder.open(name, wait=wait)

    # -- facts -------------------------------------------------------------------------------

    def facts(self, name: str | None) -> Facts:
        """See `views.base.Folder`.

        Those of the `chunks` view. A node has its `renderings`, too; a chunk has its `key` in this view,
        and its `stored_key`.
        """
        place = self._resolver.now()
        path = self.path if name is None else join(self.path, name)
        return replace(self._facts(place, name), view="images", path=path)

    def _facts(self, place: _StoredFolder | _ChunkFolder, name: str | None) -> Facts:
        entry = None if name is None else self.lookup(name)
        if isinstance(place, ChunkFolder):
            return _facts_in_chunks(place, name, entry)
        node = place.node
        if node is None or not place.is_node:
            return place.folder.facts(name)
        if name is None or name in METADATA_NAMES:
            facts = replace(place.folder.facts(name), not_decoded=node.not_decoded())
            return facts if facts.error else replace(facts, renderings=node.told())
        try:
            place.lookup(name)
        except NotFound:
            assert entry is not None
            if name == TOP + ENDING and place.chunks is not None and place.chunks.is_complete(()):
                return _facts_of_chunk(node, place.chunks, (), entry)
            if entry.kind is not Kind.FILE:
                return _facts_of_folder(node, entry)
            facts = replace(place.folder.facts(None), not_decoded=node.not_decoded())
            return replace(facts, owner=node.loaded.path, **kind_and_size(entry))
        return place.folder.facts(name)


def _entry(name: str, rendering: Rendering) -> Entry:
    return Entry(name, Kind.FILE, rendering.size, rendering.mtime_ns, access=rendering.access)


def _files(place: _ChunkFolder, wait: bool = True) -> ChunkFiles:
    """The chunks as files. Raises `NotFound` if they cannot be rendered."""
    files = place.node.chunk_files(wait=wait)
    if isinstance(files, str):
        raise NotFound(f"no chunk of {place.node.loaded.path or 'the root array'} is here: {files}")
    return files


def _top(node: ImagesNode, wait: bool = True) -> Entry | None:
    """The entry of `c`, or of `c.tiff` for a scalar; None if chunks cannot be rendered."""
    files = node.chunk_files(wait=wait)
    return None if isinstance(files, str) else files.top(wait=wait)


def _facts_in_chunks(place: _ChunkFolder, name: str | None, entry: Entry | None) -> Facts:
    if name is None or entry is None:
        return _facts_of_folder(place.node, None)
    coords = _files(place).coords_of(place.prefix, name)
    if coords is None:
        return place.chunks.beside(place.prefix, name).facts(name)
    if not place.chunks.is_complete(coords):
        return _facts_of_folder(place.node, entry)
    return _facts_of_chunk(place.node, place.chunks, coords, entry)


def _facts_of_chunk(node: ImagesNode, chunks: PlainChunks, coords: Coords, entry: Entry) -> Facts:
    """The facts on a chunk, which need not be stored."""
    array = node.loaded.node
    assert isinstance(array, ArrayNode)
    key = CHUNK_KEYS.encode(coords) + ENDING
    try:
        facts = chunks.facts(coords)
        assert facts.chunk is not None
        chunk = replace(facts.chunk, key=key, stored_size=facts.size)
    except NotFound:
        facts = replace(_facts_of_folder(node, None), node=array)
        chunk = ChunkFacts(key=key, coords=tuple(coords), stored_key=array.chunk_key(coords))
    return replace(facts, chunk=chunk, not_decoded=node.not_decoded(), **kind_and_size(entry))


def _facts_of_folder(node: ImagesNode, entry: Entry | None) -> Facts:
    """The facts on a chunk folder of a node."""
    return Facts(view="images", path="", owner=node.loaded.path, **kind_and_size(entry))
