"""What lies in a folder of a zarr-python store, which names its children without saying what they are.

Used by `requests`, for stores of which nothing more is known than zarr-python's interface; `libraries` has
the others.

A name is a folder if anything is below it. A store that holds its names in memory says so in one pass. Any
other is asked what is below a name, but not for each: a folder of chunks may hold 100,000. Of more than
32 names that differ only in their numbers (`17`, `17.tiff`, `c.0.17`) three are asked for, and all if these
three are not alike.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Coroutine, Iterable, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, TypeVar

from zarrfuse.errors import NotFound
from zarrfuse.stores.remote.requests import Found, Listing

if TYPE_CHECKING:
    from zarr.abc.store import Store

T = TypeVar("T")

_AT_ONCE = 16
_ALL_ASKED = 32
_DOCUMENTS = frozenset({"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"})
_NUMBER = re.compile("[0-9]+")


async def listed(store: "Store", path: str) -> Listing:
    """The names in a folder; sizes of a `MemoryStore` only, where they cost nothing.

    Raises `NotFound` for a folder with nothing in it, unless it is the root.
    """
    from zarr.storage import MemoryStore, ZipStore  # noqa: PLC0415  # takes 0.3 s

    if isinstance(store, MemoryStore | ZipStore):
        files, folders = await _in_one_pass(store, path)
    else:
        files, folders = await _asked(store, path)
    if path and not files and not folders:
        raise NotFound(f"no key {path}")
    found: dict[str, Found | None] = dict.fromkeys(files)
    if isinstance(store, MemoryStore):
        for name in files:
            with suppress(FileNotFoundError):  # deleted meanwhile
                size = await store.getsize(f"{path}/{name}" if path else name)
                found[name] = Found(size, 0, None)
    return listing(found, folders)


def listing(files: dict[str, Found | None], folders: Iterable[str]) -> Listing:
    """A listing of names that can be names of files, sorted. A file hides a folder of its name."""
    return Listing(
        {name: files[name] for name in sorted(files) if is_name(name)},
        sorted(name for name in set(folders) if is_name(name) and name not in files),
    )


def is_name(name: str) -> bool:
    """Whether a file system can show a name."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


async def _in_one_pass(store: "Store", path: str) -> tuple[set[str], set[str]]:
    prefix = f"{path}/" if path else ""
    files: set[str] = set()
    folders: set[str] = set()
    async for key in store.list_prefix(prefix):
        name, below, _ = key[len(prefix) :].partition("/")
        (folders if below else files).add(name)
    return files, folders


async def _asked(store: "Store", path: str) -> tuple[set[str], set[str]]:
    files: set[str] = set()
    folders: set[str] = set()
    alike: dict[str, list[str]] = {}
    async for given in store.list_dir(path):
        name = given.rstrip("/")
        if name in _DOCUMENTS:
            files.add(name)
        elif given.endswith("/"):
            folders.add(name)
        elif is_name(name):
            alike.setdefault(_NUMBER.sub("0", name), []).append(name)
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def is_folder(name: str) -> bool:
        async with at_once:
            return await _has_any(store, f"{path}/{name}" if path else name)

    async def sort(names: Sequence[str]) -> None:
        if len(names) > _ALL_ASKED:
            some = names[0], names[len(names) // 2], names[-1]
            kinds = await _gathered(map(is_folder, some))
            if len(set(kinds)) == 1:
                (folders if kinds[0] else files).update(names)
                return
        for name, kind in zip(names, await _gathered(map(is_folder, names)), strict=True):
            (folders if kind else files).add(name)

    await _gathered(map(sort, alike.values()))
    return files, folders


async def _gathered(asked: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """The results of coroutines that run at once; the first that fails ends the others."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in asked]
    return [task.result() for task in tasks]


async def _has_any(store: "Store", path: str) -> bool:
    names = store.list_dir(path)
    if isinstance(names, AsyncGenerator):  # which would else be closed whenever it is collected
        async with aclosing(names):
            async for _ in names:
                return True
        return False
    async for _ in names:
        return True
    return False
