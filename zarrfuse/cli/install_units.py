"""The command `install-units`: copies the units of systemd to where it looks for them. Used by `app`.

Owns that they run this `zarrfuse`, which may be in a virtual environment.
"""

import os
import sys
import sysconfig
from pathlib import Path
from typing import Annotated

import typer

from zarrfuse.cli.saying import say
from zarrfuse.errors import ZarrfuseError

_BY_SEARCH = "/usr/bin/env zarrfuse"


def install_units(
    user: Annotated[
        bool, typer.Option("--user", help="For the services of this user, not of the system.")
    ] = False,
) -> None:
    """Install units of systemd, which mount at boot or login.

    What they mount is in files of configuration.
    """
    kind = "user" if user else "system"
    target = _user_folder() if user else Path("/etc/systemd/system")
    written = []
    for source in sorted((_folder() / kind).iterdir()):
        text = source.read_text().replace(_BY_SEARCH, str(_program()))
        path = target / source.name
        if path.exists() and path.read_text() != text:
            raise ZarrfuseError(
                f"{path} exists with other lines: move it away, and put your own into {path}.d/local.conf"
            )
        written.append((path, text))
    target.mkdir(parents=True, exist_ok=True)
    for path, text in written:
        path.write_text(text)
        say(f"wrote {path}")
    systemctl = "systemctl --user" if user else "systemctl"
    config = "~/.config/zarrfuse" if user else "/etc/zarrfuse"
    say(
        f"next: {systemctl} daemon-reload && {systemctl} enable --now zarrfuse@NAME ({config}/NAME.toml)"
    )


def _folder() -> Path:
    """The units that this zarrfuse was installed with."""
    folder = Path(sysconfig.get_path("data"), "share/zarrfuse/systemd")
    if not folder.is_dir():
        raise ZarrfuseError(f"{folder} is missing: install zarrfuse again")
    return folder


def _program() -> Path:
    return Path(sys.executable).with_name("zarrfuse")


def _user_folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "systemd/user")
