"""Views opened in process: their files are found, read and written as a mount does it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from builders.fake_stores import MemoryStore
from zarrfuse.errors import Exists
from zarrfuse.stores.base import Reader, Store, is_live
from zarrfuse.transactions.working_copy import WorkingCopy
from zarrfuse.views.base import Folder, Writer
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


class Written:
    """A file that is open to be written, and the name under which it is stored."""

    def __init__(self, folder: Folder, name: str, content: Writer) -> None:
        self.content = content
        self._folder = folder
        self._name = name
        self.readinto, self.write, self.truncate = content.readinto, content.write, content.truncate
        self.change, self.close = content.change, content.close

    @property
    def is_live(self) -> bool:
        """Whether it is the stored file itself."""
        return is_live(self.content)

    @property
    def size(self) -> int:
        """Bytes in it now."""
        return self.content.size

    @property
    def mtime_ns(self) -> int:
        """The time it was changed last."""
        return self.content.mtime_ns

    @property
    def changed(self) -> bool:
        """Whether it holds what has not been stored."""
        return isinstance(self.content, WorkingCopy) and self.content.changed

    def store(self, *, sync: bool = False) -> bool:
        """Store it, if it is changed; whether it was."""
        copy = self.content
        if not isinstance(copy, WorkingCopy) or not copy.changed:
            if sync:
                copy.sync()
            return False
        self._folder.store(self._name, copy, sync=sync)
        return True


def created(folder: Folder, name: str, *, exclusive: bool = False) -> Written:
    """A new, empty file, or, unless `exclusive`, one that is there, emptied."""
    try:
        return Written(folder, name, folder.create(name, exclusive=exclusive))
    except Exists:
        if exclusive:
            raise
        return opened_to_write(folder, name, truncate=True)


def opened_to_write(folder: Folder, name: str, *, truncate: bool = False) -> Written:
    """A file that is there, or, with `truncate`, nothing of it."""
    written = Written(folder, name, folder.write(name))
    if truncate:
        written.truncate(0)
    return written


def filled(written: Written, data: bytes, *, sync: bool = False) -> None:
    """Write all of a file, store and close it."""
    try:
        written.write(data, 0)
        written.store(sync=sync)
    finally:
        written.close()
