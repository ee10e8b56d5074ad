"""Fixtures for all tests: the demo dataset, real mounts, and the check that nothing is left behind.

Every mount is served by a process of its own: a test that reads a mount from the process that
serves it would wait for itself.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from zarrfuse import mounts
from zarrfuse.dataset import write_demo

COMMAND = (sys.executable, "-m", "zarrfuse")
ANSWER_WITHIN_S = 30

Mounter = Callable[..., Path]


def zarrfuse(*arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run the `zarrfuse` command as a person would."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=ANSWER_WITHIN_S,
    )
    if check and done.returncode:
        raise AssertionError(f"zarrfuse {arguments} exited {done.returncode}: {done.stderr}")
    return done


def clear(mountpoint: Path) -> None:
    """Unmount whatever is at or below a path, without touching it."""
    for mount in reversed(mounts.mounts()):
        if Path(mount.mountpoint).is_relative_to(mountpoint):
            subprocess.run(
                ["fusermount3", "-u", "-z", mount.mountpoint],
                check=False,
                capture_output=True,
                timeout=60,
            )


@dataclass
class Daemon:
    """A mount in the foreground, with its process and what it logged."""

    mountpoint: Path
    process: subprocess.Popen[bytes]
    log: Path

    def text(self) -> str:
        """What it logged until now."""
        return self.log.read_text(errors="replace")

    def stop(self) -> int:
        """Unmount and wait; the exit code."""
        clear(self.mountpoint)
        try:
            return self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait(10)


@pytest.fixture(scope="session", autouse=True)
def nothing_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails the run, after cleaning up, if a test left a mount."""
    base = tmp_path_factory.getbasetemp()
    yield
    left = [m.mountpoint for m in mounts.mounts() if Path(m.mountpoint).is_relative_to(base)]
    clear(base)
    assert not left, f"tests left these mounts: {left}"


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo dataset; not to be written."""
    folder = tmp_path_factory.mktemp("dataset") / "demo"
    write_demo(folder)
    return folder


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Mounter]:
    """`mounted(source, *options)` mounts in the background, as `zarrfuse mount` does; the mountpoint."""
    points: list[Path] = []

    def mount(source: Path, *options: str) -> Path:
        point = tmp_path / f"mnt{len(points)}"
        point.mkdir()
        points.append(point)
        zarrfuse("mount", source, point, *options)
        return point

    yield mount
    for point in reversed(points):
        if mounts.mount_at(str(point)) is not None:
            done = zarrfuse("unmount", point, check=False)
            clear(point)
            assert done.returncode == 0, done.stderr


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    """`served(source, *options, command=...)` mounts in the foreground; the daemon."""
    daemons: list[Daemon] = []

    def serve(source: Path, *options: str, command: tuple[str, ...] = COMMAND) -> Daemon:
        point = tmp_path / f"served{len(daemons)}"
        point.mkdir(exist_ok=True)
        log = tmp_path / f"served{len(daemons)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, "mount", str(source), str(point), "--foreground", *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        daemon = Daemon(point, process, log)
        daemons.append(daemon)
        wait_for(lambda: " is mounted" in daemon.text() or process.poll() is not None)
        assert process.poll() is None, daemon.text()
        return daemon

    yield serve
    for daemon in reversed(daemons):
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
