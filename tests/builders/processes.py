"""Processes of mounts, found by their command lines: daemons, and those that decode chunks."""

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_MAY_TAKE_TO_END_S = 20


def assert_ended(path: Path) -> None:
    """A daemon ends a moment after its mount has gone."""
    end = time.monotonic() + _MAY_TAKE_TO_END_S
    while (left := processes_about(path)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not left, f"these processes are left: {left}"


def processes_about(path: Path) -> dict[int, str]:
    """Living processes that have `path` in their command line, without this one."""
    found = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                command = (process / "cmdline").read_bytes()
            except OSError:
                continue  # ended meanwhile
            if os.fsencode(path) in command:
                found[int(process.name)] = command.replace(b"\0", b" ").decode(errors="replace")
    return found


def open_files(folder: Path | None = None) -> dict[str, str]:
    """What the descriptors of this process lead to; only those into a folder, if one is given."""
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the descriptor of the listing
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
    return {
        fd: path for fd, path in found.items() if folder is None or path.startswith(str(folder))
    }


def peak_bytes(process: int | str = "self") -> int:
    """The most memory that a process has had."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) << 10 if found else 0  # none is said of one that has ended


def decoders(parent: int | None = None) -> list[Path]:
    """The folders in `/proc` of those that decode for a process, by default this one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            status = (process / "status").read_text()
            if not re.search(rf"^PPid:\t{parent or os.getpid()}$", status, re.MULTILINE):
                continue  # to read the command of any process may take as long as that likes
            command = (process / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue
        if b"zarrfuse.decoding.worker" in command:
            found.append(process)
    return found


@pytest.fixture(scope="module", autouse=True)
def no_process_left_by_a_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails after a module if a process of its shared mounts is still alive."""
    base = tmp_path_factory.getbasetemp()
    before = set(base.iterdir())
    yield
    for path in set(base.iterdir()) - before:
        assert_ended(path)


@pytest.fixture(autouse=True)
def no_process_left(tmp_path: Path) -> Iterator[None]:
    """Fails a test if a process with the test's folder in its command line is still alive."""
    yield
    assert_ended(tmp_path)
