"""What the kernel has open: files and folders by handle. Used by `fuse`."""

import threading
from bisect import bisect_left
from typing import Any

from zarrfuse.inodes import Directory
from zarrfuse.stores.base import Reader


class OpenFile:
    """A handle on a file. It is closed when the last read that was given up has come back too.

    Not earlier: a thread still at it would read from whatever file the kernel gave the same
    descriptor number next.
    """

    __slots__ = ("_closing", "_lock", "_reads", "inode", "reader")

    def __init__(self, reader: Reader, inode: int) -> None:
        self.reader = reader
        self.inode = inode
        self._lock = threading.Lock()
        self._reads = 0
        self._closing = False

    def read_in_thread(self, buffer: memoryview, offset: int) -> None:
        """Fill `buffer`, waiting for the store as long as it takes."""
        with self._lock:
            self._reads += 1
        try:
            self.reader.readinto(buffer, offset)
        finally:
            with self._lock:
                self._reads -= 1
                last = self._closing and not self._reads
            if last:
                self.reader.close()

    def close(self) -> None:
        """Close the reader now, or leave it to the read that is still out."""
        with self._lock:
            self._closing = True
            busy = self._reads
        if not busy:
            self.reader.close()


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
