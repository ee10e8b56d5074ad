"""The command `install-desktop`: actions of file managers, types of files, an icon. Used by `app`.

Owns which files are ours, by a line in each, and that they run this `zarrfuse`.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from zarrfuse.cli.installed import BY_SEARCH, program, shared_folder
from zarrfuse.cli.saying import say
from zarrfuse.errors import ZarrfuseError
from zarrfuse.mounts.settings_files import replace

_MARK = "Written by zarrfuse install-desktop"


def install_desktop(
    uninstall: Annotated[
        bool, typer.Option("--uninstall", help="Remove what this command has installed.")
    ] = False,
) -> None:
    """Add `Mount with zarrfuse` to the file managers.

    Of this user; also types and an icon of zipped Zarr files.
    """
    from zarrfuse.cli.thunar import add_actions, remove_actions  # noqa: PLC0415  # it imports XML

    data_home, config_home = (
        _home("XDG_DATA_HOME", ".local/share"),
        _home("XDG_CONFIG_HOME", ".config"),
    )
    source = shared_folder("desktop")
    paths = [path for path in sorted((source / "data").rglob("*")) if path.is_file()]
    targets = {path: data_home / path.relative_to(source / "data") for path in paths}
    if uninstall:
        for target in filter(_is_ours, targets.values()):
            target.unlink()
            say(f"removed {target}")
        _refresh(data_home)
        changed = remove_actions(config_home)
        if changed is not None:
            say(f"removed the actions in {changed}")
        return
    for target in targets.values():
        if target.exists() and not _is_ours(target):
            raise ZarrfuseError(f"{target} is not of zarrfuse: move it away")
    if shutil.which("thunar") or (config_home / "Thunar").exists():
        text = (source / "thunar.xml").read_text(encoding="utf-8")
        say(f"added actions to {add_actions(_with_program(text, in_xml=True), config_home)}")
    for path, target in targets.items():
        replace(target, _with_program(path.read_text(encoding="utf-8")).encode())
        target.chmod(0o755 if os.access(path, os.X_OK) else 0o644)
        say(f"wrote {target}")
    _refresh(data_home)
    say("next: start file managers again that are running (thunar -q, nautilus -q, nemo -q)")


def _home(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / default)


def _is_ours(path: Path) -> bool:
    return path.exists() and _MARK in path.read_text(encoding="utf-8", errors="replace")


def _with_program(text: str, *, in_xml: bool = False) -> str:
    """A file with the path of this program, quoted so that shells, desktop entries and Thunar read it."""
    from html import escape  # noqa: PLC0415  # of use here alone

    path = str(program())
    if re.search(r'["$`\\%\n]', path):
        raise ZarrfuseError(
            f"{path} can't be named in desktop files: install zarrfuse in a folder without \" $ ` \\ %"
        )
    quoted = path if re.fullmatch(r"[\w@+=:,./-]+", path, re.ASCII) else f'"{path}"'
    return text.replace(BY_SEARCH, escape(quoted, quote=False) if in_xml else quoted)


def _refresh(data_home: Path) -> None:
    """Have the desktop read types and programs anew."""
    for name, package, folder in (
        ("update-mime-database", "shared-mime-info", "mime"),
        ("update-desktop-database", "desktop-file-utils", "applications"),
    ):
        if not (data_home / folder).exists():
            continue
        if shutil.which(name) is None:
            say(
                f"{name} is missing: types of files need the package {package}, then run this again"
            )
            continue
        done = subprocess.run(
            [name, data_home / folder], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ZarrfuseError(f"{name} failed: {done.stderr.strip()}")
    icons = data_home / "icons/hicolor"
    if icons.exists():
        os.utime(icons)  # what tells GTK that there are others
