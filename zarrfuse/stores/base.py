"""What a store is: the one small protocol that everything above reads bytes through.

A key is a `str` of `/`-separated names without a leading slash; `""` is the root folder. Names that
are not UTF-8 carry surrogates, as `os.fsdecode` makes them. Every method may be called from any
thread, and raises an exception of `zarrfuse.errors` or an `OSError`.

**`wait`.** A method with `wait=False` answers only from what is at hand (memory, the page cache, the
kernel's name cache) and raises `BlockingIOError` otherwise. The mount asks that way first, from its
event loop, and asks again in a thread: a hop to a thread costs more than most answers do.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from stat import S_IFDIR, S_IFLNK, S_IFREG
from typing import Protocol

import msgspec


class Kind(IntEnum):
    """What a name stands for; the values are the file type bits of `st_mode`."""

    FILE = S_IFREG
    FOLDER = S_IFDIR
    LINK = S_IFLNK


class Entry(msgspec.Struct, gc=False):
    """One name in a folder. A struct in C: a folder of 100,000 is made in one pass, and time counts.

    `size` is in bytes (0 for a folder), `mtime_ns` in nanoseconds since 1970. `denied` marks a name
    that is shown but that nobody may open (a symlink that leads out of the store).
    """

    name: str
    kind: Kind
    size: int
    mtime_ns: int
    denied: bool = False


class Reader(Protocol):
    """An open key. `size` (bytes) and `mtime_ns` are those of the moment it was opened."""

    size: int
    mtime_ns: int

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """Fill all of `buffer` with the bytes from `offset` on.

        The caller asks for no byte at or behind `size`. Raises `Stale` when the stored object has
        become shorter or is another one, and `BlockingIOError` when `wait` is false and the bytes
        are not at hand (the buffer may then be partly filled).
        """

    def close(self) -> None:
        """Let go of what is held; reading afterwards is an error."""


class Store(Protocol):
    """Where bytes live. Implementations: `local.LocalStore`, `zip.ZipStore`."""

    permanent: bool
    """Whether what has been seen once stays as it is, so that kernels may keep it without limit."""

    def scan(self, folder: str) -> Iterator[Entry]:
        """All names of a folder with kinds, sizes and times, in one pass, as they are found.

        Raises `NotFound`, `NotAFolder`, `Denied` before the first one. FIFOs, sockets and devices
        are left out.
        """

    def list(self, folder: str) -> dict[str, Entry]:
        """What `scan` finds, by name."""
        return {entry.name: entry for entry in self.scan(folder)}

    def stat(self, key: str, *, wait: bool = True) -> Entry:
        """The entry of one key or folder. Raises `NotFound`; a file in the middle of a key is that too."""

    def open(self, key: str, *, wait: bool = True) -> Reader:
        """Open a key for reading. Raises `NotFound`, `Denied`."""

    def readlink(self, key: str) -> str:
        """Where a name of `Kind.LINK` points to: a relative path that stays in the store."""

    def space(self) -> tuple[int, int]:
        """(bytes in all, bytes free) of what the store lies on, for `statfs`."""

    def close(self) -> None:
        """Let go of everything; open readers may fail afterwards."""


@contextmanager
def opened(store: Store, key: str) -> Iterator[Reader]:
    """`store.open(key)`, closed at the end of the block."""
    reader = store.open(key)
    try:
        yield reader
    finally:
        reader.close()


def read(store: Store, key: str, *, limit: int | None = None) -> bytes:
    """All bytes of a key; for documents, not for chunks.

    With `limit` (bytes) a larger one raises `ValueError` before anything is read.
    """
    with opened(store, key) as reader:
        if limit is not None and reader.size > limit:
            raise ValueError(f"{key} has {reader.size} bytes, more than the {limit} that are read")
        buffer = bytearray(reader.size)
        if buffer:
            reader.readinto(memoryview(buffer), 0)
        return bytes(buffer)
