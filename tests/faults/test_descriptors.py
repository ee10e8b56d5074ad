"""A daemon that runs out of file descriptors says EMFILE, and recovers."""

import errno
import os
import resource
from contextlib import suppress
from pathlib import Path

import pytest
from builders.documents import array, concat_parts
from builders.folders import write_files
from builders.mounts import Daemon, serving, wait_for
from daemons import errno_when

from zarrfuse.mounts import kernel_mounts

LIMIT = 64
DATA = b"0123456789"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Many files, in an array and beside it."""
    folder = tmp_path / "source"
    write_files(folder, {f"files/{n}": DATA for n in range(200)})
    parts = [concat_parts("", ".b", ".c")]
    write_files(folder, {"p/zarr.json": array((8, 8), transformers=parts)})
    write_files(folder, {f"p/c/0/0{suffix}": DATA for suffix in ("", ".b", ".c")})
    return folder


def limit(daemon: Daemon, count: int) -> None:
    """Let it have no more than `count` descriptors."""
    resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (count, count))


def open_until_refused(daemon: Daemon) -> tuple[list[int], int]:
    """Descriptors of as many files as can be opened, and the errno of the next."""
    held = []
    for n in range(200):
        try:
            held.append(os.open(daemon.mountpoint / f"files/{n}", os.O_RDONLY))
        except OSError as error:
            return held, error.errno or 0
    return held, 0


def close(descriptors: list[int]) -> None:
    """Close all."""
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)


def test_too_many_open_files_are_emfile_until_some_are_closed(tmp_path: Path, source: Path) -> None:
    with serving(tmp_path, source, "--cache-ttl", "600") as daemon:
        before = daemon.descriptors()
        limit(daemon, LIMIT)
        for _ in range(3):
            held, code = open_until_refused(daemon)
            try:
                assert code == errno.EMFILE
                assert LIMIT // 2 < len(held) < LIMIT
                assert all(os.pread(descriptor, 100, 0) == DATA for descriptor in held)
                assert errno_when((daemon.mountpoint / "p/c/0/0").read_bytes) == errno.EMFILE
                code = errno_when(lambda: os.listdir(daemon.mountpoint / "p"))
                assert code in (0, errno.EMFILE)
                assert daemon.is_up()
            finally:
                close(held)
            wait_for(lambda: daemon.descriptors() <= before + 2)
            assert (daemon.mountpoint / "p/c/0/0").read_bytes() == DATA * 3
            assert len(os.listdir(daemon.mountpoint / "files")) == 200
        assert "Traceback" not in daemon.text()


def test_a_daemon_without_descriptors_still_obeys_signals(tmp_path: Path, source: Path) -> None:
    with serving(tmp_path, source) as daemon:
        limit(daemon, LIMIT)
        held, code = open_until_refused(daemon)
        try:
            assert code == errno.EMFILE
            daemon.terminate()
            wait_for(lambda: "SIGTERM" in daemon.text())
            with suppress(Exception):
                daemon.process.wait(1)
            assert daemon.process.poll() is None, daemon.text()  # in use
            assert os.pread(held[0], 100, 0) == DATA
            assert kernel_mounts.mount_at(str(daemon.mountpoint)) is not None
        finally:
            close(held)
        daemon.terminate()
        assert daemon.process.wait(20) == 0
        assert "Traceback" not in daemon.text()


def test_nothing_leaks_when_chunks_cannot_be_opened(tmp_path: Path, source: Path) -> None:
    (source / "p/c/0/1").write_bytes(DATA)  # parts are missing
    (source / "p/c/0/2.b").write_bytes(b"")
    with serving(tmp_path, source, "--cache-ttl", "0") as daemon:
        (daemon.mountpoint / "p/c/0/0").read_bytes()
        before = daemon.descriptors()
        for _ in range(200):
            assert errno_when((daemon.mountpoint / "p/c/0/1").read_bytes) == errno.EIO
            assert errno_when((daemon.mountpoint / "p/c/0/2").read_bytes) == errno.EIO
            assert errno_when((daemon.mountpoint / "p/c/0/3").read_bytes) == errno.ENOENT
            (daemon.mountpoint / "p/c/0/0").read_bytes()
            os.listdir(daemon.mountpoint / "p/c/0")
        wait_for(lambda: daemon.descriptors() <= before)
