"""libvips' tools read the `images` view: pages of whole arrays, and the levels of a pyramid."""

import subprocess
from pathlib import Path

import numpy as np
from desktop import program
from image_datasets import SPACING_UM, ImageDatasets


def run(name: str, *arguments: str) -> str:
    """Run a tool that must succeed; what it printed."""
    done = subprocess.run(
        [program(name), *arguments], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def field(file: Path, name: str) -> str:
    """What the header of an image says."""
    return run("vipsheader", "-f", name, str(file)).strip()


def crop(image: str, box: tuple[int, int, int, int], dtype: type, out: Path) -> np.ndarray:
    """The pixels at `box`: left, top, width, height. `image` is a file, and what to read of it."""
    run("vips", "crop", image, str(out), *map(str, box))
    return np.fromfile(out, dtype).reshape(box[3], box[2], -1).squeeze()


def test_pages_of_a_whole_array(
    images: Path, image_datasets: ImageDatasets, tmp_path: Path
) -> None:
    file = images / "cells.zarr/0/0.tiff"
    assert [field(file, name) for name in ("width", "height", "n-pages")] == ["256", "256", "12"]
    assert "256x256 ushort, 1 band" in run("vipsheader", str(file))
    planes = image_datasets.cells[0].reshape(-1, 256, 256)
    for page in (0, 4, 11):
        read = crop(f"{file}[page={page}]", (90, 33, 120, 70), np.uint16, tmp_path / "page.raw")
        np.testing.assert_array_equal(read, planes[page][33:103, 90:210])


def test_all_pages_below_each_other(images: Path, image_datasets: ImageDatasets) -> None:
    beads = image_datasets.beads
    average = run("vips", "avg", f"{images / 'beads.zarr/0/0.tiff'}[n=-1]")
    assert abs(float(average) - beads.mean()) < 1e-4


def test_levels_of_a_pyramid_are_subifds(
    images: Path, image_datasets: ImageDatasets, tmp_path: Path
) -> None:
    file = images / "slide.zarr/slide.ome.tiff"
    assert field(file, "n-subifds") == "2"
    assert "720x560 uchar, 3 bands, srgb" in run("vipsheader", str(file))
    finest, half, quarter = image_datasets.slide
    read = crop(str(file), (290, 190, 400, 300), np.uint8, tmp_path / "finest.raw")
    np.testing.assert_array_equal(read, finest[190:490, 290:690])
    for subifd, pixels in enumerate((half, quarter)):
        image = f"{file}[subifd={subifd}]"
        read = crop(image, (50, 20, 120, 100), np.uint8, tmp_path / f"{subifd}.raw")
        np.testing.assert_array_equal(read, pixels[20:120, 50:170])


def test_pyramid_has_its_resolution(images: Path) -> None:
    per_mm = [field(images / "cells.zarr/cells.ome.tiff", name) for name in ("xres", "yres")]
    assert [float(value) for value in per_mm] == [1000 / step for step in SPACING_UM[:0:-1]]


def test_png_is_a_picture(images: Path) -> None:
    file = images / "overview.zarr/overview.png"
    assert "640x500 uchar, 1 band, b-w, pngload" in run("vipsheader", str(file))
