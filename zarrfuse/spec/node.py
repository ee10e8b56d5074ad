"""Nodes: arrays and groups, as one metadata document describes them.

Owns the values that views build on, the same for Zarr v3 and v2; `node_v3` and `node_v2` parse them. It
must not know the path of a document, other nodes, or how a chunk is decoded: data types, codecs and fill
values are kept as JSON.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypeVar

import msgspec

from zarrfuse.errors import MetadataError
from zarrfuse.spec.active import Active, G, Reference, add_facts, first_of
from zarrfuse.spec.chunk_keys import ChunkKeyEncoding
from zarrfuse.spec.concat_parts import StoredParts
from zarrfuse.spec.extensions import GenericExtension, NodeType
from zarrfuse.spec.members import Document, decode_raw, shown, take_integers, take_member
from zarrfuse.spec.names import Extension
from zarrfuse.spec.registry import PlugInError, foreign
from zarrfuse.spec.zep10 import SkipEmptyChunks

# NumPy has 64. A chunk's key has a number for each, and one is made for each listed folder.
_MAX_DIMENSIONS = 10_000

NO_ATTRIBUTES = msgspec.Raw(b"{}")


class Missing(Enum):
    """The type of `MISSING`."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING
"""The fill value of an array whose metadata have none; None is a fill value of null."""


class NodeError(MetadataError):
    """A document that must not be loaded; `node_type`: that of the node, None if it is not known."""

    def __init__(self, message: str, node_type: NodeType | None = None) -> None:
        super().__init__(message)
        self.node_type = node_type


@dataclass(frozen=True)
class ArrayNode:
    """An array, as its `zarr.json` or `.zarray` describes it.

    `data_type` and `fill_value`: JSON values as written, for `zarr_format` 2 those of Zarr v2.
    `codecs`: in the order of encoding; those of Zarr v2 (filters, then compressor) have the numcodecs id as
    name and the whole object as configuration.
    `order`: F for an array of Zarr v2 with chunks in Fortran order.
    `extensions`: all that are listed; `ignored`: the names of unknown extensions and members that may be
    ignored; `active`: the extensions that act on the array; `references`: entries that refer to extensions
    of other nodes, empty after `references.resolve` has added those to `active`.
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
        """The attributes, decoded by each call. Raises `MetadataError` if they are not JSON."""
        return dict(decode_raw(self.raw_attributes, "attributes"))

    def extension(self, kind: type[G]) -> G | None:
        """The extension of this class that acts on the array, such as `zep10.Offset`, or None."""
        return first_of(self.active, kind)

    @property
    def write_empty_chunks(self) -> bool:
        """Whether chunks with only the fill value are written (ZEP 10, Skip empty chunks)."""
        return self.extension(SkipEmptyChunks) is None

    def chunk_key(self, coords: Sequence[int]) -> str:
        """The key, relative to the array, of the chunk at these grid coordinates."""
        return self.chunk_keys.encode(coords)

    def chunk_at(self, key: str) -> tuple[int, ...] | None:
        """The grid coordinates of the chunk under `key`, relative to the array.

        None if `key` is not a chunk key, or is outside the grid.
        """
        coords = self.chunk_keys.decode(key, self.ndim)
        if coords is None:
            return None
        for coord, count in zip(coords, self.grid_shape, strict=True):
            if coord >= count:
                return None
        return coords

    def facts(self) -> dict[str, Any]:
        """The facts on the array, as JSON values; no `fill_value` if it has none."""
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
    """A group, as its `zarr.json` or `.zgroup` describes it; see `ArrayNode` for the members."""

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
        """The attributes, decoded by each call. Raises `MetadataError` if they are not JSON."""
        return dict(decode_raw(self.raw_attributes, "attributes"))

    def extension(self, kind: type[G]) -> G | None:
        """The extension of this class that acts on the group, or None."""
        return first_of(self.active, kind)

    def facts(self) -> dict[str, Any]:
        """The facts on the group, as JSON values."""
        facts: dict[str, Any] = {
            "node_type": self.node_type,
            "zarr_format": self.zarr_format,
            "extensions": [extension.to_json() for extension in self.extensions],
            "ignored": list(self.ignored),
        }
        add_facts(facts, self.active)
        return facts


Node: TypeAlias = ArrayNode | GroupNode
N = TypeVar("N", bound=ArrayNode | GroupNode)


def interpret(node: N, active: Iterable[Active]) -> N:
    """Apply `GenericExtension.interpret` of each of `active`, in order. Raises `MetadataError`."""
    for acting in active:
        if type(acting.extension).interpret is not GenericExtension.interpret:
            node = _interpreted(node, acting)
    return node


def _interpreted(node: N, acting: Active) -> N:
    name = acting.listed.name
    try:
        found = foreign(name, lambda: acting.extension.interpret(node))
    except PlugInError as error:
        raise MetadataError(f"extensions: {error}") from error
    except MetadataError as error:
        raise MetadataError(f"extensions: {name}: {error}") from error
    if not isinstance(found, type(node)):
        raise PlugInError(f"extensions: {name}: interpret returns no {node.node_type}")
    return found


def check_format(members: Document, expected: int) -> None:
    """Raises `MetadataError` unless `zarr_format` is `expected`."""
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
    """`value` if it is a chunk shape: a positive length per dimension. Raises `MetadataError`.

    For a dimension of length 0, which has no chunks, zarr-python writes 0; that becomes 1.
    """
    chunk_shape = take_integers(value, member, minimum=0)
    if len(chunk_shape) != len(shape):
        raise MetadataError(f"{member}: has {len(chunk_shape)} dimensions, shape has {len(shape)}")
    lengths = [c or int(not n) for c, n in zip(chunk_shape, shape, strict=True)]
    return take_integers(lengths, member, minimum=1)
