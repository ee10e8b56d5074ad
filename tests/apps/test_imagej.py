"""ImageJ without plugins opens chunks of a mount and sees the right pixels."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from desktop import Desktop

Mounted = Callable[..., Path]
Pixels = Callable[[int, int], np.ndarray]

POSITIONS = [(0, 0), (511, 0), (0, 511), (511, 511), (100, 37), (255, 256), (300, 411)]


@pytest.mark.parametrize(("row", "column"), [(0, 1), (1, 2)])
def test_imagej_reads_the_pixels_of_a_chunk(
    row: int,
    column: int,
    demo: Path,
    mounted: Mounted,
    desktop: Desktop,
    imagej: list[str | Path],
    pixels: Pixels,
) -> None:
    macro = desktop.home / "pixels.ijm"
    lines = ["open(getArgument());", 'print(getWidth() + " " + getHeight() + " " + bitDepth());']
    lines += [f"print(getPixel({x}, {y}));" for x, y in POSITIONS]
    macro.write_text("\n".join(lines))
    file = mounted(demo) / "cells.zarr" / "strips" / "c" / str(row) / f"{column}.tiff"

    printed = desktop.run("java", *imagej, "-batch", macro, file).splitlines()

    assert printed[0] == "512 512 16"
    assert [int(value) for value in printed[1:]] == [
        pixels(row, column)[y, x] for x, y in POSITIONS
    ]


def test_imagej_measures_the_whole_chunk(
    demo: Path,
    mounted: Mounted,
    desktop: Desktop,
    imagej: list[str | Path],
    pixels: Pixels,
) -> None:
    macro = desktop.home / "statistics.ijm"
    macro.write_text(
        "open(getArgument());\n"
        "getStatistics(area, mean, min, max);\n"
        "getPixelSize(unit, width, height);\n"
        'print(d2s(mean, 6) + " " + min + " " + max + " " + d2s(width, 4) + " " + unit);\n'
    )
    file = mounted(demo) / "cells.zarr/strips/c/0/1.tiff"

    mean, low, high, width, unit = desktop.run("java", *imagej, "-batch", macro, file).split()

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
