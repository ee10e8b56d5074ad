"""`zarrfuse index` run again: it does what changed, and the result is that of a run from the beginning."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiff_folders import indexed, pixels, read, same_tree, tree, write_series, write_tiff

from zarrfuse.errors import ZarrfuseError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_series(tmp_path / "scan", 6)
    return tmp_path / "scan"


def same_as_fresh(folder: Path, tmp_path: Path, **options: object) -> None:
    """Fails unless the dataset beside `folder` is what a run from the beginning writes."""
    fresh = tmp_path / "fresh" / f"{folder.name}.zarr"
    shutil.rmtree(fresh, ignore_errors=True)
    indexed(folder, fresh, **options)
    same_tree(tree(folder.with_name(f"{folder.name}.zarr")), tree(fresh))


def states(folder: Path) -> dict[Path, tuple[int, int, int]]:
    out = folder.with_name(f"{folder.name}.zarr")
    return {
        path: (s.st_ino, s.st_mtime_ns, s.st_ctime_ns)
        for path in out.rglob("*")
        if (s := path.stat())
    }


def test_nothing_is_written_and_one_header_read_if_nothing_changed(folder: Path) -> None:
    first = indexed(folder)
    assert (first.read, first.files, first.shape) == (6, 6, (6, 16, 32))
    before = states(folder)
    again = indexed(folder)
    assert (again.read, again.shape, again.names) == (0, first.shape, first.names)
    assert 0 < again.header_bytes < first.header_bytes / 3
    assert states(folder) == before


def replaced(folder: Path) -> None:
    write_tiff(folder / "t002.tif", pixels(77))


def written_in_place(folder: Path) -> None:
    other = folder.parent / "other.tif"
    write_tiff(other, pixels(78))
    (folder / "t003.tif").write_bytes(other.read_bytes())
    os.utime(folder / "t003.tif", ns=(1, 1))


def grown(folder: Path) -> None:
    write_series(folder, 3, begin=6)


def grown_in_front(folder: Path) -> None:
    for number in range(5, -1, -1):
        (folder / f"t{number:03}.tif").rename(folder / f"t{number + 2:03}.tif")
    write_tiff(folder / "t001.tif", pixels(90))


def removed_within(folder: Path) -> None:
    (folder / "t002.tif").unlink()


def removed_at_the_end(folder: Path) -> None:
    (folder / "t005.tif").unlink()


def removed_at_the_beginning(folder: Path) -> None:
    (folder / "t000.tif").unlink()


def every_second_removed(folder: Path) -> None:
    for number in (1, 3, 5):
        (folder / f"t{number:03}.tif").unlink()


def another_layout(folder: Path) -> None:
    for number in range(6):
        write_tiff(folder / f"t{number:03}.tif", pixels(number), compression="zlib")


def another_type(folder: Path) -> None:
    for number in range(6):
        write_tiff(folder / f"t{number:03}.tif", pixels(number, dtype="uint8"))


def larger_files(folder: Path) -> None:
    for number in range(6):
        write_tiff(folder / f"t{number:03}.tif", pixels(number, (40, 48)))


def renamed_all(folder: Path) -> None:
    for number in range(6):
        (folder / f"t{number:03}.tif").rename(folder / f"z{number // 3}_c{number % 3}.tif")


def another_ending(folder: Path) -> None:
    for number in range(6):
        (folder / f"t{number:03}.tif").rename(folder / f"t{number:03}.tiff")


REMOVALS = [removed_within, removed_at_the_end, removed_at_the_beginning, every_second_removed]
CHANGES = [
    *REMOVALS,
    replaced,
    written_in_place,
    grown,
    grown_in_front,
    another_layout,
    another_type,
    larger_files,
    renamed_all,
    another_ending,
]


@pytest.mark.parametrize("change", CHANGES)
def test_after_a_change_the_dataset_is_that_of_a_run_from_the_beginning(
    folder: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    indexed(folder)
    change(folder)
    indexed(folder, delete=change in REMOVALS)
    same_as_fresh(folder, tmp_path)


@pytest.mark.parametrize("step_ns", [100, 10**9, 2 * 10**9])
def test_copies_on_a_file_system_with_coarse_times_are_not_made_again(
    folder: Path, step_ns: int
) -> None:
    indexed(folder, way="copy")
    for path in (folder.with_name("scan.zarr") / "c").rglob("*.*"):
        time = path.stat().st_mtime_ns // step_ns * step_ns
        os.utime(path, ns=(time, time))
    assert indexed(folder, way="copy").read == 0


@pytest.mark.parametrize("change", [replaced, grown, removed_within])
def test_only_what_changed_is_read(folder: Path, change: Callable[[Path], None]) -> None:
    indexed(folder)
    change(folder)
    again = indexed(folder, delete=change in REMOVALS)
    assert again.read == {replaced: 1, grown: 3, removed_within: 0}[change]


@pytest.mark.parametrize(
    "options",
    [
        {"dims": ["t", "a", "b"]},
        {"dims": ["t", "x", "y"]},
        {"dims": ["y", "t", "x"]},
        {"pattern": "t{y}.tif"},
        {"pattern": "t{t}.tif"},
        {"ngff": True},
    ],
)
def test_with_other_options_the_dataset_is_that_of_a_run_from_the_beginning(
    folder: Path, tmp_path: Path, options: dict[str, object]
) -> None:
    for given in (options, {}):  # there, and back
        indexed(folder)
        indexed(folder, **given)
        same_as_fresh(folder, tmp_path, **given)


def test_the_last_files_of_a_row_that_stays_have_a_new_index_if_others_are_gone(
    tmp_path: Path,
) -> None:
    """The index of a smaller file at the edge has as many entries as those of the others."""
    scan = tmp_path / "scan"
    write_tiff(scan / "c/0/0.tif", pixels(1, (32, 32)))
    write_tiff(scan / "c/1/0.tif", pixels(2, (10, 32)))
    indexed(scan)
    (scan / "c/0/0.tif").unlink()
    indexed(scan)
    assert (read(scan)[-10:] == pixels(2, (10, 32))).all()
    again = tree(scan)
    for path in [*scan.rglob("*.index"), scan / "zarr.json"]:
        path.unlink()
    indexed(scan)
    same_tree(again, tree(scan))


def test_uncompressed_strips_are_cut_anew_if_a_file_needs_it(tmp_path: Path) -> None:
    scan = tmp_path / "scan"
    for t in range(2):
        write_tiff(scan / f"t{t}_y0.tif", pixels(t, (24, 32)), tile=None)
    indexed(scan, pattern="t{t}_y{y}.tif")
    for t in range(2):
        write_tiff(scan / f"t{t}_y1.tif", pixels(9 + t, (16, 32)), tile=None)
    indexed(scan, pattern="t{t}_y{y}.tif")
    same_as_fresh(scan, tmp_path, pattern="t{t}_y{y}.tif")
    whole = read(tmp_path / "scan.zarr")
    assert whole.shape == (2, 40, 32)
    assert (whole[1] == np.concatenate([pixels(1, (24, 32)), pixels(10, (16, 32))])).all()
    assert indexed(scan, pattern="t{t}_y{y}.tif").read == 0


def test_levels_that_only_some_files_have_are_not_read_again(tmp_path: Path) -> None:
    import tifffile

    scan = tmp_path / "scan"
    scan.mkdir()
    for number in range(3):
        with tifffile.TiffWriter(scan / f"t{number}.tif") as tiff:
            levels = 2 if number == 0 else 1
            options = {"tile": (16, 16), "photometric": "minisblack", "metadata": None}
            tiff.write(pixels(number, (64, 64)), subifds=levels, **options)
            for level in range(1, levels + 1):
                tiff.write(pixels(number, (64 >> level, 64 >> level)), subfiletype=1, **options)
    assert indexed(scan).read == 3
    assert indexed(scan).read == 0
    same_as_fresh(scan, tmp_path)


def test_files_that_were_put_into_the_dataset_by_others_stay(folder: Path) -> None:
    indexed(folder)
    out = folder.with_name("scan.zarr")
    (out / "README.md").write_text("mine")
    (out / "c/0/notes.tif").write_text("mine")
    (out / ".zarrfuse").mkdir()
    (out / ".zarrfuse/journal").write_text("a mount's")
    another_ending(folder)
    indexed(folder)
    assert (out / "README.md").read_text() == (out / "c/0/notes.tif").read_text() == "mine"
    assert (out / ".zarrfuse/journal").exists()


@pytest.mark.parametrize("document", ["zarr.json", "c/0/1.tif.index"])
def test_a_foreign_file_in_the_way_in_place_is_refused(tmp_path: Path, document: str) -> None:
    write_tiff(tmp_path / "scan/c/0/1.tif", pixels(1))
    (tmp_path / "scan" / document).write_text('{"zarr_format": 3, "node_type": "group"}')
    before = tree(tmp_path)
    with pytest.raises(ZarrfuseError, match=f"exists, with {document}, and was not made by"):
        indexed(tmp_path / "scan")
    assert tree(tmp_path) == before


def test_a_file_that_changes_while_it_is_indexed_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zarrfuse.indexing import update

    write_all = update.write_all

    def changed_first(*args):
        write_tiff(folder / "t004.tif", pixels(99), compression="zlib")
        return write_all(*args)

    monkeypatch.setattr(update, "write_all", changed_first)
    with pytest.raises(ZarrfuseError, match=r"t004.tif was changed meanwhile: run it again"):
        indexed(folder)
    assert not (folder.with_name("scan.zarr") / "zarr.json").exists()
    monkeypatch.undo()
    write_tiff(folder / "t004.tif", pixels(99))
    indexed(folder)
    assert (read(folder.with_name("scan.zarr"))[4] == pixels(99)).all()


def test_a_dataset_deleted_in_between_is_written_again(folder: Path) -> None:
    indexed(folder)
    shutil.rmtree(folder.with_name("scan.zarr"))
    assert indexed(folder).read == 6
    assert read(folder.with_name("scan.zarr")).shape == (6, 16, 32)
