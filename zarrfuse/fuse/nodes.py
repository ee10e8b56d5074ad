"""Inodes: the kernel names files and folders by number, views name them by path.

Owns the numbers, the name of each, and the kernel's lookup counts. Used by the rest of `fuse`, from the
event loop only. It must not know pyfuse3.

A node is kept as long as the kernel has lookups of it, it is open, or it holds another node that is kept. A
node whose name was deleted, or stands for another file, has no name any more (`is_named`).
"""

from collections.abc import Iterable, Iterator
from math import inf
from typing import Any

import msgspec
from msgspec.structs import replace

from zarrfuse.errors import Stale
from zarrfuse.fuse.file import File
from zarrfuse.fuse.listing import Listing
from zarrfuse.stores.base import UNKNOWN_SIZE, Entry, Kind
from zarrfuse.views.base import Folder
from zarrfuse.views.control_files import is_live

ROOT_NUMBER = 1


class Directory:
    """What the node of a folder has in addition: the folder of the view, and its listing."""

    __slots__ = ("folder", "handles", "is_live", "listing", "making", "nodes", "scan")

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.is_live = is_live(folder)
        """Whether the kernel must not cache it: it holds control files."""
        self.nodes: dict[str, Node] = {}
        self.listing = Listing()
        self.making: set[str] = set()
        """Names of new files that are not stored yet."""
        self.handles = 0
        self.scan: Any = None
        """The running scan; `folders` owns it."""


class Node(msgspec.Struct, eq=False, gc=False):
    """A file or folder with a number. A struct in C, since a listing makes 100,000 of them.

    `entry`: the last known one, with its name. `links`: other names of the same file.
    """

    number: int
    parent: "Node | None"
    entry: Entry
    lookups: int = 0
    is_unsure: bool = False
    """Whether the kernel may have another size: of two concurrent replies it takes the first."""
    seen: tuple[int, int] | None = None
    """Size and time of the bytes that the kernel may have in its cache."""
    file: File | None = None
    directory: Directory | None = None
    links: set[tuple["Node", str]] | None = None

    def update(self, entry: Entry) -> None:
        """Set a newer entry."""
        has_copy = self.file is not None and self.file.copy is not None  # whose size is told
        if self.lookups and not has_copy and not is_unchanged(self.entry, entry):
            self.is_unsure = True
        self.entry = entry

    @property
    def name(self) -> str:
        """Its name in `parent`."""
        return self.entry.name

    @property
    def is_named(self) -> bool:
        """Whether its name still refers to it."""
        parent = self.parent
        if parent is None:
            return self.number == ROOT_NUMBER
        assert parent.directory is not None
        return parent.directory.nodes.get(self.entry.name) is self

    @property
    def is_ahead(self) -> bool:
        """Whether it is open with changes that are not stored; see `File.is_ahead`."""
        return self.file is not None and self.file.is_ahead

    @property
    def folder(self) -> Folder:
        """The folder of the view that holds it."""
        assert self.parent is not None
        assert self.parent.directory is not None
        return self.parent.directory.folder

    @property
    def now(self) -> Entry:
        """Its entry now: for an open file, that of its content."""
        return self.entry if self.file is None else self.file.entry(self.entry)


def is_same(known: Entry, entry: Entry) -> bool:
    """Whether two entries of a name are of the same file.

    In stores without identities, a file with another size or time is another file. One of unknown size
    is the one that is found.
    """
    if known.kind is not entry.kind:
        return False
    if UNKNOWN_SIZE in (known.size, entry.size):
        return True
    if known.identity and entry.identity:
        return known.identity == entry.identity
    return known.kind is not Kind.FILE or is_unchanged(known, entry)


def is_unchanged(known: Entry, entry: Entry) -> bool:
    """Whether two entries have the same size and time."""
    return known.size == entry.size and known.mtime_ns == entry.mtime_ns


class Nodes:
    """Every node that is kept, by number."""

    def __init__(self, root: Folder, entry: Entry) -> None:
        self.root = Node(ROOT_NUMBER, None, entry, directory=Directory(root))
        self._nodes = {ROOT_NUMBER: self.root}
        self._linked: dict[int, Node] = {}
        """By identity: files that have several names."""
        self.idle: list[File] = []
        """Files of inodes that the kernel has forgotten, to be closed."""
        self.last_number = ROOT_NUMBER
        self.lookups = 0
        """The number of lookups that the kernel has not given back."""

    def __getitem__(self, number: int) -> Node:
        """Raises `Stale` for a number that is not known."""
        try:
            return self._nodes[number]
        except KeyError:
            raise Stale(f"the inode {number} is forgotten") from None

    def all(self) -> list["Node"]:
        """All nodes at this moment."""
        return list(self._nodes.values())

    def directory(self, number: int) -> Directory:
        """The directory of a folder's number. Raises `Stale`."""
        return self.directory_of(self[number])

    def directory_of(self, node: Node) -> Directory:
        """The directory of a folder's node."""
        directory = node.directory
        if directory is None:
            directory = node.directory = Directory(node.folder.child(node.name))
        return directory

    # -- look-ups ------------------------------------------------------------------------------

    def found(self, parent: Node, entry: Entry) -> Node:
        """The node for an entry that was looked up; a new one if it is another file."""
        directory = self.directory_of(parent)
        node = directory.nodes.get(entry.name)
        if node is not None and node.links is None and node.entry == entry:
            return node
        if node is not None and (directory.is_live or is_same(node.entry, entry)):
            if node.links:
                self.link(node, parent, entry)
            node.update(entry)
            return node
        if node is not None:
            self.unname(parent, entry.name)
        if entry.links > 1 and entry.identity in self._linked:
            node = self._linked[entry.identity]
            self.link(node, parent, entry)
            return node
        return self.new(parent, entry)

    def becomes(self, node: Node, entry: Entry) -> None:
        """Let a node that is not open become that of the file that replaced its own."""
        if node.entry == entry:
            return
        if not is_same(node.entry, entry):
            self._drop_linked(node)
            node.seen = None
        node.update(entry)

    def new(self, parent: Node, entry: Entry) -> Node:
        """A new node for a name."""
        self.last_number += 1
        node = Node(self.last_number, parent, entry)
        self._nodes[node.number] = node
        self.directory_of(parent).nodes[entry.name] = node
        if entry.links > 1 and entry.identity:
            self._linked[entry.identity] = node
        return node

    def told(self, node: Node) -> None:
        """Count a lookup of a node by the kernel."""
        node.lookups += 1
        self.lookups += 1

    def forget(self, given_back: Iterable[tuple[int, int]]) -> None:
        """FORGET: the kernel gives lookups back, as pairs of number and count."""
        for number, count in given_back:
            node = self._nodes.get(number)
            if node is not None:
                node.lookups -= count
                self.lookups -= count
                self.let_go(node)

    def let_go(self, node: Node) -> None:
        """Drop a node that is not needed any more, and those above that were kept for it."""
        while node.lookups <= 0 and node.number != ROOT_NUMBER:
            directory, parent, file = node.directory, node.parent, node.file
            if file is not None and file.handles:
                return
            if file is not None:
                self.idle.append(file)
                node.file = None
            if directory is not None and (directory.nodes or directory.handles):
                return
            self._nodes.pop(node.number, None)
            for above, name in self._names(node):
                names = self.directory_of(above).nodes
                if names.get(name) is node:
                    del names[name]
            self._drop_linked(node)
            if parent is None:
                return
            node = parent
        if node.directory is not None and not (node.directory.nodes or node.directory.handles):
            node.directory.listing.clear()

    def _drop_linked(self, node: Node) -> None:
        if node.entry.links > 1 and self._linked.get(node.entry.identity) is node:
            del self._linked[node.entry.identity]

    # -- names ---------------------------------------------------------------------------------

    def unname(self, parent: Node, name: str) -> Node | None:
        """Take the name from its node, which is returned. It stays open for programs that have it open."""
        directory = self.directory_of(parent)
        node = directory.nodes.pop(name, None)
        if node is None:
            return None
        if node.entry.links > 1:
            node.entry = replace(node.entry, links=node.entry.links - 1)
        if node.links:
            node.links.discard((parent, name))
            if (node.parent, node.name) == (parent, name) and node.links:
                node.parent, other = node.links.pop()
                node.entry = replace(node.entry, name=other)
        self.let_go(parent)
        return node

    def move(self, node: Node, parent: Node, name: str) -> None:
        """Rename a node; it replaces the node of that name."""
        self.unname(parent, name)
        old = node.parent
        assert old is not None
        names = self.directory_of(old).nodes
        if names.get(node.name) is node:
            del names[node.name]
        node.parent = parent
        node.entry = replace(node.entry, name=name)
        self.directory_of(parent).nodes[name] = node
        self._rebase(node)
        self.let_go(old)

    def _rebase(self, node: Node) -> None:
        """Set the folders of the view for a moved folder, and for all below it."""
        if node.directory is None:
            return
        node.directory.folder = node.folder.child(node.name)
        node.directory.listing.listed_at = -inf
        for child in node.directory.nodes.values():
            self._rebase(child)

    def link(self, node: Node, parent: Node, entry: Entry) -> None:
        """Give the node of a file a second name."""
        if entry.identity:
            self._linked[entry.identity] = node
        if node.parent is not None and (node.parent, node.name) != (parent, entry.name):
            if node.links is None:
                node.links = set()
            node.links.add((node.parent, node.name))
            node.links.discard((parent, entry.name))
        node.parent, node.entry = parent, entry
        self.directory_of(parent).nodes[entry.name] = node

    def _names(self, node: Node) -> Iterator[tuple[Node, str]]:
        if node.parent is not None:
            yield node.parent, node.name
        yield from node.links or ()

    def below(self, node: Node) -> Iterator[Node]:
        """A node, and all nodes below it."""
        yield node
        if node.directory is not None:
            for child in list(node.directory.nodes.values()):
                yield from self.below(child)
