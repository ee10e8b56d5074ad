"""The `plain` view: the same data as a core Zarr v3 store, for every reader there is.

Chunks are under the keys of the `default` encoding, parts merged; each `zarr.json` is rewritten:
no storage transformers, no extensions, names spelled out. Arrays and groups of Zarr v2 are shown as
those of Zarr v3 where that has words for them, and as they are stored where it has not. A node that
must not be loaded, or that nobody could decode, is refused: it is listed, and opening its document
or a chunk says why. All else is as in the `chunks` view, on which this one is built.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

from zarrfuse.errors import NotFound, NotSupported
from zarrfuse.spec.chunk_keys import METADATA_NAMES
from zarrfuse.stores.base import Entry, Kind, Reader
from zarrfuse.views.base import Facts, join
from zarrfuse.views.chunks import ChunksFolder, ChunksView
from zarrfuse.views.nodes import Loaded
from zarrfuse.views.places import InChunks, Placed, PlacedFolder, Stored
from zarrfuse.views.plain_chunks import TOP, Coords, PlainChunks
from zarrfuse.views.plain_nodes import DOCUMENT, PlainNode

_Stored: TypeAlias = Stored[PlainNode]
_InChunks: TypeAlias = InChunks[PlainNode]


class PlainView:
    """What the folders of one view share: the `chunks` view they are made of."""

    __slots__ = ("chunks",)

    def __init__(self, chunks: ChunksView) -> None:
        self.chunks = chunks

    @property
    def root(self) -> "PlainFolder":
        """The root of the tree."""
        return PlainFolder(Placed(self.chunks, self._shown), "")

    def _shown(self, folder: ChunksFolder, loaded: Loaded) -> PlainNode:
        return PlainNode(self.chunks, folder, loaded)


class PlainFolder(PlacedFolder[PlainNode]):
    """A folder of the view."""

    __slots__ = ()

    def scan(self) -> Iterator[Entry]:
        """See `views.base.Folder`."""
        place = self._placed.now()
        if isinstance(place, InChunks):
            return place.chunks.scan(place.prefix)
        if _is_v3(place):
            return self._scan_node(place)
        return place.scan()

    def lookup(self, name: str, *, wait: bool = True) -> Entry:
        """See `views.base.Folder`."""
        place = self._place_of(name, wait)
        if isinstance(place, InChunks):
            return place.chunks.lookup(place.prefix, name, wait=wait)
        if _is_v3(place) and place.node is not None:
            if name == DOCUMENT:
                return place.node.entry(wait=wait)
            self._refuse_metadata(name)
            if name == TOP and place.chunks is not None:
                return place.chunks.top(wait=wait)
        return place.lookup(name, wait=wait)

    def open(self, name: str, *, wait: bool = True) -> Reader:
        """See `views.base.Folder`."""
        place = self._place_of(name, wait)
        if isinstance(place, InChunks):
            return place.chunks.open(place.prefix, name, wait=wait)
        node = place.node
        if node is not None and node.refused is not None:
            is_its_document = name in METADATA_NAMES and node.folder is place.folder
            if is_its_document or not node.loaded.is_group:
                raise NotSupported(node.refused)
        if _is_v3(place) and node is not None:
            if name == DOCUMENT:
                return node.document(wait=wait)
            self._refuse_metadata(name)
            if name == TOP and place.chunks is not None:
                return place.chunks.open_chunk((), wait=wait)
        if place.is_taken(name, Kind.FILE):
            raise NotFound(f"{name} in {self.path} holds chunks, shown under {TOP}")
        return place.folder.open(name, wait=wait)

    def facts(self, name: str | None) -> Facts:
        """See `views.base.Folder`.

        Of a node, what the rewritten document says, and what else the `chunks` view has to tell; of
        a chunk that too, with `key`, `stored_key`, `chunk_coords` and the stored `parts`.
        `kept_as_v2` says why a node is not shown as one of Zarr v3, `error` why it is refused.
        """
        place = self._placed.now()
        path = self.path if name is None else join(self.path, name)
        told = _facts(place, name, None if name is None else self.lookup(name))
        return {**told, "view": "plain", "path": path}

    def _refuse_metadata(self, name: str) -> None:
        if name in METADATA_NAMES:
            raise NotFound(f"{name} in {self.path}: the node is shown as one of Zarr v3")

    # -- listings ----------------------------------------------------------------------------

    def _scan_node(self, place: _Stored) -> Iterator[Entry]:
        assert place.node is not None
        entries = place.folder.scan() if place.chunks is None else place.chunks.scan_array()
        for entry in entries:
            if entry.name not in METADATA_NAMES:
                yield entry
        try:
            yield place.node.entry()
        except NotFound:  # it has just gone
            return

    # -- places ------------------------------------------------------------------------------

    def _place_of(self, name: str, wait: bool) -> "_Stored | _InChunks":
        """What this folder is to who asks for `name`.

        A document that has just been written must not be passed on as it is stored, because the
        folder was no node a moment ago.
        """
        place = self._placed.now(wait=wait)
        if (
            name in METADATA_NAMES
            and isinstance(place, Stored)
            and (place.node is None or place.node.folder is not place.folder)
            and place.folder.loaded(wait=wait, fresh=True) is not None
        ):
            return self._placed.now(wait=wait)
        return place


def _is_v3(place: _Stored) -> bool:
    """Whether the folder is a node itself, and that is shown as one of Zarr v3."""
    return place.is_node and place.node is not None and place.node.node is not None


def _facts(place: _Stored | _InChunks, name: str | None, entry: Entry | None) -> Facts:
    """What is known of a name in a folder, or of the folder itself."""
    node = place.node
    if node is None:
        assert isinstance(place, Stored)
        return place.folder.facts(name)
    if isinstance(place, InChunks):
        coords = None if name is None else place.chunks.coords_below(place.prefix, name)
        if coords is None or entry is None or entry.kind is not Kind.FILE:
            return {**_kind(entry), "node": node.loaded.path}
        return _facts_of_chunk(node, place.chunks, coords, entry)
    if _is_v3(place):
        if name in (None, DOCUMENT):
            told = {**place.folder.facts(None), **_kind(entry), **node.facts()}
            told.pop("order", None)  # of Zarr v2; here it is a codec
            return told
        if (
            name == TOP
            and place.chunks is not None
            and entry is not None
            and entry.kind is Kind.FILE
        ):
            return _facts_of_chunk(node, place.chunks, (), entry)
    told = dict(place.folder.facts(name))
    if node.kept is not None:
        told["kept_as_v2"] = node.kept
    if node.refused is not None and not node.loaded.is_group:
        told.setdefault("error", node.refused)
    return told


def _facts_of_chunk(node: PlainNode, chunks: PlainChunks, coords: Coords, entry: Entry) -> Facts:
    told = dict(chunks.facts(coords))
    told.pop("order", None)
    parts = {"parts": told["parts"]} if "parts" in told else {}
    return {**told, **node.facts(), **parts, **_kind(entry)}


def _kind(entry: Entry | None) -> dict[str, Any]:
    if entry is None:
        return {}
    kind = {"kind": entry.kind.name.lower()}
    return kind if entry.kind is not Kind.FILE else {**kind, "size": entry.size}
