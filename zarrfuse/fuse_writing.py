"""Handlers that open files to write them: look-ups, open, create.

Owns which inode a writer has. Used by `fuse_attributes`; knows nothing of Zarr, nor of parts. When what
was written is stored, `fuse_storing` says.

**Shared files** are the stored file itself: all who have it open use one inode.

**Private copies** (chunks, documents, all files in object stores) are stored whole, when the program
closes or fsyncs the file; until then everybody else has the bytes of before. The kernel keeps the bytes
and the size of an inode, so a writer needs an inode that nobody else uses. A new file gets one by
itself. Whoever opens one that is there for writing is answered ESTALE: the kernel then looks the name
up again by itself, in the same thread, is told of an inode made for this writer alone, and opens that.
No other lookup leads to it, so a writer whose copy is stored has an inode without a name, and the next
lookup of the name makes one for the file as it is now. The kernel asks no third time: what opens an
inode it did not look up (`/proc/self/fd/3`) shares the writer that is there, or writes past the
kernel's cache. Editors compare inode numbers, so a writer is told of the one it has asked for.

While a name is written, the kernel may keep nothing of it, so it asks when the copy has been stored. It
is never told of a change: that takes the lock of a folder in the kernel, and a daemon that is killed
while it waits for that would leave every program hanging that has it.
"""

import functools
import os
import time

import pyfuse3
import trio

from zarrfuse.errors import Exists, NotFound, NotSupported, Stale
from zarrfuse.fuse import answered
from zarrfuse.fuse_reading import WRITING
from zarrfuse.fuse_storing import StoringOperations
from zarrfuse.handles import OpenFile, Opening, Reserved
from zarrfuse.inodes import Directory, is_hidden
from zarrfuse.stores.base import Entry, Reader, entry_of
from zarrfuse.views.base import Folder, Writer

_RESERVED_S = 10.0
"""How long an inode waits for the thread that it was made for."""


class WritingOperations(StoringOperations):
    """Serves files for reading and writing."""

    # -- names of writers' inodes --------------------------------------------------------------

    @answered
    async def lookup(
        self, parent_inode: int, name: bytes, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        """See `ZarrOperations`; a thread that is about to write a chunk is told of its own inode."""
        reserved = self._reserved.get(ctx.pid)
        if reserved is not None and reserved.name == os.fsdecode(name):
            directory = self.inodes.directory(parent_inode)
            if reserved.directory is directory:
                return self._told_apart(directory, reserved.slot, reserved.file.reader)
        return await self._named(parent_inode, name, ctx.pid)

    def _told_apart(self, directory: Directory, slot: int, copy: Reader) -> pyfuse3.EntryAttributes:
        entry = directory.entries[slot]
        now = entry_of(entry.name, copy)
        inode = directory.inode_of(slot)
        filled = self._replies.attributes(now, inode, live=True)
        self.inodes.looked_up_one(inode)
        return filled

    @answered
    async def getattr(self, inode: int, ctx: pyfuse3.RequestContext) -> pyfuse3.EntryAttributes:
        """See `ZarrOperations`; of a file that is being written, as it is in its writer's eyes."""
        return await self._attributes_of(inode, ctx.pid)

    async def _attributes_of(self, inode: int, thread: int) -> pyfuse3.EntryAttributes:
        directory, slot = self.inodes.place(inode)
        file = self._private.get(inode)
        if file is None and (reserved := self._reserved_at(directory, slot)) is not None:
            # The kernel asks whether it may open the file, and keeps the answer for `fstat`.
            copy = reserved.file.reader
            now = entry_of(reserved.name, copy)
            return self._replies.attributes(now, reserved.asked, live=True)
        if file is None and not directory.is_current(slot):
            file = self._open_past_cache(inode, thread)
            file = (
                file or self._shared.get(inode) or self._lingering.get(inode)
            )  # deleted, and open
            became = directory.became.get(slot)
            is_open = directory.is_open(slot) or inode in self._past_cache
            if file is None and became is not None and not is_open:
                target, name = became
                entry = await self._entry(target, name)
                now_at = target.inode_of(target.put(entry))  # as who opens it will be told
                return self._replies.attributes(entry, now_at, live=True)
        if file is not None:
            entry = directory.entries[slot]
            now = entry_of(entry.name, file.reader)
            return self._replies.attributes(now, file.shown_inode, live=True)
        return await self._looked_at(inode, thread)

    def _reserved_at(self, directory: Directory, slot: int) -> Reserved | None:
        for reserved in self._reserved.values():  # one for each thread that is opening a file now
            if reserved.slot == slot and reserved.directory is directory:
                return reserved
        return None

    def _as_now(self, inode: int, entry: Entry) -> Entry:
        """A file that is open and changes in place has the size of now, not of when it was listed:
        the kernel takes the size of a reply for newer than what was written before the reply."""
        file = self._shared.get(inode)
        if file is None:
            return entry
        return Entry(entry.name, entry.kind, file.reader.size, file.reader.mtime_ns)

    # -- opening -------------------------------------------------------------------------------

    async def _open(
        self, inode: int, flags: int, thread: int, *, is_second: bool
    ) -> pyfuse3.FileInfo:
        """See `ReadingOperations`; to read or to write."""
        reserved = self._reserved.get(thread)
        if reserved is not None:
            own = reserved.directory.inode_of(reserved.slot)
            if inode in (own, reserved.asked):
                return self._open_reserved(thread, reserved, inode, own)
        directory, slot = self.inodes.place(inode)
        is_current = directory.is_current(slot)
        file = None
        if not is_current and (is_second or slot not in directory.became):
            file = self._opened_there(inode)
        if file is not None and not (flags & WRITING and file.writer is None):
            return await self._opened_once_more(file, truncate=bool(flags & os.O_TRUNC))
        if flags & WRITING:
            truncate = bool(flags & os.O_TRUNC)
            return await self._open_to_write(inode, thread, truncate=truncate, is_second=is_second)
        if is_current:
            info = await self._open_to_read(inode, thread, is_second=is_second)
            self.inodes.hold(inode)
            if self._is_shared(*self.inodes.place(inode)):
                self._shared.setdefault(inode, self._files[info.fh])
            return info
        if not is_second:
            raise Stale(f"{directory.entries[slot].name} is another file now")
        folder, name = self._named_now(directory, slot)
        open_ = functools.partial(folder.folder.open, name)
        reader = await self._workers.run(open_, late=_close)
        return self._handle_on(OpenFile(reader, inode, thread=thread), direct=True)

    def _named_now(self, directory: Directory, slot: int) -> tuple[Directory, str]:
        """See `ReadingOperations`: its own, or what it was renamed to."""
        became = None if directory.is_current(slot) else directory.became.get(slot)
        return became or (directory, directory.entries[slot].name)

    def _open_reserved(
        self, thread: int, reserved: Reserved, inode: int, own: int
    ) -> pyfuse3.FileInfo:
        del self._reserved[thread]
        reserved.file.inode, reserved.file.shown_inode = inode, reserved.asked
        info = self._opened_private(reserved.file, direct=inode != own)
        reserved.directory.written(reserved.name, -1)
        self.inodes.let_go(own)
        return info

    def _opened_there(self, inode: int) -> OpenFile | None:
        return self._private.get(inode) or self._shared.get(inode) or self._back(inode)

    async def _opened_once_more(self, file: OpenFile, *, truncate: bool) -> pyfuse3.FileInfo:
        file.handles += 1
        try:
            if truncate and file.writer is not None:
                await self._in_thread(file, functools.partial(file.writer.truncate, 0))
                self._has_changed(file, file.writer)
        except BaseException:
            file.handles -= 1
            if not file.handles:
                await self._end(file)
            raise
        return self._handle_on(file)

    def _back(self, inode: int) -> OpenFile | None:
        """A shared file that nobody had open any more."""
        file = self._lingering.pop(inode, None)
        if file is not None:
            self._shared[inode] = file
            self.inodes.let_go(inode)
        return file

    async def _open_to_write(
        self, inode: int, thread: int, *, truncate: bool, is_second: bool
    ) -> pyfuse3.FileInfo:
        while True:
            place, slot = self.inodes.place(inode)
            directory, name = self._named_now(place, slot)
            folder = directory.folder
            # The kernel may take an inode that is not current for a name that it was renamed to.
            is_sure = is_second or place.is_current(slot) or slot in place.became
            opening = Opening(directory, name)
            self._opening.add(opening)
            write = functools.partial(_opened, folder, name, truncate, is_sure)
            try:
                writer = await self._workers.run(write, late=_close)
                is_there = not await self._has_moved(directory, folder)
            except NotFound:
                if await self._has_moved(directory, folder):
                    continue
                if self.inodes.place(inode) != (place, slot):
                    continue
                if not is_second:
                    raise Stale(f"{name} is gone; the kernel looks it up again") from None
                # Whoever has it open is deleting or renaming it at this moment.
                file = self._opened_there(inode)
                if file is None or file.writer is None:
                    raise
                return await self._opened_once_more(file, truncate=truncate)
            finally:
                self._opening.discard(opening)
            if is_there and self.inodes.place(inode) == (place, slot):
                break
            await self._workers.run(writer.close)  # it was renamed meanwhile, or a folder above
        if writer.is_private:
            return self._open_copy(writer, inode, opening, thread, is_second=is_second)
        if truncate and is_sure:
            directory.changed(name, time.monotonic())
        return self._open_in_place(writer, inode, thread, is_second=is_second)

    def _open_copy(
        self, writer: Writer, inode: int, opening: Opening, thread: int, *, is_second: bool
    ) -> pyfuse3.FileInfo:
        file = OpenFile(writer, inode, writer, thread=thread)
        file.named, file.is_deleted = opening.named, opening.is_deleted
        if not thread or is_second or thread in self._reserved:
            return self._opened_private(file, direct=True)
        self._reserve(thread, inode, file)
        raise Stale(f"{opening.named[1]} gets an inode of its own for who writes it")

    def _open_in_place(
        self, writer: Writer, inode: int, thread: int, *, is_second: bool
    ) -> pyfuse3.FileInfo:
        place, slot = self.inodes.place(inode)
        name = place.entries[slot].name
        now, known = entry_of(name, writer), place.entries[slot]
        if place.is_current(slot) and known.identity in (0, now.identity):
            return self._opened_shared(place, slot, writer)
        if is_second:
            return self._handle_on(OpenFile(writer, inode, writer, thread=thread), direct=True)
        writer.close()
        if place.is_current(slot):  # it was replaced, and whoever did it is about to say so
            place.put(now)
        raise Stale(f"{name} is another file now")

    def _reserve(self, thread: int, asked: int, file: OpenFile) -> None:
        """Make an inode for a private copy, which the thread opens next that has `asked` for it."""
        assert file.named is not None
        directory, name = file.named
        slot = directory.put_apart(entry_of(name, file.reader))
        file.inode = directory.inode_of(slot)
        self.inodes.hold(file.inode)
        directory.written(name, +1)
        reserved = self._reserved[thread] = Reserved(directory, name, slot, asked, file)
        assert self._nursery is not None
        self._nursery.start_soon(self._give_up, thread, reserved)

    async def _give_up(self, thread: int, reserved: Reserved) -> None:
        """A thread may be killed before it opens what was made for it."""
        await trio.sleep(_RESERVED_S)
        if self._reserved.get(thread) is reserved:
            del self._reserved[thread]
            reserved.directory.written(reserved.name, -1)
            self.inodes.let_go(reserved.directory.inode_of(reserved.slot))
            await self._closed(reserved.file)

    def _opened_shared(self, directory: Directory, slot: int, writer: Writer) -> pyfuse3.FileInfo:
        directory.opened[slot] = (directory.opened.get(slot, (0,))[0] + 1, -1, -1)
        inode = directory.inode_of(slot)
        file = self._shared[inode] = OpenFile(writer, inode, writer)
        file.is_counted = True
        return self._handle_on(file)

    def _opened_private(self, file: OpenFile, *, direct: bool) -> pyfuse3.FileInfo:
        assert file.named is not None
        directory, name = file.named
        directory.written(name, +1)
        self._copies.add(file)
        if not direct:
            self._private[file.inode] = file
        return self._handle_on(file, direct=direct)

    def _handle_on(self, file: OpenFile, *, direct: bool = False) -> pyfuse3.FileInfo:
        handle = self._new_handle()
        self._files[handle] = file
        if direct:
            self._put_past_cache(file)
        self.inodes.hold(file.inode)
        info = pyfuse3.FileInfo(fh=handle)
        info.keep_cache = False
        info.direct_io = direct
        return info

    @answered
    async def create(
        self, parent_inode: int, name: bytes, mode: int, flags: int, ctx: pyfuse3.RequestContext
    ) -> tuple[pyfuse3.FileInfo, pyfuse3.EntryAttributes]:
        """Make a file and open it; one that has come to be there meanwhile is opened."""
        directory, text = self._place_for(parent_inode, name)
        self._told_stale.pop(ctx.pid, None)  # the kernel has looked it up again, in vain
        written = self._being_written(directory, text)
        if flags & os.O_EXCL and any(isinstance(file, OpenFile) for file in written):
            raise Exists(f"{text} is being written by somebody else")

        def made(folder: Folder) -> Writer:
            if not flags & (os.O_EXCL | os.O_TRUNC):
                try:
                    return folder.write(text)
                except NotFound:
                    pass
            return folder.create(text, exclusive=bool(flags & os.O_EXCL))

        while True:
            folder = directory.folder
            try:
                writer = await self._workers.run(functools.partial(made, folder), late=_close)
            except NotFound:
                if await self._has_moved(directory, folder):
                    continue
                raise
            if not await self._has_moved(directory, folder) or not writer.is_private:
                break
            await self._workers.run(writer.close)  # it would be stored where the folder was
        directory.changed(text, time.monotonic())
        entry = entry_of(text, writer)
        if writer.is_private:
            slot = directory.put_apart(entry)
            file = OpenFile(writer, directory.inode_of(slot), writer)
            file.named = directory, text
            info = self._opened_private(file, direct=False)
            return info, self._told_apart(directory, slot, writer)
        told = self._told(directory, entry)
        return self._opened_shared(directory, directory.slots[text], writer), told

    def _place_for(self, parent_inode: int, name: bytes) -> tuple[Directory, str]:
        """The folder for a new name. Raises `NotSupported` for one that a mount never has."""
        text = os.fsdecode(name)
        directory = self.inodes.directory(parent_inode)
        if is_hidden(text) or directory.live or self._is_control(directory, text):
            raise NotSupported(f"nothing can be stored under the name {text} here")
        return directory, text


def _opened(folder: Folder, name: str, truncate: bool, is_sure: bool) -> Writer:
    """A file opened to be written; if it is not sure to be the right one, only a copy is truncated."""
    writer = folder.write(name, truncate=truncate and is_sure)
    try:
        if truncate and not is_sure and writer.is_private:
            writer.truncate(0)
    except BaseException:
        writer.close()
        raise
    return writer


def _close(file: Reader) -> None:
    file.close()
