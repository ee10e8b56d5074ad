"""`index` decodes a chunk of each kind, and refuses files whose bytes are not what their header says."""

from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
import tifffile
from tiff_folders import indexed, pixels, read, write_tiff

from zarrfuse.shards.layout import Refused

ZLIB: dict[str, Any] = {"compression": "zlib"}


def damage(path: Path, offset: int) -> None:
    """Overwrite the header of a stream of zlib."""
    data = bytearray(path.read_bytes())
    data[offset : offset + 2] = b"\0\0"
    path.write_bytes(data)


def damage_tile(path: Path, number: int) -> int:
    """Damage a tile of a TIFF file; where it is."""
    with tifffile.TiffFile(path) as tiff:
        offset = tiff.pages[0].dataoffsets[number]
    damage(path, offset)
    return offset


@pytest.mark.parametrize("number", [0, -1])
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_tiff_that_cannot_be_decoded_is_refused_before_anything_is_written(
    tmp_path: Path, number: int, dry_run: bool
) -> None:
    write_tiff(tmp_path / "a/t0.tif", pixels(0), **ZLIB)
    offset = damage_tile(tmp_path / "a/t0.tif", number)
    with pytest.raises(Refused) as error:
        indexed(tmp_path / "a", dry_run=dry_run)
    assert str(error.value).startswith(
        f"t0.tif: what it has at byte {offset} cannot be decoded as 16x16 elements of the type uint16 by "
        "bytes, numcodecs.zlib: "
    )
    assert not (tmp_path / "a.zarr").exists()


def test_files_of_another_shape_are_of_another_kind(tmp_path: Path) -> None:
    for y, rows in enumerate((16, 16, 10)):
        write_tiff(tmp_path / f"a/y{y}.tif", pixels(y, (rows, 32)), **ZLIB)
    indexed(tmp_path / "a", tmp_path / "out")
    damage_tile(tmp_path / "a/y2.tif", -1)
    with pytest.raises(Refused, match=r"y2\.tif: what it has at byte"):
        indexed(tmp_path / "a", tmp_path / "again")


def test_chunks_that_are_not_stored_are_not_tried(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with h5py.File(tmp_path / "a/t0.h5", "w") as file:
        dataset = file.create_dataset("a", (9, 3), "u2", chunks=(3, 3), compression="gzip")
        dataset[3:6] = 5
        expected = dataset[...]
    indexed(tmp_path / "a")
    np.testing.assert_array_equal(read(tmp_path / "a.zarr").reshape(9, 3), expected)


FILTERS: list[dict[str, Any]] = [
    {"fletcher32": True},
    {"fletcher32": True, "compression": "gzip", "shuffle": True},
    {"compression": "lzf"},
    {"compression": "szip"},
    dict(hdf5plugin.LZ4()),
]


@pytest.mark.parametrize("filters", FILTERS)
def test_an_hdf5_file_with_any_filter_that_has_a_codec_is_indexed(
    tmp_path: Path, filters: dict[str, Any]
) -> None:
    (tmp_path / "a").mkdir()
    with h5py.File(tmp_path / "a/t0.h5", "w") as file:
        file.create_dataset("a", data=pixels(0), chunks=(16, 16), **filters)
    indexed(tmp_path / "a")
    np.testing.assert_array_equal(read(tmp_path / "a.zarr").reshape(16, 32), pixels(0))


def test_files_of_matlab_are_indexed_by_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for number in range(2):
        with h5py.File(tmp_path / f"a/t{number}.mat", "w", userblock_size=512) as file:
            file.create_dataset("x", data=pixels(number), chunks=(16, 16), compression="gzip")
            file["names"] = np.array([b"a", b"bc"])
            file["chosen"] = h5py.SoftLink("/x")
    for dataset, shape in (("x", (2, 16, 32)), ("chosen", (2, 16, 32)), ("names", (2, 2))):
        indexed(tmp_path / "a", tmp_path / dataset, pattern="t{t}.mat", dataset=dataset)
        found = read(tmp_path / dataset)
        assert found.shape == shape
        if dataset == "names":
            assert found.tolist() == [[b"a", b"bc"]] * 2
        else:
            np.testing.assert_array_equal(found, [pixels(0), pixels(1)])


def test_an_hdf5_file_that_cannot_be_decoded_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    path = tmp_path / "a/t0.h5"
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("a", data=pixels(0), chunks=(16, 16), compression="gzip")
        offset = dataset.id.get_chunk_info(1).byte_offset
    damage(path, offset)
    with pytest.raises(Refused, match=rf"t0\.h5: what it has at byte {offset} cannot be decoded"):
        indexed(tmp_path / "a")
