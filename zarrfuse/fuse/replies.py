"""Makes the replies that tell of names: attributes, the entries of a folder, and the space for more.

Owns the attribute objects. One of each kind serves all replies, because pyfuse3 copies them before anything
else runs. Used by `operations`.
"""

import os
import time
from collections.abc import Callable

import pyfuse3

from zarrfuse.errors import Corrupt
from zarrfuse.fuse.folders import OpenFolder
from zarrfuse.fuse.nodes import Node, Nodes, is_same
from zarrfuse.fuse.shown import Shown
from zarrfuse.stores.access import Access
from zarrfuse.stores.base import UNKNOWN_SIZE, Entry, Kind
from zarrfuse.views.control_files import own_access

OWN_OFFSETS = 2
"""How many offsets "." and ".." take, before those of the names."""

_FOREVER_S = 1e9  # what the kernel takes as "without limit"
_DIRECTORY_BLOCK = 1 << 20  # the C library lists folders by blocks of st_blksize: fewer requests
_LARGEST_SIZE = (1 << 63) - 1
_LONGEST_NAME = 255  # bytes; the kernel breaks off a listing that holds a longer one
_A_FOLDER = Entry("", Kind.FOLDER, 0, 0)


class Replies:
    """Makes replies of which the kernel may cache attributes for `ttl_s` seconds, names for `names_ttl_s`.

    `failed`: called with the request and the error for a name that cannot be shown. `writable`: if false,
    modes are shown without write permissions. `shown`: owners and modes in place of the stored ones.
    """

    def __init__(
        self,
        ttl_s: float,
        names_ttl_s: float,
        failed: Callable[[str, BaseException], int],
        *,
        writable: bool = False,
        shown: Shown | None = None,
    ) -> None:
        self._ttl_s = min(ttl_s, _FOREVER_S)
        self._names_ttl_s = min(names_ttl_s, _FOREVER_S)
        self._failed = failed
        self._begun_at_ns = time.time_ns()
        self._shown = shown or Shown()
        self._bits = 0o7777 if writable else 0o7555
        self._own_file = Access(0o644, os.getuid(), os.getgid())
        self._own_folder = Access(0o755, os.getuid(), os.getgid())
        self._file = self._blank(4096)
        self._file_access: Access | None = None
        self._give(self._file, Kind.FILE, self._own_file)
        self._folder = self._blank(_DIRECTORY_BLOCK)
        self._link = self._blank(4096)
        self.nothing = pyfuse3.EntryAttributes()
        """The reply "no such name". With inode 0 the kernel caches it (a negative dentry).

        It must not in a writable mount: a chunk that is stored appears without a request for its name.
        """
        self.nothing.entry_timeout = 0 if writable else self._names_ttl_s

    def _blank(self, block: int) -> pyfuse3.EntryAttributes:
        attributes = pyfuse3.EntryAttributes()
        attributes.st_blksize = block
        attributes.st_nlink = 1  # for folders always: "not counted", so that find(1) looks in all
        attributes.entry_timeout = self._names_ttl_s
        attributes.attr_timeout = self._ttl_s
        return attributes

    def _give(self, filled: pyfuse3.EntryAttributes, kind: Kind, access: Access) -> None:
        if access is not own_access():  # a control file that is nobody's else
            access = self._shown.of(access, kind)
        self._give_stored(filled, kind, access)

    def _give_stored(self, filled: pyfuse3.EntryAttributes, kind: Kind, access: Access) -> None:
        filled.st_mode = kind | access.mode & self._bits
        filled.st_uid = access.uid
        filled.st_gid = access.gid

    def attributes(
        self, node: Node, *, live: bool = False, listed: bool = False
    ) -> pyfuse3.EntryAttributes:
        """The attributes of a node; `live`: the kernel must not cache them; `listed`: in a listing.

        Raises `Corrupt` for a size that no file can have, which stores, parts or metadata may claim.
        """
        entry = node.now
        filled = self._filled(entry, node.number, live=live or _is_live(node), listed=listed)
        if node.file is not None:
            if node.file.is_made:
                filled.entry_timeout = 0  # it may never be stored
            if not node.is_named:
                filled.st_nlink = 0
        return filled

    def _filled(
        self, entry: Entry, number: int, *, live: bool, listed: bool = False
    ) -> pyfuse3.EntryAttributes:
        size, kind, access = entry.size, entry.kind, entry.access
        if listed and size == UNKNOWN_SIZE:  # the kernel asks for it when a program looks at it
            size, live = 0, True
        if not 0 <= size <= _LARGEST_SIZE:
            raise Corrupt(f"{entry.name} claims to have {size} bytes")
        if kind is Kind.FILE and not live and not entry.denied:  # nearly all that is told of
            filled = self._file
            filled.entry_timeout = self._names_ttl_s
            if access is not self._file_access:
                self._file_access = access
                self._give(filled, kind, access or self._own_file)
        else:
            filled = self._unlike_files(entry, live=live)
        filled.st_ino = number
        filled.st_nlink = entry.links
        filled.st_size = size
        filled.st_blocks = (size + 511) >> 9
        filled.st_mtime_ns = entry.mtime_ns
        filled.st_ctime_ns = entry.ctime_ns or entry.mtime_ns
        filled.st_atime_ns = entry.atime_ns or self._begun_at_ns
        return filled

    def _unlike_files(self, entry: Entry, *, live: bool) -> pyfuse3.EntryAttributes:
        """The attributes of what is not a stored file: type, mode, owner, and time-outs."""
        kind, access = entry.kind, entry.access
        if kind is Kind.LINK:
            access = (access or self._own_file)._replace(mode=0o777)
        own = self._own_folder if kind is Kind.FOLDER else self._own_file
        if live or kind is Kind.FILE:
            filled = self._blank(4096)
            if live:
                filled.entry_timeout = filled.attr_timeout = 0
        else:
            filled = self._folder if kind is Kind.FOLDER else self._link
        if entry.denied:
            self._give_stored(filled, kind, self._own_file._replace(mode=0))
        else:
            self._give(filled, kind, access or own)
        return filled

    def space(self, total: int, free: int) -> pyfuse3.StatvfsData:
        """The reply to STATFS: total and free bytes."""
        reply = pyfuse3.StatvfsData()
        reply.f_bsize = reply.f_frsize = block = 4096
        reply.f_blocks = total // block
        reply.f_bfree = reply.f_bavail = free // block
        reply.f_namemax = _LONGEST_NAME
        return reply

    def own_names(self, token: pyfuse3.ReaddirToken, node: Node, start: int) -> bool:
        """Put "." and ".." into a reply, from offset `start` on; returns whether they fit."""
        for offset, name in enumerate((b".", b"..")):
            if start <= offset:
                own = self._filled(_A_FOLDER, node.number, live=False)
                if not pyfuse3.readdir_reply(token, name, own, offset + 1):
                    return False
        return True

    def names(
        self, token: pyfuse3.ReaddirToken, nodes: Nodes, opened: OpenFolder, first: int
    ) -> None:
        """Put the names of a folder into a reply, from the index `first` on, until it is full."""
        reply, told = pyfuse3.readdir_reply, nodes.told
        parent, entries = opened.node, opened.entries
        directory = nodes.directory_of(parent)
        known_nodes, changed = directory.nodes, directory.listing.changed
        live = directory.is_live
        for place in range(first, len(entries)):
            entry = entries[place]
            if changed and entry.name in changed:
                now = directory.listing.entries.get(entry.name)
                if now is None:
                    continue  # it was deleted since
                entry = now
            node = known_nodes.get(entry.name)
            if node is not None and not (
                node.entry is entry or is_same(node.entry, entry) or node.is_ahead
            ):
                node = None
            try:
                name = entry.name.encode("utf-8", "surrogateescape")  # fsencode, without the call
                if node is None:
                    if entry.links == 1:
                        filled = self._filled(entry, nodes.last_number + 1, live=live, listed=True)
                    else:  # its node may be that of another name
                        node = nodes.found(parent, entry)
                        filled = self.attributes(node, listed=True)
                else:
                    if entry.size != UNKNOWN_SIZE:
                        node.update(entry)
                    filled = self.attributes(node, live=live, listed=True)
            except (ValueError, OverflowError, Corrupt) as error:  # what no kernel takes
                self._failed("readdir", Corrupt(f"{entry.name!r} cannot be shown: {error}"))
                continue
            if len(name) > _LONGEST_NAME:
                continue
            if not reply(token, name, filled, place + 1 + OWN_OFFSETS):
                break
            told(node or nodes.new(parent, entry))


def _is_live(node: Node) -> bool:
    """Whether it lies in a control folder, which the kernel must not cache."""
    return (
        node.parent is not None
        and node.parent.directory is not None
        and node.parent.directory.is_live
    )
