"""OpenSlide reads the pyramid of an RGB image as a tiled TIFF.

It knows no OME-TIFF (openslide pull request 344), whose coarser levels are SubIFDs: it shows the finest
level alone. Grey levels and colours are read, 16 bits as 8.
"""

import subprocess
from pathlib import Path

import numpy as np
from desktop import program
from image_datasets import ImageDatasets


def properties(file: Path) -> dict[str, str]:
    """What OpenSlide tells of a slide."""
    done = subprocess.run(
        [program("openslide-show-properties"), file],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    pairs = (line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    return {name: value.strip("'") for name, value in pairs}


def region(file: Path, box: tuple[int, int, int, int], out: Path) -> np.ndarray:
    """The colours at `box`: left, top, width, height."""
    left, top, width, height = map(str, box)
    command = [program("openslide-write-png"), file, left, top, "0", width, height, out]
    subprocess.run(command, capture_output=True, timeout=30, check=True)
    colours = subprocess.run(
        [program("convert"), out, "-alpha", "off", "-depth", "8", "rgb:-"],
        capture_output=True,
        timeout=30,
        check=True,
    ).stdout
    return np.frombuffer(colours, np.uint8).reshape(box[3], box[2], 3)


def test_a_pyramid_of_colours_is_read_as_a_slide(
    images: Path, image_datasets: ImageDatasets, tmp_path: Path
) -> None:
    file = images / "slide.zarr/slide.ome.tiff"
    told = properties(file)
    assert told["openslide.vendor"] == "generic-tiff"
    assert told["openslide.level[0].width"] == "720"
    assert told["openslide.level[0].height"] == "560"
    read = region(file, (290, 190, 400, 300), tmp_path / "region.png")
    np.testing.assert_array_equal(read, image_datasets.slide[0][190:490, 290:690])


def test_image_of_16_bits(images: Path, image_datasets: ImageDatasets, tmp_path: Path) -> None:
    file = images / "cells.zarr/cells.ome.tiff"
    assert properties(file)["openslide.vendor"] == "generic-tiff"
    read = region(file, (0, 0, 256, 256), tmp_path / "region.png")
    plane = image_datasets.cells[0][0, 0, 0] >> 8
    assert np.abs(read - plane[..., np.newaxis].astype(np.int16)).max() <= 1
