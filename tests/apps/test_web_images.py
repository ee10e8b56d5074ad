"""Images on a web server that lists nothing: programs find them by their metadata, and their pixels."""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import tifffile
import zarr
from builders.http_server import serving_http
from builders.mounts import mounting
from desktop import program
from web_datasets import VERSIONS, WELLS, WebImages, write_web_images

Macro = Callable[[str, Path], list[str]]
PYRAMIDS = ("image.zarr", "image.zarr/labels/nuclei", f"plate.zarr/{WELLS[1]}/0")
MEASURE = """
open(getArgument());
getDimensions(width, height, channels, slices, frames);
print(width, height, channels * slices * frames);
for (n = 1; n <= channels * slices * frames; n++) {
    if (nSlices > 1) setSlice(n);
    getRawStatistics(count, mean, low, high);
    print(mean, low, high, getPixel(3, 5), getPixel(width - 1, height - 1));
}
"""


@dataclass(frozen=True)
class Mounted:
    """The images of one version and where each store is mounted, with a folder for each view."""

    images: WebImages
    points: Mapping[str, Path]

    def file(self, view: str, path: str) -> Path:
        """A path of the stores, in a view."""
        store, _, below = path.partition("/")
        return self.points[store] / view / below

    def ome_tiff(self, pyramid: str) -> Path:
        """The OME-TIFF of a pyramid."""
        return self.file("images", pyramid) / f"{Path(pyramid).name.removesuffix('.zarr')}.ome.tiff"


@pytest.fixture(scope="module", params=VERSIONS)
def web(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mounted]:
    """The stores of one version of OME-NGFF, mounted from nginx without listings."""
    folder = tmp_path_factory.mktemp("web")
    images = write_web_images(folder / "root", request.param)
    with ExitStack() as stack:
        server = stack.enter_context(serving_http(folder / "root", folder / "nginx", "none"))
        points = {
            name: stack.enter_context(
                mounting(f"{server.url}/{name}", folder / name, "--view", "all")
            )
            for name in ("image.zarr", "plate.zarr")
        }
        yield Mounted(images, points)


def test_nodes_are_listed_by_what_the_metadata_name(web: Mounted) -> None:
    def folders(path: str) -> set[str]:
        at = web.file("images", path)
        return {name for name in os.listdir(at) if (at / name).is_dir()}

    assert folders("image.zarr") == {"0", "1", "labels"}
    assert folders("image.zarr/labels") == {"nuclei"}
    assert folders("image.zarr/labels/nuclei") == {"0", "1"}
    assert folders("plate.zarr") == {"A", "B"}
    assert folders("plate.zarr/B") == {"2"}
    assert folders("plate.zarr/B/2") == {"0"}
    assert "image.ome.tiff" in os.listdir(web.file("images", "image.zarr"))


@pytest.mark.parametrize("pyramid", PYRAMIDS)
def test_imagej_reads_whole_arrays(web: Mounted, macro: Macro, pyramid: str) -> None:
    level = web.images.levels[pyramid][0]

    size, *planes = macro(MEASURE, web.file("images", pyramid) / "0/0.tiff")

    stack = level.reshape(-1, *level.shape[-2:])
    assert size == f"{level.shape[-1]} {level.shape[-2]} {len(stack)}"
    assert [[float(word) for word in line.split()] for line in planes] == [
        [
            pytest.approx(plane.mean(), abs=1e-4),
            plane.min(),
            plane.max(),
            plane[5, 3],
            plane[-1, -1],
        ]
        for plane in stack
    ]


@pytest.mark.parametrize("pyramid", PYRAMIDS)
def test_bioformats_reads_levels_of_pyramids(
    web: Mounted, bioformats: Path, tmp_path: Path, pyramid: str
) -> None:
    out = tmp_path / "level.tiff"
    command = [program("java"), "-Xmx256m", "-cp", bioformats, "loci.formats.tools.ImageConverter"]
    command += ["-no-upgrade", "-series", "1", web.ome_tiff(pyramid), out]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[OME-TIFF]" in done.stdout
    np.testing.assert_array_equal(tifffile.imread(out).squeeze(), web.images.levels[pyramid][1])


@pytest.mark.parametrize("view", ["chunks", "plain"])
def test_zarr_python_reads_each_level(web: Mounted, view: str) -> None:
    for pyramid, levels in web.images.levels.items():
        group = zarr.open_group(web.file(view, pyramid), mode="r")
        metadata = group.attrs.get("ome", group.attrs)
        paths = [level["path"] for level in metadata["multiscales"][0]["datasets"]]
        for path, pixels in zip(paths, levels, strict=True):
            np.testing.assert_array_equal(group[path][...], pixels)


@pytest.mark.parametrize("view", ["chunks", "plain"])
def test_zarr_python_finds_images_through_their_plate(web: Mounted, view: str) -> None:
    plate = zarr.open_group(web.file(view, "plate.zarr"), mode="r")
    wells = plate.attrs.get("ome", plate.attrs)["plate"]["wells"]
    assert [well["path"] for well in wells] == list(WELLS)
    for path in WELLS:
        well = plate[path]
        (image,) = well.attrs.get("ome", well.attrs)["well"]["images"]
        found = well[image["path"]]["1"][...]
        np.testing.assert_array_equal(found, web.images.levels[f"plate.zarr/{path}/0"][1])
