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
            command = (process / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue
        is_ours = re.search(rf"^PPid:\t{parent or os.getpid()}$", status, re.MULTILINE)
        if is_ours and b"zarrfuse.decoding.worker" in command:
            found.append(process)
    return found
