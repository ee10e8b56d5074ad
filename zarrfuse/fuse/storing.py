"""Stores working copies of open files.

Owns when a working copy is stored, and what is known of its name after that. Used by `files`, `names` and
`operations`. It must not know pyfuse3 or Zarr.

A working copy is stored at fsync, at each close of a handle that has written, and at the release of the
last handle. FLUSH does not tell which close is the last: a shell closes a file that it has just opened for
a command. So an empty copy is stored at the last release only.
"""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import TypeVar

from zarrfuse.errors import Corrupt, NotFound
from zarrfuse.fuse.contents import Contents
from zarrfuse.fuse.file import File
from zarrfuse.fuse.folders import Folders
from zarrfuse.fuse.handle import Handle
from zarrfuse.fuse.nodes import Node, Nodes
from zarrfuse.fuse.workers import SLOWEST_STORE
from zarrfuse.stores.base import Entry
from zarrfuse.views.base import Folder

T = TypeVar("T")


class Storing:
    """Stores the working copies of open files under the names that these have by then."""

    def __init__(self, nodes: Nodes, folders: Folders, contents: Contents) -> None:
        self._nodes = nodes
        self._folders = folders
        self._contents = contents

    async def flush(self, handle: Handle) -> None:
        """FLUSH, when a program closes the file: store what it wrote. Raises if that fails."""
        file, copy = handle.file, handle.file.copy
        if copy is None or not handle.has_written:
            return
        if file.is_broken or (copy.changed and copy.size):
            await self.store(handle)

    async def fsync(self, handle: Handle) -> None:
        """Store what was written, durably."""
        if handle.file.copy is not None:
            await self.store(handle, sync=True)
        elif handle.file.is_live:
            await self._contents.use(handle, partial(_sync, handle.file))

    async def store(self, handle: Handle, *, sync: bool = False) -> None:
        """Store a changed working copy under its present name."""
        node, file = handle.node, handle.file
        async with file.storing:
            copy = file.copy
            assert copy is not None
            if file.is_broken:
                raise Corrupt("a write failed before, so nothing of this file is stored")
            if not copy.changed and sync:
                await self._contents.use(handle, copy.sync)
            if not copy.changed or not node.is_named or node.file is not file:
                return
            assert node.parent is not None
            name = node.name

            def store(folder: Folder) -> Entry | None:
                folder.store(name, copy, sync=sync)
                try:
                    return folder.lookup(name)
                except NotFound:  # an empty chunk, which is not stored
                    return None

            file.is_refused = True  # unless this succeeds: what a program was told failed stays so
            in_use = partial(_in_use, file, store)
            longer_s = copy.size / SLOWEST_STORE
            entry = await self._folders.ask(node.parent, in_use, longer_s=longer_s)
            file.is_refused = handle.has_written = False
            self._is_stored(node, file, entry)

    def _is_stored(self, node: Node, file: File, entry: Entry | None) -> None:
        assert node.parent is not None
        directory = self._nodes.directory_of(node.parent)
        if entry is None:
            file.is_made = True
            directory.making.add(node.name)
        else:
            file.is_made = False
            if file.copy is not None:
                file.copy.given = None  # what is stored hands its mode and owner on
            directory.making.discard(node.name)
            node.update(entry)
            file.known = entry
            node.seen = entry.size, entry.mtime_ns
        self._folders.put(node)
        self._folders.outdate(directory)  # with a document, all names may have become others

    async def store_node(self, node: Node) -> None:
        """Store the changes of a node's file, if it is open."""
        if node.file is not None and node.file.is_changed:
            await self.store(Handle(0, node, node.file))

    async def wait_for_stores(self, *nodes: Node | None) -> list[File]:
        """Keep working copies of nodes, and of those below them, from being stored; see `go_on`."""
        below = {each for node in nodes if node is not None for each in self._nodes.below(node)}
        held = []
        for each in sorted(below, key=attrgetter("number")):
            file = each.file
            if file is not None and file.copy is not None:
                await file.storing.acquire()
                held.append(file)
        return held

    def go_on(self, held: list[File]) -> None:
        """Let these files be stored again."""
        for file in held:
            file.storing.release()


def _in_use(file: File, call: Callable[[Folder], T], folder: Folder) -> T:
    return file.in_use(lambda: call(folder))


def _sync(file: File) -> None:
    file.content.sync()  # type: ignore[attr-defined]
