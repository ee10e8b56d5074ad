"""Without --delete, `zarrfuse index` keeps each chunk that may be the only copy of its pixels."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import tifffile
from builders.mounts import zarrfuse
from tiff_folders import indexed, pixels, read, same_tree, tree, write_series, write_tiff

from zarrfuse.errors import ZarrfuseError
from zarrfuse.indexing.local_target import LocalTarget
from zarrfuse.indexing.progress import Silent

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
    """A file of the folder is not lost, whatever its name; others may be."""
    indexed(folder)
    (folder / "t003.tif").rename(folder / "u003.tif")
    indexed(folder, pattern="t{t}.tif")
    right(folder.with_name("scan.zarr"), [0, 1, 2])
    (folder / "t002.tif").rename(tmp_path / "elsewhere.tif")
    with refused(folder, LOST):
        indexed(folder, pattern="t{t}.tif")


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
        with refused(folder, r"another process writes .*/scan.zarr: run it again"):
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


# -- places that are given to other files


def pyramids(folder: Path, numbers: range, levels: int = 2) -> None:
    """Files of 64 x 64 pixels with smaller levels, each of one value."""
    folder.mkdir(exist_ok=True)
    for number in numbers:
        with tifffile.TiffWriter(folder / f"t{number}.tif") as tiff:
            for level in range(levels):
                image = np.full((64 >> level,) * 2, number, "uint16")
                more = {"subifds": levels - 1} if level == 0 else {"subfiletype": 1}
                tiff.write(image, tile=(16, 16), metadata=None, **more)


def values(dataset: Path, path: str = "") -> list[int]:
    return [int(image.ravel()[0]) for image in read(dataset / path)]


def test_a_file_of_a_pyramid_that_was_deleted(tmp_path: Path) -> None:
    """The levels of a file are links of each other."""
    pyramids(tmp_path / "p", range(3))
    indexed(tmp_path / "p")
    (tmp_path / "p/t2.tif").unlink()
    with refused(tmp_path / "p", LOST):
        indexed(tmp_path / "p")
    indexed(tmp_path / "p", delete=True)
    assert values(tmp_path / "p.zarr", "1") == [0, 1]


def test_a_place_that_another_file_gets(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    for t in range(2):
        for c in range(2):
            write_tiff(folder / f"t{t}_c{c}.tif", pixels(2 * t + c))
    indexed(folder)
    (folder / "t1_c0.tif").unlink()
    for dims in (["c", "t", "y", "x"], ["t", "c", "y", "x"]):
        with refused(folder, LOST):
            indexed(folder, dims=dims)


@pytest.mark.parametrize("ngff", [True, False])
def test_all_documents_are_there_after_numbers_have_shifted(tmp_path: Path, ngff: bool) -> None:
    write_series(tmp_path / "a", 2, begin=1)
    indexed(tmp_path / "a", ngff=ngff)
    write_series(tmp_path / "a", 1)
    for _ in range(2):
        indexed(tmp_path / "a", ngff=ngff)
        right(tmp_path / "a.zarr" / ("0" if ngff else ""), [0, 1, 2])
    assert (tmp_path / "a.zarr/zarr.json").exists()


def test_a_file_with_fewer_levels(tmp_path: Path) -> None:
    pyramids(tmp_path / "p", range(2), levels=3)
    indexed(tmp_path / "p")
    (tmp_path / "p/t1.tif").unlink()
    pyramids(tmp_path / "p", range(1, 2), levels=2)
    with refused(tmp_path / "p", LOST):  # its third level
        indexed(tmp_path / "p")
    for _ in range(2):
        indexed(tmp_path / "p", delete=True)
        assert values(tmp_path / "p.zarr", "1") == [0, 1]
    assert not [path for path in (tmp_path / "p.zarr/2").rglob("*") if path.is_file()]


def test_a_dataset_is_no_folder_of_files(folder: Path) -> None:
    indexed(folder, dims=["y", "x", "t"])
    with refused(folder, "scan.zarr is a dataset of files of another folder: name that folder"):
        indexed(folder.with_name("scan.zarr"))


# -- runs that were killed


def killed_at(patch: pytest.MonkeyPatch, of: object, name: str, number: int) -> None:
    """Have a function raise as if killed when it is called for this time, and be what it was then."""
    own, calls = getattr(of, name), iter(range(number))

    def counted(*arguments: object, **named: object) -> object:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return own(*arguments, **named)

    patch.setattr(of, name, counted)


@pytest.mark.parametrize("number", [1, 3, 5])  # plan, four indexes, document
@pytest.mark.parametrize("sizes", [(20, 28), (28, 20)])
def test_files_whose_size_changed_in_a_run_that_was_killed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int], number: int
) -> None:
    for n in range(4):
        write_tiff(folder / f"t{n:03}.tif", pixels(n, (sizes[0], 32)))
    indexed(folder)
    for n in range(4):
        write_tiff(folder / f"t{n:03}.tif", pixels(n, (sizes[1], 32)))
    with monkeypatch.context() as patch:
        killed_at(patch, LocalTarget, "put", number)
        with pytest.raises(KeyboardInterrupt):
            indexed(folder)
    indexed(folder)
    assert (
        read(folder.with_name("scan.zarr"))
        == np.stack([pixels(n, (sizes[1], 32)) for n in range(4)])
    ).all()


def test_numbers_that_shift_after_a_first_run_that_was_killed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        killed_at(patch, LocalTarget, "put", 5)  # the plan, four indexes
        with pytest.raises(KeyboardInterrupt):
            indexed(folder)
    (folder / "t000.tif").unlink()
    with refused(folder, LOST):
        indexed(folder)


def mixed_endings(folder: Path) -> None:
    for n in (1, 3):
        (folder / f"t{n:03}.tif").rename(folder / f"t{n:03}.tiff")


def one_level_less(folder: Path) -> None:
    shutil.rmtree(folder)
    pyramids(folder, range(4))
    pyramids(folder, range(1), levels=1)


@pytest.mark.parametrize("change", [mixed_endings, one_level_less])
@pytest.mark.parametrize("number", [0, 1, 3])
def test_moved_files_of_which_a_killed_run_has_deleted_some(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path], None],
    number: int,
) -> None:
    change(folder)
    with monkeypatch.context() as patch:
        killed_at(patch, LocalTarget, "delete_source", number)
        with pytest.raises(KeyboardInterrupt):
            indexed(folder, way="move")
    indexed(folder, way="move")
    assert list(folder.iterdir()) == []
    assert read(folder.with_name("scan.zarr")).shape[0] == 4
    assert not (folder.with_name("scan.zarr") / ".zarrfuse").exists()


def test_only_what_is_stored_is_deleted(folder: Path) -> None:
    """Other pixels with the size and the time of those that are stored."""
    indexed(folder)
    before = (folder / "t001.tif").stat()
    write_tiff(folder / "t001.tif", pixels(9))
    os.utime(folder / "t001.tif", ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ZarrfuseError, match=r"t001.tif is not what is stored as c/1/0/0.tif"):
        indexed(folder, way="move")
    assert (folder / "t001.tif").exists()


# -- two runs at once


def test_what_another_run_has_stored_meanwhile_is_not_replaced(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other run ends while this one asks whether it has understood the names."""
    write_series(tmp_path / "other", 4, begin=10)
    out = tmp_path / "out.zarr"

    def slow(*_: object) -> bool:
        with monkeypatch.context() as patch:
            patch.setattr(Silent, "agrees", lambda *_: True)
            indexed(tmp_path / "other", out, way="move", pattern="t01{t}.tif")
        return True

    monkeypatch.setattr(Silent, "agrees", slow)
    with pytest.raises(ZarrfuseError, match=r"another process writes .*/out.zarr: run it again"):
        indexed(folder, out, way="move")
    right(out, [10, 11, 12, 13])
    assert len(list(folder.iterdir())) == 4


def test_a_run_that_fails_at_its_beginning_leaves_what_others_made(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    makedirs = os.makedirs

    def slow(path: str, **named: bool) -> None:
        monkeypatch.setattr(os, "makedirs", makedirs)
        indexed(folder, tmp_path / "new/a.zarr")
        makedirs(path, **named)
        monkeypatch.setattr(LocalTarget, "_place", lambda *_: 1 / 0)

    monkeypatch.setattr(os, "makedirs", slow)
    with pytest.raises(ZeroDivisionError):
        indexed(folder, tmp_path / "new/b.zarr")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["a.zarr"]
