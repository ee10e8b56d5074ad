"""The open files of a mount: opens, creates, holds and closes them.

Owns the handles, and what becomes of a file after the last release. Used by `names` and `operations`. It
must not know Zarr.

One inode is one file: all programs that have it open share its content. A file that is stored whole gets
a working copy at the first open for writing; `storing` says when that is stored.
"""

import os
from contextlib import suppress
from operator import methodcaller

import pyfuse3
from msgspec.structs import replace

from zarrfuse.errors import Exists, Stale, ZarrfuseError
from zarrfuse.fuse.contents import Contents
from zarrfuse.fuse.file import File
from zarrfuse.fuse.folders import Folders
from zarrfuse.fuse.handle import Handle
from zarrfuse.fuse.nodes import Node, Nodes
from zarrfuse.fuse.opening import Opening
from zarrfuse.fuse.page_cache import PageCache
from zarrfuse.fuse.storing import Storing
from zarrfuse.stores.access import Access, new_file
from zarrfuse.stores.base import Entry, Kind, Writer, entry_of
from zarrfuse.transactions.working_copy import WorkingCopy
from zarrfuse.views.base import Folder

WRITING = os.O_WRONLY | os.O_RDWR | os.O_TRUNC


class Files:
    """All open files; `handles`: by the numbers that the kernel got."""

    def __init__(
        self,
        nodes: Nodes,
        folders: Folders,
        contents: Contents,
        storing: Storing,
        *,
        pushed_bytes: int,
    ) -> None:
        self._nodes = nodes
        self._folders = folders
        self._contents = contents
        self._storing = storing
        self._opening = Opening(nodes, folders, contents)
        self.page_cache = PageCache(pushed_bytes)
        self.handles: dict[int, Handle] = {}
        self._last_handle = 0

    # -- opening -------------------------------------------------------------------------------

    async def open(self, node: Node, flags: int) -> pyfuse3.FileInfo:
        """Open an inode. Raises `Stale` if the kernel has to look its name up again."""
        file = await self._opening.file_of(node, write=bool(flags & WRITING))
        handle = self._handle_on(node, file)
        if node.is_unsure or flags & os.O_TRUNC:
            try:
                if node.is_unsure:
                    self.page_cache.void(node)
                    if flags & os.O_APPEND:  # the kernel knows where the end is, and does not ask
                        raise Stale(f"{node.name} has another size now")
                if flags & os.O_TRUNC and file.content.size:
                    await self._contents.truncate(handle, 0)
            except BaseException:
                await self.close(handle)
                raise
        return self.page_cache.opened(handle)

    def _handle_on(self, node: Node, file: File) -> Handle:
        self._last_handle += 1
        handle = self.handles[self._last_handle] = Handle(self._last_handle, node, file)
        file.handles += 1
        return handle

    # -- making --------------------------------------------------------------------------------

    async def create(
        self, parent: Node, name: str, flags: int, given: Access
    ) -> tuple[pyfuse3.FileInfo, Node]:
        """Create a file with the mode and owner `given`, and open it.

        Raises `Stale` if the name exists by then: the kernel looks it up, and checks permissions.
        """
        directory = self._nodes.directory_of(parent)
        is_exclusive = bool(flags & os.O_EXCL)

        def made(folder: Folder) -> Writer:
            try:
                return folder.create(name, exclusive=is_exclusive, given=given)
            except Exists:
                if is_exclusive:
                    raise
                raise Stale(f"{name} exists; the kernel looks it up again") from None

        def being_made() -> Node | None:
            node = directory.nodes.get(name)
            return node if node is not None and node.file and node.file.is_changed else None

        if being_made() is None:
            writer = await self._folders.ask(parent, made, late=methodcaller("close"))
            if being_made() is None:
                node = self._made(parent, name, writer)
                assert node.file is not None
                return self.page_cache.opened(self._handle_on(node, node.file)), node
            await self._contents.close(writer)
        if is_exclusive:
            raise Exists(f"{name} is being written by another program")
        there = being_made()  # by others, meanwhile
        if there is None:
            raise Stale(f"{name} exists; the kernel looks it up again")
        return await self.open(there, flags), there

    def _made(self, parent: Node, name: str, writer: Writer) -> Node:
        """The node of a new file."""
        given = writer.given if isinstance(writer, WorkingCopy) else None
        access = given or new_file(parent.entry.access)
        entry = Entry(name, Kind.FILE, writer.size, writer.mtime_ns, access=access)
        if writer.is_live:
            entry = entry_of(replace(entry, access=None), writer)
            node = self._nodes.found(parent, entry)
        else:
            self._nodes.unname(parent, name)
            node = self._nodes.new(parent, entry)
        if node.file is None:
            node.file = File(writer, entry, writer)
        else:
            node.file.take(writer, entry, writer)
        if not writer.is_live and writer.size == 0:
            node.file.is_made = True
            self._nodes.directory_of(parent).making.add(name)
        self._folders.put(node)
        return node

    async def set_size(self, node: Node, size: int) -> None:
        """Set the size of a file that the program has not opened, in bytes."""
        handle = self._handle_on(node, await self._opening.file_of(node, write=True))
        try:
            await self._contents.truncate(handle, size)
            if handle.file.copy is not None:
                await self._storing.store(handle)
        finally:
            await self.close(handle)

    async def hold(self, node: Node | None) -> Handle | None:
        """Open a file whose name is about to be deleted or replaced, for programs that have looked it up.

        Close it after that. Nothing is opened in a store that cannot read deleted files.
        """
        if node is None or node.entry.kind is not Kind.FILE:
            return None
        outlives = node.entry.identity != 0
        if node.file is None and not (outlives and node.lookups):
            return None
        for write in (outlives, False):
            with suppress(ZarrfuseError, OSError):
                return self._handle_on(node, await self._opening.file_of(node, write=write))
        return None

    async def reopen(self, node: Node) -> None:
        """Open the stored file of an inode again, after its content was stored under another form."""
        self.page_cache.void(node)
        await self._opening.reopen(node)

    # -- the end -------------------------------------------------------------------------------

    async def close(self, handle: Handle | None) -> None:
        """RELEASE of a handle. If its changes cannot be stored, the error reaches only the log."""
        if handle is None:
            return
        file = handle.file
        try:
            is_last = file.copy is not None and file.handles == 1
            if is_last and file.is_changed and not file.is_refused and not file.is_broken:
                await self._storing.store(handle)
        finally:
            del self.handles[handle.number]
            file.handles -= 1
            if not file.handles:
                await self._end(handle.node, file)

    async def _end(self, node: Node, file: File) -> None:
        """Close the file after the last release: its content is the stored one again."""
        is_named = node.is_named
        if node.file is file:
            if not is_named and node.lookups > 0:
                return  # a program may have looked it up while it had a name
            node.file = None
            if file.writer is not None and is_named:
                self._settle(node, file)
            if node.lookups <= 0:
                self._nodes.let_go(node)
        if file.writer is None and is_named:
            file.close()
        else:
            await self._contents.close(file)

    async def close_idle(self) -> None:
        """Close the files of inodes that are forgotten."""
        while self._nodes.idle:
            await self._contents.close(self._nodes.idle.pop())

    def _settle(self, node: Node, file: File) -> None:
        """Update the entry of a name after the last release."""
        assert node.parent is not None
        directory = self._nodes.directory_of(node.parent)
        if file.is_live:
            with suppress(OSError):
                node.update(entry_of(node.entry, file.content))
            self._folders.put(node)
        elif file.is_made:
            directory.making.discard(node.name)
            self._folders.drop(directory, node.name)
            self._nodes.unname(node.parent, node.name)
            self.page_cache.void(node)
        elif file.copy is not None:
            self.page_cache.void(node)
            node.is_unsure = node.entry.size != file.copy.size  # a document is shown rewritten
            if file.is_changed:
                self._folders.outdate(directory)
