"""Files of a view, found and read in process as a mount does it: by one folder after the other."""

from collections.abc import Iterator
from contextlib import contextmanager

from zarrfuse.stores.base import Reader
from zarrfuse.views.base import Folder


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
