"""Fixtures for all tests: the demo dataset, real mounts, and the check that nothing is left behind.

Every mount is served by a process of its own: a test that reads a mount from the process that
serves it would wait for itself.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mounting import Daemon, clear, drop_caches, start, wait_for, zarrfuse
from object_server import bucket, object_server

from zarrfuse import mounts
from zarrfuse.dataset import write_demo

__all__ = ["bucket", "clear", "drop_caches", "object_server", "wait_for", "zarrfuse"]

pytest_plugins = ("sampling", "fuse_connections")

Mounter = Callable[..., Path]


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

    def serve(source: Path, *options: str, command: tuple[str, ...] = ()) -> Daemon:
        point = tmp_path / f"served{len(daemons)}"
        point.mkdir(exist_ok=True)
        log = tmp_path / f"served{len(daemons)}.log"
        process = start(["mount", source, point, "--foreground", *options], log, command)
        daemon = Daemon(point, process, log)
        daemons.append(daemon)
        wait_for(lambda: " is mounted" in daemon.text() or process.poll() is not None)
        assert process.poll() is None, daemon.text()
        return daemon

    yield serve
    for daemon in reversed(daemons):
        daemon.stop()
