"""Looks names up and lists folders, and caches the listings.

Used by the modules that open, store, rename and list files. It must not know pyfuse3.

A view is called from the event loop first (`wait=False`), and in a thread if that raises `BlockingIOError`.
Views work with paths. If a folder of the path is renamed meanwhile, the call fails, and is made again.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import trio

from zarrfuse import caching
from zarrfuse.errors import NotFound
from zarrfuse.fuse.nodes import Directory, Node, Nodes
from zarrfuse.fuse.scan import Scan
from zarrfuse.fuse.workers import Workers
from zarrfuse.stores.base import UNKNOWN_SIZE, Entry
from zarrfuse.views.base import Folder
from zarrfuse.views.control_files import CONTROL_NAME

T = TypeVar("T")


class OpenFolder:
    """A handle on a folder: its listing of when it was opened. An offset is an index of `entries`.

    `entries` grows as long as the `scan` runs.
    """

    __slots__ = ("entries", "is_read", "node", "scan")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.entries: list[Entry] = []
        self.scan: Scan | None = None
        self.is_read = False


class Folders:
    """Looks names up and lists folders. Listings are cached for `ttl_s` seconds.

    `handles`: the open folders, by the numbers that the kernel got. `lists_all`: see `Store.lists_all`.
    """

    def __init__(
        self, nodes: Nodes, workers: Workers, ttl_s: float, *, lists_all: bool = True
    ) -> None:
        self._lists_all = lists_all
        self._nodes = nodes
        self._workers = workers
        self._ttl_s = ttl_s
        self.handles: dict[int, OpenFolder] = {}
        self._last_handle = 0
        self._nursery: trio.Nursery | None = None
        self._moving: dict[Node, trio.Event] = {}
        """Nodes that are being renamed, with the event that is set at the end."""

    def start(self, nursery: trio.Nursery) -> None:
        """Run listings in this nursery."""
        self._nursery = nursery

    # -- asking --------------------------------------------------------------------------------

    async def ask(
        self,
        parent: Node,
        call: Callable[[Folder], T],
        late: Callable[[T], None] | None = None,
        *,
        longer_s: float = 0.0,
    ) -> T:
        """Call a method of the view's folder in a thread; see `Workers.run`."""
        directory = self._nodes.directory_of(parent)
        while True:
            folder = directory.folder
            try:
                return await self._workers.run(
                    partial(call, folder), folder.path, late, longer_s=longer_s, may_end=True
                )
            except NotFound:
                if not await self.has_moved(parent) and directory.folder is folder:
                    raise

    @property
    def is_moving(self) -> bool:
        """Whether any node is being renamed."""
        return bool(self._moving)

    async def has_moved(self, node: Node | None) -> bool:
        """Wait while a node, or a folder above it, is renamed; returns whether it was."""
        has_moved = False
        while self._moving:
            above = node
            while above is not None and above not in self._moving:
                above = above.parent
            if above is None:
                break
            has_moved = True
            await self._moving[above].wait()
        return has_moved

    @contextmanager
    def moving(self, *nodes: Node | None) -> Iterator[None]:
        """A block in which nodes are renamed or replaced."""
        moved = trio.Event()
        self._moving.update((node, moved) for node in nodes if node is not None)
        try:
            yield
        finally:
            for node in nodes:
                if node is not None:
                    del self._moving[node]
            moved.set()

    # -- look-ups ------------------------------------------------------------------------------

    def is_fresh(self, directory: Directory) -> bool:
        """Whether the cached listing of a folder is still valid."""
        return not directory.is_live and caching.is_fresh(directory.listing.listed_at, self._ttl_s)

    def at_hand(self, directory: Directory, name: str) -> Entry | None:
        """The entry of a name, from a valid listing or from the view. Raises `NotFound`.

        None if the view has to wait for it; see `look`.
        """
        if self.is_fresh(directory) and name != CONTROL_NAME:  # of which no listing tells
            entry = directory.listing.entries.get(name)
            if entry is None and self._lists_all:
                raise NotFound(f"no {name} in {directory.folder.path or 'the root'}")
            if entry is not None and entry.size != UNKNOWN_SIZE:
                return entry
        if self._moving:
            return None
        try:
            return directory.folder.lookup(name, wait=False)
        except BlockingIOError:
            return None

    async def entry(self, parent: Node, name: str) -> Entry:
        """See `at_hand`; waits for the view."""
        entry = self.at_hand(self._nodes.directory_of(parent), name)
        return await self.look(parent, name) if entry is None else entry

    async def look(self, parent: Node, name: str) -> Entry:
        """Look a name up in the view; again, if the mount changed the name meanwhile."""
        directory = self._nodes.directory_of(parent)
        while True:
            node = directory.nodes.get(name)
            known = None if node is None else node.entry
            try:
                try:
                    entry = directory.folder.lookup(name, wait=False)
                except BlockingIOError:
                    entry = await self.ask(parent, lambda folder: folder.lookup(name))
            except NotFound:
                if not await self.has_moved(node or parent):
                    raise
                continue
            if node in self._moving:
                await self.has_moved(node)
            elif directory.nodes.get(name) is node:
                if node is not None and node.is_ahead:
                    return node.entry
                if node is None or node.entry is known:
                    return entry  # else it was stored meanwhile

    def forget(self, parent: Node, name: str) -> None:
        """Forget a name that was deleted outside of the mount."""
        self._nodes.unname(parent, name)
        self._nodes.directory_of(parent).listing.entries.pop(name, None)

    # -- what the mount changes ----------------------------------------------------------------

    def put(self, node: Node) -> None:
        """Note that the mount created or changed a name."""
        assert node.parent is not None
        directory = self._nodes.directory_of(node.parent)
        is_watched = directory.handles > 0
        directory.listing.put(node.entry, caching.now(), is_watched=is_watched)

    def drop(self, directory: Directory, name: str) -> None:
        """Note that the mount deleted a name."""
        is_watched = directory.handles > 0
        directory.listing.drop(name, caching.now(), is_watched=is_watched)

    def outdate(self, directory: Directory) -> None:
        """Note that any entry of a folder may have changed."""
        directory.listing.outdate(caching.now())

    # -- listings ------------------------------------------------------------------------------

    async def open(self, node: Node) -> int:
        """Open a folder and begin to list it, so that errors come here; returns its number in `handles`."""
        directory = self._nodes.directory_of(node)
        directory.handles += 1
        opened = OpenFolder(node)
        try:
            await self.begin(opened)
        except BaseException:
            self._closed(opened)
            raise
        self._last_handle += 1
        self.handles[self._last_handle] = opened
        return self._last_handle

    async def begin(self, opened: OpenFolder) -> None:
        """Begin a new listing."""
        directory = self._nodes.directory_of(opened.node)
        self._leave(opened)
        scan = directory.scan
        if scan is None and self.is_fresh(directory):
            opened.entries = list(directory.listing.entries.values())
            return
        if scan is None or not caching.is_fresh(scan.begun_at, self._ttl_s):
            assert self._nursery is not None
            scan = directory.scan = Scan(directory.folder, self._workers, self._nursery)
            directory.listing.begin(scan.begun_at)
        scan.users += 1
        opened.scan, opened.entries = scan, scan.shown
        await self.reach(opened, 0)

    async def reach(self, opened: OpenFolder, place: int) -> None:
        """Wait until the listing has an entry at an index, or has ended."""
        scan = opened.scan
        while scan is not None and len(scan.shown) <= place and not scan.is_complete:
            await self._continue(opened.node, scan)

    async def _continue(self, node: Node, scan: Scan) -> None:
        directory = self._nodes.directory_of(node)
        try:
            found = await scan.more()
            if node is self._nodes.root:
                found = [entry for entry in found if entry.name != CONTROL_NAME]
            scan.shown += directory.listing.extend(found, coming=directory.scan is scan)
        finally:
            if directory.scan is scan and scan.has_ended:
                directory.scan = None
                directory.listing.end(complete=scan.is_complete)
                for name in directory.making - directory.listing.entries.keys():
                    made = directory.nodes[name].entry
                    directory.listing.entries[name] = made
                    scan.shown.append(made)

    def close(self, number: int) -> None:
        """Close an open folder."""
        self._closed(self.handles.pop(number))

    def _closed(self, opened: OpenFolder) -> None:
        directory = self._nodes.directory_of(opened.node)
        directory.handles -= 1
        self._leave(opened)
        if not directory.handles:
            directory.listing.changed.clear()
        self._nodes.let_go(opened.node)

    def _leave(self, opened: OpenFolder) -> None:
        """Detach a handle from its scan, which is cancelled if no other handle uses it."""
        scan, opened.scan = opened.scan, None
        if scan is None:
            return
        scan.users -= 1
        if not scan.users and not scan.has_ended:
            scan.give_up()
            directory = self._nodes.directory_of(opened.node)
            if directory.scan is scan:
                directory.scan = None
                directory.listing.end(complete=False)
