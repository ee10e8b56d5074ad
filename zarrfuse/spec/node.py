"""What one metadata document says: an array or a group.

Owns the values that the views build on, for Zarr v3 and v2 alike, and the reading of `zarr.json`
into them (`node_v2` reads the documents of Zarr v2) with every rule that decides whether a node may
be loaded. It must not know where a document came from, what else is in the store, or how a chunk is
decoded: data types, codecs and fill values are kept as JSON.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, TypeAlias

import msgspec

from zarrfuse.errors import MetadataError
from zarrfuse.spec.active import (
    NOTHING_LISTED,
    Active,
    G,
    Judged,
    Reference,
    add_facts,
    first_of,
    interpret,
    judge_extensions,
)
from zarrfuse.spec.chunk_keys import (
    ChunkKeyEncoding,
    parse_chunk_key_encoding,
    sample_keys,
)
from zarrfuse.spec.concat_parts import StoredParts
from zarrfuse.spec.context import CONTEXT, resolve_context
from zarrfuse.spec.members import (
    Document,
    decode_as_written,
    decode_raw,
    is_object,
    may_be_ignored,
    refuse_unknown,
    shown,
    take_array,
    take_integers,
    take_label,
    take_member,
)
from zarrfuse.spec.names import Extension, parse_extension
from zarrfuse.spec.transformers import judge_transformers
from zarrfuse.spec.zep10 import SkipEmptyChunks

NodeType: TypeAlias = Literal["array", "group"]

# NumPy has 64. A chunk's key has a number for each, and is made for each folder looked at.
_MAX_DIMENSIONS = 10_000

NO_ATTRIBUTES = msgspec.Raw(b"{}")


class Missing(Enum):
    """The type of `MISSING`."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING
"""The fill value of an array whose metadata has none; a fill value of null is None."""


class NodeError(MetadataError):
    """A document that must not be loaded; `node_type` tells what it describes, if that is known."""

    def __init__(self, message: str, node_type: NodeType | None) -> None:
        super().__init__(message)
        self.node_type = node_type


@dataclass(frozen=True)
class ArrayNode:
    """An array, as its `zarr.json` or `.zarray` describes it.

    `data_type` and `fill_value` are JSON values as written, for `zarr_format` 2 those of Zarr v2.
    `codecs` are in the order of encoding; those of Zarr v2 (filters, then compressor) have the
    numcodecs id as name and the whole object as configuration. `extensions` are all that are
    listed, `ignored` the names of what is not known here and what the metadata allows to ignore.
    `active` are those that act on the array, and `references` those that stand for what is listed
    at other nodes, until `references.resolve` has put that in `active`.
    `order` is F for an array of Zarr v2 whose chunks have their elements in Fortran order.
    """

    node_type: ClassVar[NodeType] = "array"
    zarr_format: Literal[2, 3]
    shape: tuple[int, ...]
    data_type: Any
    chunk_shape: tuple[int, ...]
    chunk_keys: ChunkKeyEncoding
    codecs: tuple[Extension, ...]
    parts: StoredParts | None = None
    dimension_names: tuple[str | None, ...] | None = None
    fill_value: Any = MISSING
    order: Literal["C", "F"] = "C"
    extensions: tuple[Extension, ...] = ()
    ignored: tuple[str, ...] = ()
    active: tuple[Active, ...] = ()
    references: tuple[Reference, ...] = ()
    raw_attributes: msgspec.Raw = field(
        default_factory=lambda: NO_ATTRIBUTES, compare=False, repr=False
    )

    @property
    def ndim(self) -> int:
        """The number of dimensions, 0 for a scalar."""
        return len(self.shape)

    @cached_property
    def grid_shape(self) -> tuple[int, ...]:
        """The number of chunks along each dimension (core specification, Regular grids)."""
        return tuple(-(-n // c) for n, c in zip(self.shape, self.chunk_shape, strict=True))

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes, decoded anew each time. Raises `MetadataError` if they are not JSON."""
        return dict(decode_raw(self.raw_attributes, "attributes"))

    def extension(self, kind: type[G]) -> G | None:
        """The extension of this class that acts on the array, such as `zep10.Offset`, or None."""
        return first_of(self.active, kind)

    @property
    def write_empty_chunks(self) -> bool:
        """Whether chunks of nothing but the fill value are written (ZEP 10, Skip empty chunks)."""
        return self.extension(SkipEmptyChunks) is None

    def chunk_key(self, coords: Sequence[int]) -> str:
        """The key, relative to the array, of the chunk at these grid coordinates."""
        return self.chunk_keys.encode(coords)

    def chunk_at(self, key: str) -> tuple[int, ...] | None:
        """The grid coordinates of the chunk under `key`, relative to the array.

        None if `key` is no chunk key or lies outside the grid.
        """
        coords = self.chunk_keys.decode(key, self.ndim)
        if coords is None:
            return None
        for coord, count in zip(coords, self.grid_shape, strict=True):
            if coord >= count:
                return None
        return coords

    def facts(self) -> dict[str, Any]:
        """What there is to tell about the array, as JSON values; no `fill_value` if it has none."""
        names, parts = self.dimension_names, self.parts
        facts: dict[str, Any] = {
            "node_type": self.node_type,
            "zarr_format": self.zarr_format,
            "shape": list(self.shape),
            "data_type": self.data_type,
            "chunk_shape": list(self.chunk_shape),
            "chunk_key_encoding": self.chunk_keys.to_json(),
            "dimension_names": None if names is None else list(names),
        }
        if self.fill_value is not MISSING:
            facts["fill_value"] = self.fill_value
        if self.zarr_format == 2:
            facts["order"] = self.order
            facts["codecs"] = [dict(codec.configuration) for codec in self.codecs]
        else:
            facts["codecs"] = [codec.to_json() for codec in self.codecs]
        facts["parts"] = None if parts is None else [leaf.to_json() for leaf in parts.leaves]
        facts["extensions"] = [extension.to_json() for extension in self.extensions]
        facts["ignored"] = list(self.ignored)
        add_facts(facts, self.active)
        return facts


@dataclass(frozen=True)
class GroupNode:
    """A group, as its `zarr.json` or `.zgroup` describes it; members as those of `ArrayNode`."""

    node_type: ClassVar[NodeType] = "group"
    zarr_format: Literal[2, 3]
    extensions: tuple[Extension, ...] = ()
    ignored: tuple[str, ...] = ()
    active: tuple[Active, ...] = ()
    references: tuple[Reference, ...] = ()
    raw_attributes: msgspec.Raw = field(
        default_factory=lambda: NO_ATTRIBUTES, compare=False, repr=False
    )

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes, decoded anew each time. Raises `MetadataError` if they are not JSON."""
        return dict(decode_raw(self.raw_attributes, "attributes"))

    def extension(self, kind: type[G]) -> G | None:
        """The extension of this class that acts on the group, or None."""
        return first_of(self.active, kind)

    def facts(self) -> dict[str, Any]:
        """What there is to tell about the group, as JSON values."""
        facts: dict[str, Any] = {
            "node_type": self.node_type,
            "zarr_format": self.zarr_format,
            "extensions": [extension.to_json() for extension in self.extensions],
            "ignored": list(self.ignored),
        }
        add_facts(facts, self.active)
        return facts


Node: TypeAlias = ArrayNode | GroupNode


def parse_v3(document: bytes) -> Node:
    """The node that a `zarr.json` describes.

    Raises `NodeError`, starting with `zarr.json:` and the member, for anything by which the node
    must not be loaded (core specification, Array metadata, Group metadata, Extension points; ZEP 9;
    ZEP 10). References to other nodes are left for `references.resolve`. Two things that only
    decoding needs are let pass: no `fill_value`, and codecs of which none makes bytes of an array.
    """
    node_type: NodeType | None = None
    try:
        members = decode_as_written(document)
        node_type = _peek_node_type(members)
        if CONTEXT in members:
            members = resolve_context(members, KNOWN_MEMBERS)
            node_type = _peek_node_type(members)
        check_format(members, 3)
        if node_type is None:
            value = take_member(members, "node_type")
            raise MetadataError(f"node_type: must be 'array' or 'group', not {shown(value)}")
        node = _parse_array(members) if node_type == "array" else _parse_group(members)
        return interpret(node, node.active) if node.active else node
    except MetadataError as error:
        raise NodeError(f"zarr.json: {error}", node_type) from error


# -- members of both formats


def check_format(members: Document, expected: int) -> None:
    """Raises `MetadataError` unless the document says that it is of this Zarr format."""
    value = take_member(members, "zarr_format")
    if value != expected or not isinstance(value, int):
        raise MetadataError(f"zarr_format: must be {expected}, not {shown(value)}")


def take_shape(members: Document) -> tuple[int, ...]:
    """The shape of an array. Raises `MetadataError`."""
    shape = take_integers(take_member(members, "shape"), "shape", minimum=0)
    if len(shape) > _MAX_DIMENSIONS:
        raise MetadataError(f"shape: has {len(shape)} dimensions, more than {_MAX_DIMENSIONS}")
    return shape


def take_chunk_shape(value: object, member: str, shape: Sequence[int]) -> tuple[int, ...]:
    """The chunk shape that `value` is: one positive length per dimension. Raises `MetadataError`.

    Along a dimension of length 0, in which there are no chunks, zarr-python writes 0: taken as 1.
    """
    chunk_shape = take_integers(value, member, minimum=0)
    if len(chunk_shape) != len(shape):
        raise MetadataError(f"{member}: has {len(chunk_shape)} dimensions, shape has {len(shape)}")
    lengths = [c or int(not n) for c, n in zip(chunk_shape, shape, strict=True)]
    return take_integers(lengths, member, minimum=1)


# -- members of Zarr v3

_COMMON_MEMBERS = frozenset({"zarr_format", "node_type", "attributes", "extensions"})
_ARRAY_MEMBERS = _COMMON_MEMBERS | {
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "storage_transformers",
    "dimension_names",
}
# `consolidated_metadata` is in no specification but in many groups: with `must_understand` false,
# and from some writers as null or without it.
_GROUP_MEMBERS = _COMMON_MEMBERS | {"consolidated_metadata"}
KNOWN_MEMBERS = _ARRAY_MEMBERS | _GROUP_MEMBERS
"""The members of a `zarr.json` that are understood here, of whatever node."""


def _peek_node_type(members: Document) -> NodeType | None:
    """The node type if it is a known one, so that any later error can tell it."""
    try:
        value = take_member(members, "node_type")
    except MetadataError:
        return None
    if value == "array":
        return "array"
    return "group" if value == "group" else None


def _parse_group(members: Document) -> GroupNode:
    ignored = _ignore_unknown(members, _GROUP_MEMBERS)
    judged = _take_extensions(members, None)
    return GroupNode(
        zarr_format=3,
        extensions=judged.extensions,
        ignored=ignored + judged.ignored,
        active=judged.active,
        references=judged.references,
        raw_attributes=_take_attributes(members),
    )


def _parse_array(members: Document) -> ArrayNode:
    ignored = _ignore_unknown(members, _ARRAY_MEMBERS)
    shape = take_shape(members)
    ndim = len(shape)
    data_type = take_member(members, "data_type")
    _parse_vital(data_type, "data_type")
    chunk_shape = _take_regular_grid(take_member(members, "chunk_grid"), shape)
    chunk_keys = parse_chunk_key_encoding(take_member(members, "chunk_key_encoding"))
    sample_keys(chunk_keys, ndim)
    codecs = take_array(take_member(members, "codecs"), "codecs")
    transformers = take_member(members, "storage_transformers", ())
    parts, ignored_transformers = judge_transformers(transformers, chunk_keys, ndim)
    judged = _take_extensions(members, shape)
    return ArrayNode(
        zarr_format=3,
        shape=shape,
        data_type=data_type,
        chunk_shape=chunk_shape,
        chunk_keys=chunk_keys,
        codecs=tuple(parse_extension(codec, f"codecs[{i}]") for i, codec in enumerate(codecs)),
        parts=parts,
        dimension_names=_take_dimension_names(members, ndim),
        fill_value=take_member(members, "fill_value", MISSING),
        extensions=judged.extensions,
        ignored=ignored + ignored_transformers + judged.ignored,
        active=judged.active,
        references=judged.references,
        raw_attributes=_take_attributes(members),
    )


def _ignore_unknown(members: Document, known: frozenset[str]) -> tuple[str, ...]:
    """The members that are not known and may be ignored (core specification, Extension points).

    Raises `MetadataError` for one that is not an object with `must_understand` false.
    """
    ignored = []
    for name, raw in members.items():
        if name in known:
            continue
        if not may_be_ignored(raw):
            raise MetadataError(f"{shown(name)}: unknown member, and it must be understood")
        ignored.append(name)
    return tuple(ignored)


def _parse_vital(value: object, member: str) -> Extension:
    """The extension at a point where `must_understand` cannot be false."""
    extension = parse_extension(value, member)
    if not extension.must_understand:
        raise MetadataError(f"{member}: must_understand: cannot be false here")
    return extension


def _take_regular_grid(value: object, shape: Sequence[int]) -> tuple[int, ...]:
    """The chunk shape (core specification, Regular grids)."""
    grid = _parse_vital(value, "chunk_grid")
    if grid.name != "regular":
        raise MetadataError(f"chunk_grid: name: {shown(grid.name)} is not known here")
    where = "chunk_grid: configuration"
    refuse_unknown(grid.configuration, {"chunk_shape"}, where)
    if "chunk_shape" not in grid.configuration:
        raise MetadataError(f"{where}: chunk_shape: is missing")
    return take_chunk_shape(grid.configuration["chunk_shape"], f"{where}: chunk_shape", shape)


def _take_dimension_names(members: Document, ndim: int) -> tuple[str | None, ...] | None:
    value = take_member(members, "dimension_names", None)
    if value is None:  # some writers spell out that there are none
        return None
    names = take_array(value, "dimension_names")
    if len(names) != ndim:
        raise MetadataError(f"dimension_names: has {len(names)} names, shape has {ndim} dimensions")
    return tuple(
        None if name is None else take_label(name, f"dimension_names[{index}]")
        for index, name in enumerate(names)
    )


def _take_extensions(members: Document, shape: tuple[int, ...] | None) -> Judged:
    if "extensions" not in members:
        return NOTHING_LISTED
    return judge_extensions(take_member(members, "extensions"), shape)


def _take_attributes(members: Document) -> msgspec.Raw:
    raw = members.get("attributes", NO_ATTRIBUTES)
    if not is_object(raw):
        value = decode_raw(raw, "attributes")
        raise MetadataError(f"attributes: must be an object, not {shown(value)}")
    return raw.copy()  # without the rest of the document, which may be large
