"""Stores that take their time, or never answer: the mount goes on, and says so."""

import errno
import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from builders.folders import write_files
from builders.mounts import Daemon, serving, wait_for
from daemons import errno_when, fake

from zarrfuse.mounts import kernel_mounts

DATA = b"slow" * 1000


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Ten slow files, and some that are not."""
    folder = tmp_path / "source"
    write_files(folder, {f"slow/{index}": DATA for index in range(10)})
    write_files(folder, {"fine/file": DATA, "slow/hang": DATA, "other/file": DATA, "file": DATA})
    write_files(folder, {f"many/hang{index}": DATA for index in range(60)})
    return folder


def test_slow_reads_are_out_at_the_same_time(tmp_path: Path, source: Path) -> None:
    command = fake(store="slow", delays={"readinto": 0.2, "open": 0.02})
    with serving(tmp_path, source, command=command) as daemon:
        files = [daemon.mountpoint / f"slow/{index}" for index in range(10)]
        with ThreadPoolExecutor(10) as pool:
            assert set(pool.map(Path.read_bytes, files)) == {DATA}
    wait_for((counted := tmp_path / "source.counted").exists)
    wait_for(counted.read_text)
    assert int(counted.read_text()) > 5


class Hanging:
    """A read of a file whose store does not answer before the gate is opened."""

    def __init__(self, daemon: Daemon, source: Path, name: str = "slow/hang") -> None:
        self.gate = source.with_name(f"{source.name}.gate")
        self.result: list[bytes | int] = []
        self._path = daemon.mountpoint / name
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        wait_for(source.with_name(f"{source.name}.gate.waiting").exists)

    def _read(self) -> None:
        try:
            self.result.append(self._path.read_bytes())
        except OSError as error:
            self.result.append(error.errno or 0)

    def outcome(self) -> bytes | int:
        """The bytes, or the errno."""
        self._thread.join(30)
        [outcome] = self.result
        return outcome


def test_other_requests_are_answered_during_a_slow_read(tmp_path: Path, source: Path) -> None:
    with serving(
        tmp_path, source, command=fake(store="hanging", call="readinto"), name="m"
    ) as daemon:
        hanging = Hanging(daemon, source)
        mount = daemon.mountpoint
        assert os.listdir(mount / "other") == ["file"]
        assert (mount / ".zarrfuse/status.json").stat().st_size
        assert (mount / "fine/file").read_bytes() == DATA
        assert len(os.listdir(mount / "slow")) == 11
        assert (mount / "slow/1").read_bytes() == DATA
        assert not hanging.result
        hanging.gate.touch()
        assert hanging.outcome() == DATA


@pytest.mark.parametrize("call", ["open", "readinto", "scan", "scanned", "stat"])
def test_a_store_that_never_answers_is_timed_out(tmp_path: Path, source: Path, call: str) -> None:
    write_files(source, {"hang-folder/file": DATA})
    command = fake(store="hanging", call=call)
    with serving(
        tmp_path, source, "--timeout", "0.5", "--cache-ttl", "0", command=command
    ) as daemon:
        path = daemon.mountpoint / "hang-folder"
        if call.startswith("scan"):
            code = errno_when(lambda: os.listdir(path))
        elif call == "stat":
            code = errno_when(lambda: os.stat(path))
        else:
            code = errno_when((daemon.mountpoint / "slow/hang").read_bytes)
        assert code == errno.ETIMEDOUT
        assert (daemon.mountpoint / "file").read_bytes() == DATA
        assert os.listdir(daemon.mountpoint / "other") == ["file"]
        assert daemon.is_up()
        wait_for(lambda: daemon.status()["open_files"] == 0)
        daemon.terminate()
        assert daemon.process.wait(20) == 0  # threads still hang
        assert kernel_mounts.mount_at(str(daemon.mountpoint)) is None
        assert "Traceback" not in daemon.text()


def test_what_came_late_is_closed(tmp_path: Path, source: Path) -> None:
    """A file that was opened after its opener had been given an error does not stay open."""
    command = fake(store="hanging", call="open")
    with serving(tmp_path, source, "--timeout", "0.3", command=command) as daemon:
        os.listdir(daemon.mountpoint)
        before = daemon.descriptors()
        files = [daemon.mountpoint / f"many/hang{index}" for index in range(20)]
        with ThreadPoolExecutor(20) as pool:
            codes = list(pool.map(lambda file: errno_when(file.read_bytes), files))
        assert set(codes) == {errno.ETIMEDOUT}
        (tmp_path / "source.gate").touch()
        wait_for(lambda: daemon.descriptors() <= before + 1)


def test_a_mount_in_use_is_detached_by_the_second_signal(tmp_path: Path, source: Path) -> None:
    command = fake(store="hanging", call="readinto")
    with serving(tmp_path, source, "--timeout", "1", command=command) as daemon:
        hanging = Hanging(daemon, source)
        daemon.terminate()
        wait_for(lambda: "could not be unmounted" in daemon.text())
        assert kernel_mounts.mount_at(str(daemon.mountpoint)) is not None
        daemon.terminate()
        assert hanging.outcome() == errno.ETIMEDOUT
        assert daemon.process.wait(20) == 0
        assert kernel_mounts.mount_at(str(daemon.mountpoint)) is None


def test_more_hanging_reads_than_threads_end_with_their_time(tmp_path: Path, source: Path) -> None:
    command = fake(store="hanging", call="readinto")
    options = ("--timeout", "0.5", "--threads", "8")
    with serving(tmp_path, source, *options, command=command) as daemon:
        files = [daemon.mountpoint / f"many/hang{index}" for index in range(24)]
        with ThreadPoolExecutor(24) as pool:
            codes = list(pool.map(lambda file: errno_when(file.read_bytes), files))
        assert set(codes) == {errno.ETIMEDOUT}
        assert daemon.is_up()
        assert (daemon.mountpoint / "file").read_bytes() == DATA


def test_other_folders_are_listed_although_every_thread_hangs(tmp_path: Path, source: Path) -> None:
    """Calls that were given up must not take the places of those to come for ever."""
    command = fake(store="hanging", call="readinto")
    options = ("--timeout", "0.5", "--threads", "4")
    with serving(tmp_path, source, *options, command=command) as daemon:
        files = [daemon.mountpoint / f"many/hang{index}" for index in range(8)]
        with ThreadPoolExecutor(8) as pool:
            codes = list(pool.map(lambda file: errno_when(file.read_bytes), files))
        assert set(codes) == {errno.ETIMEDOUT}
        assert os.listdir(daemon.mountpoint / "other") == ["file"]


def test_a_reader_that_is_killed_leaves_the_mount_in_order(tmp_path: Path, source: Path) -> None:
    command = fake(store="hanging", call="readinto")
    with serving(tmp_path, source, "--timeout", "1", command=command) as daemon:
        reader = subprocess.Popen(["cat", daemon.mountpoint / "slow/hang"], stdout=subprocess.PIPE)
        wait_for((tmp_path / "source.gate.waiting").exists)
        reader.kill()
        assert reader.wait(20)
        assert reader.stdout is not None
        reader.stdout.close()
        wait_for(lambda: daemon.status()["open_files"] <= 1)
        assert (daemon.mountpoint / "file").read_bytes() == DATA


@pytest.mark.parametrize("call", ["scan", "scanned"])
def test_other_requests_are_answered_although_listings_hang(
    tmp_path: Path, source: Path, call: str
) -> None:
    write_files(source, {f"folders/hang{index}/file": DATA for index in range(8)})
    command = fake(store="hanging", call=call)
    options = ("--timeout", "0.5", "--threads", "4")
    with serving(tmp_path, source, *options, command=command) as daemon:
        folders = [daemon.mountpoint / f"folders/hang{index}" for index in range(8)]
        with ThreadPoolExecutor(8) as pool:
            codes = list(pool.map(lambda folder: errno_when(lambda: os.listdir(folder)), folders))
        assert set(codes) == {errno.ETIMEDOUT}
        assert os.listdir(daemon.mountpoint / "other") == ["file"]
        (tmp_path / "source.gate").touch()
        wait_for(lambda: errno_when(lambda: os.listdir(folders[0])) == 0)


def test_a_source_that_another_mount_serves_does_not_stall_this_one(
    tmp_path: Path, source: Path
) -> None:
    """Its names are in the kernel's cache, and opening one waits for the other all the same."""
    command = fake(store="hanging", call="open")
    with (
        serving(tmp_path, source, "--timeout", "30", command=command, name="inner") as inner,
        serving(tmp_path, inner.mountpoint, "--cache-ttl", "600", name="outer") as outer,
    ):
        os.stat(inner.mountpoint / "slow/hang")
        hanging = Hanging(outer, source)
        assert (outer.mountpoint / "fine/file").read_bytes() == DATA
        assert not hanging.result
        hanging.gate.touch()
        assert hanging.outcome() == DATA
