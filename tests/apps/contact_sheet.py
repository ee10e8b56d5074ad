"""The picture of the `images` view for the documentation: a hyperstack, a picture, and thumbnails.

    python tests/apps/contact_sheet.py MOUNTPOINT OUTPUT.png

`MOUNTPOINT` is an empty folder, whose path is seen in the picture. The datasets of the tests are
mounted there while ImageJ, a viewer and a file manager look at them.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from desktop import Desktop, thumbnail
from image_datasets import COLOURS, WINDOWS, ImageDatasets, write_image_datasets

IMAGEJ_JAR = Path("/usr/share/java/ij.jar")


def imagej_arguments(home: Path) -> list[str | Path]:
    """The arguments of `java` that start ImageJ in 256 MiB, with the plug-ins in `home/plugins`.

    Debian's `imagej` script runs the same, but always exits 1.
    """
    assert IMAGEJ_JAR.is_file(), f"{IMAGEJ_JAR} is not there: install imagej"
    return ["-Xmx256m", "-cp", IMAGEJ_JAR, "ij.ImageJ", "-ijpath", home]


def show_images(desktop: Desktop, images: Path, datasets: ImageDatasets, file: Path) -> None:
    """Open what is mounted at `images` in three programs; the screenshot becomes `file`.

    Fails unless the hyperstack, the picture and the thumbnails are on the screen.
    """
    array = images / "cells.zarr/0"
    desktop.start("java", *imagej_arguments(desktop.home), array / "0.tiff")
    hyperstack = desktop.wait_for_window(r"^0\.tiff")
    desktop.place(desktop.wait_for_window("^ImageJ$"), 12, 12, 610, 96)
    desktop.place(hyperstack, 12, 128, 266, 356)
    desktop.start("pcmanfm", array)
    desktop.place(desktop.wait_for_window("^0$"), 300, 128, 868, 260)
    desktop.start("eog", "--new-instance", images / "slide.zarr/1/1.png")
    desktop.place(desktop.wait_for_window(r"^1\.png"), 300, 410, 868, 340)
    cells = datasets.cells[0]
    rendered, first = composite(cells[1, :, 1], COLOURS), cells[0, 0, 0] >> 8
    hyperstack_shown, slide = composite(cells[0, :, 0], COLOURS), luminance(datasets.slide[1])
    for picture in (hyperstack_shown, thumbnail(rendered), thumbnail(first), slide):
        desktop.wait_for_picture(picture, file)


def composite(channels: np.ndarray, colours: Sequence[str]) -> np.ndarray:
    """Channels (c, y, x) of `cells.zarr` upon each other, colours and windows as told: grey levels."""
    mixed = np.zeros((*channels.shape[1:], 3))
    for plane, (low, high), colour in zip(channels, WINDOWS, colours, strict=True):
        shown = ((plane.astype(np.float64) - low) / (high - low)).clip(0, 1)
        mixed += shown[..., np.newaxis] * list(bytes.fromhex(colour))
    return luminance(mixed.clip(0, 255))


def luminance(colours: np.ndarray) -> np.ndarray:
    """The grey levels of colours (y, x, 3), as screenshots are looked at."""
    return colours @ [0.2126, 0.7152, 0.0722]


def main() -> None:
    """Make the picture."""
    images, file = (Path(argument).absolute() for argument in sys.argv[1:])
    zarrfuse = (sys.executable, "-m", "zarrfuse")
    with tempfile.TemporaryDirectory() as folder:
        datasets = write_image_datasets(Path(folder, "data"))
        command = [*zarrfuse, "mount", datasets.folder, images, "--view", "images"]
        subprocess.run(command, check=True)
        try:
            with Desktop(Path(folder, "home"), (1180, 760)) as desktop:
                show_images(desktop, images, datasets, file)
        finally:
            subprocess.run([*zarrfuse, "unmount", images], check=True)


if __name__ == "__main__":
    main()
