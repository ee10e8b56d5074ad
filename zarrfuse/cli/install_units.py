"""The command `install-units`: copies the units of systemd to where it looks for them. Used by `app`.

Owns that they run this `zarrfuse`, which may be in a virtual environment.
"""

import os
from pathlib import Path
from typing import Annotated

import typer

from zarrfuse.cli.installed import BY_SEARCH, program, shared_folder
from zarrfuse.cli.saying import say
from zarrfuse.errors import ZarrfuseError


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
    for source in sorted((shared_folder("systemd") / kind).iterdir()):
        text = source.read_text().replace(BY_SEARCH, str(program()))
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


def _user_folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "systemd/user")
