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

from zarrfuse.errors import Exists, NotFound, NotSupported, Stale
from zarrfuse.fuse import answered
from zarrfuse.fuse_reading import WRITING, Named
from zarrfuse.fuse_storing import StoringOperations
from zarrfuse.handles import OpenFile, Opening, SecondTry
from zarrfuse.inodes import Directory, is_hidden
from zarrfuse.stores.access import new_file
from zarrfuse.stores.base import Entry, Kind, Reader, entry_of
from zarrfuse.views.base import Folder, Writer


class WritingOperations(StoringOperations):
    """Serves files for reading and writing."""

    # -- attributes ----------------------------------------------------------------------------

    @answered
    async def getattr(self, inode: int, ctx: pyfuse3.RequestContext) -> pyfuse3.EntryAttributes:
        """See `ZarrOperations`; of a file that is being written, as it is in its writer's eyes."""
        return await self._attributes_of(inode, ctx.pid)

    async def _attributes_of(self, inode: int, thread: int) -> pyfuse3.EntryAttributes:
        directory, slot = self.inodes.place(inode)
        file = self._private.get(inode)
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
            now = entry_of(entry, file.reader)
            return self._replies.attributes(now, file.shown_inode, live=True)
        return await self._looked_at(inode, thread)

    def _as_now(self, inode: int, entry: Entry) -> Entry:
        """A file that is open and changes in place has the size of now, not of when it was listed:
        the kernel takes the size of a reply for newer than what was written before the reply."""
        file = self._shared.get(inode)
        if file is None:
            return entry
        return entry_of(entry, file.reader)

    # -- opening -------------------------------------------------------------------------------

    async def _open(
        self, inode: int, flags: int, thread: int, *, is_second: bool
    ) -> pyfuse3.FileInfo:
        """See `ReadingOperations`; to read or to write."""
        directory, slot = self.inodes.place(inode)
        if not directory.is_current(slot) and (is_second or slot not in directory.became):
            file = self._opened_there(inode)
            if file is not None and not (flags & WRITING and file.writer is None):
                file.handles += 1
                return await self._once_more(file, flags)
        if flags & WRITING:
            return await self._open_to_write(inode, flags, thread, is_second=is_second)
        return await self._open_to_read(inode, flags, thread, is_second=is_second)

    def _named_at(self, inode: int) -> tuple[Directory, str]:
        """See `ReadingOperations`: its own, or what it was renamed to."""
        directory, slot = self.inodes.place(inode)
        became = None if directory.is_current(slot) else directory.became.get(slot)
        return became or (directory, directory.entries[slot].name)

    def _opened_there(self, inode: int) -> OpenFile | None:
        return self._private.get(inode) or self._shared.get(inode) or self._back(inode)

    def _back(self, inode: int) -> OpenFile | None:
        """A shared file that nobody had open any more."""
        file = self._lingering.pop(inode, None)
        if file is not None:
            self._shared[inode] = file
            self.inodes.let_go(inode)
        return file

    async def _once_more(
        self, file: OpenFile, flags: int, *, direct: bool = False
    ) -> pyfuse3.FileInfo:
        """See `ReadingOperations`; emptied, if that is asked for."""
        if flags & os.O_TRUNC and file.writer is not None and file.writer.size:
            try:
                await self._in_thread(file, functools.partial(file.writer.truncate, 0))
            except BaseException:
                file.is_broken = file.writer.is_private
                await self._one_less(file)
                raise
            self._has_changed(file, file.writer)
        return await super()._once_more(file, flags, direct=direct)

    async def _open_to_write(
        self, inode: int, flags: int, thread: int, *, is_second: bool
    ) -> pyfuse3.FileInfo:
        named = functools.partial(self._named_at, inode)
        try:
            opening, writer = await self._writer(named, flags)
        except NotFound:
            if not is_second:
                name = named()[1]
                raise Stale(f"{name} is gone; the kernel looks it up again") from None
            # Whoever has it open is deleting or renaming it at this moment.
            file = self._opened_there(inode)
            if file is None or file.writer is None:
                raise
            file.handles += 1
            return await self._once_more(file, flags)
        place, slot = self.inodes.place(inode)
        directory, name = opening.named
        if writer.is_private:
            if not thread:  # in another container: who it is cannot be told
                return self._handle_on(self._copy(opening, writer, inode), direct=True)
            file = self._copy_apart(opening, writer, shown=inode)
            self._try_again(thread, SecondTry(inode, self._names_of(inode), flags, file))
            raise Stale(f"{name} gets an inode of its own for who writes it")
        known = place.entries[slot]
        now = entry_of(known, writer)
        is_same = known.identity in (0, now.identity) and known.access == now.access
        if place.is_current(slot) and is_same:
            file = self._opened_shared(place, slot, writer)
            file.handles += 1
            return await self._once_more(file, flags)
        slot = await self._slot_for(opening.named, writer, was=slot if place is directory else -1)
        if thread:
            file = self._opened_shared(directory, slot, writer)
            self._try_again(thread, SecondTry(inode, self._names_of(inode), flags, file))
        else:
            writer.close()
        raise Stale(f"{name} is another file now")

    async def _writer(self, named: Named, flags: int) -> tuple[Opening, Writer]:
        """What is under a name, opened to be written; and that name."""
        truncate = bool(flags & os.O_TRUNC)
        while True:
            directory, name = named()
            folder = directory.folder
            opening = Opening(directory, name)
            self._opening.add(opening)
            write = functools.partial(_opened, folder, name, truncate)
            try:
                writer = await self._workers.run(write, folder.path, late=_close)
                is_there = not await self._has_moved(directory, folder)
            except NotFound:
                if await self._has_moved(directory, folder) or named() != (directory, name):
                    continue
                raise
            finally:
                self._opening.discard(opening)
            if is_there and named() == (directory, name):
                return opening, writer
            await self._workers.run(
                writer.close, None
            )  # it was renamed meanwhile, or a folder above

    async def _opened_anew(self, named: Named, flags: int) -> OpenFile:
        """See `ReadingOperations`; to read or to write."""
        if not flags & WRITING:
            return await super()._opened_anew(named, flags)
        opening, writer = await self._writer(named, flags & ~os.O_TRUNC)
        if writer.is_private:
            return self._copy_apart(opening, writer)
        slot = await self._slot_for(opening.named, writer)
        return self._opened_shared(opening.named[0], slot, writer)

    def _handle_on(self, file: OpenFile, *, direct: bool = False) -> pyfuse3.FileInfo:
        """See `ReadingOperations`; who reads the stored file itself shares it."""
        if self._is_shared(*self.inodes.place(file.inode)):
            self._shared.setdefault(file.inode, file)
        return super()._handle_on(file, direct=direct)

    def _opened_shared(self, directory: Directory, slot: int, writer: Writer) -> OpenFile:
        directory.opened[slot] = (directory.opened.get(slot, (0,))[0] + 1, -1, -1)
        inode = directory.inode_of(slot)
        file = self._shared[inode] = OpenFile(writer, inode, writer)
        file.is_counted = True
        return file

    def _copy_apart(
        self, opening: Opening, writer: Writer, *, shown: int | None = None
    ) -> OpenFile:
        """A private copy at an inode that no look-up of its name leads to; `shown`: the one that a
        program is told."""
        directory, name = opening.named
        known = directory.last_seen(name) if name in directory.slots else self._new(directory, name)
        slot = directory.put_apart(entry_of(known, writer))
        file = self._copy(opening, writer, directory.inode_of(slot))
        if shown is not None:
            file.shown_inode = shown
        self._private[file.inode] = file
        return file

    def _new(self, directory: Directory, name: str) -> Entry:
        """A file that is being made in a folder, as it will be once it is stored."""
        folder = self.inodes.entry(directory.inode)
        return Entry(name, Kind.FILE, 0, 0, access=new_file(folder.access))

    def _copy(self, opening: Opening, writer: Writer, inode: int) -> OpenFile:
        file = OpenFile(writer, inode, writer)
        file.named, file.is_deleted = opening.named, opening.is_deleted
        directory, name = opening.named
        directory.written(name, +1)
        self._copies.add(file)
        return file

    @answered
    async def create(
        self, parent_inode: int, name: bytes, mode: int, flags: int, ctx: pyfuse3.RequestContext
    ) -> tuple[pyfuse3.FileInfo, pyfuse3.EntryAttributes]:
        """Make a file and open it.

        One that has come to be there meanwhile is not: who may open it, the kernel checks. It looks the
        name up again.
        """
        directory, text = self._place_for(parent_inode, name)
        await self._no_second_try(ctx.pid)  # the kernel has looked it up again, in vain
        written = self._being_written(directory, text)
        if flags & os.O_EXCL and any(isinstance(file, OpenFile) for file in written):
            raise Exists(f"{text} is being written by somebody else")

        def made(folder: Folder) -> Writer:
            try:
                return folder.create(text, exclusive=bool(flags & os.O_EXCL))
            except Exists:
                if flags & os.O_EXCL:
                    raise
                raise Stale(f"{text} is there; the kernel looks it up again") from None

        while True:
            folder = directory.folder
            try:
                writer = await self._workers.run(
                    functools.partial(made, folder), folder.path, late=_close
                )
            except NotFound:
                if await self._has_moved(directory, folder):
                    continue
                raise
            if not await self._has_moved(directory, folder) or not writer.is_private:
                break
            await self._workers.run(writer.close, None)  # it would be stored where the folder was
        directory.changed(text, time.monotonic())
        if writer.is_private:
            file = self._copy_apart(Opening(directory, text), writer)
            return self._handle_on(file), self._told_of(file)
        told = self._told(directory, entry_of(Entry(text, Kind.FILE, 0, 0), writer))
        file = self._opened_shared(directory, directory.slots[text], writer)
        return self._handle_on(file), told

    def _place_for(self, parent_inode: int, name: bytes) -> tuple[Directory, str]:
        """The folder for a new name. Raises `NotSupported` for one that a mount never has."""
        text = os.fsdecode(name)
        directory = self.inodes.directory(parent_inode)
        if is_hidden(text) or directory.live or self._is_control(directory, text):
            raise NotSupported(f"nothing can be stored under the name {text} here")
        return directory, text


def _opened(folder: Folder, name: str, truncate: bool) -> Writer:
    """A file opened to be written. Only a private copy is truncated: of a shared file it is not known yet
    whether it is the one that the kernel has checked."""
    writer = folder.write(name)
    try:
        if truncate and writer.is_private:
            writer.truncate(0)
    except BaseException:
        writer.close()
        raise
    return writer


def _close(file: Reader) -> None:
    file.close()
