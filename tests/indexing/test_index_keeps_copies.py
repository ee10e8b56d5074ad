"""Without --delete, `zarrfuse index` keeps each chunk that may be the only copy of its pixels."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from builders.mounts import zarrfuse
from tiff_folders import indexed, pixels, read, same_tree, tree, write_series, write_tiff

from zarrfuse.errors import ZarrfuseError

LOST = r"nothing was written: .* would be deleted or replaced, .* Give another --out, or --delete"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_series(tmp_path / "scan", 4)
    return tmp_path / "scan"


@contextmanager
def refused(folder: Path, said: str) -> Iterator[None]:
    """A block that fails so, and changes nothing in the folder above."""
    before = tree(folder.parent)
    with pytest.raises(ZarrfuseError, match=said):
        yield
    same_tree(tree(folder.parent), before)


def right(dataset: Path, numbers: list[int]) -> None:
    assert (read(dataset) == np.stack([pixels(n) for n in numbers])).all()


# -- chunks whose file has gone


def test_a_link_whose_file_was_deleted(folder: Path) -> None:
    indexed(folder)
    (folder / "t003.tif").unlink()
    with refused(folder, LOST):
        indexed(folder)
    with refused(folder, LOST):
        indexed(folder, dry_run=True)
    indexed(folder, delete=True)
    right(folder.with_name("scan.zarr"), [0, 1, 2])


def test_a_link_whose_file_has_yet_another_link(folder: Path, tmp_path: Path) -> None:
    indexed(folder)
    (folder / "t003.tif").rename(tmp_path / "elsewhere.tif")
    indexed(folder)
    right(folder.with_name("scan.zarr"), [0, 1, 2])


def test_a_copy_whose_file_was_deleted(folder: Path) -> None:
    indexed(folder, way="copy")
    (folder / "t003.tif").unlink()
    with refused(folder, LOST):
        indexed(folder, way="copy")


def other_fields(folder: Path) -> dict[str, object]:
    return {"pattern": "t{z}.tif", "dims": ["z", "x", "y"]}


def renumbered(folder: Path) -> dict[str, object]:
    (folder / "t000.tif").rename(folder / "t009.tif")
    return {}


def as_group(folder: Path) -> dict[str, object]:
    return {"ngff": True}


@pytest.mark.parametrize("change", [other_fields, renumbered, as_group])
def test_files_that_were_deleted_are_not_lost_by_what_else_changed(
    folder: Path, change: Callable[[Path], dict[str, object]]
) -> None:
    indexed(folder)
    for number in (2, 3):
        (folder / f"t{number:03}.tif").unlink()
    options = change(folder)
    with refused(folder, LOST):
        indexed(folder, **options)


def test_another_folder_of_files_with_the_same_names(folder: Path, tmp_path: Path) -> None:
    indexed(folder)
    shutil.rmtree(folder)
    write_tiff(tmp_path / "other/t000.tif", pixels(9))
    with refused(folder, LOST):
        indexed(tmp_path / "other", folder.with_name("scan.zarr"))


# -- files that were moved


def test_a_moved_file_and_another_one_of_its_name(folder: Path) -> None:
    indexed(folder, way="move")
    write_tiff(folder / "t001.tif", pixels(9))
    for way in ("move", "copy", "link"):
        with refused(folder, LOST):
            indexed(folder, way=way)
    indexed(folder, way="move", delete=True)
    right(folder.with_name("scan.zarr"), [0, 9, 2, 3])


def test_moved_files_and_files_of_other_names(folder: Path) -> None:
    indexed(folder, way="move")
    write_tiff(folder / "later_0.tif", pixels(9))
    said = zarrfuse("index", folder, "--move").stderr
    assert "left out: 1 with other names, such as later_0.tif" in said
    assert (folder / "later_0.tif").exists()


def test_moved_files_that_had_the_names_of_chunks(tmp_path: Path) -> None:
    name = "c/{}/0/0.tif"
    folder, out = tmp_path / "a", tmp_path / "out.zarr"
    write_series(folder, 2, name.format)
    indexed(folder, out, way="move")
    write_series(folder, 1, name.format, begin=2)
    indexed(folder, out, way="move")
    right_shape = read(out).shape
    assert right_shape[-2:] == (16, 32)
    assert sorted(path.name for path in folder.rglob("*.tif")) == []
    write_tiff(folder / "t003.tif", pixels(3))
    with refused(folder, "t003.tif: the files that were moved had the names of chunks"):
        indexed(folder, out, way="move")


# -- datasets in place


@pytest.fixture
def in_place(tmp_path: Path) -> Path:
    write_series(tmp_path / "a", 3, "c/{}/0/0.tif".format)
    indexed(tmp_path / "a")
    return tmp_path / "a"


@pytest.mark.parametrize("way", ["link", "copy", "move"])
def test_a_dataset_in_place_is_not_made_of_its_own_chunks(in_place: Path, way: str) -> None:
    with refused(in_place, "are below .*/a: give another --out, and no --pattern"):
        indexed(in_place, in_place, pattern="c/{t}/{y}/{x}.tif", way=way)
    with refused(in_place, "are below"):
        indexed(in_place / "c", in_place, way=way)


@pytest.mark.parametrize("way", ["link", "copy", "move"])
def test_a_dataset_in_place_takes_no_other_files(in_place: Path, tmp_path: Path, way: str) -> None:
    write_series(tmp_path / "other", 3)
    with refused(in_place, "are files that were indexed in place: give another --out"):
        indexed(tmp_path / "other", in_place, way=way)


def test_a_dataset_in_place_whose_first_run_was_killed_takes_no_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zarrfuse.indexing import update

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "a"
    write_series(folder, 3, "c/{}/0/0.tif".format)
    with monkeypatch.context() as patch:
        patch.setattr(update, "write_all", killed)
        with pytest.raises(KeyboardInterrupt):
            indexed(folder)
    write_series(tmp_path / "other", 3)
    with refused(folder, "are files that were indexed in place: give another --out"):
        indexed(tmp_path / "other", folder)


def test_a_file_that_was_deleted_from_a_dataset_in_place(in_place: Path) -> None:
    (in_place / "c/2/0/0.tif").unlink()
    indexed(in_place)
    assert read(in_place).shape[0] == 2
    assert not (in_place / "c/2/0/0.tif.index").exists()


# -- what is beside the chunks


def test_copies_are_made_if_they_are_asked_for_after_links(folder: Path) -> None:
    indexed(folder)
    indexed(folder, way="copy")
    out = folder.with_name("scan.zarr")
    assert all((out / f"c/{n}/0/0.tif").stat().st_nlink == 1 for n in range(4))
    right(out, [0, 1, 2, 3])


def test_attributes_of_others_stay(folder: Path) -> None:
    import json

    indexed(folder)
    path = folder.with_name("scan.zarr") / "zarr.json"
    document = json.loads(path.read_bytes())
    document["attributes"] |= {"specimen": "mouse 7", "scale": "nonsense"}
    path.write_text(json.dumps(document))
    write_series(folder, 1, begin=4)
    indexed(folder)
    attributes = json.loads(path.read_bytes())["attributes"]
    assert attributes["specimen"] == "mouse 7"
    assert "scale" not in attributes


def test_two_runs_at_once(folder: Path) -> None:
    own = folder.with_name("scan.zarr") / ".zarrfuse/index"
    own.mkdir(parents=True)
    with (own / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with refused(folder, r"another process is writing .*/scan.zarr: run it again"):
            indexed(folder)
    indexed(folder)
    assert not (own / "lock").exists()
    right(folder.with_name("scan.zarr"), [0, 1, 2, 3])


def test_links_are_tried_on_each_file_system(tmp_path: Path) -> None:
    """The second file is a symlink to another one."""
    elsewhere = Path("/dev/shm") / f"zarrfuse-test-{os.getpid()}"
    write_series(tmp_path / "a", 1)
    write_tiff(elsewhere / "t001.tif", pixels(1))
    try:
        if elsewhere.stat().st_dev == tmp_path.stat().st_dev:
            pytest.skip("/dev/shm is no other file system")
        (tmp_path / "a/t001.tif").symlink_to(elsewhere / "t001.tif")
        with refused(tmp_path / "a", "t001.tif cannot be linked"):
            indexed(tmp_path / "a")
        indexed(tmp_path / "a", way="copy")
        right(tmp_path / "a.zarr", [0, 1])
    finally:
        shutil.rmtree(elsewhere)


# -- folders that are not what they seem


def test_a_dataset_within_the_folder_is_not_input(folder: Path) -> None:
    indexed(folder, folder / "data.zarr")
    indexed(folder, folder / "again.zarr")
    right(folder / "again.zarr", [0, 1, 2, 3])


def test_a_file_instead_of_a_folder(folder: Path) -> None:
    with refused(folder, "t000.tif is a file: name the folder of the files"):
        indexed(folder / "t000.tif")


@pytest.mark.parametrize(
    "document",
    ["", "[]", "nonsense", '{"attributes": {"zarrfuse_index": 3}}', '{"node_type": "array"}'],
)
def test_a_document_that_is_no_dataset_is_not_replaced(folder: Path, document: str) -> None:
    out = folder.with_name("scan.zarr")
    out.mkdir()
    (out / "zarr.json").write_text(document)
    with refused(folder, "was not made by"):
        indexed(folder)


def test_a_damaged_document_of_index_is_not_replaced(folder: Path) -> None:
    import json

    indexed(folder)
    path = folder.with_name("scan.zarr") / "zarr.json"
    document = json.loads(path.read_bytes())
    for member in ("chunk_key_encoding", "codecs", "chunk_grid", "shape"):
        path.write_text(json.dumps({**document, member: None}))
        with refused(folder, "was not made by"):
            indexed(folder)


@pytest.mark.parametrize("dims", [["t", "y", ""], ["t", "y", "x", ""]])
def test_dimensions_need_names(folder: Path, dims: list[str]) -> None:
    with refused(folder, "--dims t,y,"):
        indexed(folder, dims=dims)
