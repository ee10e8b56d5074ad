"""What an array has from its TIFF files beside their pixels, and what was exported from arrays."""

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr

import zarrfuse
from zarrfuse.check import findings
from zarrfuse.shards.tiff import read_tiff

GRAY = (np.add.outer(np.arange(96), 3 * np.arange(128)) * 37 % 60000).astype("u2")
TILES: dict[str, Any] = {"tile": (32, 32)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for files."""
    path = tmp_path / "tiffs"
    path.mkdir()
    return path


def indexed(folder: Path) -> zarr.Array:
    """The array that a folder becomes; nothing is wrong with it."""
    out = zarrfuse.index(folder, jobs=1)
    assert [finding.line() for finding in findings(out, deep=True)] == []
    return zarr.open_array(zarrfuse.open_store(out), mode="r")


def test_uncompressed_strips_are_cut_until_the_last_file_fits(folder: Path) -> None:
    parts = GRAY[:30], GRAY[30:60], GRAY[60:78]
    for y, part in enumerate(parts):
        tifffile.imwrite(folder / f"y{y}.tif", part, rowsperstrip=8, metadata=None)
    array = indexed(folder)
    assert array.chunks == (6, 128)
    np.testing.assert_array_equal(array[...], GRAY[:78])


def test_tiles_that_are_not_stored_have_the_no_data_value(folder: Path) -> None:
    tiles = [None if n % 3 else np.full((32, 32), n, "u2") for n in range(12)]
    tifffile.imwrite(
        folder / "a.tif",
        iter(tiles),
        shape=(96, 128),
        dtype="u2",
        compression="zstd",
        extratags=[(42113, 2, 0, "7", True)],
        **TILES,
    )
    array = indexed(folder)
    assert array.fill_value == 7
    np.testing.assert_array_equal(array[...], tifffile.imread(folder / "a.tif"))
    assert (array[:32, 32:64] == 7).all()


@pytest.mark.parametrize("text, value", [("-9999", (-9999.0, 0.0)), ("1.5-2j", (1.5, -2.0))])
def test_the_no_data_value_of_complex_numbers(
    tmp_path: Path, text: str, value: tuple[object, ...]
) -> None:
    tifffile.imwrite(
        tmp_path / "a.tif",
        np.zeros((16, 16), "complex64"),
        extratags=[(42113, "s", 0, text, False)],
        metadata=None,
    )
    with (tmp_path / "a.tif").open("rb") as file:
        assert read_tiff("a.tif", file)[0].layout.fill_value == value


def test_hyperstacks_have_the_axes_and_sizes_of_imagej(folder: Path) -> None:
    stack = np.stack([np.stack([GRAY, GRAY + 1]), np.stack([GRAY + 2, GRAY + 3])])
    metadata = {"axes": "ZCYX", "unit": "um", "spacing": 2.0}
    for number in range(2):
        path = folder / f"t{number}.tif"
        tifffile.imwrite(path, stack + number, imagej=True, resolution=(4, 4), metadata=metadata)
    array = indexed(folder)
    assert array.metadata.dimension_names == ("t", "z", "c", "y", "x")
    assert array.attrs["scale"] == {
        "x": [0.25, "micrometer"],
        "y": [0.25, "micrometer"],
        "z": [2.0, "micrometer"],
    }
    np.testing.assert_array_equal(array[1], stack + 1)


def test_what_was_exported_is_indexed_to_the_same_array(tmp_path: Path) -> None:
    stored = zarr.create_array(
        tmp_path / "a", shape=GRAY.shape, dtype="u2", chunks=(32, 32), shards=(64, 64)
    )
    stored[...] = GRAY
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarrfuse.export(tmp_path / "a", tmp_path / "out")
    again = tmp_path / "again"
    shutil.copytree(tmp_path / "out" / "c", again / "c", ignore=shutil.ignore_patterns("*.index"))
    assert zarrfuse.index(again, jobs=1) == str(again)
    array = zarr.open_array(zarrfuse.open_store(again), mode="r")
    np.testing.assert_array_equal(array[...], GRAY)
    for path in (tmp_path / "out").rglob("*.index"):
        assert (again / path.relative_to(tmp_path / "out")).read_bytes() == path.read_bytes()


def test_an_export_of_an_indexed_array_is_not_recorded_as_indexed(
    tmp_path: Path, folder: Path
) -> None:
    for number in range(2):
        tifffile.imwrite(folder / f"t{number}.tif", GRAY + number, compression="zstd", **TILES)
    out = zarrfuse.index(folder, jobs=1)
    zarrfuse.export(out, tmp_path / "out")
    exported = zarr.open_array(zarrfuse.open_store(tmp_path / "out"), mode="r")
    assert "zarrfuse_index" not in exported.attrs
    assert exported.attrs["tiff"]["photometric"] == "minisblack"
