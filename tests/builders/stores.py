"""Stores of the keys in a folder: the folder itself, or a zip beside it; and bytes put into stores."""

import tempfile
import zipfile
from pathlib import Path
from typing import Any

from builders.folders import zip_folder
from zarrfuse.stores.base import Store, WritableStore
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.stores.zip.store import ZipStore


def local(folder: Path) -> Store:
    return LocalStore(str(folder))


def zip_stored(folder: Path) -> Store:
    """A zip without compression."""
    return _zip(folder, ".zip", zipfile.ZIP_STORED)


def zip_deflated(folder: Path) -> Store:
    return _zip(folder, ".ozx", zipfile.ZIP_DEFLATED)


def put_bytes(store: WritableStore, key: str, data: bytes, **options: Any) -> None:
    """Store bytes under a key, whole; the options are those of `put`."""
    with tempfile.TemporaryFile() as source:
        source.write(data)
        source.flush()
        store.put(key, source.fileno(), 0, len(data), **options)


def _zip(folder: Path, ending: str, method: int) -> Store:
    file = folder.with_suffix(ending)
    zip_folder(folder, file, method)
    return ZipStore(str(file))
