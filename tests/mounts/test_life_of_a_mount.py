"""A mount answers when the command returns, obeys signals, and can be made again after a crash."""

import contextlib
import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from builders.documents import group
from builders.folders import write_keys
from builders.mounts import COMMAND, Daemon, clear, wait_for, zarrfuse
from builders.processes import processes_about

from zarrfuse.mounts import kernel_mounts

Mounted = Callable[..., Path]
Served = Callable[..., Daemon]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_keys(tmp_path / "store", {"zarr.json": group(), "file": b"content"})
    return tmp_path / "store"


def is_mounted(point: Path) -> bool:
    return kernel_mounts.mount_at(str(point)) is not None


def daemons_of(point: Path) -> list[int]:
    return list(processes_about(point))


def test_the_mount_answers_as_soon_as_the_command_returns(source: Path, tmp_path: Path) -> None:
    point = tmp_path / "mnt"
    point.mkdir()
    try:
        for _ in range(4):
            zarrfuse("mount", source, point)
            assert sorted(os.listdir(point)) == ["file", "zarr.json"]
            zarrfuse("unmount", point)
            assert os.listdir(point) == []
    finally:
        clear(point)


def test_the_daemon_is_in_the_background_and_ends_with_the_mount(
    source: Path, mounted: Mounted
) -> None:
    point = mounted(source)
    [daemon] = daemons_of(point)
    assert os.getsid(daemon) != os.getsid(0)
    assert os.readlink(f"/proc/{daemon}/cwd") == "/"
    for descriptor in (0, 1, 2):
        assert os.readlink(f"/proc/{daemon}/fd/{descriptor}") == "/dev/null"
    zarrfuse("unmount", point)
    wait_for(lambda: not daemons_of(point))


@pytest.mark.parametrize("view", ["raw", "chunks", "plain"])
def test_a_daemon_that_decodes_nothing_loads_no_array_library(
    source: Path, served: Served, view: str
) -> None:
    daemon = served(source, "--view", view, command=COMMAND)
    assert [path.name for path in daemon.mountpoint.iterdir()]
    mapped = Path(f"/proc/{daemon.process.pid}/maps").read_text()
    assert [library for library in ("numpy", "numcodecs", "imagecodecs") if library in mapped] == []


def test_in_the_foreground_it_stays_until_it_is_unmounted(source: Path, served: Served) -> None:
    daemon = served(source)
    assert (daemon.mountpoint / "file").read_bytes() == b"content"
    zarrfuse("unmount", daemon.mountpoint)
    assert daemon.process.wait(20) == 0
    assert "Traceback" not in daemon.text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_unmounts(source: Path, served: Served, number: signal.Signals) -> None:
    daemon = served(source)
    daemon.process.send_signal(number)
    assert daemon.process.wait(20) == 0
    assert not is_mounted(daemon.mountpoint)
    assert "Traceback" not in daemon.text()


def test_a_signal_unmounts_in_the_background_too(source: Path, mounted: Mounted) -> None:
    point = mounted(source)
    [daemon] = daemons_of(point)
    os.kill(daemon, signal.SIGTERM)
    wait_for(lambda: not daemons_of(point))
    assert not is_mounted(point)


def test_started_with_interrupts_ignored_it_obeys_them(source: Path, served: Served) -> None:
    daemon = served(source, command=("sh", "-c", 'trap "" INT; exec "$@"', "sh", *COMMAND))
    daemon.process.send_signal(signal.SIGINT)
    assert daemon.process.wait(20) == 0
    assert not is_mounted(daemon.mountpoint)


def test_a_hangup_that_is_ignored_is_ignored(source: Path, served: Served) -> None:
    daemon = served(source, command=("nohup", *COMMAND))
    daemon.process.send_signal(signal.SIGHUP)
    for _ in range(20):
        assert (daemon.mountpoint / "file").read_bytes() == b"content"
        assert daemon.process.poll() is None
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_while_a_file_is_open_the_first_signal_keeps_and_the_second_detaches(
    source: Path, served: Served, number: signal.Signals
) -> None:
    daemon = served(source)
    with (daemon.mountpoint / "file").open("rb", buffering=0) as file:
        daemon.process.send_signal(number)
        wait_for(lambda: "a second signal detaches it" in daemon.text())
        assert is_mounted(daemon.mountpoint)
        assert (daemon.mountpoint / "zarr.json").read_bytes() == group()
        daemon.process.send_signal(number)
        wait_for(lambda: not is_mounted(daemon.mountpoint))
        assert daemon.process.poll() is None
        assert file.read() == b"content"
    assert daemon.process.wait(20) == 0
    assert "Traceback" not in daemon.text()


def test_a_third_signal_ends_it_although_a_file_is_open(source: Path, served: Served) -> None:
    daemon = served(source)
    file = os.open(daemon.mountpoint / "file", os.O_RDONLY)
    for count in range(3):
        daemon.process.send_signal(signal.SIGTERM)
        wait_for(
            lambda count=count: (
                daemon.text().count("unmounting") > count or daemon.process.poll() is not None
            )
        )
    daemon.process.wait(20)
    assert not is_mounted(daemon.mountpoint)
    close_dead(file)


def test_signals_leave_a_newer_mount_alone(
    source: Path, served: Served, stored: Callable[..., Path]
) -> None:
    daemon = served(source)
    point = daemon.mountpoint
    file = os.open(point / "file", os.O_RDONLY)
    zarrfuse("unmount", point, "--lazy")
    zarrfuse("mount", source, point)
    for count in range(3):
        daemon.process.send_signal(signal.SIGTERM)
        wait_for(
            lambda count=count: (
                daemon.text().count("unmounting") > count or daemon.process.poll() is not None
            )
        )
    daemon.process.wait(20)
    assert (point / "file").read_bytes() == b"content"
    close_dead(file)


def close_dead(file: int) -> None:
    """Close a file of a mount that nobody serves any more; closing says so, and closes."""
    with contextlib.suppress(OSError):
        os.close(file)


def kill(point: Path) -> None:
    """Kill the daemon of a mount."""
    for daemon in daemons_of(point):
        os.kill(daemon, signal.SIGKILL)


def killed(point: Path) -> None:
    """Kill the daemon of a mount, and wait until the kernel knows that nobody serves it."""
    kill(point)
    wait_for(lambda: not daemons_of(point))

    def is_dead() -> bool:
        try:
            os.listdir(point)
        except OSError as error:
            return error.errno == errno.ENOTCONN
        return False

    wait_for(is_dead)


def test_what_a_killed_daemon_left_is_cleared_by_the_next_mount(
    source: Path, mounted: Mounted
) -> None:
    point = mounted(source)
    killed(point)
    zarrfuse("mount", source, point)
    assert (point / "file").read_bytes() == b"content"
    assert [mount.mountpoint for mount in kernel_mounts.mounts()].count(str(point)) == 1


def test_what_a_killed_daemon_left_can_be_unmounted(source: Path, mounted: Mounted) -> None:
    point = mounted(source)
    killed(point)
    zarrfuse("unmount", point)
    assert not is_mounted(point)


def test_a_mount_made_at_once_after_its_daemon_was_killed_takes_its_place(
    source: Path, mounted: Mounted
) -> None:
    point = mounted(source)
    for _ in range(3):
        kill(point)
        zarrfuse("mount", source, point)
        assert (point / "file").read_bytes() == b"content"


def test_a_daemon_killed_while_a_file_is_open_is_replaced(source: Path, mounted: Mounted) -> None:
    point = mounted(source)
    file = os.open(point / "file", os.O_RDONLY)
    killed(point)
    zarrfuse("mount", source, point)
    assert (point / "file").read_bytes() == b"content"
    close_dead(file)
    assert (point / "file").read_bytes() == b"content"


def test_the_log_file_tells_of_mount_faults_and_end(source: Path, tmp_path: Path) -> None:
    (source / "bad").mkdir()
    (source / "bad/zarr.json").write_bytes(b"{")
    point, log = tmp_path / "mnt", tmp_path / "log"
    point.mkdir()
    try:
        zarrfuse("mount", source, point, "--log-file", log)
        assert list((point / "bad").iterdir())
        zarrfuse("unmount", point)
        wait_for(lambda: "is unmounted" in log.read_text())
    finally:
        clear(point)
    text = log.read_text()
    assert text.count("bad/zarr.json") == 1
    assert "WARNING" in text
    assert "Traceback" not in text


def test_a_log_file_is_appended_to(source: Path, tmp_path: Path) -> None:
    point, log = tmp_path / "mnt", tmp_path / "log"
    point.mkdir()
    log.write_text("before\n")
    try:
        zarrfuse("mount", source, point, "--log-file", log)
        zarrfuse("unmount", point)
    finally:
        clear(point)
    assert log.read_text().startswith("before\n")


def test_relative_paths_are_those_of_who_asked(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkdir("mnt")
    try:
        zarrfuse("mount", "store", "mnt", "--log-file", "log")
        assert Path("mnt/file").read_bytes() == b"content"
        zarrfuse("unmount", "mnt/")
    finally:
        clear(tmp_path / "mnt")
    assert (tmp_path / "log").exists()


def test_a_mountpoint_reached_by_a_symlink_is_the_folder_itself(
    source: Path, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    try:
        zarrfuse("mount", source, tmp_path / "link")
        assert is_mounted(tmp_path / "real")
        zarrfuse("unmount", tmp_path / "link")
        assert not is_mounted(tmp_path / "real")
    finally:
        clear(tmp_path / "real")


def test_a_mount_inside_another_mount_is_a_source_like_any(source: Path, mounted: Mounted) -> None:
    first = mounted(source)
    second = mounted(first)
    assert (second / "file").read_bytes() == b"content"


def test_a_source_that_vanishes_leaves_a_mount_that_answers(source: Path, mounted: Mounted) -> None:
    point = mounted(source, "--cache-ttl", "0")
    (source / "file").unlink()
    (source / "zarr.json").unlink()
    source.rmdir()
    with pytest.raises(FileNotFoundError):
        (point / "file").read_bytes()
    assert (point / ".zarrfuse/status.json").read_bytes()


def test_the_mount_holds_no_pipe_of_the_command_that_made_it(source: Path, tmp_path: Path) -> None:
    point = tmp_path / "mnt"
    point.mkdir()
    try:
        done = subprocess.run(
            [*COMMAND, "mount", source, point], stdout=subprocess.PIPE, check=True, timeout=30
        )
        assert done.stdout == b""
        zarrfuse("unmount", point)
    finally:
        clear(point)


def test_a_dead_mount_in_a_source_spoils_nothing_else(
    source: Path, served: Served, tmp_path: Path
) -> None:
    daemon = served(source)
    outer = daemon.mountpoint.parent
    write_keys(outer / "beside", {"zarr.json": group()})
    killed(daemon.mountpoint)
    told = zarrfuse("info", outer).stdout
    assert "beside  group" in told
    assert f"{daemon.mountpoint.name}  not loaded" in told
