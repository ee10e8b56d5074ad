"""Fixtures for all tests: the demo dataset, real kernel_mounts, and the check that nothing is left behind.

Every mount is served by a process of its own: a test that reads a mount from the process that
serves it would wait for itself.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
from builders.mounts import (
    ENVIRONMENT,
    Daemon,
    clear,
    drop_caches,
    mounting,
    serving,
    wait_for,
    zarrfuse,
)
from builders.object_server import bucket, object_server

from zarrfuse.cli.demo_dataset import write_demo
from zarrfuse.mounts import kernel_mounts

__all__ = ["bucket", "clear", "drop_caches", "object_server", "wait_for", "zarrfuse"]

pytest_plugins = ("sampling", "fuse_connections")

Mounter = Callable[..., Path]


@pytest.fixture(scope="session", autouse=True)
def folder_of_states(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Logs of daemons in the background are not written to that of the user."""
    states = str(tmp_path_factory.mktemp("states"))
    os.environ["XDG_STATE_HOME"] = ENVIRONMENT["XDG_STATE_HOME"] = states


@pytest.fixture(scope="session", autouse=True)
def nothing_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails the run, after cleaning up, if a test left a mount."""
    base = tmp_path_factory.getbasetemp()
    yield
    left = [m.mountpoint for m in kernel_mounts.mounts() if Path(m.mountpoint).is_relative_to(base)]
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
    with ExitStack() as stack:
        numbers = count()

        def mount(source: Path, *options: str) -> Path:
            point = tmp_path / f"mnt{next(numbers)}"
            return stack.enter_context(mounting(source, point, *options))

        yield mount


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    """`served(source, *options, command=...)` mounts in the foreground; the daemon."""
    with ExitStack() as stack:
        numbers = count()

        def serve(source: Path, *options: str, command: tuple[str, ...] = ()) -> Daemon:
            name = f"served{next(numbers)}"
            return stack.enter_context(
                serving(tmp_path, source, *options, command=command, name=name)
            )

        yield serve
