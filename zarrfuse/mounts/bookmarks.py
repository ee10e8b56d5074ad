"""Bookmarks of mounts in the side bar of file managers: lines of `gtk-3.0/bookmarks`.

    file:///run/user/1000/zarrfuse/cells.zarr cells.zarr (zarrfuse)

Used by `daemon`. Owns that lines of others stay as they are, and that the file is replaced whole. It knows
its own lines by their labels, which are made of the paths: a daemon that was killed leaves one behind.
"""

import fcntl
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote_from_bytes, unquote_to_bytes

from zarrfuse.mounts import kernel_mounts
from zarrfuse.mounts.settings_files import replace

_LABEL = " (zarrfuse)"
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


def add(mountpoint: str) -> None:
    """Bookmark a mount, unless the user has done that, and drop lines of ours that lead to no mount.

    Raises `OSError`.
    """
    mounted = {mount.mountpoint for mount in kernel_mounts.mounts()}

    def added(lines: list[bytes]) -> list[bytes]:
        kept = [line for line in lines if not _is_ours(line) or _path_of(line) in mounted]
        if mountpoint in map(_path_of, kept):
            return kept
        return [*kept, _line_of(mountpoint)]

    _change(added)


def remove(mountpoint: str) -> None:
    """Remove what `add` has added. Raises `OSError`."""
    _change(
        lambda lines: [
            line for line in lines if not (_is_ours(line) and _path_of(line) == mountpoint)
        ]
    )


def _file() -> Path:
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(config, "gtk-3.0/bookmarks")


def _change(changed: Callable[[list[bytes]], list[bytes]]) -> None:
    path = _file()
    with _locked(path.parent):
        # Without this file, file managers read that of GTK 2, which a new one would hide.
        source = path if path.exists() else Path.home() / ".gtk-bookmarks"
        text = source.read_bytes() if source.exists() else b""
        before = text.removesuffix(b"\n").split(b"\n") if text else []
        after = changed(before)
        if after != before:
            replace(path, b"".join(line + b"\n" for line in after))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other daemons out, two of which may be mounting at one time."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _line_of(mountpoint: str) -> bytes:
    uri = "file://" + quote_from_bytes(os.fsencode(mountpoint))
    return uri.encode() + b" " + _label_of(mountpoint)


def _label_of(mountpoint: str) -> bytes:
    label = _CONTROLS.sub("?", os.path.basename(mountpoint) or mountpoint) + _LABEL
    return label.encode(errors="replace")


def _is_ours(line: bytes) -> bool:
    path = _path_of(line)
    return path is not None and line.partition(b" ")[2] == _label_of(path)


def _path_of(line: bytes) -> str | None:
    """The folder of a bookmark; None if it is not on this machine."""
    uri = line.partition(b" ")[0]
    if not uri.startswith(b"file:///"):
        return None
    return os.fsdecode(unquote_to_bytes(uri.removeprefix(b"file://")))
