"""eog, GNOME's image viewer, opens chunks of a mount: the picture is on the screen."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from desktop import Desktop

Mounted = Callable[..., Path]


@pytest.mark.parametrize("name", ["strips", "raw", "zstd"])
def test_viewer_shows_a_chunk(
    name: str,
    demo: Path,
    mounted: Mounted,
    desktop: Desktop,
    artifacts: Path,
    pixels: Callable[[int, int], np.ndarray],
) -> None:
    folder = mounted(demo) / "cells.zarr" / name / "c" / "0"
    desktop.start("eog", "--new-instance", folder / "1.tiff")
    window = desktop.wait_for_window(r"^1\.tiff")
    desktop.place(window, 200, 40, 880, 720)
    desktop.wait_for_picture(pixels(0, 1) >> 8, artifacts / f"eog-{name}.png")
