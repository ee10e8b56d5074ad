"""The members of a zip: their columns, and their names as folders in folders. Used by `zip`.

Owns which names of a central directory are shown: not those that could lead out of a mount. It must not
know how members are read.

A member is a number, its row in `Members`: 40 bytes instead of an object of 200. So a zip of 1,000,000
members takes some 130 MB where names recur (`0`, `1`, ...), and some 200 MB where none does.
"""

import os
from array import array
from datetime import datetime
from functools import lru_cache
from stat import S_IFDIR, S_IFLNK, S_IFMT, S_IFREG

from zarrfuse.stores.zip.directory import Record

_NAME_BYTES = 255
_MOST_FOLDERS = 256
"""How many folders one member may be in: a folder takes 200 bytes of memory, and as little as two in the
zip."""
_SHOWN = 300
_SHARED_NAMES = 1 << 16
"""How many names are cached so that each is in memory once: "0", "1", ... recur everywhere."""

_MOST_CHECKED = 1 << 10

LARGEST = (1 << 63) - 1
"""The largest size of a file, and position in it."""

# Ours, above the general purpose bit flags of the format and `zip_directory.RENAMED`.
INTACT = 1 << 17
"""The bytes of the member have its CRC."""
DAMAGED = 1 << 18
"""They do not."""


class Members:
    """The members by number, as columns.

    `place`: the position of the bytes of a member in the file or, until its local header has been read, the
    bitwise complement of the position of that header: one number, which threads replace atomically.
    `checked`: for members that are being read in order, the position so far, and the CRC of the bytes
    before it.
    """

    __slots__ = ("checked", "compressed_size", "crc", "flags", "method", "place", "size", "time")

    def __init__(self) -> None:
        self.size = array("Q")
        self.compressed_size = array("Q")
        self.place = array("q")
        self.crc = array("I")
        self.flags = array("I")
        self.time = array("I")
        self.method = array("H")
        self.checked: dict[int, tuple[int, int]] = {}

    def add(self, record: Record) -> int:
        """The number of a new member."""
        _, flags, method, time, crc, compressed_size, size, _, offset = record
        self.size.append(size)
        self.compressed_size.append(compressed_size)
        self.place.append(~(offset if 0 <= offset < LARGEST else LARGEST))
        self.crc.append(crc)
        self.flags.append(flags)
        self.time.append(time)
        self.method.append(method)
        return len(self.size) - 1

    def note_checked(self, number: int, end: int, crc: int) -> None:
        """Note the CRC of a member up to `end`. If there are many, the oldest are forgotten."""
        if len(self.checked) >= _MOST_CHECKED:
            self.checked.clear()
        self.checked[number] = (end, crc)


class Link:
    """A symlink, whose text is that of a member; `target`: None if it must not be followed."""

    __slots__ = ("number", "target")

    def __init__(self, number: int) -> None:
        self.number = number
        self.target: str | None = None


Names = dict[str, "Node"]
Node = int | Link | Names  # the number of a member; a symlink; a folder


class LeftOut:
    """The number of names that are not shown, and the first of them."""

    __slots__ = ("count", "first")

    def __init__(self) -> None:
        self.count = 0
        self.first = ""

    def add(self, name: str) -> None:
        """One more."""
        if not self.count:
            self.first = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."
        self.count += 1


class Tree:
    """The central directory as folders in folders, and what had to be left out of it."""

    def __init__(self) -> None:
        self.root: Names = {}
        self.members = Members()
        self.links: list[tuple[str, Link]] = []
        self.unsafe = LeftOut()
        self.hidden = LeftOut()
        self._shared: dict[str, str] = {}
        self._last: tuple[str, Names] = ("", self.root)  # members of a folder follow one another

    def add(self, record: Record) -> None:
        """Put one member into the tree; a later one of the same name replaces an earlier one."""
        name, attributes = record[0], record[7]
        key = name.removesuffix("/")
        type_ = S_IFMT(attributes >> 16)  # 0 from tools that know nothing of Unix
        is_folder = len(key) < len(name) or type_ == S_IFDIR
        above, slash, last = key.rpartition("/")
        if key.count("/") > _MOST_FOLDERS:
            self.unsafe.add(name)
            return
        if (
            slash
            and (above != self._last[0] or not above)
            and not all(map(_is_safe, above.split("/")))
        ):
            self.unsafe.add(name)
            return
        shared = self._shared.get(last)
        if shared is None:
            if not _is_safe(last):
                self.unsafe.add(name)
                return
            shared = last
            if len(self._shared) < _SHARED_NAMES:
                self._shared[last] = last
        if is_folder:
            self._folder(key)
            return
        if type_ not in (0, S_IFREG, S_IFLNK):
            return
        names = self._folder(above)
        if isinstance(names.get(shared), dict):
            self.hidden.add(key)
            return
        number = self.members.add(record)
        if type_ == S_IFLNK:
            link = names[shared] = Link(number)
            self.links.append((key, link))
        else:
            names[shared] = number

    def _folder(self, key: str) -> Names:
        """The names of a folder, which is made if it is missing. All names in `key` are safe."""
        if key == self._last[0]:
            return self._last[1]
        names = self.root
        path = key.split("/") if key else []
        for depth, name in enumerate(path):
            node = names.get(name)
            if not isinstance(node, dict):
                if node is not None:
                    self.hidden.add("/".join(path[: depth + 1]))
                node = names[self._shared.setdefault(name, name)] = {}
            names = node
        self._last = (key, names)
        return names


def _is_safe(name: str) -> bool:
    """Whether a mount may show a name."""
    if name in ("", ".", "..") or "\\" in name or "\0" in name:
        return False
    return len(name) <= _NAME_BYTES and (name.isascii() or len(os.fsencode(name)) <= _NAME_BYTES)


@lru_cache(maxsize=1 << 12)
def mtime_ns(time: int) -> int | None:
    """A time of MS-DOS in ns since 1970; None for month 0, second 62 and the like.

    A zip has the local time of the place where it was made.
    """
    year, month, day = (time >> 25) + 1980, time >> 21 & 0xF, time >> 16 & 0x1F
    hour, minute, second = time >> 11 & 0x1F, time >> 5 & 0x3F, (time & 0x1F) * 2
    try:
        return int(datetime(year, month, day, hour, minute, second).timestamp()) * 10**9
    except (ValueError, OverflowError, OSError):
        return None
