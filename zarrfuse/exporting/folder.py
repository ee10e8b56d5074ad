"""The folder that is exported to: files appear whole, and an interrupted export can go on.

    FOLDER/.zarrfuse/export.json   what is exported; it marks an unfinished export
    FOLDER/.zarrfuse/*.tmp         files that are being written
    FOLDER/c/0/1.tiff, .index      renamed from there, the index last: with it, a file is complete
    FOLDER/zarr.json               renamed from there when all files are complete

Used by `run`. It must not know what is in the files.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from zarrfuse.errors import ZarrfuseError
from zarrfuse.shards.documents import INDEX_SUFFIX, document_bytes
from zarrfuse.shards.index import index_size, parse_index
from zarrfuse.shards.layout import MISSING
from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.descriptor import sync_file_system

_RECORD = "export.json"
_DOCUMENT = "zarr.json"


class FolderTaken(ZarrfuseError):
    """The folder holds something else."""


class ExportFolder:
    """A folder with an unfinished export, made by `begun`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._own = path / OWN_NAME

    def is_complete(self, key: str, suffixes: Sequence[str], grid: Sequence[int]) -> bool:
        """Whether a file with an index of this grid was written whole; `suffixes`: of its parts in order.

        Sizes and checksums are looked at, because names may outlive a power cut without their bytes.
        """
        try:
            index = np.fromfile(f"{self._path / key}{INDEX_SUFFIX}", np.uint8)
            present = sum(os.stat(f"{self._path / key}{suffix}").st_size for suffix in suffixes)
        except FileNotFoundError:
            return False
        if len(index) != index_size(grid):
            return False
        parsed = parse_index(index, checksums=1, big_endian=False)
        if parsed is None:
            return False
        offsets, sizes = (numbers[parsed[0] != MISSING] for numbers in parsed)
        return present >= int((offsets + sizes).max(initial=np.uint64(0)))

    @contextmanager
    def new_file(self, key: str) -> Iterator[BinaryIO]:
        """An empty file for a block; it is stored under `key` if the block raises nothing."""
        temporary = self._own / f"{key.replace('/', '~')}.tmp"
        with temporary.open("w+b") as file:
            yield file
        target = self._path / key
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.rename(target)

    def finish(self, document: dict[str, Any]) -> None:
        """Store the `zarr.json`, after all files: then it is a Zarr array."""
        sync_file_system(os.fspath(self._path))
        with self.new_file(_DOCUMENT) as file:
            file.write(document_bytes(document))
            file.flush()
            os.fsync(file.fileno())
        shutil.rmtree(self._own)


@contextmanager
def begun(path: str | os.PathLike[str], record: dict[str, Any]) -> Iterator[ExportFolder]:
    """The folder for an export, which is locked for the length of a block.

    `record`: what is exported, as JSON. Raises `FolderTaken` if the folder holds anything else than an
    unfinished export with the same record.
    """
    folder = Path(path)
    own = folder / OWN_NAME
    names = _names(folder)
    text = json.dumps(record, sort_keys=True, indent=1) + "\n"
    if names and not (own / _RECORD).is_file():
        if names != [OWN_NAME] or any(name != f"{_RECORD}.tmp" for name in _names(own)):
            raise FolderTaken(f"{folder} is not empty: name a new folder")
        names = []  # it was interrupted before it began
    if not names:
        own.mkdir(parents=True, exist_ok=True)
        new = own / f"{_RECORD}.tmp"
        new.write_text(text, encoding="utf-8")
        new.rename(own / _RECORD)
    with (own / _RECORD).open(encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderTaken(f"another process is exporting to {folder}") from None
        if file.read() != text:
            raise FolderTaken(
                f"{folder} has an unfinished export of another array, or with other options: "
                "delete it, or name a new folder"
            )
        for left in own.glob("*.tmp"):
            left.unlink()
        yield ExportFolder(folder)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise FolderTaken(f"{folder} is a file: name a new folder") from None
