"""What programs read through a mount of the `images` view, and what it costs to list one."""

import errno
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr
from builders.documents import array, group
from builders.folders import write_keys
from builders.mounts import Daemon, status, wait_for, zarrfuse
from builders.processes import decoders

Mounter = Callable[..., Path]
Serve = Callable[..., Daemon]

LARGEST_DEFAULT = 256 << 20


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A group of two arrays of two compressed chunks a side, and a file that belongs to no array."""
    folder = tmp_path / "data.zarr"
    zarr.create_group(folder)
    for name in ("a", "b"):
        made = zarr.create_array(
            folder, name=name, shape=(100, 90), chunks=(50, 50), dtype="uint16"
        )
        made[...] = values()
    (folder / "README.txt").write_text("hello")
    return folder


def values() -> Any:
    return (np.arange(9000, dtype=np.uint16) * 7).reshape(100, 90)


def decodes(daemon: Daemon) -> bool:
    """Whether the daemon has started a process that decodes."""
    return bool(decoders(daemon.process.pid))


def test_numpy_and_tifffile_read_arrays_and_chunks(source: Path, mounted: Mounter) -> None:
    point = mounted(source, "--view", "images")
    assert sorted(os.listdir(point / "a")) == ["a.npy", "a.png", "a.tiff", "c", "zarr.json"]
    mapped = np.load(point / "a/a.npy", mmap_mode="r")
    assert (mapped[60:70, 30:60] == values()[60:70, 30:60]).all()
    assert (mapped == values()).all()
    assert (tifffile.imread(point / "a/a.tiff") == values()).all()
    assert (tifffile.imread(point / "a/c/1/1.tiff") == values()[50:, 50:]).all()
    assert (point / "README.txt").read_text() == "hello"
    assert (point / "a/zarr.json").read_bytes() == (source / "a/zarr.json").read_bytes()
    assert (point / "a/a.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    del mapped


def test_listing_everything_decodes_nothing(source: Path, mounted: Mounter) -> None:
    point = mounted(source, "--view", "images")
    subprocess.run(["ls", "-lR", point], check=True, capture_output=True)
    cache = status(point)["cache"]
    assert (cache["misses"], cache["bytes"]) == (0, 0)
    (point / "a/a.npy").read_bytes()
    assert status(point)["cache"]["misses"] > 0


def test_libraries_are_imported_by_the_views_that_decode_and_by_no_other(
    source: Path, served: Serve
) -> None:
    plain = served(source, "--view", "plain")
    subprocess.run(["ls", "-lR", plain.mountpoint], check=True, capture_output=True)
    (plain.mountpoint / "a/zarr.json").read_bytes()
    images = served(source, "--view", "images")
    wait_for(lambda: decodes(images))
    assert not decodes(plain)
    assert "cache" not in status(plain.mountpoint)


def test_a_chunk_that_is_written_anew_is_seen(source: Path, mounted: Mounter) -> None:
    point = mounted(source, "--view", "images", "--cache-ttl", "0.2")
    assert (np.load(point / "a/a.npy") == values()).all()
    assert (tifffile.imread(point / "a/c/0/0.tiff") == values()[:50, :50]).all()
    zarr.open_array(source, path="a")[:50, :50] = 7
    time.sleep(0.5)
    assert (tifffile.imread(point / "a/c/0/0.tiff") == 7).all()
    found = np.load(point / "a/a.npy")
    assert (found[:50, :50] == 7).all()
    assert (found[50:] == values()[50:]).all()


def test_what_was_decoded_before_is_not_kept_for_a_chunk_that_is_written_anew(
    source: Path, mounted: Mounter
) -> None:
    point = mounted(source, "--view", "images", "--cache-ttl", "1")
    np.load(point / "a/a.npy")  # decodes all chunks, which are believed for a second
    zarr.open_array(source, path="a")[:50, :50] = 7
    tifffile.imread(point / "a/c/0/0.tiff")  # has the new time, and may have the old pixels
    time.sleep(2)
    assert (tifffile.imread(point / "a/c/0/0.tiff") == 7).all()


@pytest.mark.parametrize(("ttl", "is_kept"), [("inf", True), ("1", False)])
def test_pages_of_what_is_decoded_are_kept_where_nothing_changes(
    ttl: str, is_kept: bool, source: Path, mounted: Mounter
) -> None:
    point = mounted(source, "--view", "images", "--cache-ttl", ttl)
    read = []
    for _ in range(2):
        for name in ("a/a.npy", "a/c/0/0.tiff"):
            (point / name).read_bytes()
        read.append(status(point)["bytes_read"])
    assert (read[1] - read[0] < 5000) is is_kept  # the status has some hundred bytes itself


def test_a_corrupt_chunk_costs_its_own_bytes_alone(tmp_path: Path, served: Serve) -> None:
    rows = (np.arange(64 * 4096, dtype=np.uint16) * 3).reshape(64, 4096)
    made = zarr.create_array(
        tmp_path / "in", name="a", shape=rows.shape, chunks=(16, 4096), dtype="uint16"
    )
    made[...] = rows
    (tmp_path / "in/a/c/2/0").write_bytes(b"no zstd")
    daemon = served(tmp_path / "in", "--view", "images")
    folder = daemon.mountpoint / "a"
    mapped = np.load(folder / "a.npy", mmap_mode="r")
    assert (mapped[:31] == rows[:31]).all()  # a page may hold bytes of two chunks
    assert (mapped[49:] == rows[49:]).all()
    del mapped  # a traceback below would keep it, and so the mount busy
    with (folder / "a.npy").open("rb", buffering=0) as opened:
        start = (folder / "a.npy").stat().st_size - rows.nbytes
        assert os.pread(opened.fileno(), 8192, start) == rows[0].tobytes()
        with pytest.raises(OSError) as raised:
            os.pread(opened.fileno(), 100, start + 40 * 8192)
        assert raised.value.errno == errno.EIO
    assert (tifffile.imread(folder / "c/1/0.tiff") == rows[16:32]).all()
    with pytest.raises(OSError) as raised:
        (folder / "c/2/0.tiff").read_bytes()
    assert raised.value.errno == errno.EIO
    assert "a: chunk c/2/0" in daemon.text()


def test_what_nobody_can_decode_is_listed_and_not_supported(
    tmp_path: Path, mounted: Mounter
) -> None:
    codecs = [{"name": "bytes"}, {"name": "unheard.of"}]
    write_keys(tmp_path / "in", {"a/zarr.json": array(codecs=codecs), "a/c/0/0": bytes(4)})
    point = mounted(tmp_path / "in", "--view", "images")
    for name in ("a/a.tiff", "a/a.npy", "a/c/0/0.tiff"):
        assert (point / name).stat().st_size > 0
        with pytest.raises(OSError) as raised:
            (point / name).read_bytes()
        assert raised.value.errno == errno.ENOTSUP


def test_fewer_formats(source: Path, mounted: Mounter) -> None:
    point = mounted(source, "--view", "images", "--formats", "npy,png")
    assert sorted(os.listdir(point / "a")) == ["a.npy", "a.png", "zarr.json"]


def test_the_root_is_called_as_its_source(tmp_path: Path, mounted: Mounter) -> None:
    zarr.create_array(tmp_path / "cells.zarr", shape=(4, 4), dtype="uint8")
    assert "cells.tiff" in os.listdir(mounted(tmp_path / "cells.zarr", "--view", "images"))


@pytest.mark.parametrize(
    "size, capacity",
    [
        ("0", 0),
        ("1000", 1000),
        ("3K", 3 << 10),
        ("5MiB", 5 << 20),
        ("1g", 1 << 30),
        ("2T", 2 << 40),
    ],
)
def test_the_size_of_the_cache(source: Path, mounted: Mounter, size: str, capacity: int) -> None:
    point = mounted(source, "--view", "images", "--cache-size", size)
    assert status(point)["cache"]["capacity_bytes"] == capacity
    assert (np.load(point / "a/a.npy") == values()).all()
    assert status(point)["cache"]["bytes"] <= capacity


def test_the_size_of_the_cache_unless_given(source: Path, mounted: Mounter) -> None:
    capacity = status(mounted(source, "--view", "all"))["cache"]["capacity_bytes"]
    assert 0 < capacity <= LARGEST_DEFAULT


@pytest.mark.parametrize(
    "option, value, sentence",
    [
        ("--formats", "tiff,jpeg", "jpeg is not one of tiff, npy, png, ome"),
        ("--formats", "tiff,", "an empty name is not one of"),
        ("--cache-size", "5X", "5X is not a size"),
        ("--cache-size", "-1", "-1 is not a size"),
        ("--cache-size", "1.5G", "1.5G is not a size"),
        ("--cache-size", "", "is not a size"),
        ("--view", "pictures", "pictures is not one of chunks, plain, images, raw, all"),
    ],
)
def test_bad_values_are_one_sentence(
    source: Path, tmp_path: Path, option: str, value: str, sentence: str
) -> None:
    (tmp_path / "mnt").mkdir()
    done = zarrfuse("mount", source, tmp_path / "mnt", f"{option}={value}", check=False)
    assert done.returncode == 2
    assert sentence in " ".join(done.stderr.split())
    assert option in done.stderr


def test_info_tells_which_files_there_are_and_why_others_are_not(
    tmp_path: Path, mounted: Mounter
) -> None:
    keys = {
        "zarr.json": group(),
        "a/zarr.json": array(),
        "complex/zarr.json": array(data_type="complex64", fill_value=[0.0, 0.0]),
    }
    write_keys(tmp_path / "in", keys)
    point = mounted(tmp_path / "in", "--view", "images")
    told = zarrfuse("info", point).stdout.splitlines()
    of_a, of_complex = (
        next(line for line in told if f"{name}  " in line) for name in ("a", "complex")
    )
    assert "shown as c/0/0.tiff a.tiff a.npy a.png" in of_a
    assert "shown as complex.npy" in of_complex
    assert "no c complex.tiff: complex64" in of_complex
    of_file = zarrfuse("info", "--json", point / "a/c/1/1.tiff").stdout
    assert json.loads(of_file)["chunk_coords"] == [1, 1]


def test_all_shows_images_beside_the_others(source: Path, mounted: Mounter) -> None:
    point = mounted(source, "--view", "all")
    assert sorted(os.listdir(point)) == ["chunks", "images", "plain", "raw"]
    assert (np.load(point / "images/a/a.npy") == values()).all()
