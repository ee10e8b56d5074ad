"""Which processes a mount has left, found by their command lines."""

import os
import time
from pathlib import Path

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
