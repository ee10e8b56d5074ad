"""The picture for the documentation: a folder of chunks in a file manager, and one in a viewer.

    python tests/apps/showcase.py MOUNTPOINT OUTPUT.png

`MOUNTPOINT` is where the demonstration dataset is mounted; its path is seen in the picture.
"""

import sys
import tempfile
from pathlib import Path

from desktop import Desktop, thumbnail

from zarrfuse.cli.demo_dataset import CHUNK, demo_image


def show_folder_and_picture(desktop: Desktop, mountpoint: Path, file: Path) -> None:
    """Open a folder of chunks and one of its chunks side by side; the screenshot becomes `file`.

    Fails unless the thumbnails of all three chunks and the picture itself are on the screen.
    """
    folder = mountpoint / "cells.zarr/strips/c/0"
    image = demo_image() >> 8  # the viewers show the high byte
    chunks = [image[:CHUNK, left : left + CHUNK] for left in range(0, 3 * CHUNK, CHUNK)]
    desktop.start("pcmanfm", folder)
    desktop.place(desktop.wait_for_window("^0$"), 20, 30, 640, 440)
    desktop.start("eog", "--new-instance", folder / "1.tiff")
    desktop.place(desktop.wait_for_window(r"^1\.tiff"), 690, 90, 560, 600)
    for chunk in chunks:
        desktop.wait_for_picture(thumbnail(chunk), file)
    desktop.wait_for_picture(chunks[1], file)


def main() -> None:
    """Make the picture."""
    mountpoint, file = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as home, Desktop(Path(home), (1280, 720)) as desktop:
        show_folder_and_picture(desktop, mountpoint.absolute(), file.absolute())


if __name__ == "__main__":
    main()
