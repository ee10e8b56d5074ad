"""`zarrfuse export`: its exit codes, and what it prints."""

from pathlib import Path

import pytest
import zarr
from builders.folders import files_below
from builders.http_server import serving_http
from builders.mounts import zarrfuse
from exports import assert_exported, pixels, stored


@pytest.fixture
def array(tmp_path: Path) -> Path:
    stored(tmp_path / "g" / "a", pixels((3, 100, 130)), chunks=(1, 32, 32), shards=(1, 64, 64))
    zarr.open_group(tmp_path / "g", mode="a")
    return tmp_path / "g" / "a"


def test_a_line_says_what_is_done_and_one_what_was(array: Path, tmp_path: Path) -> None:
    said = zarrfuse("export", array, tmp_path / "out")
    first, last = said.stderr.splitlines()
    assert first.startswith("zarrfuse: 18 files of 1 x 64 x 64")
    assert "copied as they are" in first
    assert last.startswith("zarrfuse: 18 files written, ")
    assert said.stdout == ""
    assert_exported(tmp_path / "out", pixels((3, 100, 130)), (1, 64, 64))


def test_options_are_those_of_the_shapes(array: Path, tmp_path: Path) -> None:
    options = ("--shard", "3,128,64", "--tile", "16,32", "--compression", "deflate")
    said = zarrfuse("export", array, tmp_path / "out", *options)
    assert "inner chunks of 1 x 16 x 32, compression deflate, encoded anew because" in said.stderr
    assert_exported(tmp_path / "out", pixels((3, 100, 130)), (3, 128, 64))


def test_a_dry_run_writes_nothing(array: Path, tmp_path: Path) -> None:
    said = zarrfuse("export", array, tmp_path / "out", "--dry-run")
    assert "18 files" in said.stderr
    assert not (tmp_path / "out").exists()


def test_an_array_that_is_not_there_is_2(array: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "nothing", array.parent):
        said = zarrfuse("export", path, tmp_path / "out", check=False)
        assert said.returncode == 2
        assert len(said.stderr.splitlines()) == 1
    assert "is a Zarr group: name one of its arrays" in said.stderr


def test_a_folder_around_arrays_is_told_how_to_find_them(array: Path, tmp_path: Path) -> None:
    (tmp_path / "around").mkdir()
    array.parent.rename(tmp_path / "around/group.zarr")
    said = zarrfuse("export", tmp_path / "around", tmp_path / "out", check=False)
    assert f"there is no Zarr array at {tmp_path}/around" in said.stderr
    assert "zarrfuse info lists the arrays of a source" in said.stderr


@pytest.mark.parametrize("options", [["--tile", "a,b"], ["--shard", "0,1,1"], ["--format", "x"]])
def test_a_wrong_option_is_1(array: Path, tmp_path: Path, options: list[str]) -> None:
    said = zarrfuse("export", array, tmp_path / "out", *options, check=False)
    assert said.returncode == 1
    assert len(said.stderr.splitlines()) == 1


def test_a_folder_with_something_else_is_not_touched(array: Path, tmp_path: Path) -> None:
    zarrfuse("export", array, tmp_path / "out")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").write_bytes(b"x")
    for folder in (tmp_path / "out", tmp_path / "other", tmp_path / "other" / "x"):
        before = files_below(tmp_path)
        said = zarrfuse("export", array, folder, check=False)
        assert said.returncode == 1
        assert "name a new folder" in said.stderr
        assert files_below(tmp_path) == before


def test_an_array_of_a_server_is_exported(array: Path, tmp_path: Path) -> None:
    with serving_http(array.parent, tmp_path / "nginx", "none") as server:
        zarrfuse("export", f"{server.url}/a", tmp_path / "out")
    assert_exported(tmp_path / "out", pixels((3, 100, 130)), (1, 64, 64))
