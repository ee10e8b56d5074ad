"""Views opened in process, and what they show: found and read as a mount does it."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from builders.fake_stores import MemoryStore
from builders.readers import read_all
from zarrfuse.errors import NotFound
from zarrfuse.stores.base import Kind, Reader, Store
from zarrfuse.views.base import Folder
from zarrfuse.views.choice import open_view

FOREVER = math.inf
"""A time to live: what was seen is not looked up again."""


def view_of(
    kind: str, source: Mapping[str, bytes] | Store, ttl_s: float = 0, **options: Any
) -> Folder:
    """The root of a view of a store, or of one in memory with these keys."""
    store = MemoryStore(source) if isinstance(source, Mapping) else source
    return open_view(kind, store, ttl_s, **options)


def folder_at(root: Folder, path: str) -> Folder:
    """The folder at a path, found by one child after another; the root itself without a path."""
    for name in path.split("/") if path else ():
        root = root.child(name)
    return root


def parent_at(root: Folder, path: str) -> tuple[Folder, str]:
    """The folder that holds a path, and the name in it."""
    folder, _, name = path.rpartition("/")
    return folder_at(root, folder), name


@contextmanager
def opened(root: Folder, path: str) -> Iterator[Reader]:
    """The file at a path, open to be read."""
    folder, name = parent_at(root, path)
    reader = folder.open(name)
    try:
        yield reader
    finally:
        reader.close()


def content_of(root: Folder, path: str) -> bytes:
    """All bytes of the file at a path, as many as its listing says."""
    with opened(root, path) as reader:
        data = read_all(reader)
    folder, name = parent_at(root, path)
    assert folder.lookup(name).size == len(data)
    return data


def names_in(root: Folder, path: str = "") -> set[str]:
    """What the folder at a path lists."""
    return set(folder_at(root, path).list())


def is_there(root: Folder, path: str) -> bool:
    """Whether a path can be looked up."""
    folder, name = parent_at(root, path)
    try:
        folder.lookup(name)
    except NotFound:
        return False
    return True


def tree_of(folder: Folder) -> dict[str, bytes | None]:
    """Every path below a folder with its bytes; None for an empty folder. Each name is looked up, too."""
    found: dict[str, bytes | None] = {}
    for name, entry in folder.list().items():
        path = f"{folder.path}/{name}" if folder.path else name
        assert folder.lookup(name) == entry
        if entry.kind is Kind.FOLDER:
            found |= tree_of(folder.child(name)) or {path: None}
        else:
            found[path] = content_of(folder, name)
    return found
