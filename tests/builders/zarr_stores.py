"""Stores of zarr-python with given keys, of each kind that there is."""

import asyncio
import itertools
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import zarr
from zarr.abc.store import Store
from zarr.core.buffer import cpu
from zarr.storage import (
    FsspecStore,
    LocalStore,
    LoggingStore,
    MemoryStore,
    ObjectStore,
    WrapperStore,
    ZipStore,
)

Keys = Mapping[str, bytes]
S = TypeVar("S", bound=Store)

_numbers = itertools.count()


def memory(keys: Keys, _: Path) -> MemoryStore:
    return MemoryStore({key: cpu.Buffer.from_bytes(data) for key, data in keys.items()})


def local(keys: Keys, folder: Path) -> LocalStore:
    for key, data in keys.items():
        at = folder / "local" / key
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_bytes(data)
    return LocalStore(folder / "local")


def zipped(keys: Keys, folder: Path) -> ZipStore:
    with zipfile.ZipFile(folder / "store.zip", "w") as archive:
        for key, data in keys.items():
            archive.writestr(key, data)
    return ZipStore(folder / "store.zip")


def fsspec_memory(keys: Keys, _: Path) -> FsspecStore:
    return filled(FsspecStore.from_url(f"memory://store-{next(_numbers)}"), keys)


def fsspec_local(keys: Keys, folder: Path) -> FsspecStore:
    local(keys, folder)
    return FsspecStore.from_url(f"file://{folder / 'local'}", storage_options={"auto_mkdir": True})


def obstore_memory(keys: Keys, _: Path) -> ObjectStore:
    from obstore.store import MemoryStore as InMemory

    return filled(ObjectStore(InMemory()), keys)


def wrapped(keys: Keys, folder: Path) -> WrapperStore:
    """One of which nothing but zarr-python's interface is known."""
    return WrapperStore(memory(keys, folder))


def logging(keys: Keys, folder: Path) -> LoggingStore:
    return LoggingStore(memory(keys, folder), log_level="ERROR")


KINDS: dict[str, Callable[[Keys, Path], Store]] = {
    "memory": memory,
    "local": local,
    "zip": zipped,
    "fsspec-memory": fsspec_memory,
    "fsspec-local": fsspec_local,
    "obstore-memory": obstore_memory,
    "wrapper": wrapped,
    "logging": logging,
}


def filled(store: S, keys: Keys) -> S:
    """A store with these keys in it."""

    async def fill() -> None:
        for key, data in keys.items():
            await store.set(key, cpu.Buffer.from_bytes(data))

    asyncio.run(fill())
    return store


def write_image(store: Store) -> None:
    """A group with an array `a` of 4 chunks of 8 bytes, and an empty group `b/c`."""
    root = zarr.group(store)
    array = root.create_array(
        "a", shape=(4, 8), chunks=(2, 4), dtype="uint8", compressors=None, fill_value=0
    )
    array[:] = [[10 * row + column for column in range(8)] for row in range(1, 5)]
    root.create_group("b/c")
