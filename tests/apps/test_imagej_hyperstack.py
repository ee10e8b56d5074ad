"""ImageJ without plug-ins opens whole arrays of the `images` view as hyperstacks."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from contact_sheet import composite
from desktop import Desktop
from image_datasets import COLOURS, INTERVAL_S, SPACING_UM, WINDOWS, ImageDatasets

Macro = Callable[[str, Path], list[str]]

DESCRIBE = """
open(getArgument());
getDimensions(width, height, channels, slices, frames);
print(width, height, channels, slices, frames, bitDepth());
getVoxelSize(x, y, z, unit);
print(x, y, z, unit, Stack.getFrameInterval());
hyperstack = Stack.isHyperstack;
print(hyperstack);
"""

MEASURE = """
for (t = 1; t <= frames; t++) for (z = 1; z <= slices; z++) for (c = 1; c <= channels; c++) {{
    if (channels * frames > 1) Stack.setPosition(c, z, t); else setSlice(z);
    getRawStatistics(count, mean, low, high);
    print(mean, low, high, {pixels});
}}
"""
"""Prints a line for each plane, in this order: time, slice, channel."""

DISPLAY = """
for (c = 1; c <= channels; c++) {
    Stack.setChannel(c);
    getMinAndMax(low, high);
    getLut(reds, greens, blues);
    print(low, high, reds[255], greens[255], blues[255]);
}
"""


def measure(positions: Sequence[tuple[int, int]]) -> str:
    """A macro that measures every plane and prints its pixels at these positions (x, y)."""
    return MEASURE.format(pixels=", ".join(f"getPixel({x}, {y})" for x, y in positions))


def numbers(line: str) -> list[float]:
    return [float(word) for word in line.split()]


def expected(plane: np.ndarray, positions: Sequence[tuple[int, int]]) -> list[float]:
    """What `measure` prints of a plane; ImageJ rounds the mean to four digits."""
    values = [plane.mean(), plane.min(), plane.max(), *(plane[y, x] for x, y in positions)]
    return [pytest.approx(float(value), abs=1e-4) for value in values]


def test_array_of_time_channel_and_depth_is_a_hyperstack(
    images: Path, image_datasets: ImageDatasets, macro: Macro
) -> None:
    positions = [(0, 0), (255, 0), (0, 255), (255, 255), (100, 37)]

    size, spacing, hyperstack, *planes = macro(
        DESCRIBE + measure(positions), images / "cells.zarr/0/0.tiff"
    )

    assert size == "256 256 2 3 2 16"
    z, y, x = SPACING_UM
    assert spacing == f"{x} {y} {z} µm {INTERVAL_S:g}"
    assert hyperstack == "1"
    pixels = image_datasets.cells[0].transpose(0, 2, 1, 3, 4)  # ImageJ's order: t, z, c
    assert [numbers(line) for line in planes] == [
        expected(plane, positions) for plane in pixels.reshape(-1, 256, 256)
    ]


def test_chunk_has_the_pixel_size_depth_and_unit_of_its_array(
    images: Path, image_datasets: ImageDatasets, macro: Macro
) -> None:
    positions = [(0, 0), (31, 31), (17, 5)]

    size, spacing, _, *planes = macro(
        DESCRIBE + measure(positions), images / "beads.zarr/0/c/0/0/0.tiff"
    )

    assert size == "32 32 1 2 1 8"
    z, y, x = SPACING_UM
    assert spacing == f"{x} {y} {z} µm 0"
    assert [numbers(line) for line in planes] == [
        expected(plane, positions) for plane in image_datasets.beads[:2, :32, :32]
    ]


def test_channels_have_their_windows_and_colours(images: Path, macro: Macro) -> None:
    shown = macro(DESCRIBE + DISPLAY, images / "cells.zarr/0/0.tiff")[3:]
    assert [numbers(line) for line in shown] == [
        [*window, *bytes.fromhex(colour)] for window, colour in zip(WINDOWS, COLOURS, strict=True)
    ]


def test_stack_of_bytes_has_its_depth_and_spacing(
    images: Path, image_datasets: ImageDatasets, macro: Macro
) -> None:
    positions = [(0, 0), (59, 0), (0, 49), (59, 49), (31, 17)]

    size, spacing, _, *planes = macro(DESCRIBE + measure(positions), images / "beads.zarr/0/0.tiff")

    assert size == "60 50 1 7 1 8"
    z, y, x = SPACING_UM
    assert spacing == f"{x} {y} {z} µm 0"
    assert [numbers(line) for line in planes] == [
        expected(plane, positions) for plane in image_datasets.beads
    ]


def test_colours_are_colours(images: Path, image_datasets: ImageDatasets, macro: Macro) -> None:
    positions = [(0, 0), (359, 0), (0, 279), (359, 279), (123, 45)]
    pixels = ", ".join(f"getPixel({x}, {y})" for x, y in positions)

    size, _, _, line = macro(DESCRIBE + f"print({pixels});", images / "slide.zarr/1/1.tiff")

    assert size == "360 280 1 1 1 24"
    level = image_datasets.slide[1]
    colours = [bytes(level[y, x]).hex() for x, y in positions]
    assert [f"{int(value) & 0xFFFFFF:06x}" for value in line.split()] == colours


def test_one_page_of_a_chunk_after_another(
    images: Path, image_datasets: ImageDatasets, macro: Macro
) -> None:
    positions = [(0, 0), (27, 17)]

    size, _, _, *planes = macro(DESCRIBE + measure(positions), images / "beads.zarr/0/c/1/1/1.tiff")

    assert size == "28 18 1 2 1 8"
    assert [numbers(line) for line in planes] == [
        expected(plane, positions) for plane in image_datasets.beads[2:4, 32:, 32:]
    ]


def test_hyperstack_is_shown_in_its_colours(
    images: Path,
    image_datasets: ImageDatasets,
    desktop: Desktop,
    imagej: list[str | Path],
    artifacts: Path,
) -> None:
    desktop.start("java", *imagej, images / "cells.zarr/0/0.tiff")
    desktop.wait_for_window(r"^0\.tiff")
    picture = composite(image_datasets.cells[0][0, :, 0], COLOURS)
    desktop.wait_for_picture(picture, artifacts / "imagej-hyperstack.png")
