"""The processes that decode chunks, as tests look at them."""

import os
import re
from pathlib import Path


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
