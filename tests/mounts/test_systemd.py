"""The units of systemd, and a daemon that systemd has started: its socket is a real one of this test."""

import os
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import zarr
from builders.documents import group
from builders.folders import write_keys
from builders.mounts import ENVIRONMENT, clear

from zarrfuse.mounts import kernel_mounts

REPOSITORY = Path(__file__).parents[2]
UNITS = REPOSITORY / "systemd"
SERVICES = [UNITS / "system/zarrfuse@.service", UNITS / "user/zarrfuse@.service"]
EXAMPLES = sorted((UNITS / "examples").iterdir())


class Manager:
    """Starts a service as systemd does, and hears what it says.

    Only for one instance: `cells`.
    """

    def __init__(self, folder: Path, unit: Path, watchdog_s: float | None = None) -> None:
        self.mountpoint = folder / "mnt"
        self._folder = folder
        self._unit = unit.read_text()
        self._watchdog_s = watchdog_s
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(folder / "notify"))

    def lines(self, name: str) -> list[list[str]]:
        """The commands of a setting such as ExecStart."""
        found = [line for line in self._unit.splitlines() if line.startswith(f"{name}=")]
        texts = [line.partition("=")[2].lstrip("-").replace("%i", "cells") for line in found]
        return [shlex.split(text) for text in texts]

    def _environment(self) -> dict[str, str]:
        found = {
            **ENVIRONMENT,
            "HOME": str(self._folder),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "NOTIFY_SOCKET": str(self._folder / "notify"),
        }
        found.pop("XDG_CONFIG_HOME", None)
        if self._watchdog_s is not None:
            found["WATCHDOG_USEC"] = str(int(self._watchdog_s * 1e6))
        return found

    @contextmanager
    def started(self) -> Iterator[subprocess.Popen[bytes]]:
        """A block in which the service runs; it is killed at the end if it still does."""
        [command] = self.lines("ExecStart")
        with (self._folder / "log").open("wb") as log:
            process = subprocess.Popen(
                command, env=self._environment(), stderr=log, umask=self.umask()
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait(30)

    def umask(self) -> int:
        """The umask of the service; without a line, that of systemd.exec(5)."""
        return int((re.findall(r"^UMask=(.*)$", self._unit, re.MULTILINE) or ["0022"])[-1], 8)

    def run(self, name: str, process: subprocess.Popen[bytes]) -> int:
        """Run the command of a setting; its exit code."""
        [command] = self.lines(name)
        command = [word.replace("$MAINPID", str(process.pid)) for word in command]
        return subprocess.run(command, env=self._environment(), check=False, timeout=60).returncode

    def hears(self, state: str, within_s: float = 30) -> dict[str, str]:
        """The next message with a state; messages before it are passed over."""
        while select.select([self._socket], [], [], within_s)[0]:
            said = self._socket.recv(4096).decode()
            found = dict(line.partition("=")[::2] for line in said.splitlines())
            if state in found:
                return found
        raise AssertionError(f"no {state}; {(self._folder / 'log').read_text()}")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A home with a configuration, a store and a mountpoint."""
    write_keys(tmp_path / "store", {"zarr.json": group(), "file": b"x"})
    (tmp_path / "mnt").mkdir()
    (tmp_path / ".config/zarrfuse").mkdir(parents=True)
    (tmp_path / ".config/zarrfuse/cells.toml").write_text(
        f'source = "{tmp_path}/store"\nmountpoint = "{tmp_path}/mnt"\nview = "raw"\n'
    )
    yield tmp_path
    clear(tmp_path / "mnt")


@pytest.fixture(params=SERVICES, ids=["system", "user"])
def unit(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


def test_it_is_ready_when_the_mount_answers(folder: Path, unit: Path) -> None:
    manager = Manager(folder, unit)
    with manager.started() as process:
        said = manager.hears("READY")
        assert said["STATUS"] == f"{folder}/store is mounted on {folder}/mnt"
        assert (folder / "mnt/file").read_bytes() == b"x"
        process.send_signal(signal.SIGTERM)
        manager.hears("STOPPING")
        assert process.wait(30) == 0
    assert kernel_mounts.mount_at(str(folder / "mnt")) is None


def test_after_a_stop_open_files_can_be_read_to_their_end(folder: Path, unit: Path) -> None:
    manager = Manager(folder, unit)
    with manager.started() as process:
        manager.hears("READY")
        with (folder / "mnt/file").open("rb") as file:
            assert manager.run("ExecStop", process) == 0
            process.send_signal(signal.SIGTERM)  # as systemd does when the command has ended
            assert kernel_mounts.mount_at(str(folder / "mnt")) is None
            assert file.read() == b"x"
        assert process.wait(30) == 0


def test_the_watchdog_is_told_while_the_mount_answers(folder: Path, unit: Path) -> None:
    manager = Manager(folder, unit, watchdog_s=0.3)
    with manager.started() as process:
        manager.hears("READY")
        for _ in range(3):
            manager.hears("WATCHDOG")
        process.send_signal(signal.SIGSTOP)
        while select.select([manager._socket], [], [], 1)[0]:
            manager._socket.recv(4096)  # what was said before
        process.send_signal(signal.SIGCONT)
        manager.hears("WATCHDOG")


def test_after_sigkill_the_mountpoint_is_cleared_and_mounted_again(
    folder: Path, unit: Path
) -> None:
    manager = Manager(folder, unit)
    with manager.started() as process:
        manager.hears("READY")
        process.kill()
        process.wait(30)
        assert manager.run("ExecStopPost", process) == 0
        assert kernel_mounts.mount_at(str(folder / "mnt")) is None
    with manager.started() as process:
        manager.hears("READY")
        process.kill()
    with manager.started() as process:  # without ExecStopPost
        manager.hears("READY")
        assert (folder / "mnt/file").read_bytes() == b"x"


def test_a_mount_that_fails_is_never_ready(folder: Path, unit: Path) -> None:
    (folder / "mnt").rmdir()
    manager = Manager(folder, unit)
    with manager.started() as process:
        assert process.wait(30) == 1
        assert "there is no mountpoint" in (folder / "log").read_text()
        assert not select.select([manager._socket], [], [], 0)[0]


def test_others_can_write_nothing_that_the_daemon_makes(folder: Path, unit: Path) -> None:
    config = folder / ".config/zarrfuse/cells.toml"
    config.write_text(f'{config.read_text()}log_file = "{folder}/own.log"\n')
    manager = Manager(folder, unit)
    with manager.started() as process:
        manager.hears("READY")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert (folder / "own.log").stat().st_mode & 0o022 == 0


def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    for path in (*SERVICES, *EXAMPLES):
        copy = tmp_path / path.parent.name / path.name.replace("@.", "@cells.")
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(path.read_text())
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", "--recursive-errors=one", copy],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, ""), path


def test_the_service_of_the_system_is_not_exposed_more_than_its_work_needs(
    tmp_path: Path,
) -> None:
    copy = tmp_path / "zarrfuse@cells.service"
    copy.write_text(SERVICES[0].read_text())
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=55", "--no-pager", copy],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout[-300:]


def test_each_line_of_the_sandbox_has_a_reason() -> None:
    lines = SERVICES[0].read_text().partition("[Service]")[2].splitlines()
    begin = next(
        n for n, line in enumerate(lines) if line.startswith("# What a service that mounts")
    )
    for number, line in enumerate(lines[begin:], begin):
        if "=" in line and not line.startswith("#") and "WantedBy" not in line:
            above = next(each for each in reversed(lines[:number]) if "=" not in each)
            assert above.startswith("# "), line
    assert "mounts of its own" in "\n".join(lines)


def allowed_calls(filter_: str) -> set[str]:
    """The system calls of a filter, with those of the sets that it names."""
    done = subprocess.run(
        ["systemd-analyze", "syscall-filter", "--no-pager", *filter_.split()],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    names = {line.strip() for line in done.stdout.splitlines() if line.startswith(" ")}
    sets = {name for name in names if name.startswith("@")}
    names = {name for name in names if not name.startswith(("@", "#"))}
    return names | (allowed_calls(" ".join(sorted(sets))) if sets else set())


def test_the_sandbox_allows_each_system_call_of_a_mount(folder: Path) -> None:
    """Mounted, read, written and unmounted under strace, in a view that decodes, and one that writes."""
    zarr.create_array(folder / "store/a", data=np.arange(10_000).reshape(100, 100), chunks=(50, 50))
    manager = Manager(folder, SERVICES[0])
    [command] = manager.lines("ExecStart")
    trace = folder / "trace"
    seen: set[str] = set()
    for view, more in (("images", []), ("chunks", ["--read-write"])):
        with subprocess.Popen(
            ["strace", "-f", "-qq", "-o", trace, *command, "--view", view, *more],
            env=manager._environment(),
        ) as process:
            manager.hears("READY")
            subprocess.run(["ls", "-lR", folder / "mnt"], check=True, capture_output=True)
            subprocess.run(
                ["md5sum", *(folder / "mnt/a").rglob("*.*")], check=True, capture_output=True
            )
            if more:
                shutil.copy(folder / "mnt/a/c/0/0", folder / "mnt/a/c/0/1")
                (folder / "mnt/a/c/0/0").chmod(0o640)
            subprocess.run(["fusermount3", "-u", folder / "mnt"], check=True)
            assert process.wait(30) == 0
        seen |= set(re.findall(r"^\d+ +(\w+)\(", trace.read_text(errors="replace"), re.MULTILINE))
    [line] = [line for line in SERVICES[0].read_text().splitlines() if "SystemCallFilter=" in line]
    assert {"mount", "openat", "preadv2"} <= seen
    assert seen - allowed_calls(line.partition("=")[2]) == set()


def test_a_mount_needs_no_more_capabilities_than_the_sandbox_leaves(folder: Path) -> None:
    text = SERVICES[0].read_text()
    [names] = re.findall(r"^CapabilityBoundingSet=(.*)$", text, re.MULTILINE)
    left = ",".join(f"+{name.removeprefix('CAP_').lower()}" for name in names.split())
    manager = Manager(folder, SERVICES[0])
    [command] = manager.lines("ExecStart")
    confined = ["setpriv", "--no-new-privs", f"--bounding-set=-all,{left}", *command]
    with subprocess.Popen([*confined, "--read-write"], env=manager._environment()) as process:
        manager.hears("READY")
        (folder / "mnt/new").write_bytes(b"y")
        os.chown(folder / "mnt/new", 12345, 12345)
        assert (folder / "store/new").stat().st_uid == 12345
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert kernel_mounts.mount_at(str(folder / "mnt")) is None
