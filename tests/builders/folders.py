"""Folders and zips with the keys of a store, written as another program would write them."""

import os
import stat
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from zarrfuse.stores.base import OWN_NAME

NEWEST_NS = 1_700_000_000_000_000_000
"""The modification time that `write_keys` gives the last key; each one before is 2 s older."""


def write_keys(root: Path, keys: Mapping[str, bytes]) -> None:
    """Write a folder of these keys, each 2 s newer than the one before; the last at `NEWEST_NS`."""
    for age, (key, data) in enumerate(reversed(keys.items())):
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        mtime_ns = NEWEST_NS - age * 2_000_000_000
        os.utime(path, ns=(mtime_ns, mtime_ns))


def write_files(root: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a folder; their times are those of now."""
    for key, data in files.items():
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def files_below(root: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def stored_files(root: Path) -> dict[str, bytes]:
    """Every file of a store but those of zarrfuse's own folder."""
    return {key: data for key, data in files_below(root).items() if key.split("/")[0] != OWN_NAME}


def owner_and_mode(path: Path) -> tuple[int, int, int]:
    """Owner, group and mode; of a symlink those of its own."""
    status = path.lstat()
    return status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)


def zip_folder(folder: Path, file: Path, method: int = zipfile.ZIP_STORED) -> None:
    """Write all files below `folder` into the zip `file`."""
    with zipfile.ZipFile(file, "w", method) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))


@pytest.fixture
def stored(tmp_path: Path) -> Callable[[Mapping[str, bytes]], Path]:
    """`stored(keys)` writes the folder `tmp_path / "store"` of these keys; its path."""

    def write(keys: Mapping[str, bytes]) -> Path:
        root = tmp_path / "store"
        root.mkdir(exist_ok=True)
        write_keys(root, keys)
        return root

    return write
