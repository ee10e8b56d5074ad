"""The datasets that image programs are shown through the `images` view, and their pixels.

    cells.zarr     an OME-NGFF 0.5 image of Zarr v3: (t, c, z, y, x), two levels, colours and windows
    beads.zarr     an OME-NGFF 0.4 image of Zarr v2: a (z, y, x) stack of bytes, with spacing
    slide.zarr     a pyramid of three RGB levels in the form of `example.multiscale-arrays`
    overview.zarr  an array at the root, (y, x), of nothing but zstd chunks
    large.zarr     64 GiB of (z, y, x) in which three chunks are stored

Everything is compressed, and no chunk divides its array, but in `large.zarr`: nothing here is a
picture before a mount decodes it. Written with zarr-python; the pixels are kept beside it.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import ZstdCodec

from zarrfuse.cli.demo_dataset import demo_image

SIDE = 256
"""The height and width of `cells.zarr`, in pixels."""

SPACING_UM = (0.5, 0.25, 0.25)
"""The steps of z, y and x in `cells.zarr` and `beads.zarr`, in micrometers."""

INTERVAL_S = 30.0
"""The step of t in `cells.zarr`, in seconds."""

WINDOWS = ((1500, 52000), (700, 60000))
"""The darkest and the brightest value that a viewer is to show of each channel of `cells.zarr`."""

COLOURS = ("00FFFF", "FF00FF")
LABELS = ("nuclei", "membrane")

SLIDE_SHAPE = (560, 720)
"""The height and width of the finest level of `slide.zarr`, in pixels."""

LARGE_SHAPE = (2048, 4096, 4096)
LARGE_CHUNK = (1, 1024, 1024)
LARGE_FILL = 513
LARGE_STORED = ((0, 0, 0), (1024, 1, 2), (2047, 3, 3))
"""Which chunks of `large.zarr` are stored, in the first, a middle and the last plane."""


@dataclass(frozen=True)
class ImageDatasets:
    """A folder of stores and the pixels of what they hold; `chunk` is each one that `large` has."""

    folder: Path
    cells: tuple[np.ndarray, ...]
    beads: np.ndarray
    slide: tuple[np.ndarray, ...]
    overview: np.ndarray
    chunk: np.ndarray

    def large_plane(self, index: int) -> np.ndarray:
        """One plane of `large.zarr`."""
        plane = np.full(LARGE_SHAPE[1:], LARGE_FILL, np.uint16)
        for z, row, column in LARGE_STORED:
            if z == index:
                top, left = row * LARGE_CHUNK[1], column * LARGE_CHUNK[2]
                plane[top : top + LARGE_CHUNK[1], left : left + LARGE_CHUNK[2]] = self.chunk
        return plane


def write_image_datasets(folder: Path) -> ImageDatasets:
    """Write all of them below `folder`, 6 MB in a second."""
    image = demo_image()
    return ImageDatasets(
        folder,
        _write_cells(folder / "cells.zarr", image),
        _write_beads(folder / "beads.zarr", image),
        _write_slide(folder / "slide.zarr", image),
        _write_overview(folder / "overview.zarr", image),
        _write_large(folder / "large.zarr", image),
    )


def _write_cells(path: Path, image: np.ndarray) -> tuple[np.ndarray, ...]:
    """Two channels of the demonstration picture, elsewhere in it at each time and depth."""
    full = np.empty((2, 2, 3, SIDE, SIDE), np.uint16)
    for time, channel, depth in np.ndindex(full.shape[:3]):
        top, left = 60 + 30 * depth + 350 * channel, 40 + 200 * time + 300 * channel
        full[time, channel, depth] = image[top : top + SIDE, left : left + SIDE]
    levels = (full, _halved(full))
    scales = [[INTERVAL_S, 1.0, *SPACING_UM], [INTERVAL_S, 1.0, 0.5, 0.5, 0.5]]
    group = zarr.create_group(path, zarr_format=3)
    units = {"t": "second"} | dict.fromkeys("zyx", "micrometer")
    types = {"t": "time", "c": "channel"} | dict.fromkeys("zyx", "space")
    channels = [
        {
            "label": label,
            "color": colour,
            "active": True,
            "window": {"min": 0, "max": 65535, "start": start, "end": end},
        }
        for label, colour, (start, end) in zip(LABELS, COLOURS, WINDOWS, strict=True)
    ]
    group.attrs["ome"] = {
        "version": "0.5",
        "multiscales": [_multiscale("cells", types, units, scales)],
        "omero": {"channels": channels},
    }
    for index, level in enumerate(levels):
        group.create_array(
            str(index),
            data=level,
            chunks=(1, 1, 1, 96, 100),
            compressors=ZstdCodec(level=3),
            dimension_names=tuple(types),
        )
    return levels


def _write_beads(path: Path, image: np.ndarray) -> np.ndarray:
    pixels = np.stack([image[top : top + 50, 700:760] >> 8 for top in range(0, 350, 50)])
    pixels = pixels.astype(np.uint8)
    group = zarr.create_group(path, zarr_format=2)
    space = dict.fromkeys("zyx", "space")
    units = dict.fromkeys("zyx", "micrometer")
    group.attrs["multiscales"] = [
        {"version": "0.4", **_multiscale("beads", space, units, [list(SPACING_UM)])}
    ]
    group.create_array("0", data=pixels, chunks=(2, 32, 32))
    return pixels


def _write_slide(path: Path, image: np.ndarray) -> tuple[np.ndarray, ...]:
    """Three levels, each half as large as the one before: colours from three parts of the picture."""
    height, width = SLIDE_SHAPE
    corners = ((0, 0), (100, 300), (200, 512))
    parts = [image[top : top + height, left : left + width] for top, left in corners]
    level = np.stack([255 - (part >> 8) for part in parts], axis=-1).astype(np.uint8)
    group = zarr.create_group(path, zarr_format=3)
    levels = [level]
    for _ in range(2):
        levels.append(_halved(levels[-1], axes=(0, 1)))
    for index, level in enumerate(levels):
        group.create_array(
            str(index),
            data=level,
            chunks=(200, 300, 3),
            shards=(400, 600, 3) if index == 0 else None,
            dimension_names=("y", "x", "rgb"),
        )
    entry = {
        "name": "example.multiscale-arrays",
        "must_understand": False,
        "configuration": {"multiscale": {"datasets": [str(i) for i in range(len(levels))]}},
    }
    document = json.loads((path / "zarr.json").read_text())
    (path / "zarr.json").write_text(json.dumps({**document, "extensions": [entry]}))
    return tuple(levels)


def _write_overview(path: Path, image: np.ndarray) -> np.ndarray:
    pixels = image[:500, 512:1152]
    zarr.create_array(path, data=pixels, chunks=(256, 256), dimension_names=("y", "x"))
    return pixels


def _write_large(path: Path, image: np.ndarray) -> np.ndarray:
    chunk = np.ascontiguousarray(image[: LARGE_CHUNK[1], : LARGE_CHUNK[2]])
    array = zarr.create_array(
        path,
        shape=LARGE_SHAPE,
        dtype=np.uint16,
        chunks=LARGE_CHUNK,
        fill_value=LARGE_FILL,
        dimension_names=("z", "y", "x"),
    )
    for index in LARGE_STORED:
        array.blocks[index] = chunk[np.newaxis]
    return chunk


def _multiscale(
    name: str, types: dict[str, str], units: dict[str, str], scales: list[list[float]]
) -> dict[str, Any]:
    """An entry of `multiscales` (OME-NGFF 0.4 and 0.5), whose levels are called 0, 1 and so on."""
    axes = [
        {"name": name, "type": kind} | ({"unit": units[name]} if name in units else {})
        for name, kind in types.items()
    ]
    datasets = [
        {"path": str(index), "coordinateTransformations": [{"type": "scale", "scale": scale}]}
        for index, scale in enumerate(scales)
    ]
    return {"name": name, "axes": axes, "datasets": datasets}


def _halved(pixels: np.ndarray, axes: tuple[int, int] = (-2, -1)) -> np.ndarray:
    """Every second row and column."""
    index = [slice(None)] * pixels.ndim
    for axis in axes:
        index[axis] = slice(None, None, 2)
    return np.ascontiguousarray(pixels[tuple(index)])
