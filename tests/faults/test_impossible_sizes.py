"""Sizes that no kernel takes, wherever they come from: EIO in one sentence, no fault of ours."""

import errno
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.documents import array, concat_parts, group
from builders.mounts import Daemon, serving
from daemons import errno_when, fake
from serve_fake import LIES

HUGE = 1 << 63


@pytest.fixture(scope="module")
def lying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("lying")
    (folder / "source").mkdir()
    with serving(folder, folder / "source", "--view", "raw", command=fake(store="lying")) as daemon:
        yield daemon


@pytest.mark.parametrize("name", ["negative/size", "negative/most", "huge/larger", "huge/absurd"])
def test_lookup_of_an_impossible_size_is_eio_and_says_it(lying: Daemon, name: str) -> None:
    folder, _, last = name.partition("/")
    [size] = [entry.size for entry in LIES[folder] if entry.name == last]
    assert errno_when(lambda: os.stat(lying.mountpoint / name)) == errno.EIO
    assert f"{last} claims to have {size} bytes" in lying.status()["last_errors"]["lookup"]
    assert "Traceback" not in lying.text()


def test_largest_size_is_told(lying: Daemon) -> None:
    assert os.stat(lying.mountpoint / "huge/largest").st_size == HUGE - 1


def zip64(path: Path, keys: dict[str, bytes], sizes: dict[str, int]) -> None:
    """A zip of `keys`; those in `sizes` are deflated, and said to have so many bytes."""
    with zipfile.ZipFile(path, "w") as archive:
        for key, data in keys.items():
            method = zipfile.ZIP_DEFLATED if key in sizes else zipfile.ZIP_STORED
            archive.writestr(key, data, method)
        for info in archive.filelist:
            info.file_size = sizes.get(info.filename, info.file_size)


def test_sizes_of_documents_and_zips_beyond_what_a_file_has(tmp_path: Path) -> None:
    """Of members, of parts and their sums, of whole arrays and their pictures."""
    parts = [concat_parts((".a", HUGE), (".b", 1))]
    keys = {
        "zarr.json": group(),
        "large/zarr.json": array([4, 4]),
        "large/c/0/0": b"1234",
        "large/c/0/1": b"1234",
        "sum/zarr.json": array([4], transformers=[concat_parts(".a", ".b")]),
        "sum/c/0.a": b"12",
        "sum/c/0.b": b"12",
        "declared/zarr.json": array([4], transformers=parts),
        "declared/c/0.a": b"1",
        "declared/c/0.b": b"1",
        "line/zarr.json": array([HUGE], [HUGE]),
        "wide/zarr.json": array([4, HUGE >> 1], [4, HUGE >> 1]),
        "deep/zarr.json": array([HUGE >> 2, 4, 1], [HUGE >> 2, 4, 1]),
    }
    source = tmp_path / "a.zip"
    zip64(source, keys, {"large/c/0/0": HUGE, "sum/c/0.a": HUGE - 10, "sum/c/0.b": HUGE - 10})
    with serving(tmp_path, source, "--view", "all") as daemon:
        root = daemon.mountpoint
        for view in ("raw", "chunks", "plain", "images"):
            for folder, _, names in os.walk(root / view):
                for name in [*names, "0", "0.tiff", "0.tif"]:
                    errno_when(lambda at=Path(folder) / name: os.stat(at))
                    errno_when(lambda at=Path(folder) / name: at.open("rb").read(1))
        for name in ("line", "wide", "deep"):
            for file in (f"{name}.tiff", f"{name}.npy", "c/0.tiff", "c/0/0.tiff", "c/0/0/0.tiff"):
                assert errno_when(lambda at=root / "images" / name / file: os.stat(at))
        assert errno_when(lambda: os.stat(root / "raw/large/c/0/0")) == errno.EIO
        assert errno_when(lambda: os.stat(root / "chunks/sum/c/0")) == errno.EIO
        assert (root / "chunks/large/c/0/1").read_bytes() == b"1234"
        assert "Traceback" not in daemon.text(), daemon.text()
        assert daemon.is_up()
