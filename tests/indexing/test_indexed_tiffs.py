"""TIFF files of each compression and layout become arrays with their pixels, and are not changed."""

import hashlib
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
from zarrfuse.errors import ZarrfuseError

Options = dict[str, Any]

GRAY = (np.add.outer(np.arange(96), 3 * np.arange(128)) * 37 % 60000).astype("u2")
RGB = np.stack([GRAY % 251, GRAY // 3 % 251, GRAY // 7 % 251], -1).astype("u1")
PLANES = np.moveaxis(RGB, -1, 0)
FLOATS = (GRAY / 7).astype("f4")
TILES: Options = {"tile": (32, 32)}
COLOUR: Options = {**TILES, "photometric": "rgb"}
PLANAR: Options = {**COLOUR, "planarconfig": "separate"}


def indexed(folder: Path, *, way: str = "link", **options: Any) -> Any:
    """The array or group that a folder becomes; nothing is wrong with it, and the files are as before."""
    before = {path: hashlib.sha256(path.read_bytes()).digest() for path in folder.iterdir()}
    out = zarrfuse.index(folder, jobs=1, way=way, **options)
    assert {path: hashlib.sha256(path.read_bytes()).digest() for path in before} == before
    assert [finding.line() for finding in findings(out, deep=True)] == []
    return zarr.open(zarrfuse.open_store(out), mode="r")


def test_dask_reads_what_was_indexed(tmp_path: Path) -> None:
    import dask.array

    folder = tmp_path / "tiffs"
    folder.mkdir()
    for number in range(3):
        tifffile.imwrite(folder / f"t{number}.tif", GRAY + number, compression="zstd", **TILES)
    out = zarrfuse.index(folder, jobs=1)
    array = dask.array.from_zarr(zarr.open_array(zarrfuse.open_store(out), mode="r"))
    np.testing.assert_array_equal(array.compute(), np.stack([GRAY, GRAY + 1, GRAY + 2]))


def test_files_of_a_mosaic_may_be_smaller_at_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "tiffs"
    folder.mkdir()
    for y in range(2):
        for x in range(2):
            part = GRAY[y * 64 : (y + 1) * 64, x * 96 : (x + 1) * 96]
            tifffile.imwrite(folder / f"y{y}_x{x}.tif", part, compression="zlib", **TILES)
    array = indexed(folder)
    assert array.shards == (64, 96)
    np.testing.assert_array_equal(array[...], GRAY)


def test_uncompressed_strips_are_cut_until_the_last_file_fits(tmp_path: Path) -> None:
    folder = tmp_path / "tiffs"
    folder.mkdir()
    for y, part in enumerate((GRAY[:48], GRAY[48:96], GRAY[:20])):
        tifffile.imwrite(folder / f"y{y}.tif", part)
    array = indexed(folder)
    np.testing.assert_array_equal(array[...], np.concatenate([GRAY[:96], GRAY[:20]]))


def test_tiles_that_are_not_stored_have_the_no_data_value(tmp_path: Path) -> None:
    folder = tmp_path / "tiffs"
    folder.mkdir()
    tiles = [None if n % 3 else np.full((32, 32), n, "u2") for n in range(12)]
    tifffile.imwrite(
        folder / "a.tif",
        iter(tiles),
        shape=(96, 128),
        dtype="u2",
        compression="zlib",
        extratags=[(42113, 2, 0, "7", True)],
        **TILES,
    )
    array = indexed(folder)
    assert array.fill_value == 7
    np.testing.assert_array_equal(array[...], tifffile.imread(folder / "a.tif"))
    assert (array[:32, 32:64] == 7).all()


@pytest.mark.parametrize("colour", [False, True])
def test_a_pyramid_becomes_an_image_of_ome_ngff(tmp_path: Path, colour: bool) -> None:
    folder = tmp_path / "tiffs"
    folder.mkdir()
    pixels = RGB if colour else GRAY
    options: Options = {**(COLOUR if colour else TILES), "compression": "zlib"}
    for number in range(2):
        with tifffile.TiffWriter(folder / f"t{number}.ome.tif") as writer:
            sizes = {"PhysicalSizeX": 0.5, "PhysicalSizeXUnit": "µm", "PhysicalSizeY": 0.5}
            axes = "YXS" if colour else "YX"
            writer.write(pixels, subifds=1, metadata={"axes": axes, **sizes}, **options)
            writer.write(pixels[::2, ::2], subfiletype=1, **options)
    group = indexed(folder)
    level = np.moveaxis(pixels[::2, ::2], -1, 0) if colour else pixels[::2, ::2]
    np.testing.assert_array_equal(group["1"][1], level)
    multiscale = group.attrs["ome"]["multiscales"][0]
    assert [axis["name"] for axis in multiscale["axes"]] == list("tcyx" if colour else "tyx")
    scale = multiscale["datasets"][1]["coordinateTransformations"][0]["scale"]
    assert scale[-2:] == [1.0, 1.0]
    assert multiscale["axes"][-1]["unit"] == "micrometer"


def test_hyperstacks_have_the_axes_and_sizes_of_imagej(tmp_path: Path) -> None:
    folder = tmp_path / "tiffs"
    folder.mkdir()
    stack = np.stack([np.stack([GRAY, GRAY + 1]), np.stack([GRAY + 2, GRAY + 3])])
    metadata = {"axes": "ZCYX", "unit": "um", "spacing": 2.0}
    for number in range(2):
        tifffile.imwrite(
            folder / f"t{number}.tif",
            *(stack + number,),
            imagej=True,
            resolution=(4, 4),
            metadata=metadata,
        )
    array = indexed(folder)
    assert array.metadata.dimension_names == ("t", "z", "c", "y", "x")
    assert array.attrs["scale"] == {
        "x": [0.25, "micrometer"],
        "y": [0.25, "micrometer"],
        "z": [2.0, "micrometer"],
    }
    np.testing.assert_array_equal(array[1], stack + 1)


def damaged(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3000])


def test_strips_that_end_short_are_refused_if_they_are_compressed(tmp_path: Path) -> None:
    folder = tmp_path / "tiffs"
    folder.mkdir()
    tifffile.imwrite(folder / "a.tif", GRAY, compression="zlib", rowsperstrip=60)
    with pytest.raises(ZarrfuseError, match=r"a\.tif: its last strip has 36 rows.*tiffcp -t"):
        zarrfuse.index(folder, jobs=1)
    assert not (tmp_path / "tiffs.zarr").exists()


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "tiffs"
    folder.mkdir()
    for number in range(3):
        tifffile.imwrite(folder / f"t{number}.tif", GRAY, **TILES)
    damaged(folder / "t1.tif")
    with pytest.raises(ZarrfuseError, match=r"t1\.tif: is cut off"):
        zarrfuse.index(folder, jobs=1)
    assert not (tmp_path / "tiffs.zarr").exists()


@pytest.mark.parametrize("bytes_", [b"", b"II*\0", b"no tiff at all", b"II*\0\x08\0\0\0\xff\xff"])
def test_what_is_no_tiff_is_refused(tmp_path: Path, bytes_: bytes) -> None:
    folder = tmp_path / "tiffs"
    folder.mkdir()
    (folder / "a.tif").write_bytes(bytes_)
    with pytest.raises(ZarrfuseError, match=r"^a\.tif: "):
        zarrfuse.index(folder, jobs=1)


def test_files_that_differ_are_refused_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "tiffs"
    folder.mkdir()
    tifffile.imwrite(folder / "t0.tif", GRAY, **TILES)
    tifffile.imwrite(folder / "t1.tif", GRAY, compression="zlib", **TILES)
    with pytest.raises(ZarrfuseError, match=r"t1\.tif and t0\.tif cannot be chunks of one array"):
        zarrfuse.index(folder, jobs=1)


def test_pages_that_differ_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "tiffs"
    folder.mkdir()
    with tifffile.TiffWriter(folder / "a.tif", imagej=False) as writer:
        writer.write(GRAY, metadata=None, **TILES)
        writer.write(GRAY, metadata=None, compression="zlib", **TILES)
    with pytest.raises(ZarrfuseError, match=r"a\.tif: page 1 has the compression"):
        zarrfuse.index(folder, jobs=1)


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
    array = indexed_in_place(again)
    np.testing.assert_array_equal(array[...], GRAY)
    for path in (tmp_path / "out").rglob("*.index"):
        assert (again / path.relative_to(tmp_path / "out")).read_bytes() == path.read_bytes()


def indexed_in_place(folder: Path) -> Any:
    assert zarrfuse.index(folder, jobs=1) == str(folder)
    return zarr.open(zarrfuse.open_store(folder), mode="r")


def test_an_export_of_an_indexed_array_is_not_recorded_as_indexed(tmp_path: Path) -> None:
    folder = tmp_path / "tiffs"
    folder.mkdir()
    for number in range(2):
        tifffile.imwrite(folder / f"t{number}.tif", GRAY + number, compression="zstd", **TILES)
    out = zarrfuse.index(folder, jobs=1)
    zarrfuse.export(out, tmp_path / "out")
    exported = zarr.open_array(zarrfuse.open_store(tmp_path / "out"), mode="r")
    assert "zarrfuse_index" not in exported.attrs
    assert exported.attrs["tiff"]["photometric"] == "minisblack"
