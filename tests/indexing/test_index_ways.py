"""Hard links, copies and moved files; other file systems, other users, folders that are read-only."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from builders.other_users import DONE, OWNER, STRANGER, as_user, public_folder
from tiff_folders import indexed, pixels, read, same_tree, tree, write_series

from zarrfuse.errors import ZarrfuseError

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="zarrfuse-test-"))
    if folder.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("/dev/shm is no other file system")
    yield folder
    shutil.rmtree(folder)


def right(dataset: Path, count: int) -> None:
    assert (read(dataset) == np.stack([pixels(n) for n in range(count)])).all()


def inodes(folder: Path) -> set[int]:
    return {path.stat().st_ino for path in folder.rglob("*.tif")}


def test_links_share_the_file(tmp_path: Path) -> None:
    write_series(tmp_path / "a", 3)
    before = inodes(tmp_path / "a")
    indexed(tmp_path / "a")
    assert inodes(tmp_path / "a.zarr") == inodes(tmp_path / "a") == before


def test_copies_share_nothing_with_the_files(tmp_path: Path) -> None:
    write_series(tmp_path / "a", 3)
    indexed(tmp_path / "a", way="copy")
    assert not inodes(tmp_path / "a.zarr") & inodes(tmp_path / "a")
    shutil.rmtree(tmp_path / "a")
    right(tmp_path / "a.zarr", 3)


def test_moved_files_are_the_same_ones_and_further_ones_may_follow(tmp_path: Path) -> None:
    write_series(tmp_path / "a", 3)
    (tmp_path / "a/notes.txt").write_text("mine")
    before = inodes(tmp_path / "a")
    indexed(tmp_path / "a", way="move")
    assert os.listdir(tmp_path / "a") == ["notes.txt"]
    assert inodes(tmp_path / "a.zarr") == before
    wanted = tree(tmp_path / "a.zarr")
    again = indexed(tmp_path / "a", way="move")
    assert (again.files, again.shape) == (0, (3, 16, 32))
    same_tree(tree(tmp_path / "a.zarr"), wanted)
    write_series(tmp_path / "a", 2, begin=3)
    indexed(tmp_path / "a", way="move")
    right(tmp_path / "a.zarr", 5)
    write_series(tmp_path / "a", 1, begin=5)
    indexed(tmp_path / "a")  # stays a dataset of moved files
    right(tmp_path / "a.zarr", 6)


@pytest.mark.parametrize("options", [{"dims": ["t", "x", "y"]}, {"ngff": True}])
def test_further_files_may_not_change_those_that_were_moved(
    tmp_path: Path, options: dict[str, object]
) -> None:
    write_series(tmp_path / "a", 3)
    indexed(tmp_path / "a", way="move")
    write_series(tmp_path / "a", 1, begin=3)
    before = tree(tmp_path)
    with pytest.raises(ZarrfuseError, match=r"files that were moved to .* are not like these"):
        indexed(tmp_path / "a", way="move", **options)
    same_tree(tree(tmp_path), before)


def test_originals_stay_until_the_dataset_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zarrfuse.indexing.local_target import LocalTarget

    write_series(tmp_path / "a", 3)
    deleted = []

    def delete_source(self, files, path):
        right(tmp_path / "a.zarr", 3)
        deleted.append(path)

    monkeypatch.setattr(LocalTarget, "delete_source", delete_source)
    indexed(tmp_path / "a", way="move")
    assert len(deleted) == 3


def test_links_to_another_file_system_are_refused_before_anything_is_written(
    tmp_path: Path, elsewhere: Path
) -> None:
    write_series(tmp_path / "a", 3)
    with pytest.raises(ZarrfuseError, match=r"t000.tif cannot be linked .* use --copy or --move"):
        indexed(tmp_path / "a", elsewhere / "new/out")
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("way", ["copy", "move"])
def test_another_file_system_takes_copies(tmp_path: Path, elsewhere: Path, way: str) -> None:
    write_series(tmp_path / "a", 3)
    indexed(tmp_path / "a", elsewhere / "out", way=way)
    right(elsewhere / "out", 3)
    assert len(os.listdir(tmp_path / "a")) == (0 if way == "move" else 3)
    assert indexed(tmp_path / "a", elsewhere / "out", way=way).read == 0


def give(path: Path, user: int) -> None:
    for one in (path, *path.rglob("*")):
        os.chown(one, user, user)


@ROOT
def test_a_folder_that_is_read_only(tmp_path: Path) -> None:
    with public_folder() as base:
        for name in ("a", "keys/c/0"):
            write_series(base / name, 2, "{}.tif".format)
        for folder in ("a", "keys/c/0", "keys/c", "keys"):
            (base / folder).chmod(0o555)
        (base / "out").mkdir()
        os.chown(base / "out", STRANGER, STRANGER)

        def refused() -> None:
            for options, said in (
                ({}, "a.zarr cannot be written: Permission denied. Give another --out"),
                (
                    {"out": base / "out/b", "way": "move"},
                    "cannot be moved out of .*/a, which is read-only",
                ),
                ({"out": base / "out/b"}, "cannot be linked .* use --copy"),
            ):
                with pytest.raises(ZarrfuseError, match=said):
                    indexed(base / "a", **options)
            with pytest.raises(ZarrfuseError, match="keys cannot be written"):
                indexed(base / "keys")
            indexed(base / "a", base / "out/b", way="copy")

        before = tree(base / "a") | tree(base / "keys")
        assert as_user(STRANGER, refused) == DONE
        assert tree(base / "a") | tree(base / "keys") == before
        assert os.listdir(base / "out") == ["b"]
        right(base / "out/b", 2)


@ROOT
def test_files_of_another_user_that_may_be_read(tmp_path: Path) -> None:
    with public_folder() as base:
        write_series(base / "a", 2)
        give(base / "a", OWNER)
        base.chmod(0o777)
        assert as_user(STRANGER, lambda: indexed(base / "a", way="copy")) == DONE
        right(base / "a.zarr", 2)
