"""libtiff's tools and tifffile read every TIFF chunk of a mount, and whole arrays and pyramids."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tifffile
import zarr
from desktop import program
from image_datasets import ImageDatasets

Mounted = Callable[..., Path]
Pixels = Callable[[int, int], np.ndarray]

TIFF_ARRAYS = ["zstd", "raw", "strips"]


def run(name: str, *arguments: str | Path) -> str:
    """Run a tool that must succeed and have nothing to complain about; what it printed."""
    done = subprocess.run(
        [program(name), *arguments], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_tifffile_reads_every_chunk_pixel_for_pixel(
    demo: Path, mounted: Mounted, pixels: Pixels
) -> None:
    group = mounted(demo) / "cells.zarr"
    for name in TIFF_ARRAYS:
        for row in range(2):
            for column in range(3):
                read = tifffile.imread(group / name / "c" / str(row) / f"{column}.tiff")
                np.testing.assert_array_equal(read, pixels(row, column))


@pytest.mark.parametrize(
    ("name", "compression", "layout"),
    [
        ("zstd", "ZSTD", "Tile Width: 256 Tile Length: 256"),
        ("raw", "None", "Tile Width: 256 Tile Length: 256"),
        ("strips", "None", "Rows/Strip: 512"),
    ],
)
def test_tiffinfo_describes_and_decodes_a_chunk(
    name: str, compression: str, layout: str, demo: Path, mounted: Mounted
) -> None:
    printed = run("tiffinfo", "-D", mounted(demo) / "cells.zarr" / name / "c/1/2.tiff")
    assert "Image Width: 512 Image Length: 512" in printed
    assert f"Compression Scheme: {compression}" in printed
    assert layout in printed


def test_chunks_of_all_tiff_layouts_are_the_same_to_tiffcmp(
    demo: Path, mounted: Mounted, tmp_path: Path
) -> None:
    group = mounted(demo) / "cells.zarr"
    # tiffcmp compares only files of one compression and layout: make them so.
    copies = [tmp_path / f"{name}.tiff" for name in TIFF_ARRAYS]
    for name, copy in zip(TIFF_ARRAYS, copies, strict=True):
        run("tiffcp", "-c", "none", "-s", "-r", "64", group / name / "c/1/0.tiff", copy)
    for copy in copies[1:]:
        assert run("tiffcmp", copies[0], copy) == ""


@pytest.mark.parametrize(
    ("name", "pages", "says"),
    [
        ("beads.zarr/0/0.tiff", 7, "Image Width: 60 Image Length: 50"),
        ("slide.zarr/1/1.tiff", 1, "Photometric Interpretation: RGB color"),
        ("overview.zarr/c/1/2.tiff", 1, "Image Width: 128 Image Length: 244"),
        ("slide.zarr/slide.ome.tiff", 1, "SubIFD Offsets:"),
        ("cells.zarr/cells.ome.tiff", 12, "SubIFD Offsets:"),
        ("large.zarr/large.tiff", 2048, "Image Width: 4096 Image Length: 4096"),
    ],
)
def test_tiffinfo_has_nothing_to_complain_about(
    name: str, pages: int, says: str, images: Path
) -> None:
    printed = run("tiffinfo", images / name)
    assert printed.count("=== TIFF directory ") == pages
    assert says in printed


def test_libtiff_reads_every_page_of_a_hyperstack(
    images: Path, image_datasets: ImageDatasets, tmp_path: Path
) -> None:
    """It warns of the tags that are ImageJ's, so `run` will not do."""
    file, copy = images / "cells.zarr/0/0.tiff", tmp_path / "copy.tiff"
    command = [program("tiffcp"), "-c", "none", file, copy]
    subprocess.run(command, capture_output=True, timeout=30, check=True)
    read = tifffile.imread(copy, key=range(12))
    np.testing.assert_array_equal(read, image_datasets.cells[0].reshape(-1, 256, 256))


def test_levels_of_a_pyramid_are_arrays_to_zarr_through_tifffile(
    images: Path, image_datasets: ImageDatasets
) -> None:
    with tifffile.imread(images / "slide.zarr/slide.ome.tiff", aszarr=True) as store:
        levels = zarr.open_group(store, mode="r")
        for index, pixels in enumerate(image_datasets.slide):
            np.testing.assert_array_equal(levels[str(index)][:], pixels)
