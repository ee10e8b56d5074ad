"""What tests of real mounts share: the command, a daemon in the foreground, and cleaning up."""

import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from builders.fork_server import Forked, Forks
from builders.processes import peak_bytes
from zarrfuse.mounts import kernel_mounts

COMMAND = (sys.executable, "-m", "zarrfuse")
"""For tests of the command itself; others use `zarrfuse` and `start`, which cost less."""
_IMPORTED_FROM = [str(folder) for folder in Path(__file__).resolve().parents[1:3]]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(_IMPORTED_FROM)}
Process = Forked | subprocess.Popen[bytes]
ANSWER_WITHIN_S = 30
GIVEN_UP_S = 100
"""After this a daemon is ended with all its requests: one that does not answer must not hang a test."""


_forks = functools.cache(Forks)


def start(arguments: Sequence[object], log: Path, command: Sequence[object] = ()) -> Process:
    """Start `zarrfuse`, or another command, with these arguments; what it prints goes to `log`."""
    with log.open("wb") as output:
        return _started(arguments, output.fileno(), output.fileno(), command)


def zarrfuse(
    *arguments: object, check: bool = True, command: Sequence[object] = ()
) -> subprocess.CompletedProcess[str]:
    """Run the `zarrfuse` command as a person would; see `fork_server` for what differs.

    `COMMAND` starts Python anew, for tests of what it does when it starts.
    """
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        running = _started(arguments, stdout.fileno(), stderr.fileno(), command)
        try:
            code = running.wait(ANSWER_WITHIN_S)
        finally:
            running.kill()
        texts = [os.pread(file.fileno(), 1 << 30, 0).decode() for file in (stdout, stderr)]
    if check and code:
        raise AssertionError(f"zarrfuse {arguments} exited {code}: {texts[1]}")
    return subprocess.CompletedProcess([*map(str, arguments)], code, *texts)


def _started(
    arguments: Sequence[object], stdout: int, stderr: int, command: Sequence[object]
) -> Process:
    if not command:
        return _forks().start(*arguments, stdout=stdout, stderr=stderr)
    return subprocess.Popen(
        [*map(str, (*command, *arguments))],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        env=ENVIRONMENT,
    )


def clear(mountpoint: Path) -> None:
    """Unmount whatever is at or below a path, without touching it."""
    for mount in reversed(kernel_mounts.mounts()):
        if Path(mount.mountpoint).is_relative_to(mountpoint):
            subprocess.run(
                ["fusermount3", "-u", "-z", mount.mountpoint],
                check=False,
                capture_output=True,
                timeout=60,
            )


@contextmanager
def mounting(source: Path, point: Path, *options: object) -> Iterator[Path]:
    """Mount in the background, as `zarrfuse mount` does; the mountpoint. Unmounted at the end."""
    point.mkdir(exist_ok=True)
    try:
        zarrfuse("mount", source, point, *options)
        yield point
    finally:
        done = None
        if kernel_mounts.mount_at(str(point)) is not None:
            done = zarrfuse("unmount", point, check=False)
        clear(point)
    assert done is None or done.returncode == 0, done.stderr


@pytest.fixture
def mountpoint(tmp_path: Path) -> Iterator[Path]:
    """An empty folder; what is mounted there is unmounted at the end."""
    point = tmp_path / "mnt"
    point.mkdir()
    yield point
    clear(point)


def status(mountpoint: Path) -> dict[str, Any]:
    """The `status.json` of a mount."""
    return json.loads((mountpoint / ".zarrfuse/status.json").read_bytes())


def info(mountpoint: Path, path: str) -> dict[str, Any]:
    """What the control files of a mount tell of a path."""
    return json.loads((mountpoint / ".zarrfuse/info" / path).read_bytes())


def options_of(mountpoint: Path) -> set[str]:
    """The options of a mount as the kernel tells them."""
    with open("/proc/self/mountinfo") as table:
        [line] = [line for line in table if f" {mountpoint} " in line]
    return set(line.split()[5].split(","))


def getfattr(path: Path) -> dict[str, str]:
    """What `getfattr -d` prints as text."""
    done = subprocess.run(
        ["getfattr", "-d", "--absolute-names", path], capture_output=True, text=True, check=True
    )
    lines = [line for line in done.stdout.splitlines() if line and not line.startswith("#")]
    assert all('="' in line for line in lines), "0s or 0x would be no text"
    pairs = (line.split("=", 1) for line in lines)
    return {name: value[1:-1].replace('\\"', '"') for name, value in pairs}


@dataclass
class Daemon:
    """A mount in the foreground, with its process and what it logged.

    `abort` is the file that ends its requests, so that no test waits for them.
    """

    mountpoint: Path
    process: Process
    log: Path
    abort: str | None = None

    def text(self) -> str:
        """What it logged until now."""
        return self.log.read_text(errors="replace")

    def status(self) -> dict[str, Any]:
        """Its `status.json`."""
        return status(self.mountpoint)

    def info(self, path: str) -> dict[str, Any]:
        """What its control files tell of a path."""
        return info(self.mountpoint, path)

    def peak_mib(self) -> float:
        """The most memory it has had."""
        return peak_bytes(self.process.pid) / (1 << 20)

    def descriptors(self) -> int:
        """How many it holds open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def is_up(self) -> bool:
        """Whether it runs and answers."""
        return self.process.poll() is None and self.status()["uptime_s"] >= 0

    def terminate(self) -> None:
        """What a service manager does first."""
        self.process.send_signal(signal.SIGTERM)

    def give_up(self) -> None:
        """End it, and every request that waits for it."""
        self.process.kill()
        if self.abort is not None:
            Path(self.abort).write_text("1")

    def stop(self) -> int:
        """Unmount and wait; the exit code."""
        clear(self.mountpoint)
        try:
            return self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.give_up()
            return self.process.wait(10)


@contextmanager
def serving(
    folder: Path,
    source: Path,
    *options: str,
    command: tuple[str, ...] = (),
    name: str = "m",
    given_up_s: float = GIVEN_UP_S,
) -> Iterator[Daemon]:
    """Mount `source` below `folder`; unmounted, ended and reaped at the end."""
    point = folder / name
    point.mkdir(exist_ok=True)
    log = folder / f"{name}.log"
    process = start(["mount", source, point, "--foreground", *options], log, command)
    daemon = Daemon(point, process, log)
    watchdog = threading.Timer(given_up_s, daemon.give_up)
    watchdog.daemon = True
    watchdog.start()
    try:
        wait_for(lambda: " is mounted" in daemon.text() or process.poll() is not None)
        assert process.poll() is None, daemon.text()
        mounted = kernel_mounts.mount_at(str(point))
        assert mounted is not None
        minor = mounted.device.partition(":")[2]
        if os.access(path := f"/sys/fs/fuse/connections/{minor}/abort", os.W_OK):
            daemon.abort = path
        yield daemon
    finally:
        watchdog.cancel()
        daemon.stop()


def wait_for(condition: Callable[[], object], within_s: float = ANSWER_WITHIN_S) -> None:
    """Wait until a condition holds; an `AssertionError` when it does not in time."""
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, f"not within {within_s} s"
        time.sleep(0.01)


def drop_caches() -> None:
    """Make the kernel forget names and inodes that are not in use."""
    if os.geteuid() != 0:
        pytest.skip("only root may drop caches")
    Path("/proc/sys/vm/drop_caches").write_text("2")
