"""Stores of the keys in a folder: the folder itself, or a zip of it beside it."""

import zipfile
from pathlib import Path

from builders.folders import zip_folder
from zarrfuse.stores.base import Store
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.stores.zip.store import ZipStore


def local(folder: Path) -> Store:
    return LocalStore(str(folder))


def zip_stored(folder: Path) -> Store:
    """A zip without compression."""
    return _zip(folder, ".zip", zipfile.ZIP_STORED)


def zip_deflated(folder: Path) -> Store:
    return _zip(folder, ".ozx", zipfile.ZIP_DEFLATED)


def _zip(folder: Path, ending: str, method: int) -> Store:
    file = folder.with_suffix(ending)
    zip_folder(folder, file, method)
    return ZipStore(str(file))
