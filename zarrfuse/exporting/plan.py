"""The plan of an export: the shapes of files and inner chunks, and whether encoded bytes are kept.

Owns the choice. Used by `run`, `tiles` and the formats. It must not know stores, or the bytes of files.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from zarrfuse.exporting.encodings import Compression, Encoding, encoding_of, new_encoding
from zarrfuse.shards.documents import INDEX_RECORD, array_document
from zarrfuse.shards.encoded import Encoded, Shard, encoded
from zarrfuse.shards.index import LARGEST_INDEX, index_size
from zarrfuse.shards.layout import Layout, Refused, codecs_text, grid_of
from zarrfuse.spec.codecs import problems
from zarrfuse.spec.data_types import parse_data_type
from zarrfuse.spec.members import shown
from zarrfuse.spec.names import Extension, parse_extension
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.ome import Picture

Shape = tuple[int, ...]

_TILE_SIDE = 16
"""The sides of TIFF tiles are multiples of this (TIFF 6.0, Section 15); those of strips need not be."""


@dataclass(frozen=True)
class Abilities:
    """What files of a format can hold.

    Attributes:
        kept: The compressions of which encoded bytes are kept, unless another one is asked for.
        offered: Those with which inner chunks can be encoded anew, the first one unless asked.
        of_pages: Whether inner chunks are tiles or strips of pages, as in TIFF; else they have any shape.
        differences: Whether encoded bytes may be differences along rows.
    """

    kept: tuple[Compression, ...]
    offered: tuple[Compression, ...]
    of_pages: bool
    differences: bool


@dataclass(frozen=True)
class Options:
    """What the command was told; `tile`: its last axes."""

    format: str = "tiff"
    compression: str | None = None
    shard: Shape | None = None
    tile: Shape | None = None


@dataclass(frozen=True)
class Plan:
    """The plan of an export.

    Attributes:
        node: The array, as one of Zarr v3.
        dtype: Of its elements: native, little-endian.
        picture: Its axes.
        chunk_shape: The shape of a file, before it is cut at the edge of the array.
        inner_shape: The shape of a tile or strip.
        samples: Whether the last axis has the samples of each pixel.
        encoding: That of inner chunks.
        unit_shape: What is decoded at once: a chunk of the array or, if it is sharded, an inner chunk.
        shard: The layout of the shards of the array; None if its chunks are no shards.
        exact: The bytes of an encoded unit, if they are always the same.
        anew: Why inner chunks are encoded anew, as a clause; None if encoded bytes are kept.
    """

    node: ArrayNode
    dtype: np.dtype[Any]
    picture: Picture
    chunk_shape: Shape
    inner_shape: Shape
    samples: bool
    encoding: Encoding
    unit_shape: Shape
    shard: Shard | None = field(repr=False)
    exact: int | None
    anew: str | None

    @property
    def shape(self) -> Shape:
        """The shape of the array."""
        return self.node.shape

    @property
    def grid(self) -> Shape:
        """The number of files along each axis."""
        return grid_of(self.shape, self.chunk_shape)

    @property
    def inner_grid(self) -> Shape:
        """The number of inner chunks along each axis of a file."""
        return grid_of(self.chunk_shape, self.inner_shape)

    @property
    def inner_bytes(self) -> int:
        """The bytes of a decoded inner chunk."""
        return prod(self.inner_shape) * self.dtype.itemsize

    def file_shape(self, coords: Sequence[int]) -> Shape:
        """The shape of a file, cut at the edge of the array."""
        return tuple(
            min(length, whole - at * length)
            for at, length, whole in zip(coords, self.chunk_shape, self.shape, strict=True)
        )

    def document(self, suffix: str, header_size: int | None) -> dict[str, Any]:
        """The `zarr.json` of the exported array."""
        layout = Layout(
            data_type=self.node.data_type,
            axes=("",) * self.node.ndim,
            inner_shape=self.inner_shape,
            codecs=codecs_text(self.encoding.codecs(self.dtype)),
            fill_value=self.node.fill_value,
        )
        return array_document(
            layout,
            shape=self.shape,
            chunk_shape=self.chunk_shape,
            dimension_names=self.node.dimension_names,
            suffix=suffix,
            attributes={
                name: value for name, value in self.node.attributes.items() if name != INDEX_RECORD
            },
            header_size=header_size,
        )

    def told(self) -> str:
        """What it does, for people."""
        kept = "copied as they are" if self.anew is None else f"encoded anew because {self.anew}"
        return (
            f"files of {_times(self.chunk_shape)}, inner chunks of {_times(self.inner_shape)}, "
            f"compression {self.encoding.compression}, {kept}"
        )


def plan_of(
    name: str,
    node: ArrayNode,
    dtype: np.dtype[Any],
    picture: Picture,
    options: Options,
    abilities: Abilities,
) -> Plan:
    """The plan for an array, `name` in messages. Raises `Refused` with what would help."""
    samples = picture.samples and abilities.of_pages
    plane = 2 + samples
    least = plane if abilities.of_pages else 1
    if node.ndim < least:
        axes = "1 dimension" if node.ndim == 1 else f"{node.ndim} dimensions"
        raise Refused(f"{name} has {axes}: {options.format} files need at least {least}")
    shard, unit_shape, codecs = _units(node)
    chunk_shape = _chunk_shape(name, node, options.shard, samples)
    inner_shape, retiled = (
        _inner_shape(name, unit_shape, chunk_shape, options.tile, samples)
        if abilities.of_pages
        else (_any_inner_shape(name, unit_shape, chunk_shape, options.tile), None)
    )
    if index_size(grid_of(chunk_shape, inner_shape)) > LARGEST_INDEX:
        raise Refused(
            f"files of {_times(chunk_shape)} have too many inner chunks of {_times(inner_shape)} for an "
            f"index of {LARGEST_INDEX >> 20} MiB: give a larger --tile or smaller --shard"
        )
    known: Encoding | str = retiled or (
        encoding_of(codecs, dtype, node.ndim - 1 - samples, node.ndim)
        if inner_shape == unit_shape
        else f"those of the array are of {_times(unit_shape)}"
    )
    offered = abilities.offered
    if options.compression is not None and options.compression not in offered:
        raise Refused(f"{options.compression} is not one of {', '.join(offered)}")
    if isinstance(known, Encoding):
        kept = abilities.kept if options.compression is None else (options.compression,)
        if known.compression not in kept:
            known = f"they are compressed with {known.compression}, not {' or '.join(kept)}"
        elif known.delta is not None and not abilities.differences:
            known = "they are differences along rows"
    anew = known if isinstance(known, str) else None
    encoding = (
        known if isinstance(known, Encoding) else new_encoding(options.compression or offered[0])
    )
    exact = None
    if anew is None and encoding.compression == "none":
        exact = prod(inner_shape) * dtype.itemsize
    return Plan(
        *(node, dtype, picture, chunk_shape, inner_shape, samples, encoding),
        *(unit_shape, shard, exact, anew),
    )


def is_tile(height: int, width: int) -> bool:
    """Whether a tile of TIFF may have these sides."""
    return not height % _TILE_SIDE and not width % _TILE_SIDE


def _units(node: ArrayNode) -> tuple[Shard | None, Shape, Sequence[Extension]]:
    """(the layout of shards, the shape of what is decoded at once, its codecs)."""
    if len(node.codecs) == 1 and node.codecs[0].name == "sharding_indexed":
        data_type = parse_data_type(node.data_type)
        for problem in problems(node.codecs, data_type, node.chunk_shape):
            raise Refused(f"codecs{problem.member}: {problem.clause}")
        told: Encoded = encoded(node.codecs, data_type, node.chunk_shape)
        if told.shard is not None:
            configuration = node.codecs[0].configuration
            codecs = [parse_extension(value, "codecs") for value in configuration["codecs"]]
            return told.shard, tuple(configuration["chunk_shape"]), codecs
    return None, node.chunk_shape, node.codecs


def _chunk_shape(name: str, node: ArrayNode, asked: Shape | None, samples: bool) -> Shape:
    if asked is None:
        chunk_shape = node.chunk_shape
        if samples and chunk_shape[-1] != node.shape[-1]:
            return (*chunk_shape[:-1], node.shape[-1])
        return chunk_shape
    if len(asked) != node.ndim:
        raise Refused(
            f"--shard {_comma(asked)} has {len(asked)} numbers, but {name} has {node.ndim} dimensions"
        )
    if samples and asked[-1] != node.shape[-1]:
        raise Refused(
            f"--shard {_comma(asked)} must end in {node.shape[-1]}: the samples of a pixel are in one file"
        )
    return asked


def _inner_shape(
    name: str, unit_shape: Shape, chunk_shape: Shape, asked: Shape | None, samples: bool
) -> tuple[Shape, str | None]:
    """The shape of inner chunks and, if it is not that of the units, why, as a clause."""
    ndim = len(chunk_shape)
    last = chunk_shape[ndim - 1 :] if samples else ()
    plane = ndim - 2 - samples
    height, width = chunk_shape[plane : plane + 2]
    if asked is not None:
        tile = tuple(asked[-len(last) - 2 :]) if len(asked) == ndim else asked
        if len(asked) not in (2, ndim) or tile[2:] not in ((), last):
            raise Refused(
                f"--tile {_comma(asked)} must be the height and width of a tile, such as 512,512"
            )
        if any(length != 1 for length in asked[: max(0, len(asked) - 2 - len(last))]):
            raise Refused(f"--tile {_comma(asked)} is more than one page: a tile is in one page")
        y, x = tile[:2]
        if height % y or width % x:
            raise Refused(
                f"--tile {y},{x} does not divide files of {height} x {width}: change --shard"
            )
        if x != width and not is_tile(y, x):
            raise Refused(
                f"--tile {y},{x} is no tile of TIFF: its sides must be multiples of {_TILE_SIDE}, unless "
                f"it is as wide as a file, {width}"
            )
        inner = (*(1,) * plane, y, x, *last)
        return inner, None if inner == unit_shape else "--tile changes their shape"
    y, x = unit_shape[plane : plane + 2]
    if height % y or width % x:
        raise Refused(
            f"files of {_times(chunk_shape)} cannot be divided into the inner chunks of {name}, which "
            f"are of {_times(unit_shape)}: give --tile"
        )
    why = None
    if any(length != 1 for length in unit_shape[:plane]):
        why = f"inner chunks of {_times(unit_shape)} are not in one page"
    elif samples and unit_shape[-1:] != last:
        why = f"inner chunks of {_times(unit_shape)} have not all samples of a pixel"
    if x != width and not is_tile(y, x):
        why = f"{y} x {x} is no tile of TIFF"
        x = width  # a strip
    return (*(1,) * plane, y, x, *last), why


def _any_inner_shape(
    name: str, unit_shape: Shape, chunk_shape: Shape, asked: Shape | None
) -> Shape:
    """The shape of inner chunks in a format that takes any."""
    if asked is not None and len(asked) not in (2, len(chunk_shape)):
        raise Refused(f"--tile {_comma(asked)} must have {len(chunk_shape)} numbers")
    inner = unit_shape
    if asked is not None:
        inner = (*(1,) * (len(chunk_shape) - len(asked)), *asked)
    if any(length % n for length, n in zip(chunk_shape, inner, strict=True)):
        raise Refused(
            f"files of {_times(chunk_shape)} cannot be divided into inner chunks of {_times(inner)} of "
            f"{name}: change --tile or --shard"
        )
    return inner


def parse_shape(text: str, option: str) -> Shape:
    """The numbers of an option such as `--shard 1,2048,2048`. Raises `Refused`."""
    words = text.split(",")
    if not all(word.isascii() and word.isdigit() and 0 < int(word) < 1 << 32 for word in words):
        raise Refused(f"{option} {shown(text)} must be positive numbers with commas between them")
    return tuple(map(int, words))


def _times(shape: Shape) -> str:
    return " x ".join(map(str, shape))


def _comma(shape: Shape) -> str:
    return ",".join(map(str, shape))
