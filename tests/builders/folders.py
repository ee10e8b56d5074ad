"""Folders and zips with the keys of a store, written as another program would write them."""

import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

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
