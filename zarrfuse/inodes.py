"""Numbers for names: the kernel speaks of inodes, views of folders and names.

Owns the inode table and its lookup counts. Used by `fuse`; knows nothing of pyfuse3 or trio, and
is touched from the event loop only.

Numbers are handed out by the folder, not by the file: a folder that the kernel knows names of has
a number, each of its names a slot, and an inode is `folder << 32 | slot`. So a folder of 100,000 is
numbered by two passes in C, and counted by one integer: the kernel gives each lookup back by
`forget`, and when a folder has got all of them back its slots are free again. A name keeps its slot
while any name of its folder is known, so that inode numbers and readdir offsets survive a folder
that changes while it is being listed.
"""

import re
from collections.abc import Iterable
from math import inf
from typing import Any

from zarrfuse.errors import Stale
from zarrfuse.stores.base import Entry, Kind
from zarrfuse.views.base import Folder
from zarrfuse.views.control import CONTROL_NAME, is_live

ROOT_INODE = 1
CONTROL_INODE = 2
_SLOT_BITS = 32
_SLOT_MASK = (1 << _SLOT_BITS) - 1

_HIDDEN = re.compile(
    # Names that desktops look for in every folder of every mount. They are answered without asking
    # a store, and are not listed either, so that a listing never names what cannot be opened.
    r"\.(?:_|Trash|hidden$|xdg-volume-info$|DS_Store$)|autorun\.inf$|desktop\.ini$"
    # Names that no file system has; an object store may.
    r"|\.{0,2}$|.*[/\0]",
    re.DOTALL,
)


def is_hidden(name: str) -> bool:
    """Whether a mount has no such name: no file system has it, or only desktops ask for it."""
    return _HIDDEN.match(name) is not None


class Directory:
    """A folder that the kernel knows, with the slots of its names."""

    __slots__ = (
        "children",
        "entries",
        "folder",
        "handles",
        "inode",
        "listed_at",
        "listing",
        "live",
        "lookups",
        "number",
        "opened",
        "parent",
        "retold",
        "scan",
        "slots",
    )

    def __init__(self, folder: Folder, number: int, inode: int, parent: "Directory | None") -> None:
        self.folder = folder
        self.number = number
        self.inode = inode
        self.parent = parent
        self.live = is_live(folder)
        """Whether nothing of it may be kept: control files are rendered when asked for."""
        self.lookups = 0
        """Lookups of names in here that the kernel has not given back; `InodeTable.looked_up` counts."""
        self.scan: Any = None
        """The listing under way, if the folder is being listed for the first time."""
        self.handles = 0
        """Open handles on the folder itself; a listing under way needs its slots."""
        self.children: dict[int, Directory] = {}
        """By slot: the sub-folders that are directories of their own."""
        self.opened: dict[int, tuple[int, int, int]] = {}
        """By slot: handles now open, and size and time of the bytes the kernel may have cached."""
        self.retold: set[int] = set()
        """Slots whose entry was corrected by an open that was answered as ESTALE, until the next one."""
        self.clear()

    def clear(self) -> None:
        """Forget all names."""
        self.entries: list[Entry] = []
        self.slots: dict[str, int] = {}
        self.listing: dict[str, Entry] = {}
        self.listed_at = -inf
        self.opened.clear()
        self.retold.clear()

    def update(self, listing: dict[str, Entry], now: float) -> None:
        """Take a new listing; names that were known keep their slots."""
        if not self.opened and listing.keys() == self.slots.keys():
            self.listing = listing
            self.entries = [listing[name] for name in self.slots]
        else:
            self.listing = {}
            self.extend(listing.values())
        self.listed_at = now

    def extend(self, found: Iterable[Entry]) -> None:
        """Add names from a listing that may not be complete."""
        hidden = _HIDDEN.match
        shown = [entry for entry in found if not hidden(entry.name)]
        if self.inode == ROOT_INODE:
            shown = [entry for entry in shown if entry.name != CONTROL_NAME]
        names = [entry.name for entry in shown]
        self.listing.update(zip(names, shown, strict=True))
        if not self.slots.keys().isdisjoint(names):  # some are known already
            for entry in shown:
                self.put(entry)
            return
        first = len(self.entries)
        self.entries += shown
        self.slots.update(zip(names, range(first, first + len(names)), strict=True))

    def put(self, entry: Entry) -> int:
        """Keep an entry under its name; its slot.

        A file that has changed while somebody has it open gets a new slot, so another inode: the
        kernel keeps the bytes of an inode, and who opened the old file must not be given the new.
        """
        name = entry.name
        slot = self.slots.get(name)
        if slot is None or self._is_another(entry, slot):
            slot = self.slots[name] = len(self.entries)
            self.entries.append(entry)
        else:
            self.entries[slot] = entry
        if name in self.listing:
            self.listing[name] = entry
        return slot

    def _is_another(self, entry: Entry, slot: int) -> bool:
        handles, *seen = self.opened.get(slot, (0,))
        return handles > 0 and seen != [entry.size, entry.mtime_ns]

    def is_current(self, slot: int) -> bool:
        """Whether a slot is that of its name; else the file has changed while it was open."""
        return self.slots.get(self.entries[slot].name) == slot

    def is_open(self, slot: int) -> bool:
        """Whether somebody has the file open."""
        return self.opened.get(slot, (0,))[0] > 0

    def drop(self, name: str) -> None:
        """Take note that a name is gone."""
        self.listing.pop(name, None)

    def inode_of(self, slot: int) -> int:
        """The inode number of a slot."""
        return self.number << _SLOT_BITS | slot

    @property
    def unused(self) -> bool:
        """Whether neither the kernel nor an open handle needs anything in here."""
        return not (self.lookups or self.handles or self.children)


class InodeTable:
    """Every directory the kernel knows."""

    def __init__(self, root: Folder, entry: Entry) -> None:
        # Above the root lie, at slots 1 and 2, the root itself (inode 1, as FUSE has it) and the
        # folder of control files, which is in the root without being one of its names.
        self._above = Directory(root, 0, 0, None)
        self._above.entries = [entry, entry, Entry(CONTROL_NAME, Kind.FOLDER, 0, entry.mtime_ns)]
        self.root = Directory(root, 1, ROOT_INODE, None)
        self._above.children[ROOT_INODE] = self.root
        self._directories = {0: self._above, 1: self.root}
        self._next_number = 2
        self._lookups = 0

    def __len__(self) -> int:
        """Lookups that the kernel has not given back."""
        return self._lookups

    def looked_up(self, directory: Directory, count: int) -> None:
        """The kernel was told of so many names in a directory."""
        directory.lookups += count
        self._lookups += count

    def place(self, inode: int) -> tuple[Directory, int]:
        """The directory an inode lies in, and its slot there. Raises `Stale` for an unknown one."""
        directory = self._directories.get(inode >> _SLOT_BITS)
        slot = inode & _SLOT_MASK
        if directory is None or slot >= len(directory.entries):
            raise Stale(f"nothing is known of the inode {inode}")
        return directory, slot

    def entry(self, inode: int) -> Entry:
        """The entry of an inode, as last seen."""
        directory, slot = self.place(inode)
        return directory.entries[slot]

    def directory(self, inode: int) -> Directory:
        """The directory that a folder's inode stands for."""
        parent, slot = self.place(inode)
        directory = parent.children.get(slot)
        if directory is None:
            folder = parent.folder.child(parent.entries[slot].name)
            directory = Directory(folder, self._next_number, inode, parent)
            self._next_number += 1
            self._directories[directory.number] = directory
            parent.children[slot] = directory
        return directory

    def forget(self, counts: Iterable[tuple[int, int]]) -> None:
        """The kernel gives lookups back: pairs of inode and number."""
        for inode, count in counts:
            directory = self._directories.get(inode >> _SLOT_BITS)
            if directory is None or directory is self._above:
                continue
            self.looked_up(directory, -count)
            if directory.lookups <= 0:
                self.release(directory)

    def release(self, directory: Directory) -> None:
        """Free a directory that may have become unused, and those above it in turn."""
        current = directory
        while current is not self._above and not current.lookups and not current.handles:
            for slot, child in list(current.children.items()):
                # The kernel has given back the folder itself before the names in it: those are
                # still to come, and the child frees itself when they do.
                if child.unused:
                    del current.children[slot]
                    del self._directories[child.number]
            if current.children:
                return
            current.clear()
            parent = current.parent
            if parent is None:
                return
            if not parent.lookups:
                del self._directories[current.number]
                del parent.children[current.inode & _SLOT_MASK]
            current = parent
