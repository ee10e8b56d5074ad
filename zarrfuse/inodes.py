"""Numbers for names: the kernel speaks of inodes, views of folders and names.

Owns the inode table and its lookup counts. Used by `fuse`; knows nothing of pyfuse3 or trio, and
is touched from the event loop only.

Numbers are handed out by the folder, not by the file: a folder that the kernel knows names of has
a number, each of its names a slot, and an inode is `folder << 32 | slot`. So a folder of 100,000 is
numbered by two passes in C, and counted by one integer: the kernel gives each lookup back by
`forget`, and when a folder has got all of them back its slots are free again. A name keeps its slot
while any name of its folder is known, so that inode numbers and readdir offsets survive a folder
that changes while it is being listed.

Where a mount is written, a name may be renamed into another folder and keeps its number there, since
the kernel goes on using it: the folder it came from (its home) counts its lookups and knows where it
has gone (`away`), the one it is in has it as a guest. A slot whose name is deleted or replaced is
retired: who has the file open goes on with it, and no lookup leads there any more.
"""

import re
from collections import Counter
from collections.abc import Iterable
from math import inf
from typing import Any

from zarrfuse.errors import Stale
from zarrfuse.stores.base import Entry, Kind
from zarrfuse.views.base import Folder
from zarrfuse.views.control import CONTROL_NAME, is_live

ROOT_INODE = 1
CONTROL_INODE = 2
SLOT_BITS = 32
_SLOT_MASK = (1 << SLOT_BITS) - 1

_MOST_UNSURE = 1000
"""A folder of which so many names were changed is listed anew rather than remembered."""

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
        "arrived",
        "away",
        "became",
        "changed_at",
        "children",
        "entries",
        "files",
        "folder",
        "guests",
        "handles",
        "inode",
        "listed_at",
        "listing",
        "live",
        "lookups",
        "number",
        "opened",
        "parent",
        "recent",
        "scan",
        "slot",
        "slots",
        "unsure",
        "writers",
    )

    def __init__(self, folder: Folder, number: int, inode: int, parent: "Directory | None") -> None:
        self.folder = folder
        self.number = number
        self.inode = inode
        self.parent = parent
        self.slot = inode & _SLOT_MASK
        """Its slot in `parent`."""
        self.live = is_live(folder)
        """Whether nothing of it may be kept: control files are rendered when asked for."""
        self.lookups = 0
        """Lookups of names in here that the kernel has not given back; `InodeTable.looked_up` counts."""
        self.scan: Any = None
        """The listing under way, if the folder is being listed for the first time."""
        self.files = 0
        """Open handles on files whose numbers were made here; they need their slots."""
        self.handles = 0
        """Open handles on the folder itself; a listing under way needs its slots."""
        self.children: dict[int, Directory] = {}
        """By slot: the sub-folders that are directories of their own."""
        self.writers: Counter[str] = Counter()
        """By name: private copies that are open. The kernel may keep nothing of such a name."""
        self.guests: dict[int, int] = {}
        """By slot: the inode numbers of names that were moved here from another slot."""
        self.became: dict[int, tuple[Directory, str]] = {}
        """By slot: what name a file was renamed to that was stored anew there, under another number.

        For a while the kernel takes the old number for that name's. `InodeTable` owns this.
        """
        self.arrived: dict[str, set[tuple[Directory, int]]] = {}
        """By name: directories and slots of files that the kernel takes for it (`became`)."""
        self.away: dict[int, tuple[Directory, int]] = {}
        """By slot of a name that was moved: the directory and slot where it is now."""
        self.opened: dict[int, tuple[int, int, int]] = {}
        """By slot: handles now open, and size and time of the bytes the kernel may have cached.

        Where both are -1, what is open is the stored file itself, whatever becomes of it.
        """
        self.unsure: set[str] = set()
        """Names that were changed since the folder was listed: the listing does not count for them."""
        self.recent: dict[str, float] = {}
        """Names that were changed while somebody had the folder open, and when.

        A listing that was under way may not know, so the kernel is to keep nothing of what it says.
        """
        self.clear()

    def clear(self) -> None:
        """Forget all names."""
        self.entries: list[Entry] = []
        self.slots: dict[str, int] = {}
        self.listing: dict[str, Entry] = {}
        self.unsure.clear()
        self.listed_at = self.changed_at = -inf
        self.opened.clear()

    def update(self, listing: dict[str, Entry], now: float) -> None:
        """Take a listing that was begun at `now`; the same files keep their slots."""
        in_order = len(self.slots) == len(self.entries)
        if not self.opened and in_order and listing.keys() == self.slots.keys():
            self.listing = listing
            known = list(zip(map(listing.__getitem__, self.slots), self.entries, strict=True))
            for entry, before in known:
                if entry != before:
                    self._put_listed(entry, now)
        else:
            self.listing = {}
            self.extend(listing.values(), now)
        self.listed(now)

    def listed(self, since: float) -> None:
        """Take note that the listing is complete, and was begun at `since`."""
        if since > self.changed_at:
            self.listed_at = since
        else:  # it may not know of a change
            self.listed_at = -inf
        self.unsure.clear()

    def extend(self, found: Iterable[Entry], since: float) -> None:
        """Add names from a listing that may not be complete, and was begun at `since`."""
        hidden = _HIDDEN.match
        shown = [entry for entry in found if not hidden(entry.name)]
        if self.inode == ROOT_INODE:
            shown = [entry for entry in shown if entry.name != CONTROL_NAME]
        names = [entry.name for entry in shown]
        self.listing.update(zip(names, shown, strict=True))
        if not self.slots.keys().isdisjoint(names):  # some are known already
            for entry in shown:
                slot = self.slots.get(entry.name)
                if slot is None or self.entries[slot] != entry:
                    self._put_listed(entry, since)
            return
        first = len(self.entries)
        self.entries += shown
        self.slots.update(zip(names, range(first, first + len(names)), strict=True))

    def _put_listed(self, entry: Entry, since: float) -> None:
        """Keep an entry of a listing, which may not know what was changed since it was begun."""
        slot = self.slots.get(entry.name)
        if slot is None or self.recent.get(entry.name, -inf) < since:
            self.put(entry)
        else:
            self.listing[entry.name] = self.entries[slot]

    def put(self, entry: Entry) -> int:
        """Keep an entry under its name; its slot.

        Another file gets another slot, so another inode: the kernel keeps the bytes and the size of an
        inode, and who has opened or is about to open the old file must not be given the new.
        """
        name = entry.name
        slot = self.slots.get(name)
        if slot is None or self.is_another(entry, slot):
            slot = self.slots[name] = len(self.entries)
            self.entries.append(entry)
        else:
            self.entries[slot] = entry
        if name in self.listing:
            self.listing[name] = entry
        return slot

    def is_another(self, entry: Entry, slot: int) -> bool:
        """Whether an entry is that of another file than the one a slot stands for, or other bytes
        than those that are open there."""
        known = self.entries[slot]
        if entry.kind is not known.kind:
            return True
        if entry.kind is not Kind.FILE or self.live:
            return False
        handles, *seen = self.opened.get(slot, (0,))
        if not (entry.identity and known.identity):
            if handles > 0 and seen == [-1, -1]:
                return False
            return (entry.size, entry.mtime_ns) != (known.size, known.mtime_ns)
        if entry.identity != known.identity:
            return True
        # It was changed in place.
        return handles > 0 and seen not in ([entry.size, entry.mtime_ns], [-1, -1])

    def renew(self, slot: int) -> None:
        """Give the name of a slot another one, if that is its slot."""
        if self.is_current(slot):
            self.slots[self.entries[slot].name] = self.put_apart(self.entries[slot])

    def is_current(self, slot: int) -> bool:
        """Whether a slot is that of its name; else the file has changed while it was open."""
        return self.slots.get(self.entries[slot].name) == slot

    def is_open(self, slot: int) -> bool:
        """Whether somebody has the file open."""
        return self.opened.get(slot, (0,))[0] > 0

    def drop(self, name: str) -> None:
        """Take note that a name is gone."""
        self.listing.pop(name, None)

    def last_seen(self, name: str) -> Entry:
        """What is known of a file of that name; one of no size and time if nothing is."""
        slot = self.slots.get(name)
        return Entry(name, Kind.FILE, 0, 0) if slot is None else self.entries[slot]

    def put_apart(self, entry: Entry) -> int:
        """Keep the entry of a file that no lookup of its name leads to; its slot."""
        self.entries.append(entry)
        return len(self.entries) - 1

    def retire(self, name: str, now: float) -> None:
        """Take note that a name is gone, or stands for another file from now on."""
        self.slots.pop(name, None)
        self.listing.pop(name, None)
        self.changed(name, now)
        self.listed_at = -inf  # with a document, all names may have become others

    def written(self, name: str, by: int) -> None:
        """So many more private copies of a name are open."""
        self.writers[name] += by
        if not self.writers[name]:
            del self.writers[name]

    def changed(self, name: str, now: float) -> None:
        """Take note that what is under a name was made, or has another size or time."""
        self.changed_at = now
        if self.handles:
            self.recent[name] = now
        if self.listed_at == -inf:
            return
        self.unsure.add(name)
        if len(self.unsure) > _MOST_UNSURE:
            self.listed_at = -inf

    def made_anew(self, now: float) -> None:
        """Take note that the folder has just been made: nothing is in it."""
        self.listed_at = now

    def inode_of(self, slot: int) -> int:
        """The inode number of a slot."""
        return self.guests.get(slot) or self.number << SLOT_BITS | slot

    def rebase(self, folder: Folder) -> None:
        """Take note that the folder, with all that is in it, is now another one of the view."""
        self.folder = folder
        for slot, child in self.children.items():
            if self.is_current(slot):
                child.rebase(folder.child(self.entries[slot].name))

    @property
    def needs_numbers(self) -> bool:
        """Whether the kernel, or an open file, knows a number that was made here."""
        return self.lookups > 0 or self.files > 0

    @property
    def known(self) -> bool:
        """Whether the kernel, or an open handle, needs names in here."""
        return bool(self.lookups or self.handles or self.files or self.guests or self.arrived)

    @property
    def unused(self) -> bool:
        """Whether nobody needs anything in here, or below."""
        return not (self.known or self.children)


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

    def looked_up_one(self, inode: int) -> None:
        """The kernel was told of one inode, wherever it may be by now."""
        self.looked_up(self._home(inode), 1)

    def hold(self, inode: int) -> None:
        """Keep what is known of an inode, whatever the kernel gives back, until it is let go."""
        self._home(inode).files += 1

    def let_go(self, inode: int) -> None:
        """Undo one `hold`."""
        home = self._home(inode)
        home.files -= 1
        self._let_be(home)

    def _home(self, inode: int) -> Directory:
        return self._directories[inode >> SLOT_BITS]

    def _let_be(self, home: Directory) -> None:
        """Free a directory if nothing is known of the numbers that were made there."""
        if not home.needs_numbers:
            self._end_visits(home)
        self.release(home)

    def move(self, directory: Directory, slot: int, to: Directory, entry: Entry) -> None:
        """What is at a slot is now in `to`, as `entry` tells, and keeps its inode number if that is known.

        The kernel does not know it if it takes the number of another name for this one (`became`).
        """
        inode = directory.inode_of(slot)
        home = self._home(inode)
        directory.guests.pop(slot, None)
        if directory.is_current(slot):
            del directory.slots[directory.entries[slot].name]
        directory.listing.pop(directory.entries[slot].name, None)
        if not home.needs_numbers:
            self.release(directory)
            return
        arrived = to.put_apart(entry)
        to.slots[entry.name] = arrived
        to.guests[arrived] = inode
        if slot in directory.opened:
            to.opened[arrived] = directory.opened.pop(slot)
        home.away[inode & _SLOT_MASK] = to, arrived
        child = directory.children.pop(slot, None)
        if child is not None:
            child.parent, child.slot = to, arrived
            to.children[arrived] = child
            child.rebase(to.folder.child(entry.name))
        self.release(directory)

    def renamed(
        self,
        source: Directory,
        name: str,
        target: Directory,
        new_name: str,
        *,
        slot: int | None = None,
    ) -> None:
        """A name has another one: the kernel takes all for that which it took for the first.

        `slot`: what was under the name and was stored anew, so that it keeps no number. Release both
        directories when nothing of them is needed any more.
        """
        arrived = source.arrived.pop(name, set())
        self._end_arrived(target, new_name)
        if slot is not None and self._home(source.inode_of(slot)).needs_numbers:
            arrived.add((source, slot))
        for directory, at in arrived:
            directory.became[at] = target, new_name
        if arrived:
            target.arrived[new_name] = arrived

    def removed(self, directory: Directory, name: str) -> None:
        """The kernel takes nothing for a name any more: it was deleted."""
        self._end_arrived(directory, name)
        self.release(directory)

    def _end_arrived(self, directory: Directory, name: str) -> None:
        for place, slot in directory.arrived.pop(name, set()):
            del place.became[slot]

    def place(self, inode: int) -> tuple[Directory, int]:
        """The directory an inode lies in, and its slot there. Raises `Stale` for an unknown one."""
        directory = self._directories.get(inode >> SLOT_BITS)
        slot = inode & _SLOT_MASK
        if directory is None or slot >= len(directory.entries):
            raise Stale(f"nothing is known of the inode {inode}")
        return directory.away.get(slot) or (directory, slot)

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
            directory.slot = slot
            self._next_number += 1
            self._directories[directory.number] = directory
            parent.children[slot] = directory
        directory.inode = inode  # another one, if it was renamed and forgotten meanwhile
        return directory

    def forget(self, counts: Iterable[tuple[int, int]]) -> None:
        """The kernel gives lookups back: pairs of inode and number."""
        for inode, count in counts:
            directory = self._directories.get(inode >> SLOT_BITS)
            if directory is None or directory is self._above:
                continue
            self.looked_up(directory, -count)
            slot = inode & _SLOT_MASK
            self._end_becoming(*directory.away.get(slot, (directory, slot)))
            if directory.lookups <= 0:
                self._let_be(directory)

    def release(self, directory: Directory) -> None:
        """Free a directory that may have become unused, and those above it in turn."""
        current = directory
        while current is not self._above and not current.known:
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
            if not self._is_looked_up(current):
                self._directories.pop(current.number, None)
                parent.children.pop(current.slot, None)
            current = parent

    def _is_looked_up(self, directory: Directory) -> bool:
        """Whether the kernel may know the inode of the folder itself."""
        home = self._directories.get(directory.inode >> SLOT_BITS)
        return home is not None and home.lookups > 0

    def _end_becoming(self, directory: Directory, slot: int) -> None:
        """The kernel takes the number of a slot for no name any more."""
        if slot not in directory.became:
            return
        target, name = directory.became.pop(slot)
        arrived = target.arrived[name]
        arrived.remove((directory, slot))
        if not arrived:
            del target.arrived[name]
            self.release(target)

    def _end_visits(self, home: Directory) -> None:
        """The kernel knows no inode any more that was made here, wherever it has moved."""
        visits = list(home.away.values())
        home.away.clear()
        for slot in [slot for slot in home.became if slot not in home.guests]:
            self._end_becoming(home, slot)
        for host, slot in visits:
            host.guests.pop(slot, None)
            self._end_becoming(host, slot)
            self.release(host)
