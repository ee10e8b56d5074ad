"""Signals at bad moments: nothing stays mounted that nobody serves."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from builders.folders import write_files
from builders.mounts import ENVIRONMENT, clear, wait_for
from daemons import fake

from zarrfuse.mounts import kernel_mounts


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_signal_that_comes_while_it_is_mounted_unmounts_it(tmp_path: Path, name: str):
    source, point, log = tmp_path / "source", tmp_path / "m", tmp_path / "log"
    write_files(source, {"file": b"data"})
    point.mkdir()
    command = [*fake(store="local"), "mount", str(source), str(point), "--signalled", name]
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=ENVIRONMENT)
        assert process.wait(20) == 0, log.read_text()
        assert kernel_mounts.mount_at(str(point)) is None
        assert "Traceback" not in log.read_text()
    finally:
        clear(point)
        process.kill()


@contextmanager
def in_a_terminal(
    tmp_path: Path,
) -> Iterator[tuple[Path, subprocess.Popen[bytes], Callable[[], None]]]:
    """A mount in the foreground of a terminal; its mountpoint, process, and what closes the terminal."""
    source, point = tmp_path / "source", tmp_path / "m"
    write_files(source, {"file": b"data", "open!KeyError": b""})
    point.mkdir()
    ours, terminal = os.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", *fake(store="failing"), "mount", str(source), str(point)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**ENVIRONMENT, "PYTHONUNBUFFERED": ""},  # what is not written stays in a buffer
    )
    os.close(terminal)
    try:
        said = b""
        while b"is mounted" not in said:
            said += os.read(ours, 1000)
        yield point, process, lambda: os.close(ours)
    finally:
        clear(point)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def test_terminal_that_goes_away_unmounts_what_is_not_in_use(tmp_path: Path):
    with in_a_terminal(tmp_path) as (point, process, close):
        close()
        assert process.wait(20) == 0
        assert kernel_mounts.mount_at(str(point)) is None


def test_terminal_that_goes_away_counts_as_the_first_signal(tmp_path: Path):
    with in_a_terminal(tmp_path) as (point, process, close):
        with (point / "file").open("rb", buffering=0) as file:
            close()
            with pytest.raises(OSError):  # the traceback of which cannot be logged
                (point / "open!KeyError").read_bytes()
            assert process.poll() is None
            process.terminate()  # the second signal
            wait_for(lambda: kernel_mounts.mount_at(str(point)) is None)
            assert file.read() == b"data"
        assert process.wait(20) == 0
