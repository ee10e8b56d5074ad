"""ImageJ without plugins opens chunks of a mount and sees the right pixels."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from desktop import Desktop

Mounted = Callable[..., Path]
Macro = Callable[[str, Path], list[str]]
Pixels = Callable[[int, int], np.ndarray]

POSITIONS = [(0, 0), (511, 0), (0, 511), (511, 511), (100, 37), (255, 256), (300, 411)]


@pytest.mark.parametrize(("row", "column"), [(0, 1), (1, 2)])
def test_imagej_reads_the_pixels_of_a_chunk(
    row: int,
    column: int,
    demo: Path,
    mounted: Mounted,
    macro: Macro,
    pixels: Pixels,
) -> None:
    lines = ["open(getArgument());", 'print(getWidth() + " " + getHeight() + " " + bitDepth());']
    lines += [f"print(getPixel({x}, {y}));" for x, y in POSITIONS]
    file = mounted(demo) / "cells.zarr" / "strips" / "c" / str(row) / f"{column}.tiff"

    printed = macro("\n".join(lines), file)

    assert printed[0] == "512 512 16"
    assert [int(value) for value in printed[1:]] == [
        pixels(row, column)[y, x] for x, y in POSITIONS
    ]


def test_imagej_measures_the_whole_chunk(
    demo: Path, mounted: Mounted, macro: Macro, pixels: Pixels
) -> None:
    text = (
        "open(getArgument());\n"
        "getStatistics(area, mean, min, max);\n"
        "getPixelSize(unit, width, height);\n"
        'print(d2s(mean, 6) + " " + min + " " + max + " " + d2s(width, 4) + " " + unit);\n'
    )
    file = mounted(demo) / "cells.zarr/strips/c/0/1.tiff"

    [line] = macro(text, file)
    mean, low, high, width, unit = line.split()

    chunk = pixels(0, 1)
    assert float(mean) == pytest.approx(chunk.mean())
    assert (int(low), int(high)) == (chunk.min(), chunk.max())
    assert (width, unit) == ("0.3250", "µm")


def test_imagej_shows_a_chunk_in_its_window(
    demo: Path,
    mounted: Mounted,
    desktop: Desktop,
    imagej: list[str | Path],
    artifacts: Path,
    pixels: Pixels,
) -> None:
    desktop.start("java", *imagej, mounted(demo) / "cells.zarr/strips/c/0/1.tiff")
    desktop.wait_for_window(r"^1\.tiff")
    desktop.wait_for_picture(pixels(0, 1) >> 8, artifacts / "imagej.png")
