"""The arrays of pixels that the `images` view is measured on, written by zarr-python.

Owns what is in them and how large they are. The pixels are like those of a fluorescence microscope:
a dark background with the camera's noise, bright cells with that of light. They are compressed to
about half, so that decoding costs what it costs in life.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr

_HUGE_PAGES_STORED = (0, 1, 4096)
_SMALL = 64


@dataclass(frozen=True)
class ImageSizes:
    """Elements along each dimension, and how many windows are read; every element has two bytes."""

    pages: int = 64
    side: int = 4096
    chunk: int = 1024
    inner: int = 512
    huge_pages: int = 8192
    huge_side: int = 2048
    frames: int = 256
    frame_side: int = 2048
    window: int = 256
    windows: int = 200

    @property
    def nbytes(self) -> int:
        """Bytes of the pixels of `zstd`, and of `sharded`."""
        return 2 * self.pages * self.side**2

    @property
    def huge_nbytes(self) -> int:
        """Bytes of the pixels of `huge`, of which next to none are stored."""
        return 2 * self.huge_pages * self.huge_side**2


QUICK_IMAGES = ImageSizes(pages=8, side=2048, huge_pages=1024, frames=32, windows=50)
"""Shows that everything runs; too little to compare figures by."""


@dataclass(frozen=True)
class ImageArrays:
    """One folder of arrays, mounted as a whole.

    `zstd` has chunks of a part of a page; `sharded` has shards of a page; `frames` has chunks of a
    page, as a camera writes them; of `huge` only a few chunks are stored; `small` is read before a
    clock starts, so that what the daemon needs is in memory.
    """

    root: Path
    sizes: ImageSizes

    zstd = "zstd"
    sharded = "sharded"
    frames = "frames"
    huge = "huge"
    small = "small"

    def stored(self, name: str) -> Path:
        """The array, as zarr-python opens it."""
        return self.root / name

    def stored_files(self, name: str) -> list[Path]:
        """All files of the array."""
        return [path for path in self.stored(name).rglob("*") if path.is_file()]


def rendering(mount: Path, name: str, ending: str) -> Path:
    """The file of a whole array on a mount of the `images` view."""
    return mount / name / f"{name}.{ending}"


def write_image_arrays(folder: Path, sizes: ImageSizes) -> ImageArrays:
    """Write them below `folder`, and leave them in the page cache with nothing to write back."""
    arrays = ImageArrays(folder / "images-data", sizes)
    shape = (sizes.pages, sizes.side, sizes.side)
    of_a_page = (1, sizes.side, sizes.side)
    zarr.create_group(arrays.root)
    whole = _create(arrays, arrays.zstd, shape, sizes.chunk)
    sharded = _create(arrays, arrays.sharded, shape, sizes.inner, shards=of_a_page)
    first = page_of_cells(sizes.side)
    for number in range(sizes.pages):
        # Every page has its own bytes, at the price of one.
        page = np.roll(first, (number * 37, number * 101), (0, 1)) + np.uint16(number)
        whole[number] = page
        sharded[number] = page
    shape = (sizes.frames, sizes.frame_side, sizes.frame_side)
    frames = _create(arrays, arrays.frames, shape, sizes.frame_side)
    for number in range(sizes.frames):
        top = number * 37 % (sizes.side - sizes.frame_side + 1)
        frame = first[top : top + sizes.frame_side, : sizes.frame_side]
        frames[number] = frame + np.uint16(number)
    shape = (sizes.huge_pages, sizes.huge_side, sizes.huge_side)
    huge = _create(arrays, arrays.huge, shape, sizes.chunk)
    for number in _HUGE_PAGES_STORED:
        if number < sizes.huge_pages:
            huge[number] = first[: sizes.huge_side, : sizes.huge_side]
    small = _create(arrays, arrays.small, (_SMALL, _SMALL), _SMALL)
    small[...] = first[:_SMALL, :_SMALL]
    os.sync()
    return arrays


def _create(
    arrays: ImageArrays, name: str, shape: tuple[int, ...], chunk: int, **options: Any
) -> Any:
    """An array of chunks that are squares of a page, with zarr-python's own zstd."""
    return zarr.create_array(
        arrays.root,
        name=name,
        shape=shape,
        dtype="uint16",
        chunks=(*(1 for _ in shape[:-2]), chunk, chunk),
        dimension_names=("z", "y", "x")[-len(shape) :],
        **options,
    )


def page_of_cells(side: int) -> Any:
    """A picture of cells, `side` pixels wide and high, as a camera of 16 bits gives it."""
    chance = np.random.default_rng(7)
    light = np.full((side, side), 12.0, np.float32)
    radius = 40
    at = np.arange(-radius, radius + 1, dtype=np.float32)
    cell = np.exp(-(at[:, None] ** 2 + at[None, :] ** 2) / (2 * (radius / 3) ** 2))
    for _ in range((side // 160) ** 2):
        top, left = chance.integers(0, side - len(at), 2)
        light[top : top + len(at), left : left + len(at)] += chance.uniform(20, 900) * cell
    noise = chance.standard_normal((side, side), np.float32)
    return (100 + light + noise * np.sqrt(light + 9)).clip(0).astype(np.uint16)
