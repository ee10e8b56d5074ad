"""What came with this zarrfuse, and its program. Used by the commands that install files of it."""

import sysconfig
from pathlib import Path

from zarrfuse.errors import ZarrfuseError

BY_SEARCH = "/usr/bin/env zarrfuse"
"""In these files, the program, which may be in a virtual environment."""


def shared_folder(name: str) -> Path:
    """A folder of `share/zarrfuse`. Raises `ZarrfuseError`."""
    folder = Path(sysconfig.get_path("data", _scheme()), "share/zarrfuse", name)
    if not folder.is_dir():
        raise ZarrfuseError(f"{folder} is missing: install zarrfuse again")
    return folder


def program() -> Path:
    """The program `zarrfuse` that was installed with this."""
    return Path(sysconfig.get_path("scripts", _scheme()), "zarrfuse")


def _scheme() -> str:
    """Where this was installed: beside its Python, or by `pip install --user`."""
    user = sysconfig.get_preferred_scheme("user")
    if Path(__file__).is_relative_to(sysconfig.get_path("purelib", user)):
        return user
    return sysconfig.get_default_scheme()
