"""The names that documents of Zarr say exist below a node.

Reads consolidated metadata (v3 and `.zmetadata`), OME-NGFF up to 0.5 (`multiscales`, `labels`, `plate`,
`well`, `bioformats2raw.layout`) and `example.multiscale-arrays`. Nothing here raises: broken metadata names
nothing. Used by `documents` and `unlisted`. It must not know servers or chunks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from zarrfuse.errors import MetadataError
from zarrfuse.spec.chunk_keys import METADATA_NAMES
from zarrfuse.spec.members import Document, take_member
from zarrfuse.spec.node import NO_ATTRIBUTES, ArrayNode, GroupNode, NodeError
from zarrfuse.spec.node_v2 import parse_v2_array, parse_v2_group
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.spec.ome import pyramids_of
from zarrfuse.spec.paths import split, take_paths_below
from zarrfuse.spec.usable import members
from zarrfuse.stores.remote.requests import Found

Documents = Mapping[str, bytes]
"""The documents of one node, by name."""

_LONGEST_PATH = 4096


class Below:
    """Paths of folders below a node, as a tree: the names in each folder, in the order of the metadata."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._names: dict[str, dict[str, None]] = {"": {}}
        for path in paths:
            self._add(path)

    def _add(self, path: str) -> None:
        while path:
            above, name = split(path)
            is_linked = above in self._names
            self._names.setdefault(above, {})[name] = None
            self._names.setdefault(path, {})
            if is_linked:
                return
            path = above

    def has(self, path: str) -> bool:
        """Whether a folder is among the paths, or above one of them."""
        return path in self._names

    def names(self, path: str) -> Iterable[str]:
        """The names of the folders in a folder."""
        return self._names.get(path, ())


@dataclass(frozen=True)
class Known:
    """What the documents of one path say; none of it if there is no node.

    Attributes:
        files: The documents.
        array: The array, None if it is none, or one that must not be loaded.
        below: The folders below that the documents name.
        copies: Consolidated documents by path, relative to the node.
        may_have_labels: Whether it is an image, whose labels no document names.
        has_series: Whether the images `0`, `1`, ... are in it, as many as its folder `OME` says.
        is_bioformats2raw: Whether it has a folder `OME`.
        series: The paths of images beside a folder `OME`, relative to the folder above it.
    """

    files: Mapping[str, Found | None]
    array: ArrayNode | None = None
    below: Below = field(default_factory=Below)
    copies: Mapping[str, Documents] = field(default_factory=dict)
    may_have_labels: bool = False
    has_series: bool = False
    is_bioformats2raw: bool = False
    series: Sequence[str] = ()


def known_of(documents: Documents, files: Mapping[str, Found | None]) -> Known:
    """What the documents of a node say. `files`: their names, those also that are not read."""
    node = _node(documents)
    if isinstance(node, ArrayNode):
        return Known(files, node)
    if node is None:
        return Known(files)
    copies = dict(_copies(documents))
    attributes = members(node.raw_attributes)
    ome = members(attributes.get("ome"))

    def value(name: str) -> Any:
        return _value(ome if name in ome else attributes, name)

    images = [level.path for pyramid in pyramids_of(node) for level in pyramid.levels]
    wells = _listed(value("plate"), "wells")
    layout = value("bioformats2raw.layout") is not None
    paths = (
        *images,
        *_paths(value("labels")),
        *_paths(_member(well, "path") for well in wells),
        *_paths(_member(image, "path") for image in _listed(value("well"), "images")),
        *(["OME"] if layout else []),
        *(path for path in copies if path),
    )
    return Known(
        files,
        below=Below(paths),
        copies=copies,
        may_have_labels=bool(images) and value("image-label") is None,
        has_series=layout and not wells,
        is_bioformats2raw=layout,
        series=tuple(_paths(value("series"))),
    )


def _node(documents: Documents) -> ArrayNode | GroupNode | None:
    """The node; a group that must not be loaded has its attributes, since they may name others."""
    attributes = documents.get(".zattrs")
    try:
        if "zarr.json" in documents:
            return parse_v3(documents["zarr.json"])
        if ".zarray" in documents:
            return parse_v2_array(documents[".zarray"], attributes)
        if ".zgroup" in documents or ".zattrs" in documents or ".zmetadata" in documents:
            return parse_v2_group(b'{"zarr_format":2}', attributes)
    except NodeError as error:
        if error.node_type == "group":
            raw = _members_of(documents["zarr.json"]).get("attributes", NO_ATTRIBUTES)
            return GroupNode(zarr_format=3, raw_attributes=raw.copy())
    return None


def _copies(documents: Documents) -> Iterator[tuple[str, Documents]]:
    """(path, documents) of each node in consolidated metadata, the node itself left out."""
    if "zarr.json" in documents:
        consolidated = members(_members_of(documents["zarr.json"]).get("consolidated_metadata"))
        for path, raw in members(consolidated.get("metadata")).items():
            if any(_paths([path])):
                yield path, {"zarr.json": bytes(memoryview(raw))}
    elif ".zmetadata" in documents:
        nodes: dict[str, dict[str, bytes]] = {}
        for key, raw in members(_members_of(documents[".zmetadata"]).get("metadata")).items():
            path, name = split(key)
            if name in METADATA_NAMES and any(_paths([path])):
                nodes.setdefault(path, {})[name] = bytes(memoryview(raw))
        yield from nodes.items()


def _members_of(document: bytes) -> Document:
    """The members of a document; none if it is broken."""
    return members(msgspec.Raw(document))


def _value(document: Document, name: str) -> Any:
    try:
        return take_member(document, name, None)
    except MetadataError:
        return None


def _member(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else None


def _listed(value: object, name: str) -> Sequence[object]:
    found = _member(value, name)
    return found if isinstance(found, list) else ()


def _paths(values: object) -> Iterator[str]:
    """Those of some values that are paths of nodes below."""
    if not isinstance(values, Iterable) or isinstance(values, str | Mapping):
        return
    for value in values:
        if isinstance(value, str) and len(value) <= _LONGEST_PATH:
            try:
                yield take_paths_below([value.rstrip("/")], "path")[0]
            except MetadataError:
                continue
