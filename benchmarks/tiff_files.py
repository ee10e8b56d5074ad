"""The TIFF files of the rows of indexing: many that are nearly empty on the disk, and a few that are not.

Whoever reads headers reads the same of both: a file is a header, tags and tables of tiles, and 4 MiB of
pixels. Of the many, only what is in front of the pixels is written (`ftruncate` makes the rest), so that
they take 8 MB instead of 8 GB.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tifffile

HEIGHT, WIDTH, TILE = 1024, 2048, 256
FILE_BYTES = HEIGHT * WIDTH * 2


@dataclass(frozen=True)
class TiffSizes:
    """How many files are indexed, and how many are converted."""

    indexed: int = 2000
    converted: int = 400


QUICK_TIFF = TiffSizes(indexed=60, converted=40)


@dataclass(frozen=True)
class TiffFiles:
    """Folders of files t0000.tif and so on: `indexed` has holes for pixels, `converted` has pixels."""

    sizes: TiffSizes
    indexed: Path
    converted: Path
    few: Path
    """Some of the first, to see what a command takes apart from files."""


FEW = 20


def write_tiff_files(folder: Path, sizes: TiffSizes) -> TiffFiles:
    """Write them below `folder`."""
    files = TiffFiles(sizes, folder / "indexed", folder / "converted", folder / "few")
    random = np.random.default_rng(0)
    files.converted.mkdir()
    for number in range(sizes.converted):
        # 12 bits of noise, as of a camera.
        pixels = random.integers(0, 4096, (HEIGHT, WIDTH), np.uint16)
        tifffile.imwrite(_named(files.converted, number), pixels, tile=(TILE, TILE), metadata=None)
    first = _named(files.converted, 0)
    with tifffile.TiffFile(first) as tiff:
        head_bytes = min(tiff.pages.first.dataoffsets)
    head = first.read_bytes()[:head_bytes]
    for target, count in ((files.indexed, sizes.indexed), (files.few, FEW)):
        target.mkdir()
        for number in range(count):
            with _named(target, number).open("wb") as file:
                file.write(head)
                file.truncate(first.stat().st_size)
    os.sync()
    return files


def _named(folder: Path, number: int) -> Path:
    return folder / f"t{number:04}.tif"
