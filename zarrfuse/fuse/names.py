"""Changes names: deletes, renames and links files, makes and deletes folders.

Owns the order in which the view, the nodes and the listings are changed. Used by `operations`. It must not
know pyfuse3 or Zarr.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from msgspec.structs import replace

from zarrfuse.errors import (
    Exists,
    IsAFolder,
    NotEmpty,
    NotFound,
    NotSupported,
    TimedOut,
    ZarrfuseError,
)
from zarrfuse.fuse.files import Files
from zarrfuse.fuse.folders import Folders
from zarrfuse.fuse.listing import is_hidden
from zarrfuse.fuse.nodes import Directory, Node, Nodes
from zarrfuse.fuse.storing import Storing
from zarrfuse.fuse.workers import SLOWEST_STORE
from zarrfuse.stores.access import Access
from zarrfuse.stores.base import Entry, Kind
from zarrfuse.views.base import Folder
from zarrfuse.views.control_files import CONTROL_NAME, bare


class Names:
    """Changes the names in folders."""

    def __init__(self, nodes: Nodes, folders: Folders, files: Files, storing: Storing) -> None:
        self._nodes = nodes
        self._folders = folders
        self._files = files
        self._storing = storing

    def check(
        self, parent: Node, name: str, error: type[ZarrfuseError] = NotSupported
    ) -> Directory:
        """The folder of a name that is to be changed. Raises `error` for names that a mount never has."""
        directory = self._nodes.directory_of(parent)
        is_control = name == CONTROL_NAME and parent is self._nodes.root
        if is_hidden(name) or directory.is_live or is_control:
            raise error(f"nothing can be stored under the name {name} here")
        return directory

    async def unlink(self, parent: Node, name: str) -> None:
        """Delete a file. Programs that have it open keep it."""
        directory = self.check(parent, name)
        node = directory.nodes.get(name)
        async with self._losing_name(node):
            is_made = node is not None and node.file is not None and node.file.is_made
            try:
                await self._folders.ask(parent, lambda folder: folder.remove(name))
            except NotFound:
                self._is_gone(parent, name)
                if not is_made:
                    raise
            else:
                self._is_gone(parent, name)
            finally:
                self._folders.outdate(directory)

    @asynccontextmanager
    async def _losing_name(
        self, lost: Node | None, renamed: Node | None = None
    ) -> AsyncIterator[None]:
        """A block in which the name of a node is deleted or replaced.

        In it no working copy is stored, and lookups and opens of the names wait. The node stays open for
        programs that have looked it up.
        """
        handle = await self._files.hold(lost)
        try:
            held = await self._storing.wait_for_stores(lost, renamed)
            try:
                with self._folders.moving(lost, renamed):
                    yield
            finally:
                self._storing.go_on(held)
        finally:
            await self._files.close(handle)

    async def rmdir(self, parent: Node, name: str) -> None:
        """Delete an empty folder."""
        directory = self.check(parent, name)
        node = directory.nodes.get(name)
        if node is not None and node.directory is not None and node.directory.making:
            raise NotEmpty(f"a file is being written in the folder {name}")
        await self._folders.ask(parent, lambda folder: folder.remove_folder(name))
        self._is_gone(parent, name)
        self._folders.outdate(directory)

    def _is_gone(self, parent: Node, name: str) -> None:
        directory = self._nodes.directory_of(parent)
        directory.making.discard(name)
        self._folders.drop(directory, name)
        self._nodes.unname(parent, name)

    async def mkdir(self, parent: Node, name: str, given: Access) -> Node:
        """Make an empty folder."""
        return await self._make(parent, name, lambda folder: folder.make_folder(name, given))

    async def symlink(self, parent: Node, name: str, text: str, given: Access) -> Node:
        """Make a symlink."""
        return await self._make(parent, name, lambda folder: folder.symlink(name, text, given))

    async def _make(self, parent: Node, name: str, make: Callable[[Folder], None]) -> Node:
        self.check(parent, name)

        def made(folder: Folder) -> Entry:
            make(folder)
            return folder.lookup(name)

        entry = await self._folders.ask(parent, made)
        self._nodes.unname(parent, name)
        node = self._nodes.new(parent, entry)
        self._folders.put(node)
        return node

    async def rename(
        self, parent: Node, name: str, to: Node, new_name: str, *, may_replace: bool
    ) -> None:
        """Rename a file or folder; it atomically replaces an existing one."""
        source, target = self.check(parent, name), self.check(to, new_name)
        node = source.nodes.get(name)
        if node is None:
            node = self._nodes.found(parent, await self._folders.entry(parent, name))
        replaced = target.nodes.get(new_name)
        if node is replaced:
            return
        if replaced is not None and replaced.directory is not None and replaced.directory.making:
            raise NotEmpty(f"a file is being written in the folder {new_name}")
        if node.file is not None and node.file.is_made:
            await self._check_replaced(to, new_name, may_replace)
        if (node.parent, node.name) != (parent, name):
            self._nodes.link(node, parent, replace(node.entry, name=name))
        async with self._losing_name(replaced, node):
            await self._rename(node, parent, to, new_name, may_replace=may_replace)

    async def _rename(
        self,
        node: Node,
        parent: Node,
        to: Node,
        new_name: str,
        *,
        may_replace: bool,
    ) -> None:
        source, target = map(self._nodes.directory_of, (parent, to))
        name, there = node.name, bare(target.folder)
        if node.file is not None and node.file.is_made:
            entry, is_same = node.now, True  # only the mount knows the name
            assert node.file.copy is not None
            node.file.copy.is_new = False  # whether it may replace was asked
        else:

            def renamed(folder: Folder) -> tuple[Entry, bool]:
                is_same = folder.rename(name, there, new_name, replace=may_replace)
                return there.lookup(new_name), is_same

            longer_s = node.now.size / SLOWEST_STORE  # its bytes may have to be copied
            try:
                entry, is_same = await self._folders.ask(parent, renamed, longer_s=longer_s)
            except TimedOut:  # it may yet come to be, or not
                self._folders.outdate(source)
                self._folders.outdate(target)
                raise
        self._folders.drop(source, name)
        source.making.discard(name)
        self._nodes.move(node, to, new_name)
        self._nodes.becomes(node, replace(entry, name=new_name))
        self._folders.put(node)
        for directory in (source, target):
            self._folders.outdate(directory)
        if node.file is not None and node.file.is_made:
            target.making.add(new_name)
        else:
            target.making.discard(new_name)
        if not is_same:
            await self._files.reopen(node)

    async def _check_replaced(self, to: Node, new_name: str, may_replace: bool) -> None:
        """Check that a file which is not stored yet may replace a name."""
        try:
            entry = await self._folders.entry(to, new_name)
        except NotFound:
            return
        if not may_replace:
            raise Exists(f"{new_name} exists already")
        if entry.kind is Kind.FOLDER:
            raise IsAFolder(f"{new_name} is a folder")

    async def link(self, node: Node, to: Node, new_name: str) -> Node:
        """Give a file a second name; programs use it to create a file exclusively."""
        target = self.check(to, new_name)
        if node.parent is None or not node.is_named:
            raise NotFound(f"{node.name} is deleted")
        await self._storing.store_node(node)
        source, name, there = node.parent, node.name, bare(target.folder)

        def linked(folder: Folder) -> Entry:
            folder.link(name, there, new_name)
            return there.lookup(new_name)

        longer_s = node.now.size / SLOWEST_STORE
        entry = await self._folders.ask(source, linked, longer_s=longer_s)
        self._nodes.unname(to, new_name)
        if entry.identity and entry.identity == node.entry.identity:
            self._nodes.link(node, to, entry)
        else:
            node = self._nodes.new(to, entry)
        self._folders.put(node)
        self._folders.outdate(target)
        return node
