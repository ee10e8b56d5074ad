"""GDAL's tools read the `images` view: whole arrays page by page, pyramids with their overviews."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from desktop import program
from image_datasets import LARGE_FILL, ImageDatasets


def info(dataset: Path | str) -> dict[str, Any]:
    """What `gdalinfo` tells of a file, or of one page of it."""
    done = subprocess.run(
        [program("gdalinfo"), "-json", dataset],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return json.loads(done.stdout)


def window(
    dataset: Path | str, left: int, top: int, width: int, height: int, out: Path, *options: str
) -> np.ndarray:
    """The pixels of a window of an image, as `gdal_translate` copies them: (height, width[, bands])."""
    command = [program("gdal_translate"), "-q", "-of", "ENVI", "-co", "INTERLEAVE=BIP", *options]
    command += ["-srcwin", *map(str, (left, top, width, height)), str(dataset), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    # ENVI is raw pixels and a small text beside them.
    bands = len(info(dataset)["bands"])
    dtype = {"Byte": np.uint8, "UInt16": np.uint16}[info(dataset)["bands"][0]["type"]]
    shape = (height, width, bands) if bands > 1 else (height, width)
    return np.fromfile(out, dtype).reshape(shape)


def test_whole_array_has_a_page_for_each_plane(
    images: Path, image_datasets: ImageDatasets, tmp_path: Path
) -> None:
    file = images / "cells.zarr/0/0.tiff"
    told = info(file)
    assert told["size"] == [256, 256]
    assert [band["type"] for band in told["bands"]] == ["UInt16"]
    assert len(told["metadata"]["SUBDATASETS"]) == 2 * 12  # a name and a description of each
    planes = image_datasets.cells[0].reshape(-1, 256, 256)
    for page in (1, 6, 12):
        read = window(f"GTIFF_DIR:{page}:{file}", 90, 33, 120, 70, tmp_path / f"{page}.raw")
        np.testing.assert_array_equal(read, planes[page - 1][33:103, 90:210])


def test_levels_of_a_pyramid_are_overviews(
    images: Path, image_datasets: ImageDatasets, tmp_path: Path
) -> None:
    file = images / "slide.zarr/slide.ome.tiff"
    told = info(file)
    assert told["size"] == [720, 560]
    assert [band["colorInterpretation"] for band in told["bands"]] == ["Red", "Green", "Blue"]
    overviews = [overview["size"] for overview in told["bands"][0]["overviews"]]
    assert overviews == [[360, 280], [180, 140]]
    finest, half, quarter = image_datasets.slide
    read = window(file, 290, 190, 400, 300, tmp_path / "finest.raw")
    np.testing.assert_array_equal(read, finest[190:490, 290:690])
    for level, pixels in enumerate((half, quarter)):
        options = ("-oo", f"OVERVIEW_LEVEL={level}")
        read = window(file, 50, 20, 120, 100, tmp_path / f"{level}.raw", *options)
        np.testing.assert_array_equal(read, pixels[20:120, 50:170])


def test_planes_of_a_pyramid_are_pages_with_overviews(
    images: Path, image_datasets: ImageDatasets, tmp_path: Path
) -> None:
    page = f"GTIFF_DIR:12:{images / 'cells.zarr/cells.ome.tiff'}"
    assert [overview["size"] for overview in info(page)["bands"][0]["overviews"]] == [[128, 128]]
    read = window(page, 0, 0, 256, 256, tmp_path / "finest.raw")
    np.testing.assert_array_equal(read, image_datasets.cells[0][1, 1, 2])
    read = window(page, 0, 0, 128, 128, tmp_path / "half.raw", "-oo", "OVERVIEW_LEVEL=0")
    np.testing.assert_array_equal(read, image_datasets.cells[1][1, 1, 2])


def test_window_of_64_gib(images: Path, image_datasets: ImageDatasets, tmp_path: Path) -> None:
    file = images / "large.zarr/large.tiff"
    plane = image_datasets.large_plane(1024)
    read = window(f"GTIFF_DIR:1025:{file}", 1900, 900, 300, 400, tmp_path / "a.raw")
    np.testing.assert_array_equal(read, plane[900:1300, 1900:2200])
    assert (read == LARGE_FILL).any()
    assert (read != LARGE_FILL).any()
