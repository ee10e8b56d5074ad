"""The attributes of files and folders: updates, sets and checks them.

Used by `operations`. It must not know pyfuse3.
"""

import os
from functools import partial
from typing import Any

from msgspec.structs import replace

from zarrfuse.errors import Denied, ReadOnly, Stale, ZarrfuseError
from zarrfuse.fuse.contents import Contents
from zarrfuse.fuse.folders import Folders
from zarrfuse.fuse.handle import Handle
from zarrfuse.fuse.nodes import Node, Nodes, is_same
from zarrfuse.stores.access import Access, Change
from zarrfuse.stores.base import Entry, Kind, entry_of
from zarrfuse.views.attributes import attributes
from zarrfuse.views.base import Folder


class Attributes:
    """The attributes of nodes. `Contents.truncate` and `Files.set_size` set sizes."""

    def __init__(self, nodes: Nodes, folders: Folders, contents: Contents) -> None:
        self._nodes = nodes
        self._folders = folders
        self._contents = contents

    async def refresh(self, node: Node) -> None:
        """Update the entry of a node, except of an open file whose name was deleted or replaced."""
        file = node.file
        if not node.is_named or node.is_ahead or (file is not None and file.is_live):
            return
        if node.parent is None:
            entry = await self._folders.look(node, "")
        else:
            # A listing does not tell what was done since to names in a folder, or to other names of a file.
            is_listed = node.entry.kind is not Kind.FOLDER and node.entry.links == 1
            ask = self._folders.entry if is_listed else self._folders.look
            try:
                entry = await ask(node.parent, node.name)
            except (ZarrfuseError, OSError):
                if file is None:
                    raise
                return
        if node.entry.kind is entry.kind and (file is None or is_same(node.entry, entry)):
            node.update(entry)

    async def set(self, node: Node, change: Change) -> None:
        """Set times, mode and owner of a file or folder."""
        file = node.file
        if file is not None and file.is_made:
            assert file.copy is not None
            file.copy.given = change.of(node.entry.access or file.copy.given or Access(0o644, 0, 0))
            node.entry = replace(node.entry, access=file.copy.given)
            change = Change(change.mtime_ns)
        if file is not None and (file.is_changed or not node.is_named):
            handle = Handle(0, node, file)
            content: Any = file.content if file.is_live else handle.writer()
            await self._contents.use(handle, partial(content.change, change))
            if file.is_live:
                node.entry = entry_of(replace(node.entry, access=None), content)
                return
            if not node.is_named:  # nobody else can open it
                access = change.of(node.entry.access or Access(0o644, 0, 0))
                node.entry = replace(node.entry, access=access)
                return
            change = change._replace(mtime_ns=None, atime_ns=None)
        if change == Change():
            return
        if not node.is_named:
            raise Stale(f"{node.name} is another file now")
        parent, name = (node, "") if node.parent is None else (node.parent, node.name)

        def changed(folder: Folder) -> Entry:
            folder.change(name, change)
            return folder.lookup(name)

        entry = await self._folders.ask(parent, changed)
        if is_same(node.entry, entry) or file is None:
            node.update(replace(entry, name=node.name))
        if file is not None:
            file.known = node.entry
        if node.parent is not None:
            self._folders.put(node)

    def check_access(self, node: Node, mode: int) -> None:
        """Raises if a file of a read-only mount may not be written or executed. Opening checks reads."""
        if mode & os.W_OK:
            raise ReadOnly("the mount is read-only")
        entry = node.entry
        bits = 0 if entry.access is None else entry.access.mode
        if mode & os.X_OK and entry.kind is Kind.FILE and not bits & 0o111:
            raise Denied(f"{entry.name} is no program")

    async def extended(self, node: Node) -> dict[bytes, bytes]:
        """The extended attributes, which are facts of control files."""
        name = node.name if node.entry.kind is not Kind.FOLDER else None
        of = node.parent if name is not None and node.parent is not None else node
        directory = self._nodes.directory_of(of)
        if node.entry.denied or directory.is_live:
            return {}
        return attributes(await self._folders.ask(of, lambda at: at.facts(name).to_json()))
