"""PCManFM opens a folder of a mount: chunk files, recognised as pictures, with their thumbnails."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from desktop import Desktop, thumbnail
from showcase import show_folder_and_picture

Mounted = Callable[..., Path]


@pytest.mark.parametrize("name", ["strips", "zstd"])
def test_file_manager_shows_a_folder_of_chunks_with_thumbnails(
    name: str,
    demo: Path,
    mounted: Mounted,
    desktop: Desktop,
    artifacts: Path,
    pixels: Callable[[int, int], np.ndarray],
) -> None:
    desktop.start("pcmanfm", mounted(demo) / "cells.zarr" / name / "c" / "0")
    window = desktop.wait_for_window("^0$")
    desktop.place(window, 100, 60, 900, 560)
    for column in range(3):
        picture = thumbnail(pixels(0, column) >> 8)
        desktop.wait_for_picture(picture, artifacts / f"pcmanfm-{name}.png")


def test_file_manager_and_viewer_show_the_same_mount_side_by_side(
    demo: Path, mounted: Mounted, desktop: Desktop, artifacts: Path
) -> None:
    show_folder_and_picture(desktop, mounted(demo), artifacts / "desktop.png")
