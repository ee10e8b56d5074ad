"""What the kernel has forgotten the mount forgets too."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from builders.documents import array, concat_parts, group
from builders.mounts import drop_caches, status, wait_for

Mounted = Callable[..., Path]
Stored = Callable[..., Path]


def assert_forgotten(point: Path) -> None:
    """After the caches were dropped only the control file just asked for is known."""

    def forgotten() -> bool:
        drop_caches()
        return status(point)["kernel_lookups"] <= 2

    wait_for(forgotten)
    found = status(point)
    assert (found["open_files"], found["open_folders"]) == (0, 0)


def test_walking_reading_and_missing_leave_no_lookup(demo: Path, mounted: Mounted) -> None:
    point = mounted(demo, "--xattrs")
    for _ in range(2):
        subprocess.run(["find", point, "-ls"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["grep", "-r", "nothing", point], check=False, stdout=subprocess.DEVNULL)
    for name in ("nothing", "cells.zarr/nothing", "cells.zarr/zstd/c/0/1.tiff.index", ".DS_Store"):
        assert not (point / name).exists()
    subprocess.run(["ls", "-lR", point / ".zarrfuse"], check=True, stdout=subprocess.DEVNULL)
    assert (point / ".zarrfuse/info/cells.zarr/zstd/c/0/1.tiff").read_bytes()
    assert status(point)["kernel_lookups"] > 20
    assert_forgotten(point)


def test_every_order_of_walking_leaves_no_lookup(stored: Stored, mounted: Mounted) -> None:
    source = stored({f"a/{i}/{j}/{k}": b"" for i in range(3) for j in range(3) for k in range(3)})
    point = mounted(source)
    os.stat(point / "a/1/2/0")
    os.stat(point / "a/0/0/0")
    os.listdir(point / "a/1/1")
    os.listdir(point / "a/2")
    os.listdir(point / "a/2")
    assert_forgotten(point)
    os.listdir(point / "a/1/1")
    os.stat(point / "a/2/2/2")
    assert_forgotten(point)


def test_what_is_open_stays_known_until_it_is_closed(stored: Stored, mounted: Mounted) -> None:
    source = stored(
        {
            "zarr.json": array([4], transformers=[concat_parts("", ".i")]),
            "c/0": b"1",
            "c/0.i": b"2",
            "c/1": b"3",
        }
    )
    point = mounted(source)
    with (point / "c/0").open("rb") as file:
        folder = os.open(point / "c", os.O_RDONLY)
        os.listdir(point / "c")
        drop_caches()
        assert status(point)["open_files"] == 1
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        assert file.read() == b"12"
        assert os.fstat(file.fileno()).st_size == 2
        assert sorted(os.listdir(folder)) == ["0", "1"]
        os.close(folder)
    assert_forgotten(point)


def test_a_current_folder_survives_what_the_kernel_forgets(
    stored: Stored, mounted: Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = mounted(stored({"zarr.json": group(), "a/b/c/file": b"x", "a/b/other": b"y"}))
    monkeypatch.chdir(point / "a/b")
    for _ in range(3):
        drop_caches()
        assert Path("c/file").read_bytes() == b"x"
        assert Path("other").read_bytes() == b"y"
        assert sorted(os.listdir("..")) == ["b"]
        assert Path("../../zarr.json").exists()
    monkeypatch.undo()
    assert_forgotten(point)


def test_names_that_come_and_go_leave_no_lookup(stored: Stored, mounted: Mounted) -> None:
    source = stored({"d/keep": b"x"})
    point = mounted(source, "--cache-ttl", "0")
    for round_ in range(50):
        (source / "d" / f"n{round_}").write_bytes(b"x" * round_)
        assert (point / "d" / f"n{round_}").read_bytes() == b"x" * round_
        assert len(os.listdir(point / "d")) == 2
        (source / "d" / f"n{round_}").unlink()
        assert not (point / "d" / f"n{round_}").exists()
    assert_forgotten(point)
