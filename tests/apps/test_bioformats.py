"""Bio-Formats, which QuPath, Fiji and OMERO read images with, on the `images` view."""

import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import tifffile
from desktop import Desktop, program
from image_datasets import INTERVAL_S, LABELS, LARGE_STORED, SPACING_UM, ImageDatasets

OME = "{http://www.openmicroscopy.org/Schemas/OME/2016-06}"


def tool(jar: Path, name: str, *arguments: object) -> str:
    """Run a tool of Bio-Formats that must succeed; what it printed."""
    command = [program("java"), "-Xmx256m", "-cp", jar, f"loci.formats.tools.{name}"]
    command += ["-no-upgrade", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_metadata_are_valid_and_complete(images: Path, bioformats: Path) -> None:
    file = images / "cells.zarr/cells.ome.tiff"

    printed = tool(bioformats, "ImageInfo", "-nopix", "-noflat", "-omexml", file)

    assert "Checking file format [OME-TIFF]" in printed
    assert "No validation errors found." in printed
    document = ET.fromstring(printed[printed.index("<OME ") :])
    (pixels,) = document.findall(f"{OME}Image/{OME}Pixels")
    sizes = {axis: int(pixels.attrib[f"Size{axis}"]) for axis in "TCZYX"}
    assert sizes == {"T": 2, "C": 2, "Z": 3, "Y": 256, "X": 256}
    steps = tuple(float(pixels.attrib[f"PhysicalSize{axis}"]) for axis in "ZYX")
    assert steps == SPACING_UM
    assert float(pixels.attrib["TimeIncrement"]) == INTERVAL_S
    channels = pixels.findall(f"{OME}Channel")
    assert tuple(channel.attrib["Name"] for channel in channels) == LABELS
    # Colours are RGBA, as 32 bits with a sign.
    colours = [int(channel.attrib["Color"]) & 0xFFFFFFFF for channel in channels]
    assert colours == [0x00FFFFFF, 0xFF00FFFF]


@pytest.mark.parametrize("level", [0, 1])
def test_planes_of_each_level_are_read(
    level: int, images: Path, image_datasets: ImageDatasets, bioformats: Path, tmp_path: Path
) -> None:
    file, out = images / "cells.zarr/cells.ome.tiff", tmp_path / "plane.tiff"
    tool(
        bioformats,
        "ImageConverter",
        *("-series", level, "-timepoint", 1, "-channel", 0, "-z", 2),
        *(file, out),
    )
    read = tifffile.imread(out).squeeze()
    np.testing.assert_array_equal(read, image_datasets.cells[level][1, 0, 2])


def test_levels_of_colours_are_one_image(
    images: Path, image_datasets: ImageDatasets, bioformats: Path, tmp_path: Path
) -> None:
    file, out = images / "slide.zarr/slide.ome.tiff", tmp_path / "region.tiff"

    printed = tool(bioformats, "ImageInfo", "-nopix", "-noflat", file)
    tool(bioformats, "ImageConverter", "-series", 1, "-crop", "50,60,200,100", file, out)

    assert "Series count = 1" in printed
    assert "Resolutions = 3" in printed
    read = np.moveaxis(tifffile.imread(out).squeeze(), 0, -1)
    np.testing.assert_array_equal(read, image_datasets.slide[1][60:160, 50:250])


def test_imagej_with_bioformats_pages_through_64_gib(
    images: Path,
    image_datasets: ImageDatasets,
    bioformats: Path,
    desktop: Desktop,
    imagej: list[str | Path],
) -> None:
    """A virtual stack, in 256 MiB: each plane of 32 MiB is read when it is shown."""
    (desktop.home / "plugins").mkdir()
    (desktop.home / "plugins" / bioformats.name).symlink_to(bioformats)
    pages = [0, 1, 1024, 2047]
    text = """
        run("Bio-Formats Importer", "open=[" + getArgument() + "] view=Hyperstack use_virtual_stack");
        getDimensions(width, height, channels, slices, frames);
        print("size", width, height, channels, slices, frames, is("Virtual Stack"));
    """
    for page in pages:
        text += f"setSlice({page + 1}); getRawStatistics(n, mean, low, high); print('page', mean, high);"

    (desktop.home / "macro.ijm").write_text(text)
    file = images / "large.zarr/large.tiff"

    # It also prints what it is doing.
    arguments = [*imagej, "-batch", desktop.home / "macro.ijm", file]
    printed = desktop.run("java", *arguments, timeout_s=90).splitlines()

    assert "size 4096 4096 1 2048 1 1" in printed
    read = [line.split()[1:] for line in printed if line.startswith("page ")]
    planes = [image_datasets.large_plane(page) for page in pages]
    assert [(float(mean), int(high)) for mean, high in read] == [
        (pytest.approx(plane.mean(), abs=1e-3), plane.max()) for plane in planes
    ]
    assert {page for page, _, _ in LARGE_STORED} < set(pages)
