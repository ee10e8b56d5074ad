"""What came with this zarrfuse, and its program. Used by the commands that install files of it."""

import sys
import sysconfig
from pathlib import Path

from zarrfuse.errors import ZarrfuseError

BY_SEARCH = "/usr/bin/env zarrfuse"
"""In these files, the program, which may be in a virtual environment."""


def shared_folder(name: str) -> Path:
    """A folder of `share/zarrfuse`. Raises `ZarrfuseError`."""
    folder = Path(sysconfig.get_path("data"), "share/zarrfuse", name)
    if not folder.is_dir():
        raise ZarrfuseError(f"{folder} is missing: install zarrfuse again")
    return folder


def program() -> Path:
    """The program `zarrfuse` that runs this."""
    return Path(sys.executable).with_name("zarrfuse")
