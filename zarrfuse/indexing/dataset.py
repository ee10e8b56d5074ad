"""The dataset that files become: the arrays of its levels, their keys, and its documents.

Owns what an array records of how it was indexed, by which a later run goes on. Used by `run` and `writing`.
It must not know stores.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zarrfuse.indexing.grid import Dimensions, Grid, Origin
from zarrfuse.indexing.ngff import image_document
from zarrfuse.indexing.target import Way
from zarrfuse.shards.arrange import arranged
from zarrfuse.shards.documents import DEFAULT_KEYS, INDEX_RECORD, array_document
from zarrfuse.shards.layout import FileArray, Layout
from zarrfuse.spec.chunk_keys import SuffixEncoding, parse_chunk_key_encoding
from zarrfuse.spec.paths import join

DOCUMENT = "zarr.json"
IN_PLACE = "in place"
"""See `Record`: the chunks are the files themselves."""
_OWN_ATTRIBUTES = frozenset(
    {INDEX_RECORD, "scale", "ome", "ome_xml", "imagej", "geotiff", "gdal_metadata", "tiff", "hdf5"}
)
"""What `index` writes: of the files, and of how they were indexed."""
# What may change while the chunks that are stored stay valid.
_MAY_CHANGE = ("shape", "attributes")


@dataclass(frozen=True, slots=True)
class Level:
    """An array of the dataset.

    Attributes:
        path: Of the array in the dataset; "" for the root.
        of_file: The layout of its files, in their dimensions.
        layout: The same in the dimensions of the array.
        grid: Its shape, and that of its chunks.
    """

    path: str
    of_file: Layout
    layout: Layout
    grid: Grid


@dataclass(frozen=True, slots=True)
class Record:
    """How an array was indexed. What differs but for `way` gives other chunks.

    Attributes:
        pattern: Of the names of the files; None if these are the keys of chunks.
        fields: Of the pattern.
        origin: Where its numbers begin.
        order: The field for each dimension; see `Dimensions`.
        sources: The axis of the files for each dimension; see `Dimensions`.
        dataset: The one in each HDF5 file, if it was given.
        way: How files got their keys: a `Way`, or `IN_PLACE`. A dataset to which files were moved has some
            that are no longer in the folder.
    """

    pattern: str | None
    fields: tuple[str, ...]
    origin: Origin
    order: tuple[int | None, ...]
    sources: tuple[str | None, ...]
    dataset: str | None
    way: str

    @property
    def moved(self) -> bool:
        """Whether the dataset has files that are nowhere else."""
        return self.way == Way.MOVE.value

    def has_places_of(self, other: "Record") -> bool:
        """Whether both give the same chunks of the same files."""
        return replace(self, way="") == replace(other, way="")

    def to_json(self) -> dict[str, Any]:
        """For the attributes of the array."""
        return {
            "pattern": self.pattern,
            "fields": list(self.fields),
            "first": list(self.origin.first),
            "step": list(self.origin.step),
            "order": list(self.order),
            "sources": list(self.sources),
            "dataset": self.dataset,
            "way": self.way,
        }


def record_of(document: Mapping[str, Any]) -> Record | None:
    """The record in the document of an array; None if it was not made by `zarrfuse index`."""
    attributes = document.get("attributes")
    return parsed_record(attributes.get(INDEX_RECORD)) if isinstance(attributes, dict) else None


def parsed_record(found: Any) -> Record | None:
    """What `Record.to_json` gave; None for what is something else."""
    try:
        origin = Origin(tuple(found["first"]), tuple(found["step"]))
        return Record(
            found["pattern"],
            tuple(found["fields"]),
            origin,
            tuple(found["order"]),
            tuple(found["sources"]),
            found["dataset"],
            str(found["way"]),
        )
    except (KeyError, TypeError):
        return None


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset of one array, or of a group with the levels of an image."""

    levels: tuple[Level, ...]
    dimensions: Dimensions
    keys: SuffixEncoding
    documents: tuple[tuple[str, dict[str, Any]], ...]
    """(key, document), the root last."""

    def with_attributes_of(self, stored: Mapping[str, Mapping[str, Any]]) -> "Dataset":
        """The same with the attributes that others gave the documents that are stored."""
        documents = []
        for key, document in self.documents:
            before = stored.get(key, {}).get("attributes")
            kept = (
                {}
                if not isinstance(before, dict)
                else {name: value for name, value in before.items() if name not in _OWN_ATTRIBUTES}
            )
            documents.append((key, {**document, "attributes": {**kept, **document["attributes"]}}))
        return replace(self, documents=tuple(documents))

    def chunk_key(self, level: int, coords: Sequence[int]) -> str:
        """The key of a chunk of a level."""
        return join(self.levels[level].path, self.keys.encode(coords))


def dataset_of(
    name: str,
    first: Sequence[FileArray],
    grids: Sequence[tuple[Layout, Grid]],
    dimensions: Dimensions,
    record: Record,
    *,
    suffix: str,
    base_encoding: Mapping[str, Any] = DEFAULT_KEYS,
    as_group: bool,
) -> Dataset:
    """The dataset `name` of files of which `first` is the first.

    `grids`: for each level, the layout of files in their own dimensions, and the grid in those of the
    array.
    """
    own = {
        source: name
        for source, name in zip(dimensions.sources, dimensions.names, strict=True)
        if source is not None
    }
    scale = {own[axis]: step for axis, step in first[0].scale.items() if axis in own}
    levels, documents = [], []
    for number, (of_file, grid) in enumerate(grids):
        layout = arranged(of_file, dimensions.sources, dimensions.names)
        level = Level(str(number) if as_group else "", of_file, layout, grid)
        levels.append(level)
        attributes = {**first[number].attributes, INDEX_RECORD: record.to_json()}
        if scale and not as_group:
            attributes["scale"] = {axis: list(step) for axis, step in scale.items()}
        document = array_document(
            layout,
            shape=grid.shape,
            chunk_shape=grid.chunk_shape,
            dimension_names=dimensions.names,
            suffix=suffix,
            attributes=attributes,
            base_encoding=base_encoding,
        )
        documents.append((join(level.path, DOCUMENT), document))
    if as_group:
        shapes = [level.grid.shape for level in levels]
        image = image_document(
            name, dimensions.names, shapes, scale, first[0].attributes, levels[0].layout.data_type
        )
        documents.append((DOCUMENT, image))
    keys = parse_chunk_key_encoding(documents[0][1]["chunk_key_encoding"])
    assert isinstance(keys, SuffixEncoding)
    return Dataset(tuple(levels), dimensions, keys, tuple(documents))


def stays_valid(stored: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether chunks that were stored for a document stay what they are for a new one."""

    def kept(document: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in document.items() if name not in _MAY_CHANGE}

    old_record, new_record = record_of(stored), record_of(new)
    if old_record is None or new_record is None:
        same_places = stored.get("node_type") == new.get("node_type") == "group"
    else:
        same_places = old_record.has_places_of(new_record)
    return same_places and kept(stored) == kept(new)


def parsed(text: bytes | None) -> dict[str, Any] | None:
    """A stored document; None if there is none, or if it is no JSON object."""
    try:
        document = json.loads(text) if text is not None else None
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
