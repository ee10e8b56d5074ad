"""Where the dataset is, which files belong to it, and how their places make an array."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr
from tiff_folders import indexed, pixels, read, tree, write_series, write_tiff

import zarrfuse
from zarrfuse.errors import ZarrfuseError


@pytest.mark.parametrize("name", ["c/0/{}.tif", "c.0.{}.tif", "0.{}.tif"])
def test_files_with_the_names_of_chunks_stay_where_they_are(tmp_path: Path, name: str) -> None:
    write_series(tmp_path / "a", 3, name.format)
    (tmp_path / "a/notes.txt").write_text("mine")
    before = tree(tmp_path / "a")
    assert indexed(tmp_path / "a").out == str(tmp_path / "a")
    assert (read(tmp_path / "a") == np.concatenate([pixels(n) for n in range(3)], 1)).all()
    after = tree(tmp_path / "a")
    assert {key: after[key] for key in before} == before
    assert len(after) == len(before) + 3 + 1
    assert not (tmp_path / "a.zarr").exists()
    assert indexed(tmp_path / "a").read == 0


@pytest.mark.parametrize(
    "name",
    [
        "t{}.tif",
        "{}.tif",
        "t{} with spaces.tif",
        "100%25 {}.tif",
        "größe{}.tif",
        "a{{b}}*{}.tif",
        "#?{}.TIF",
        "deep/er{}/x.tiff",
        os.fsdecode(b"\xff\xfe") + "{}.tif",
    ],
)
def test_any_names(tmp_path: Path, name: str) -> None:
    write_series(tmp_path / "a b%", 3, name.format)
    assert indexed(tmp_path / "a b%").shape == (3, 16, 32)
    assert (read(tmp_path / "a b%.zarr") == np.stack([pixels(n) for n in range(3)])).all()
    assert indexed(tmp_path / "a b%").read == 0


def test_endings_may_be_mixed_and_other_files_are_left_out(tmp_path: Path) -> None:
    for number, ending in enumerate((".tif", ".TIF", ".tiff")):
        write_tiff(tmp_path / f"a/t{number}{ending}", pixels(number))
    for other in ("notes.txt", "b.h5", ".hidden/t9.tif", "t7.tif.bak"):
        (tmp_path / "a" / other).parent.mkdir(exist_ok=True)
        (tmp_path / "a" / other).write_text("no TIFF")
    assert indexed(tmp_path / "a").shape == (3, 16, 32)
    assert indexed(tmp_path / "a").read == 0
    assert read(tmp_path / "a.zarr").shape == (3, 16, 32)


@pytest.mark.parametrize("where", ["out", "a/out", "other/x.zarr"])
def test_the_dataset_may_be_anywhere(tmp_path: Path, where: str) -> None:
    write_series(tmp_path / "a", 3)
    indexed(tmp_path / "a", tmp_path / where)
    assert read(tmp_path / where).shape == (3, 16, 32)
    assert indexed(tmp_path / "a", tmp_path / where).read == 0


def test_files_may_be_symlinks(tmp_path: Path) -> None:
    write_series(tmp_path / "data", 3)
    (tmp_path / "a").mkdir()
    for number in range(3):
        (tmp_path / f"a/t{number}.tif").symlink_to(f"../data/t{number:03}.tif")
    (tmp_path / "a/above").symlink_to("..")
    for way in ("link", "copy"):
        indexed(tmp_path / "a", tmp_path / way, way=way)
        assert not any(path.is_symlink() for path in (tmp_path / way).rglob("*"))
        assert (read(tmp_path / way) == np.stack([pixels(n) for n in range(3)])).all()
        assert indexed(tmp_path / "a", tmp_path / way, way=way).read == 0


def test_a_dataset_is_not_written_over_something_else(tmp_path: Path) -> None:
    write_series(tmp_path / "a", 2)
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr/mine").write_text("mine")
    (tmp_path / "file").write_text("mine")
    before = tree(tmp_path)
    with pytest.raises(ZarrfuseError, match="exists, with mine, and was not made by"):
        indexed(tmp_path / "a")
    with pytest.raises(ZarrfuseError, match="exists, and is no folder"):
        indexed(tmp_path / "a", tmp_path / "file")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("numbers", [[0, 1, 2], [1, 2, 3], [0, 512, 1024], [7, 17, 27], [5, 3, 4]])
def test_numbers_may_begin_and_step_as_they_like(tmp_path: Path, numbers: list[int]) -> None:
    for number in numbers:
        write_tiff(tmp_path / f"a/p{number}.tif", pixels(number))
    indexed(tmp_path / "a")
    assert (read(tmp_path / "a.zarr") == np.stack([pixels(n) for n in sorted(numbers)])).all()


def test_a_missing_file_is_a_missing_chunk(tmp_path: Path) -> None:
    for number in (0, 1, 3):
        write_tiff(tmp_path / f"a/t{number}.tif", pixels(number))
    indexed(tmp_path / "a")
    found = read(tmp_path / "a.zarr")
    assert found.shape == (4, 16, 32)
    assert not found[2].any()
    assert (found[3] == pixels(3)).all()


def test_tiles_of_an_image_and_smaller_ones_at_its_edges(tmp_path: Path) -> None:
    whole = pixels(3, (50, 70))
    for y in (0, 32):
        for x in (0, 32, 64):
            write_tiff(tmp_path / f"a/y{y}_x{x}.tif", whole[y : y + 32, x : x + 32])
    indexed(tmp_path / "a")
    assert (read(tmp_path / "a.zarr") == whole).all()
    indexed(tmp_path / "a", tmp_path / "b", dims=["x", "y"])
    assert (read(tmp_path / "b") == whole.T).all()


def test_dimensions_in_another_order(tmp_path: Path) -> None:
    for t in range(2):
        for c in range(3):
            write_tiff(tmp_path / f"a/t{t}_c{c}.tif", pixels(t * 3 + c))
    whole = np.stack([[pixels(t * 3 + c) for c in range(3)] for t in range(2)])
    indexed(tmp_path / "a", dims=["c", "y", "t", "x"])
    assert (read(tmp_path / "a.zarr") == whole.transpose(1, 2, 0, 3)).all()
    indexed(tmp_path / "a", tmp_path / "n", ngff=True)
    assert (read(tmp_path / "n", "0") == whole).all()
    group = zarr.open_group(zarrfuse.open_store(tmp_path / "n"), mode="r")
    axes = group.attrs["ome"]["multiscales"][0]["axes"]
    assert [axis["name"] for axis in axes] == ["t", "c", "y", "x"]


@pytest.mark.parametrize("dims", ["t,y", "t,t,y,x", "a,y,x", "t,y,x,w"])
def test_dimensions_that_do_not_fit_are_refused(tmp_path: Path, dims: str) -> None:
    write_series(tmp_path / "a", 2)
    with pytest.raises(ZarrfuseError, match=f"--dims {dims} "):
        indexed(tmp_path / "a", dims=dims.split(","))
    assert not (tmp_path / "a.zarr").exists()


def another_size(path: Path) -> None:
    write_tiff(path, pixels(1, (32, 32)))


def another_type(path: Path) -> None:
    write_tiff(path, pixels(1, dtype="uint8"))


def other_tiles(path: Path) -> None:
    write_tiff(path, pixels(1), tile=(32, 32))


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:700])


def not_a_tiff(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("spoil", [another_size, another_type, other_tiles, cut_off, not_a_tiff])
@pytest.mark.parametrize("number", [0, 1, 4])
def test_a_file_that_does_not_fit_is_named_and_nothing_is_written(
    tmp_path: Path, spoil: Callable[[Path], None], number: int
) -> None:
    write_series(tmp_path / "a", 5)
    spoil(tmp_path / f"a/t{number:03}.tif")
    with pytest.raises(ZarrfuseError, match=f"t{number:03}.tif"):
        indexed(tmp_path / "a")
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize(
    "options", [{}, {"pattern": "{t}.tif"}, {"way": "move"}, {"out": "elsewhere"}]
)
def test_an_empty_folder_is_refused_with_a_sentence(
    tmp_path: Path, options: dict[str, str]
) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(ZarrfuseError, match=r"no TIFF files|no file has a name like"):
        indexed(tmp_path / "a", **options)
    assert os.listdir(tmp_path) == ["a"]


def test_two_files_with_one_place_are_refused(tmp_path: Path) -> None:
    write_tiff(tmp_path / "a/t1.tif", pixels(1))
    write_tiff(tmp_path / "a/t01.tif", pixels(1))
    with pytest.raises(ZarrfuseError, match=r"t01.tif and t1.tif have the same"):
        indexed(tmp_path / "a", pattern="t{t}.tif")
    with pytest.raises(ZarrfuseError):
        indexed(tmp_path / "a")
    assert os.listdir(tmp_path) == ["a"]


def test_files_without_an_ending(tmp_path: Path) -> None:
    write_series(tmp_path / "a", 2, "t{}".format)
    indexed(tmp_path / "a", pattern="t{t}")
    assert (read(tmp_path / "a.zarr")[1] == pixels(1)).all()
