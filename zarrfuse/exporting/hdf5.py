"""HDF5 files that are shards: each inner chunk is a chunk of the one dataset of a file.

A file is stored in parts: its header, with all that HDF5 says of the dataset, its chunks, and the index.
Owns what is in the dataset; `hdf5_shards` writes the files. Used by `run`.
"""

import os
import shutil
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from zarrfuse.exporting.hdf5_shards import Hdf5Shards, hdf5_shards
from zarrfuse.exporting.plan import Abilities, Plan
from zarrfuse.exporting.source import Coords
from zarrfuse.exporting.tiles import Tiles
from zarrfuse.shards.layout import MISSING, Extents, Layout, codecs_text

HDF5 = Abilities(
    kept=("none", "deflate"),  # zstd needs a plug-in in each reader, so it has to be asked for
    offered=("deflate", "none", "zstd"),
    of_pages=False,
    differences=False,
)
_KINDS = "iufcb"


class Hdf5Format:
    """See `FileFormat`."""

    suffix = ".h5"

    def __init__(self, plan: Plan, title: str) -> None:
        self._plan = plan
        self._title = title

    def problem(self, plan: Plan) -> str | None:
        """See `FileFormat`."""
        return None if plan.dtype.kind in _KINDS else f"HDF5 has no type for {plan.dtype.name}"

    @property
    def header_size(self) -> int | None:
        """See `FileFormat`."""
        return self._shards.header_size

    @cached_property
    def _shards(self) -> Hdf5Shards:
        plan = self._plan
        names = plan.node.dimension_names or (None,) * plan.node.ndim
        axes = tuple(name or f"dim_{number}" for number, name in enumerate(names))
        layout = Layout(
            data_type=plan.node.data_type,
            axes=axes,
            inner_shape=plan.inner_shape,
            codecs=codecs_text(plan.encoding.codecs(plan.dtype)),
            fill_value=plan.node.fill_value,
        )
        scale = {
            name: (axis.scale, axis.unit)
            for name, axis in zip(axes, plan.picture.axes, strict=True)
            if axis.scale is not None and axis.unit is not None
        }
        attributes: dict[str, Any] = {"title": self._title}
        return hdf5_shards(layout, plan.chunk_shape, scale=scale, attributes=attributes)

    def write(
        self, file: BinaryIO, header: BinaryIO | None, coords: Coords, tiles: Tiles
    ) -> tuple[Extents, Extents]:
        """See `FileFormat`."""
        assert header is not None
        plan, shards = self._plan, self._shards
        chunks = (
            (place, tile.data)
            for tile in tiles.made
            if not tile.is_missing
            for place in tile.places
        )
        # Beside the file, so that bytes are copied in one file system.
        with tempfile.TemporaryDirectory(dir=os.path.dirname(file.name)) as folder:
            path = Path(folder, "whole.h5")
            array = shards.write(path, chunks, shape=plan.file_shape(coords))
            with path.open("rb") as whole:
                header.write(whole.read(shards.header_size))
                shutil.copyfileobj(whole, file, 8 << 20)
        offsets: Extents = np.full(plan.inner_grid, MISSING, np.uint64)
        sizes: Extents = np.full(plan.inner_grid, MISSING, np.uint64)
        box = tuple(map(slice, array.grid))
        offsets[box], sizes[box] = array.offsets, array.sizes
        return offsets, sizes
