"""Opens the stored file of an inode.

Owns what OPEN finds under the name of an inode, and when the kernel has to look that name up again. Used by
`files`. It must not know pyfuse3.

OPEN of an inode opens the file that the lookup found, as on a disk. So an open inode is shared without a
store call, and one whose name is deleted in the mount is opened at that moment, and stays open until the
kernel forgets it. An inode that is not open becomes that of the file that has its name now. If that is
impossible, `open` is ESTALE, and the kernel looks the name up again within the same system call.
"""

from operator import methodcaller
from typing import Any

from zarrfuse.errors import Corrupt, Denied, NotFound, Stale
from zarrfuse.fuse.contents import Contents
from zarrfuse.fuse.file import File
from zarrfuse.fuse.folders import Folders
from zarrfuse.fuse.nodes import Node, Nodes, is_same
from zarrfuse.stores.base import Reader, entry_of
from zarrfuse.views.base import Folder
from zarrfuse.views.control_files import LiveReader


class Opening:
    """Opens the files of inodes."""

    def __init__(self, nodes: Nodes, folders: Folders, contents: Contents) -> None:
        self._nodes = nodes
        self._folders = folders
        self._contents = contents

    async def file_of(self, node: Node, *, write: bool) -> File:
        """The file of an inode, open to read, or to write as well. Raises `Stale`."""
        if node.entry.denied:
            raise Denied(f"{node.name} leads out of the store")
        while True:
            file = node.file
            if file is not None and file.is_current(node.entry) and (file.writer or not write):
                return file
            if not node.is_named:
                raise Stale(f"{node.name} is deleted, or another file")
            is_written = write or (file is not None and file.writer is not None)
            content = None if is_written else self._at_hand(node)
            if content is None:
                content = await self._waited_for(node, write=is_written)
            if content is None:
                continue
            if not is_written and node.file is not None and node.file.writer is not None:
                await self._contents.close(content)  # it has been opened to write meanwhile
                continue
            return self._shared(node, content, write=is_written)

    async def reopen(self, node: Node) -> None:
        """Replace the content of an open inode, unless it has changes, by the stored file."""
        file = node.file
        if file is not None and not file.is_changed:
            write = file.writer is not None
            content = await self._content(node, write=write)
            file.take(content, entry_of(node.entry, content), content if write else None)

    def _at_hand(self, node: Node) -> Reader | None:
        """Open the stored file of an inode without waiting; None if that is not possible."""
        try:
            return None if self._folders.is_moving else node.folder.open(node.name, wait=False)
        except (BlockingIOError, NotFound):
            return None

    async def _waited_for(self, node: Node, *, write: bool) -> Any:
        """See `_content`; None if the mount has changed the name meanwhile. Raises `Stale`."""
        parent, name = node.parent, node.name
        assert parent is not None
        try:
            content = await self._content(node, write=write)
        except NotFound:
            if await self._has_lost_name(node, parent, name):
                return None
            await self._check_gone(node, parent, name)
            raise  # it is there, and cannot be opened: a node that must not be loaded
        if await self._has_lost_name(node, parent, name):
            await self._contents.close(content)
            return None
        return content

    async def _content(self, node: Node, *, write: bool) -> Any:
        """Open the stored file of an inode: a `Reader`, or a `Writer`."""
        assert node.parent is not None
        name = node.name

        def opened(folder: Folder) -> Reader:
            return folder.write(name) if write else folder.open(name)

        return await self._folders.ask(node.parent, opened, late=methodcaller("close"))

    async def _has_lost_name(self, node: Node, parent: Node, name: str) -> bool:
        """Whether the mount has renamed or deleted a node meanwhile; waits if it is doing so."""
        moved = await self._folders.has_moved(node)
        return moved or not node.is_named or node.parent is not parent or node.name != name

    async def _check_gone(self, node: Node, parent: Node, name: str) -> None:
        """Raises `Stale` if a name that could not be opened was deleted: O_CREAT then creates it."""
        try:
            await self._folders.look(parent, name)
        except NotFound:
            directory = self._nodes.directory_of(parent)
            if directory.nodes.get(name) is node:
                self._folders.drop(directory, name)
                self._nodes.unname(parent, name)
            raise Stale(f"{name} is gone; the kernel looks it up again") from None

    def _shared(self, node: Node, content: Reader, *, write: bool) -> File:
        """The file of an inode, with an opened content. Raises `Stale`."""
        if not 0 <= content.size < 1 << 63:  # what no kernel takes
            content.close()
            raise Corrupt(f"{node.name} claims to have {content.size} bytes")
        # `type(...) is`: a failed `isinstance` of a protocol's subclass takes 1 us of each open.
        if type(content) is LiveReader:  # rendered anew for each open
            return File(content, node.entry)
        writer: Any = content if write else None
        file, known = node.file, node.entry
        now = entry_of(known, content)
        is_other = file is not None and not is_same(known, now)
        if file is not None and (file.is_ahead or is_other) and (file.writer or not write):
            content.close()  # it is being written by now, or others have replaced it just now
            return file
        # With another mode or owner the kernel might have refused to open it.
        if is_other or now.access != known.access:
            content.close()
            self._folders.outdate(self._nodes.directory_of(node.parent))  # type: ignore[arg-type]
            raise Stale(f"{node.name} is another file now, or has another mode or owner")
        self._nodes.becomes(node, now)
        if file is None:
            node.file = file = File(content, now, writer)
        else:
            file.take(content, now, writer)
        return file
