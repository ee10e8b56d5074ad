"""eog and PCManFM show the pictures of the `images` view, and the file manager their thumbnails."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from contact_sheet import composite, luminance, show_images
from desktop import Desktop, thumbnail
from image_datasets import COLOURS, ImageDatasets

Picture = Callable[[ImageDatasets], np.ndarray]

PICTURES: dict[str, Picture] = {
    "overview.zarr/overview.png": lambda data: data.overview >> 8,
    "overview.zarr/overview.tiff": lambda data: data.overview >> 8,
    "overview.zarr/c/0/0.tiff": lambda data: data.overview[:256, :256] >> 8,
    "cells.zarr/0/0.png": lambda data: composite(data.cells[0][1, :, 1], COLOURS),
    "cells.zarr/0/0.tiff": lambda data: data.cells[0][0, 0, 0] >> 8,
    "slide.zarr/slide.ome.tiff": lambda data: luminance(data.slide[0]),
    "slide.zarr/1/1.tiff": lambda data: luminance(data.slide[1]),
    "slide.zarr/1/1.png": lambda data: luminance(data.slide[1]),
}
"""What a viewer shows of each file: the first page of a TIFF, the middle plane in a PNG."""


@pytest.mark.parametrize("name", PICTURES)
def test_viewer_shows_a_picture(
    name: str, images: Path, image_datasets: ImageDatasets, desktop: Desktop, artifacts: Path
) -> None:
    file = images / name
    desktop.start("eog", "--new-instance", file)
    desktop.place(desktop.wait_for_window(f"^{file.name}"), 200, 40, 880, 720)
    screenshot = artifacts / f"eog-{name.replace('/', '-')}.png"
    desktop.wait_for_picture(PICTURES[name](image_datasets), screenshot)


def test_file_manager_shows_thumbnails_of_an_array(
    images: Path, image_datasets: ImageDatasets, desktop: Desktop, artifacts: Path
) -> None:
    desktop.start("pcmanfm", images / "cells.zarr/0")
    desktop.place(desktop.wait_for_window("^0$"), 100, 60, 900, 560)
    screenshot = artifacts / "pcmanfm-array.png"
    cells = image_datasets.cells[0]
    for picture in (composite(cells[1, :, 1], COLOURS), cells[0, 0, 0] >> 8):
        desktop.wait_for_picture(thumbnail(picture), screenshot)


def test_file_manager_shows_thumbnails_of_chunks(
    images: Path, image_datasets: ImageDatasets, desktop: Desktop, artifacts: Path
) -> None:
    desktop.start("pcmanfm", images / "overview.zarr/c/0")
    desktop.place(desktop.wait_for_window("^0$"), 100, 60, 900, 560)
    for left in (0, 256):
        chunk = image_datasets.overview[:256, left : left + 256] >> 8
        desktop.wait_for_picture(thumbnail(chunk), artifacts / "pcmanfm-image-chunks.png")


def test_programs_show_a_mount_side_by_side(
    images: Path, image_datasets: ImageDatasets, desktop: Desktop, artifacts: Path
) -> None:
    show_images(desktop, images, image_datasets, artifacts / "images.png")
