"""Which processes a mount has left, found by their command lines."""

import os
from pathlib import Path


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
