"""SIGHUP reloads, SIGUSR1 tells what the daemon is doing."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr
from builders.documents import group
from builders.mounts import Daemon, wait_for

Served = Callable[..., Daemon]
Stored = Callable[..., Path]


@pytest.fixture
def source(stored: Stored) -> Path:
    return stored({"zarr.json": group(), "file": b"content", "folder/zarr.json": group()})


@pytest.mark.parametrize("view", ["raw", "chunks"])
def test_a_reload_shows_what_the_store_has_by_now(source: Path, served: Served, view: str) -> None:
    daemon = served(source, "--view", view, "--cache-ttl", "inf")
    point = daemon.mountpoint
    assert sorted(os.listdir(point)) == ["file", "folder", "zarr.json"]
    assert (point / "file").read_bytes() == b"content"
    (source / "file").write_bytes(b"other content")
    (source / "new").write_bytes(b"new")
    assert "new" not in os.listdir(point)
    daemon.process.send_signal(signal.SIGHUP)
    wait_for(lambda: (point / "file").read_bytes() == b"other content")
    wait_for(lambda: sorted(os.listdir(point)) == ["file", "folder", "new", "zarr.json"])
    assert (point / "new").read_bytes() == b"new"


def test_after_a_reload_what_was_deleted_is_gone(source: Path, served: Served) -> None:
    """The kernel keeps its names, with `inf` for ever: it has to ask again what they stand for."""
    daemon = served(source, "--view", "raw", "--cache-ttl", "inf")
    point = daemon.mountpoint
    assert (point / "file").read_bytes() == b"content"
    assert (point / "folder").is_dir()
    shutil.rmtree(source / "folder")
    (source / "file").unlink()
    assert (point / "file").is_file()
    daemon.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "SIGHUP: reloaded" in daemon.text())
    assert not (point / "folder").exists()
    with pytest.raises(FileNotFoundError):
        (point / "file").read_bytes()


def test_a_reload_decodes_anew(tmp_path: Path, served: Served) -> None:
    array = zarr.create_array(tmp_path / "a.zarr", shape=(8, 8), chunks=(8, 8), dtype="u1")
    array[...] = 1
    daemon = served(tmp_path / "a.zarr", "--view", "images", "--cache-ttl", "inf")
    picture = daemon.mountpoint / "a.npy"
    assert (np.load(picture) == 1).all()
    array[...] = 2
    daemon.process.send_signal(signal.SIGHUP)
    wait_for(lambda: np.load(picture).min() == 2)


def test_a_reload_reads_the_log_level_anew(source: Path, served: Served, tmp_path: Path) -> None:
    config = tmp_path / "a.toml"
    config.write_text("verbose = false\n")
    daemon = served(source, "--config", config)
    config.write_text("verbose = true\n")
    daemon.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "SIGHUP: reloaded" in daemon.text())
    assert "DEBUG" in daemon.text()
    config.write_text("verbos = true\n")
    daemon.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "not reloaded: " in daemon.text())
    assert (daemon.mountpoint / "file").read_bytes() == b"content"


def test_the_stacks_of_tasks_and_threads_are_written_to_the_log(
    source: Path, served: Served
) -> None:
    daemon = served(source)
    daemon.process.send_signal(signal.SIGUSR1)
    wait_for(lambda: "thread MainThread:" in daemon.text())
    text = daemon.text()
    assert "task " in text
    assert "pyfuse3" in text
    assert "signals.py" in text
    assert (daemon.mountpoint / "file").read_bytes() == b"content"
