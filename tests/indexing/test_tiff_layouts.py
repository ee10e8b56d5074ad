"""Files of every layout that `zarrfuse index` takes have, as an array, the pixels that tifffile reads.

Image codecs are exact too: the same library decodes, also what was stored with a loss.
"""

import hashlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dask.array
import numpy as np
import pytest
import tifffile
import zarr
from builders.tiff_files import LAYOUTS, Write
from sampling import Sample

import zarrfuse
from zarrfuse.check.survey import Survey
from zarrfuse.stores.opening import open_store

pytestmark = pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr")

TIFFFILE_REFUSES = ["jpeg-gdal-bands"]


def folder_of(tmp_path: Path, write: Write) -> Path:
    """A folder with two files, f0.tif and f1.tif."""
    folder = tmp_path / "files"
    folder.mkdir()
    for seed in range(2):
        write(folder / f"f{seed}.tif", seed)
    return folder


def hashes(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.tif")
    }


def array_of(dataset: str) -> zarr.Array:
    """The array, or that of the finest level of a group."""
    node = zarr.open(zarrfuse.open_store(dataset), mode="r")
    array = node["0"] if isinstance(node, zarr.Group) else node
    assert isinstance(array, zarr.Array)
    return array


def assert_equal(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == expected.dtype
    assert found.size == expected.size
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)


def groups() -> dict[str, list[str]]:
    """The names of layouts by their first word."""
    found: dict[str, list[str]] = {}
    for name in LAYOUTS:
        if name not in TIFFFILE_REFUSES:
            found.setdefault(name.partition("-")[0], []).append(name)
    return found


@pytest.mark.parametrize("group", groups())
def test_pixels_are_those_that_tifffile_reads(tmp_path: Path, group: str, sample: Sample) -> None:
    names = groups()[group]
    for name in sample.chance.sample(names, sample.count(len(names), default=-(-len(names) // 5))):
        with described(name):
            (tmp_path / name).mkdir()
            check_pixels(tmp_path / name, name)


@contextmanager
def described(name: str) -> Iterator[None]:
    """A block whose errors say of which layout they are."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"of the layout {name}")
        raise


def check_pixels(tmp_path: Path, name: str) -> None:
    folder = folder_of(tmp_path, LAYOUTS[name])
    before = hashes(folder)
    dataset = zarrfuse.index(folder, jobs=1)

    array = array_of(dataset)
    lazy = dask.array.from_zarr(zarrfuse.open_store(dataset), component=array.path or None)

    for number in range(2):
        expected = tifffile.imread(folder / f"f{number}.tif")
        assert_equal(array[number], expected)
    assert_equal(lazy[1].compute(scheduler="synchronous"), expected)
    assert hashes(folder) == before
    assert not list(Survey(open_store(dataset)).findings(deep=True))


def test_separate_samples_of_jpeg_are_those_that_libtiff_reads(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, LAYOUTS["jpeg-gdal-bands"])  # tifffile: "Bogus JPEG colorspace"
    array = array_of(zarrfuse.index(folder, jobs=1))
    for number in range(2):
        decoded = tmp_path / "decoded.tif"
        subprocess.run(["tiffcp", "-c", "none", folder / f"f{number}.tif", decoded], check=True)
        assert_equal(array[number], tifffile.imread(decoded))


@pytest.mark.parametrize(
    ("name", "names", "shape", "inner"),
    [
        ("strips", "fyx", (2, 70, 100), (70, 100)),
        ("strips-large", "fyx", (2, 1000, 700), (100, 700)),
        ("strips-large-short-last", "fyx", (2, 1000, 700), (50, 700)),
        ("strips-prime", "fyx", (2, 71, 100), (71, 100)),
        ("strips-zstd", "fyx", (2, 70, 100), (10, 100)),
        ("rgb", "fyxs", (2, 70, 100, 3), (32, 48, 3)),
        ("rgb-planar", "fsyx", (2, 3, 70, 100), (1, 32, 48)),
        ("volume-ragged", "fzyx", (2, 21, 70, 100), (16, 32, 48)),
        ("imagej", ("f", *"tzcyx"), (2, 2, 3, 2, 70, 100), (1, 1, 1, 70, 100)),
        ("imagej-one-ifd", "ftzyx", (2, 2, 3, 70, 100), (1, 1, 70, 100)),
        ("pages", ("f", "page", "y", "x"), (2, 3, 70, 100), (1, 32, 48)),
        ("ome", "fczyx", (2, 2, 3, 70, 100), (1, 1, 32, 48)),
    ],
)
def test_dimensions_and_inner_chunks(
    tmp_path: Path, name: str, names: str, shape: tuple[int, ...], inner: tuple[int, ...]
) -> None:
    array = array_of(zarrfuse.index(folder_of(tmp_path, LAYOUTS[name]), jobs=1))
    assert array.metadata.dimension_names == tuple(names)
    assert array.shape == shape
    assert array.chunks == (1, *inner)
