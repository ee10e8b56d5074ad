"""The command `install-units`: copies the units of systemd to where it looks for them. Used by `app`.

Owns that they run this `zarrfuse`, which may be in a virtual environment, and which of them nobody has
changed: the first line of each has a checksum of the others.
"""

import hashlib
import os
import re
from pathlib import Path
from typing import Annotated

import typer

from zarrfuse.cli.installed import BY_SEARCH, program, shared_folder
from zarrfuse.cli.saying import say
from zarrfuse.errors import ZarrfuseError
from zarrfuse.mounts.settings_files import replace

_MARK = b"# Written by zarrfuse install-units, which replaces it unless it was changed: sha256 "


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
        text = source.read_text(encoding="utf-8").replace(BY_SEARCH, _quoted(program())).encode()
        path = target / source.name
        if path.exists() and not _is_unchanged(path.read_bytes()):
            raise ZarrfuseError(
                f"{path} exists with other lines: move it away, and put your own into {path}.d/local.conf"
            )
        written.append((path, signed(text)))
    for path, unit in written:
        replace(path, unit)
        path.chmod(0o644)
        say(f"wrote {path}")
    systemctl = "systemctl --user" if user else "systemctl"
    config = "~/.config/zarrfuse" if user else "/etc/zarrfuse"
    say(
        f"next: {systemctl} daemon-reload && {systemctl} enable --now zarrfuse@NAME ({config}/NAME.toml)"
    )


def signed(text: bytes) -> bytes:
    """A unit, with the line by which a later `zarrfuse` sees that nobody changed it."""
    return _MARK + hashlib.sha256(text).hexdigest().encode() + b"\n" + text


def _is_unchanged(unit: bytes) -> bool:
    return unit == signed(unit.partition(b"\n")[2])


def _quoted(path: Path) -> str:
    """A program as `ExecStart=` takes it. Raises `ZarrfuseError`."""
    if re.fullmatch(r"[\w@+=:,./-]+", str(path), re.ASCII):
        return str(path)
    if re.search(r"[\"'\\\x00-\x1f]", str(path)):  # systemd refuses them in any quotes
        raise ZarrfuseError(
            f"{path} can't be named in units: install zarrfuse in a folder without \" ' \\"
        )
    return '"' + str(path).replace("%", "%%") + '"'


def _user_folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "systemd/user")
