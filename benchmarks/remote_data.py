"""The Zarr arrays that are read from a server, written by zarr-python under one folder.

Owns what lies where and how large it is.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from benchmarks.image_arrays import page_of_cells

SMALL_BYTES = 16 << 10
_ROWS = 50
_LISTED_SIDE = 8


@dataclass(frozen=True)
class RemoteSizes:
    """How much of everything: `large_bytes` in bytes, `side` in pixels, the rest in files and reads."""

    large_bytes: int = 256 << 20
    random_reads: int = 1000
    listed_files: int = 5000
    small_files: int = 2000
    planes: int = 8
    side: int = 2048
    levels: int = 3


QUICK_REMOTE = RemoteSizes(32 << 20, 100, 500, 200, planes=2, side=1024, levels=2)
"""Shows that everything runs; too little to compare figures by."""


@dataclass(frozen=True)
class RemoteData:
    """One folder, which is the bucket; paths relative to it as a mount shows them."""

    root: Path
    sizes: RemoteSizes
    names_file: Path
    """Names of the small chunks, one a line, in the order they are read."""

    large = "large/c/0"
    listed = "listed"
    small = "small/c"
    pyramid = "pyramid"


def write_remote_data(folder: Path, sizes: RemoteSizes) -> RemoteData:
    """Write everything below `folder`, and leave it in the page cache with nothing to write back."""
    data = RemoteData(folder / "bucket", sizes, folder / "small-names.txt")
    zarr.create_group(data.root)
    _write_bytes(data, "large", (sizes.large_bytes,), (sizes.large_bytes,))
    columns = sizes.listed_files // _ROWS
    side = _LISTED_SIDE
    _write_bytes(data, data.listed, (_ROWS * side, columns * side), (side, side))
    _write_bytes(data, "small", (sizes.small_files * SMALL_BYTES,), (SMALL_BYTES,))
    data.names_file.write_text("".join(f"{number}\n" for number in range(sizes.small_files)))
    _write_pyramid(data)
    os.sync()
    return data


def _write_bytes(
    data: RemoteData, name: str, shape: tuple[int, ...], chunks: tuple[int, ...]
) -> None:
    """An array of random bytes, not compressed."""
    array: Any = zarr.create_array(
        data.root, name=name, shape=shape, dtype="uint8", chunks=chunks, compressors=None
    )
    array[...] = np.random.default_rng(3).integers(1, 256, shape, np.uint8)


def _write_pyramid(data: RemoteData) -> None:
    """An OME-Zarr 0.5 image of planes, in chunks of a sixteenth of a plane of the first level."""
    sizes = data.sizes
    plane = page_of_cells(sizes.side)
    datasets = []
    group = zarr.create_group(data.root, path=data.pyramid)
    for level in range(sizes.levels):
        step = 1 << level
        side = sizes.side // step
        array: Any = group.create_array(
            str(level),
            shape=(sizes.planes, side, side),
            dtype="uint16",
            chunks=(1, sizes.side // 4, sizes.side // 4),
            dimension_names=("z", "y", "x"),
        )
        for number in range(sizes.planes):
            array[number] = np.roll(plane, number * 101, 1)[::step, ::step]
        scale = {"type": "scale", "scale": [1.0, float(step), float(step)]}
        datasets.append({"path": str(level), "coordinateTransformations": [scale]})
    axes = [{"name": name, "type": "space"} for name in "zyx"]
    multiscales: Any = [{"axes": axes, "datasets": datasets, "name": "pyramid"}]
    group.attrs["ome"] = {"version": "0.5", "multiscales": multiscales}
