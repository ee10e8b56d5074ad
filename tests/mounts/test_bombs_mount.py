"""What chunks that take too much, and arrays that nobody decodes, do to a mount: nothing."""

import errno
import gzip
import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr
from builders.documents import array
from builders.folders import write_keys
from builders.mounts import Daemon, wait_for
from builders.processes import decoders, peak_bytes
from zarr.codecs import GzipCodec

Serve = Callable[..., Daemon]
CACHE_BYTES = 16 << 20


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """An array whose first chunk of some kilobytes becomes 11 GB, and one that nobody decodes."""
    folder = tmp_path / "data.zarr"
    zarr.create_group(folder)
    codecs = [GzipCodec(), GzipCodec()]
    made = zarr.create_array(
        folder, name="a", shape=(8,), chunks=(4,), dtype="u2", compressors=codecs
    )
    made[...] = np.arange(1000, 1008)
    (folder / "a/c/0").write_bytes(gzip.compress(gzip.compress(bytes(16 << 20)) * 700))
    write_keys(folder, {"b/zarr.json": array(codecs=[{"name": "numcodecs.nobody"}])})
    return folder


def resident_peak_bytes(daemon: Daemon) -> int:
    """Of the daemon and of all that decode for it."""
    pid = daemon.process.pid
    return sum(map(peak_bytes, (pid, *(process.name for process in decoders(pid)))))


def test_a_bomb_is_eio_and_the_rest_is_read_within_bounded_memory(
    source: Path, served: Serve
) -> None:
    daemon = served(source, "--view", "images", "--cache-size", f"{CACHE_BYTES}")
    point = daemon.mountpoint
    expected = np.arange(1004, 1008, dtype="<u2").tobytes()
    assert expected in (point / "a/c/1.tiff").read_bytes()
    before = resident_peak_bytes(daemon)
    for name in ("a/c/0.tiff", "a/a.npy"):
        with pytest.raises(OSError) as raised:
            (point / name).read_bytes()
        # Each try of a bomb ends a process; on a busy machine the time-out of reads comes first.
        assert raised.value.errno in (errno.EIO, errno.ETIMEDOUT)
    assert expected in (point / "a/c/1.tiff").read_bytes()
    assert resident_peak_bytes(daemon) - before < CACHE_BYTES + (300 << 20)
    assert "a: chunk c/0: cannot be decoded" in daemon.text()


def test_what_nobody_decodes_cannot_be_opened_and_so_not_be_mapped(
    source: Path, served: Serve
) -> None:
    point = served(source, "--view", "images").mountpoint
    for name in ("b/b.npy", "b/b.tiff", "b/c/0/0.tiff"):
        assert os.stat(point / name).st_size > 0
        with pytest.raises(OSError, match="upported") as raised:
            np.memmap(point / name, mode="r")
        assert raised.value.errno == errno.ENOTSUP


def test_processes_that_decode_end_with_a_daemon_that_is_killed(
    source: Path, served: Serve
) -> None:
    daemon = served(source, "--view", "images")
    assert (daemon.mountpoint / "a/c/1.tiff").read_bytes()
    found = decoders(daemon.process.pid)
    assert found
    os.kill(daemon.process.pid, signal.SIGKILL)
    wait_for(lambda: not any(process.exists() for process in found))
