"""What the kernel has open: files and folders by handle. Used by `fuse`."""

import threading
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from zarrfuse.inodes import Directory
from zarrfuse.stores.base import Reader
from zarrfuse.views.base import Writer

T = TypeVar("T")


class Opening:
    """A name that is about to be opened to be written. `is_deleted`: the file was, meanwhile."""

    __slots__ = ("is_deleted", "named", "storing")

    def __init__(self, directory: Directory, name: str) -> None:
        self.named = directory, name
        self.is_deleted = False
        self.storing = threading.Lock()


class OpenFile:
    """A file that is open under one handle, or several. It is closed when the last call that was
    given up has come back too.

    Not earlier: a thread still at it would read from whatever file the kernel gave the same
    descriptor number next. `writer` is the reader, if it can be written; `is_refused`: it could not be
    stored as it is; `is_deleted`: its name was deleted since, so that it is not to be stored.
    """

    __slots__ = (
        "_calls",
        "_closing",
        "_lock",
        "handles",
        "inode",
        "is_broken",
        "is_counted",
        "is_deleted",
        "is_kept",
        "is_refused",
        "named",
        "reader",
        "shown_inode",
        "storing",
        "thread",
        "writer",
    )

    def __init__(self, reader: Reader, inode: int, writer: Writer | None = None) -> None:
        self.reader = reader
        self.writer = writer
        self.thread = 0
        """Who opened it, as far as that matters."""
        self.inode = inode
        self.shown_inode = inode
        """What a program is told, which may be the inode that it asked for."""
        self.handles = 0
        self.is_kept: bool | None = None
        """Whether what the kernel has of its inode are the same bytes; `None`: it is to keep nothing."""
        self.is_counted = False
        """Whether it counts among those that are open in its folder (`Directory.opened`)."""
        self.is_broken = False
        """Whether a write failed, so that what there is must not be stored."""
        self.named: tuple[Directory, str] | None = None
        """The folder and name under which a private copy is stored."""
        self.is_deleted = False
        self.is_refused = False
        self.storing = threading.Lock()
        """Held while it is stored, and while its name is deleted."""
        self._lock = threading.Lock()
        self._calls = 0
        self._closing = False

    def read_in_thread(self, buffer: memoryview, offset: int) -> None:
        """Fill `buffer`, waiting for the store as long as it takes."""
        self.in_use(lambda: self.reader.readinto(buffer, offset))

    def in_use(self, call: Callable[[], T]) -> T:
        """`call()`, in a thread; until it has returned, nothing is closed."""
        with self._lock:
            self._calls += 1
        try:
            return call()
        finally:
            with self._lock:
                self._calls -= 1
                last = self._closing and not self._calls
            if last:
                self.reader.close()

    def close(self) -> None:
        """Close the reader now, or leave it to the call that is still out."""
        with self._lock:
            self._closing = True
            busy = self._calls
        if not busy:
            self.reader.close()


@dataclass(slots=True)
class SecondTry:
    """What a thread was told to do again, by ESTALE: the kernel looks the name up once more, and then
    opens, or sets, what it is told of.

    `asked`: the inode that it meant. `names`: those that it may have meant by that. `flags`: to open it
    with; `None` for setting attributes.
    """

    asked: int
    names: frozenset[str]
    flags: int | None
    file: OpenFile | None = None
    """What was opened for it already; nothing, if there was no such name."""
    is_found: bool = False
    """Whether `file` was opened when the name was looked up, which may have been for something else:
    when it is looked up once more, what there is by then is opened."""


class OpenDirectory:
    """A handle on a folder: the slots it lists, in order. Offsets given to the kernel are slots.

    While the folder is being listed for the first time, slots follow each other as names are
    found, and the handle lists what there is so far.
    """

    __slots__ = ("_order", "begun", "directory", "scan")

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.begun = False
        self.scan: Any = directory.scan
        """The listing that was under way when this was opened: how it ends is how this ends."""
        self._order: list[int] | None = None

    def begin(self) -> None:
        """Start over with what the directory holds now."""
        directory = self.directory
        if self.begun:
            self.scan = directory.scan
        self.begun = True
        self._order = None
        if self.scan is None and len(directory.listing) != len(
            directory.entries
        ):  # some names are gone
            self._order = sorted(map(directory.slots.__getitem__, directory.listing))

    def slots_from(self, slot: int) -> "range | list[int]":
        """The slots to list, from `slot` on."""
        if self._order is None:
            return range(slot, len(self.directory.entries))
        return self._order[bisect_left(self._order, slot) :]
