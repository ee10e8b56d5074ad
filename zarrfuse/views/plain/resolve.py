"""Resolves a folder of a view with chunks below `c`: it is a stored folder, or a chunk folder.

Owns the way from the root to the folder, which changes with the metadata above it. Used by the `plain` and
`images` views, which decide how a node is shown.
"""

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar
from weakref import WeakValueDictionary

from zarrfuse.errors import NotFound
from zarrfuse.spec.paths import join
from zarrfuse.stores.base import Entry, Kind
from zarrfuse.views.base import Folder
from zarrfuse.views.chunks.view import ChunksFolder, ChunksView
from zarrfuse.views.nodes import Loaded
from zarrfuse.views.plain.chunks import TOP, Coords, PlainChunks


class ShownNode(Protocol):
    """A node as a view shows it, as long as its document is the same."""

    @property
    def folder(self) -> ChunksFolder:
        """Its own folder in the `chunks` view."""

    @property
    def loaded(self) -> Loaded:
        """Its node."""

    @property
    def chunks(self) -> PlainChunks | None:
        """The chunks that are shown below `c`; None for a group, and for what is shown as it is stored."""


N = TypeVar("N", bound=ShownNode)


@dataclass(frozen=True, slots=True)
class StoredFolder(Generic[N]):
    """A folder of the `chunks` view, shown under its own name; `node`: the nearest one at or above it.

    `chunks`: those of the node at this moment.
    """

    folder: ChunksFolder
    node: N | None
    chunks: PlainChunks | None

    @property
    def is_node(self) -> bool:
        """Whether the folder is the node itself."""
        return self.node is not None and self.node.folder is self.folder

    def is_taken(self, name: str, kind: Kind) -> bool:
        """Whether a stored name in the folder holds chunks, and is shown below `c` instead."""
        if self.node is None or self.chunks is None:
            return False
        key = join(self.folder.path, name)[len(self.node.loaded.path) :].lstrip("/")
        return self.chunks.is_taken(key, kind)

    def scan(self) -> Iterator[Entry]:
        """The stored entries that hold no chunks."""
        if self.chunks is None:
            return self.folder.scan()
        return (entry for entry in self.folder.scan() if not self.is_taken(entry.name, entry.kind))

    def lookup(self, name: str, *, wait: bool = True) -> Entry:
        """One of these entries. Raises `NotFound`; `BlockingIOError` as for stores."""
        entry = self.folder.lookup(name, wait=wait)
        if self.is_taken(name, entry.kind):
            raise NotFound(f"{name} in {self.folder.path} holds chunks, shown under {TOP}")
        return entry

    def readlink(self, name: str) -> str:
        """The shown target of a symlink in the folder. Raises `NotFound`."""
        if self.chunks is None:
            return self.folder.readlink(name)
        return self.chunks.shown_link(self.folder, name)


@dataclass(frozen=True, slots=True)
class ChunkFolder(Generic[N]):
    """The folder of the chunks of an array whose coordinates begin with `prefix`."""

    node: N
    chunks: PlainChunks
    prefix: Coords


class Resolver(Generic[N]):
    """Resolves one folder of a view; `parent` resolves the folder above it.

    `shown`: makes the node of the view from a folder, its node, and the nearest node of the view above. It
    may take long.
    """

    __slots__ = (
        *("__weakref__", "_chunks", "_folder", "_known", "_name", "_node", "_parent", "_shown"),
        "path",
    )

    def __init__(
        self,
        chunks: ChunksView,
        shown: Callable[[ChunksFolder, Loaded, N | None], N],
        parent: "Resolver[N] | None" = None,
        name: str = "",
    ) -> None:
        self._chunks = chunks
        self._shown = shown
        self._parent = parent
        self._name = name
        self._folder: ChunksFolder | None = None
        self._node: N | None = None
        self.path: str = name if parent is None else join(parent.path, name)
        self._known: WeakValueDictionary[str, Resolver[N]] = (
            WeakValueDictionary() if parent is None else parent._known
        )

    def below(self, name: str) -> "Resolver[N]":
        """Resolves the subfolder `name`: one object for each path."""
        below = self._known.get(join(self.path, name))
        if below is None:
            made = Resolver(self._chunks, self._shown, self, name)
            below = self._known.setdefault(made.path, made)
        return below

    def now(self, *, wait: bool = True) -> StoredFolder[N] | ChunkFolder[N]:
        """What the folder is now. Raises `NotFound`; `BlockingIOError` as for stores."""
        chain = [self]
        while chain[-1]._parent is not None:
            chain.append(chain[-1]._parent)
        place = chain.pop()._root(wait)
        while chain:
            place = chain.pop()._in(place, wait)
        return place

    def _root(self, wait: bool) -> StoredFolder[N] | ChunkFolder[N]:
        if self._folder is None:
            self._folder = self._chunks.root
        return self._stored(self._folder, None, wait)

    def _in(
        self, above: StoredFolder[N] | ChunkFolder[N], wait: bool
    ) -> StoredFolder[N] | ChunkFolder[N]:
        name = self._name
        if isinstance(above, ChunkFolder):
            coords = above.chunks.coords_below(above.prefix, name)
            if coords is not None:
                return _in_chunks(above.node, above.chunks, coords)
            return self._in_folder(above.chunks.beside(above.prefix, name), above.node, wait)
        if name == TOP and above.is_node and above.node is not None and above.chunks is not None:
            return _in_chunks(above.node, above.chunks, ())
        return self._in_folder(above.folder, above.node, wait)

    def _in_folder(self, above: ChunksFolder, node: N | None, wait: bool) -> StoredFolder[N]:
        """The stored folder of this name."""
        folder = self._folder
        if folder is None or folder.path != join(above.path, self._name):
            folder = self._folder = above.child(self._name)
        return self._stored(folder, node, wait)

    def _stored(self, folder: ChunksFolder, above: N | None, wait: bool) -> StoredFolder[N]:
        loaded = folder.loaded(wait=wait)
        if loaded is None:
            return StoredFolder(folder, above, None if above is None else above.chunks)
        node = self._node
        if node is None or node.loaded is not loaded or node.folder is not folder:
            if not wait:
                raise BlockingIOError(errno.EAGAIN, "a node has to be judged")
            node = self._node = self._shown(folder, loaded, above)
        return StoredFolder(folder, node, node.chunks)


def _in_chunks(node: N, chunks: PlainChunks, coords: Coords) -> ChunkFolder[N]:
    """The chunk folder of these coordinates. Raises `NotFound` where there is a chunk, a file."""
    if chunks.is_complete(coords):
        raise NotFound(f"a chunk of {node.loaded.path or 'the root array'} is no folder")
    return ChunkFolder(node, chunks, coords)


class ResolvedFolder(Folder, Generic[N]):
    """A folder of such a view. Which kind of folder it is may change with the metadata above it."""

    __slots__ = ("_resolver", "path")

    def __init__(self, placed: Resolver[N]) -> None:
        self._resolver = placed
        self.path = placed.path

    def child(self, name: str) -> Self:
        """See `views.base.Folder`."""
        return type(self)(self._resolver.below(name))

    def readlink(self, name: str) -> str:
        """See `views.base.Folder`."""
        place = self._resolver.now()
        if isinstance(place, ChunkFolder):
            return place.chunks.readlink(place.prefix, name)
        return place.readlink(name)
