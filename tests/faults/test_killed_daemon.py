"""`kill -9`: readers get an error, and the next mount clears what is left."""

import errno
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from builders.folders import write_files
from builders.mounts import COMMAND, clear, serving, wait_for
from daemons import errno_when, fake

from zarrfuse.mounts import kernel_mounts

DATA = os.urandom(300_000)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A few files."""
    write_files(folder := tmp_path / "source", {"a/file": DATA, "a/hang": DATA})
    return folder


def test_readers_of_a_killed_daemon_get_an_error(tmp_path: Path, source: Path) -> None:
    with serving(tmp_path, source) as daemon:
        path = daemon.mountpoint / "a/file"
        descriptor = os.open(path, os.O_RDONLY)
        os.kill(daemon.process.pid, signal.SIGKILL)
        daemon.process.wait(10)
        for function in (path.read_bytes, lambda: os.listdir(daemon.mountpoint)):
            assert errno_when(function) in (errno.ENOTCONN, errno.ECONNABORTED)
        assert errno_when(lambda: os.pread(descriptor, 4096, 0)) in (0, errno.ENOTCONN)
        with suppress(OSError):  # flush: not connected
            os.close(descriptor)


def test_a_read_that_is_out_ends_when_the_daemon_is_killed(tmp_path: Path, source: Path) -> None:
    with serving(tmp_path, source, command=fake(store="hanging", call="readinto")) as daemon:
        reader = subprocess.Popen(
            ["cat", daemon.mountpoint / "a/hang"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
        )
        wait_for((tmp_path / "source.gate.waiting").exists)
        os.kill(daemon.process.pid, signal.SIGKILL)
        _, said = reader.communicate(timeout=20)
        assert reader.returncode
        assert b"abort" in said or b"not connected" in said


def test_a_daemon_that_is_killed_after_a_reload_leaves_no_program_hanging(
    tmp_path: Path, source: Path
) -> None:
    """A name that is being looked up locks its folder, and the daemon must not wait for that lock."""
    with serving(tmp_path, source, command=fake(store="hanging", call="stat")) as daemon:
        (daemon.mountpoint / "a/file").stat()
        program = subprocess.Popen(
            ["stat", daemon.mountpoint / "a/hang"], stderr=subprocess.DEVNULL
        )
        wait_for((tmp_path / "source.gate.waiting").exists)
        daemon.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "SIGHUP: reloaded" in daemon.text())
        daemon.process.kill()
        assert program.wait(20) == 1


def test_the_next_mount_clears_what_a_killed_daemon_left(tmp_path: Path, source: Path) -> None:
    with serving(tmp_path, source) as daemon:
        holding = os.open(daemon.mountpoint / "a/file", os.O_RDONLY)
        os.kill(daemon.process.pid, signal.SIGKILL)
        daemon.process.wait(10)
        assert kernel_mounts.mount_at(str(daemon.mountpoint)) is not None
        try:
            done = subprocess.run(
                [*COMMAND, "mount", source, daemon.mountpoint],
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            assert (daemon.mountpoint / "a/file").read_bytes() == DATA
            stacked = [m for m in kernel_mounts.mounts() if m.mountpoint == str(daemon.mountpoint)]
            assert len(stacked) == 1
        finally:
            with suppress(OSError):
                os.close(holding)
            clear(daemon.mountpoint)


def test_unmount_clears_what_a_killed_daemon_left(tmp_path: Path, source: Path) -> None:
    with serving(tmp_path, source) as daemon:
        os.kill(daemon.process.pid, signal.SIGKILL)
        daemon.process.wait(10)
        done = subprocess.run(
            [*COMMAND, "unmount", daemon.mountpoint],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert kernel_mounts.mount_at(str(daemon.mountpoint)) is None


def test_a_daemon_whose_mount_is_detached_by_others_ends(tmp_path: Path, source: Path) -> None:
    with serving(tmp_path, source) as daemon:
        subprocess.run(["umount", "-l", daemon.mountpoint], check=True)
        assert daemon.process.wait(20) == 0
        assert "Traceback" not in daemon.text()


def test_a_daemon_whose_connection_is_aborted_ends(tmp_path: Path, source: Path) -> None:
    with serving(tmp_path, source) as daemon:
        if daemon.abort is None:
            pytest.skip("connections can be aborted by root alone, where fusectl can be mounted")
        Path(daemon.abort).write_text("1")
        daemon.process.wait(20)
        assert "Traceback" not in daemon.text()


def test_a_stopped_daemon_goes_on_where_it_was(tmp_path: Path, source: Path) -> None:
    with serving(tmp_path, source) as daemon:
        os.kill(daemon.process.pid, signal.SIGSTOP)
        reader = subprocess.Popen(["cat", daemon.mountpoint / "a/file"], stdout=subprocess.PIPE)
        os.kill(daemon.process.pid, signal.SIGCONT)
        out, _ = reader.communicate(timeout=20)
        assert out == DATA
