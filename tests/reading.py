"""Views opened in process; their files found and read as a mount does it, by one folder after another."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fakes import MemoryStore

from zarrfuse.stores.base import Reader, Store
from zarrfuse.views.base import Folder
from zarrfuse.views.choice import open_view


def view_of(
    kind: str, source: Mapping[str, bytes] | Store, ttl_s: float = 0, **options: Any
) -> Folder:
    """The root of a view of a store, or of one in memory with these keys."""
    store = MemoryStore(source) if isinstance(source, Mapping) else source
    return open_view(kind, store, ttl_s, **options)


def folder_at(root: Folder, path: str) -> Folder:
    for name in path.split("/") if path else ():
        root = root.child(name)
    return root


@contextmanager
def opened(root: Folder, path: str) -> Iterator[Reader]:
    folder, _, name = path.rpartition("/")
    reader = folder_at(root, folder).open(name)
    try:
        yield reader
    finally:
        reader.close()


def read(reader: Reader, offset: int, size: int) -> bytes:
    buffer = bytearray(size)
    if buffer:
        reader.readinto(memoryview(buffer), offset)
    return bytes(buffer)


def whole(root: Folder, path: str) -> bytes:
    """All bytes of a file, which are as many as a listing says."""
    folder, _, name = path.rpartition("/")
    with opened(root, path) as reader:
        data = read(reader, 0, reader.size)
    assert folder_at(root, folder).lookup(name).size == len(data)
    return data
