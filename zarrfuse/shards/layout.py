"""How a file stores an array: what it has in common with other files, and where its inner chunks are.

Used by all of `shards`. It must not know formats of files.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from zarrfuse.errors import ZarrfuseError

MISSING = np.uint64(2**64 - 1)
"""Offset and size of an inner chunk that is not stored (sharding_indexed codec, Binary shard format)."""

Extents: TypeAlias = NDArray[np.uint64]
Json: TypeAlias = Mapping[str, Any]


class Refused(ZarrfuseError):
    """A file that cannot be a shard; the message says why, and what would help."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What files must have in common to be chunks of one array.

    Attributes:
        data_type: The data type in a `zarr.json`: "uint16", or an object with name and configuration.
        axes: The names of the dimensions, in lower case; those of pages that the file does not name are
            "page".
        inner_shape: The shape of a tile or strip, as many numbers as there are axes.
        codecs: The codecs of an inner chunk, as JSON text; see `codec_list`.
        fill_value: The value of pixels that are not stored; see `fill_json`. A tuple if it is complex.
    """

    data_type: Any = field(hash=False)
    axes: tuple[str, ...]
    inner_shape: tuple[int, ...]
    codecs: str
    fill_value: Any = field(default=0, hash=False)  # of complex numbers it is a list

    def fill_json(self) -> Any:
        """The fill value as in a `zarr.json`."""
        return list(self.fill_value) if isinstance(self.fill_value, tuple) else self.fill_value

    def codec_list(self) -> list[dict[str, Any]]:
        """The codecs of an inner chunk, as in a `zarr.json`."""
        found: list[dict[str, Any]] = json.loads(self.codecs)
        return found


@dataclass(frozen=True, slots=True)
class FileArray:
    """An array in a file.

    Attributes:
        layout: What other files must have in common with it.
        shape: The number of pixels along each axis.
        offsets: Where each inner chunk begins in the file, in bytes; of shape `grid`, `MISSING` for those
            that are not stored.
        sizes: The number of bytes of each inner chunk; as `offsets`.
        attributes: What the file says beyond pixels, for the `attributes` of a `zarr.json`.
        scale: Of an axis, the distance of its pixels, and the unit as OME-NGFF spells it:
            {"x": (0.65, "micrometer")}. Without the axes of which the file says nothing.
    """

    layout: Layout
    shape: tuple[int, ...]
    offsets: Extents
    sizes: Extents
    attributes: dict[str, Any] = field(default_factory=dict)
    scale: dict[str, tuple[float, str]] = field(default_factory=dict)

    @property
    def grid(self) -> tuple[int, ...]:
        """The number of inner chunks along each axis."""
        return grid_of(self.shape, self.layout.inner_shape)


def grid_of(shape: Sequence[int], chunk_shape: Sequence[int]) -> tuple[int, ...]:
    """The number of chunks that cover `shape` along each axis."""
    return tuple(-(-n // chunk) for n, chunk in zip(shape, chunk_shape, strict=True))


def type_name(data_type: Any) -> str:
    """The data type of a `zarr.json` in messages."""
    if isinstance(data_type, str):
        return data_type
    return f"{data_type['name']} of {data_type['configuration']['length_bytes']} bytes"


def codecs_text(codecs: Sequence[Json]) -> str:
    """Codecs as `Layout.codecs` has them: equal lists give equal texts."""
    return json.dumps(list(codecs), sort_keys=True)
