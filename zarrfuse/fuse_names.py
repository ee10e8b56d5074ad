"""Handlers that change names: delete, rename, link, make and remove folders.

Owns what becomes of inode numbers when names change. Used by `daemon` for mounts that are written;
knows nothing of Zarr.
"""

import errno
import functools
import time
from contextlib import ExitStack
from typing import Any, NoReturn

import pyfuse3
import trio
from msgspec.structs import replace
from pyfuse3 import FUSEError

from zarrfuse.errors import Busy, NotEmpty, NotFound, NotSupported, Stale, TimedOut
from zarrfuse.fuse import answered
from zarrfuse.fuse_attributes import AttributeOperations
from zarrfuse.fuse_storing import SLOWEST_STORE
from zarrfuse.inodes import Directory
from zarrfuse.stores.access import new_folder
from zarrfuse.stores.base import Entry, Kind
from zarrfuse.views.control import bare


class ReadWriteOperations(AttributeOperations):
    """Serves a tree read-write."""

    @answered
    async def unlink(self, parent_inode: int, name: bytes, ctx: pyfuse3.RequestContext) -> None:
        """Delete a file. Who has it open goes on with it."""
        directory, text = self._place_for(parent_inode, name)
        copies = list(self._being_written(directory, text))
        for copy in copies:  # before, so that none of them is stored behind it
            copy.is_deleted = True

        def remove() -> None:
            with ExitStack() as held:
                for copy in copies:
                    held.enter_context(copy.storing)
                directory.folder.remove(text)

        try:
            await self._workers.run(remove, directory.folder.path)
        except NotFound:
            directory.retire(text, time.monotonic())
            raise
        except BaseException:
            for copy in copies:
                copy.is_deleted = False
            directory.changed(text, time.monotonic())
            raise
        for copy in self._being_written(directory, text):
            copy.is_deleted = True  # it was opened meanwhile
        directory.retire(text, time.monotonic())
        self.inodes.removed(directory, text)

    @answered
    async def rmdir(self, parent_inode: int, name: bytes, ctx: pyfuse3.RequestContext) -> None:
        """Delete an empty folder."""
        directory, text = self._place_for(parent_inode, name)
        child = directory.children.get(directory.slots.get(text, -1))
        if child is not None and any(self._being_written(child)):
            raise NotEmpty(f"a file is being written in the folder {text}")
        folder = directory.folder
        try:
            await self._workers.run(functools.partial(folder.remove_folder, text), folder.path)
        except BaseException:
            directory.changed(text, time.monotonic())
            raise
        directory.retire(text, time.monotonic())

    @answered
    async def mkdir(
        self, parent_inode: int, name: bytes, mode: int, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        """Make an empty folder."""
        directory, text = self._place_for(parent_inode, name)
        folder = directory.folder
        await self._workers.run(functools.partial(folder.make_folder, text), folder.path)
        now = time.monotonic()
        directory.retire(text, now)
        access = new_folder(self.inodes.entry(directory.inode).access)
        made = Entry(text, Kind.FOLDER, 0, time.time_ns(), access=access)
        told = self._told(directory, made)
        self.inodes.directory(told.st_ino).made_anew(now)
        return told

    @answered
    async def rename(
        self,
        parent_inode_old: int,
        name_old: bytes,
        parent_inode_new: int,
        name_new: bytes,
        flags: int,
        ctx: pyfuse3.RequestContext,
    ) -> None:
        """Give a file or folder another name; what was there is replaced at once."""
        if flags & ~pyfuse3.RENAME_NOREPLACE:
            raise NotSupported("names cannot be exchanged")
        source, name = self._place_for(parent_inode_old, name_old)
        target, new_name = self._place_for(parent_inode_new, name_new)
        may_replace = not flags & pyfuse3.RENAME_NOREPLACE
        folder, to = source.folder, bare(target.folder)

        slot = source.slots.get(name)
        child = None
        if slot is not None and source.entries[slot].kind is Kind.FOLDER:
            child = self.inodes.directory(source.inode_of(slot))
        if child is not None and self._is_written_below(child):
            raise Busy(f"a file is being written in the folder {name}")
        replaced = target.children.get(target.slots.get(new_name, -1))
        if replaced is not None and self._is_written_below(replaced):
            raise NotEmpty(f"a file is being written in the folder {new_name}")
        renamed = functools.partial(folder.rename, name, to, new_name, replace=may_replace)
        moved = trio.Event()
        if child is not None:
            self._moving[child] = moved
        try:
            longer_s = self._copying_s(source, slot)
            same = await self._workers.run(renamed, folder.path, longer_s=longer_s)
            if source is not target or name != new_name:
                self._renamed(source, name, target, new_name, slot, same=same)
        except TimedOut:  # it may yet come to be, or not
            source.retire(name, time.monotonic())
            target.retire(new_name, time.monotonic())
            raise
        finally:
            if child is not None:
                del self._moving[child]
            moved.set()

    def _renamed(
        self,
        source: Directory,
        name: str,
        target: Directory,
        new_name: str,
        slot: int | None,
        *,
        same: bool,
    ) -> None:
        """Take note of a new name; `same`: of the same file, which keeps its number."""
        now = time.monotonic()
        target.retire(new_name, now)
        source.changed(name, now)
        self.inodes.renamed(source, name, target, new_name, slot=None if same else slot)
        if slot is not None and same:
            entry = source.entries[slot]
            self.inodes.move(source, slot, target, replace(entry, name=new_name))
        elif slot is not None:
            # The kernel has given the new name to the inode of the old one, which holds what
            # was written, not what is shown: opening that is answered ESTALE.
            source.retire(name, now)
        self.inodes.release(source)
        self.inodes.release(target)

    def _copying_s(self, directory: Directory, slot: int | None) -> float:
        """How many seconds longer it may take where the bytes of a file have to be copied."""
        if slot is None:
            return 0.0
        now = self._as_now(directory.inode_of(slot), directory.entries[slot])
        return now.size / SLOWEST_STORE

    @answered
    async def link(
        self, inode: int, new_parent_inode: int, new_name: bytes, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        """A second name for a file: how writers make sure that they are the first."""
        place, slot = self.inodes.place(inode)
        source, name = self._named_at(inode)
        target, text = self._place_for(new_parent_inode, new_name)
        if not (place.is_current(slot) or slot in place.became):
            raise Stale(f"{name} is another file now")
        folder, to = source.folder, bare(target.folder)

        def linked() -> Entry:
            folder.link(name, to, text)
            return to.lookup(text)

        longer_s = self._copying_s(place, slot)
        entry = await self._workers.run(linked, to.path, longer_s=longer_s)
        target.retire(text, time.monotonic())
        return self._told(target, entry)

    @answered
    async def _not_offered(self, *_: Any) -> NoReturn:
        raise NotSupported("not offered: see docs/semantics.md")

    @answered
    async def _never_offered(self, *_: Any) -> NoReturn:
        raise FUSEError(errno.ENOSYS)  # ENOTSUP to the program, and the kernel asks no more

    mknod: Any = _not_offered
    symlink: Any = _not_offered
    setxattr: Any = _never_offered
    removexattr: Any = _never_offered
