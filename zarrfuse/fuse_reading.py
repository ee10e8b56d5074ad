"""Handlers of files: opened, read, released. And of look-ups, for these may be part of an opening.

Who opens a file that is no longer what the kernel was told of is answered ESTALE: the kernel then looks
the name up again by itself, in the same thread, and opens once more, but only once. So what there is was
opened already when that is said, and has an inode: the next look-up of the name by this thread tells of
it, and the next open takes it, whatever has become of the name meanwhile. Where there is no such name any
more, there is nothing to take; should there be one again when it is looked up, it is opened then.

So nobody opens an inode for which the kernel has other bytes: it has one size for all who do. But who
does not look the name up (`/proc/self/fd/3`), or writes from where its thread cannot be told (another
container), may have to; that goes past the kernel's cache, and can give others who have the inode open a
wrong size.

Owns what the kernel may keep of a file's bytes. Knows nothing of Zarr. Used by `daemon`, and by
`fuse_storing` for mounts that are written.
"""

import functools
import os
from collections.abc import Callable
from dataclasses import replace

import pyfuse3
import trio

from zarrfuse.errors import Corrupt, Denied, NotFound, ReadOnly, Stale
from zarrfuse.files.segments import Rendered
from zarrfuse.fuse import answered
from zarrfuse.fuse_listing import ListingOperations
from zarrfuse.handles import OpenFile, SecondTry
from zarrfuse.inodes import Directory
from zarrfuse.stores.base import Kind, Reader, entry_of, is_live
from zarrfuse.views.control import LiveReader

LARGEST_READ = 1 << 20  # no kernel asks for more at once
WRITING = os.O_WRONLY | os.O_RDWR | os.O_TRUNC
_SECOND_TRY_S = 10.0
"""How long a file that was opened waits for the thread that is to open it once more."""
_SECOND_LOOK_S = 1.0
"""How long what a thread looks up is taken for a second try, if there was nothing at the first."""

Named = Callable[[], tuple[Directory, str]]
"""Tells a folder and a name, which may be others after a while."""


class ReadingOperations(ListingOperations):
    """Serves a tree read-only."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self._second_tries: dict[int, SecondTry] = {}
        """By thread."""
        self._buffer = memoryview(bytearray(LARGEST_READ))

    # -- look-ups ------------------------------------------------------------------------------

    @answered
    async def lookup(
        self, parent_inode: int, name: bytes, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        """A name in a folder, or what was opened under it for who tries again."""
        text = os.fsdecode(name)
        again = self._second_tries.get(ctx.pid)
        if again is None or text not in again.names:
            return await self._named(parent_inode, text)
        return await self._named_again(ctx.pid, again, parent_inode, text)

    async def _named_again(
        self, thread: int, again: SecondTry, parent_inode: int, name: str
    ) -> pyfuse3.EntryAttributes:
        directory = self.inodes.directory(parent_inode)
        if again.file is not None and not again.is_found:
            where, slot = self.inodes.place(again.file.inode)
            if (where, where.entries[slot].name) == (directory, name):
                return self._told_of(again.file)
        try:
            entry = await self._entry(directory, name)
            if again.flags is None or entry.kind is not Kind.FILE or entry.denied or directory.live:
                return self._told(directory, entry)
            file = await self._opened_anew(lambda: (directory, name), again.flags)
        except NotFound:
            directory.drop(name)  # the kernel may ask once more, if others are making it
            return self._replies.nothing
        before = self._second_tries.pop(thread, None)
        self._try_again(thread, replace(again, file=file, is_found=True))
        await self._given_up(before)
        return self._told_of(file)

    def _told_of(self, file: OpenFile) -> pyfuse3.EntryAttributes:
        """The kernel is told of an open file, and is to keep nothing of it."""
        directory, slot = self.inodes.place(file.inode)
        now = entry_of(directory.entries[slot], file.reader)
        filled = self._replies.attributes(now, file.inode, live=True)
        self.inodes.looked_up_one(file.inode)
        return filled

    # -- second tries --------------------------------------------------------------------------

    def _try_again(self, thread: int, again: SecondTry) -> None:
        """A thread is about to be answered ESTALE, or was just now."""
        self._second_tries[thread] = again
        if again.file is not None:
            again.file.thread = thread
            again.file.handles += 1
            self.inodes.hold(again.file.inode)
        assert self._nursery is not None
        self._nursery.start_soon(self._give_up, thread, again)

    def _names_of(self, inode: int) -> frozenset[str]:
        """The names that a program may mean by an inode."""
        directory, slot = self.inodes.place(inode)
        return frozenset((directory.entries[slot].name, self._named_at(inode)[1]))

    async def _give_up(self, thread: int, again: SecondTry) -> None:
        """A thread may be killed before it tries again."""
        is_sure = again.file is not None and not again.is_found
        await trio.sleep(_SECOND_TRY_S if is_sure else _SECOND_LOOK_S)
        if self._second_tries.get(thread) is again:
            await self._no_second_try(thread)

    async def _no_second_try(self, thread: int) -> None:
        await self._given_up(self._second_tries.pop(thread, None))

    async def _given_up(self, again: SecondTry | None) -> None:
        if again is None or again.file is None:
            return
        file = again.file
        if file.handles == 1:  # nobody has opened it, so it is not to be stored
            file.is_refused = True
        try:
            await self._one_less(file)
        finally:
            self.inodes.let_go(file.inode)

    def _is_second(self, inode: int, thread: int) -> bool:
        """Whether a thread asks again, as it was told to, for that of which nothing was opened for it."""
        again = self._second_tries.get(thread)
        if again is None or again.file is not None:
            return False
        del self._second_tries[thread]
        is_set = again.flags is None and self._named_at(inode)[1] in again.names
        return is_set or inode == again.asked

    # -- opening -------------------------------------------------------------------------------

    @answered
    async def open(self, inode: int, flags: int, ctx: pyfuse3.RequestContext) -> pyfuse3.FileInfo:
        """Open a file. What the kernel has cached of it stays, unless size or time changed."""
        thread = ctx.pid
        again = self._second_tries.get(thread)
        if again is not None and again.file is not None:
            if flags == again.flags and inode in (again.file.inode, again.asked):
                return await self._open_again(thread, again.file, inode, flags)
            await self._no_second_try(thread)
        is_second = self._is_second(inode, thread)
        try:
            return await self._open(inode, flags, thread, is_second=is_second)
        except Stale:
            if thread and not is_second and thread not in self._second_tries:
                self._try_again(thread, SecondTry(inode, self._names_of(inode), flags))
            raise

    async def _open_again(
        self, thread: int, file: OpenFile, inode: int, flags: int
    ) -> pyfuse3.FileInfo:
        """Open, at the second try, what was opened at the first.

        Who has not looked up the name is not told of its inode, and means the one that it asked for.
        """
        is_other = inode != file.inode
        there = self._open_at(inode) if is_other and not flags & WRITING else None
        if there is not None:
            there.handles += 1
            await self._no_second_try(thread)
            return await self._once_more(there, flags)
        del self._second_tries[thread]
        if is_other:
            file.shown_inode = inode
        try:
            return await self._once_more(file, flags, direct=is_other)
        finally:
            self.inodes.let_go(file.inode)

    def _open_at(self, inode: int) -> OpenFile | None:
        """A file that is open at an inode and has the bytes that the kernel has for it."""
        past_cache = self._past_cache.get(inode, ())
        for file in self._files.values():
            if file.inode == inode and file not in past_cache:
                return file
        return None

    async def _once_more(
        self, file: OpenFile, flags: int, *, direct: bool = False
    ) -> pyfuse3.FileInfo:
        """A handle on an open file, which takes over one that `file.handles` counts already."""
        try:
            return self._handle_on(file, direct=direct)
        finally:
            await self._one_less(file)

    async def _open(
        self, inode: int, flags: int, thread: int, *, is_second: bool
    ) -> pyfuse3.FileInfo:
        """Raises `Stale` if the kernel has to look the name up again, and `NotFound` if `is_second`."""
        if flags & WRITING:
            raise ReadOnly("the mount is read-only")
        return await self._open_to_read(inode, flags, thread, is_second=is_second)

    def _named_at(self, inode: int) -> tuple[Directory, str]:
        """The name that the kernel takes an inode for."""
        directory, slot = self.inodes.place(inode)
        return directory, directory.entries[slot].name

    async def _open_to_read(
        self, inode: int, flags: int, thread: int, *, is_second: bool
    ) -> pyfuse3.FileInfo:
        entry = self.inodes.entry(inode)
        if entry.denied:
            raise Denied(f"{entry.name} leads out of the store")
        try:
            named, reader = await self._reader(functools.partial(self._named_at, inode))
        except NotFound:
            place, slot = self.inodes.place(inode)
            if is_second or (place.is_current(slot) and not self.writable):
                raise
            raise Stale(f"{entry.name} is gone; the kernel looks it up again") from None
        place, slot = self.inodes.place(inode)
        if not self._is_outdated(place, slot, reader):
            file = self._counted(place, slot, reader)
            file.thread = thread
            return self._handle_on(file)
        new_slot = await self._slot_for(named, reader, was=slot if place is named[0] else -1)
        if thread:
            file = self._counted(named[0], new_slot, reader)
            self._try_again(thread, SecondTry(inode, self._names_of(inode), flags, file))
        else:  # in another container: who it is cannot be told
            reader.close()
        raise Stale(f"{named[1]} has changed; the kernel looks it up again")

    async def _reader(self, named: Named) -> tuple[tuple[Directory, str], Reader]:
        """What is under a name, opened to be read; and that name."""
        while True:
            directory, name = named()
            folder = directory.folder
            open_ = functools.partial(folder.open, name)
            try:
                try:
                    reader = open_(wait=False)
                except BlockingIOError:
                    reader = await self._workers.run(open_, folder.path, late=_close)
            except NotFound:
                if await self._has_moved(directory, folder) or named() != (directory, name):
                    continue
                raise
            if named() == (directory, name):
                break
            reader.close()  # it was renamed meanwhile
        if not 0 <= reader.size < 1 << 63:  # what no kernel takes
            reader.close()
            raise Corrupt(f"{name} is said to have {reader.size} bytes")
        return (directory, name), reader

    async def _opened_anew(self, named: Named, flags: int) -> OpenFile:
        """A name, opened for who tries for the second time. Raises `NotFound`."""
        there, reader = await self._reader(named)
        return self._counted(there[0], await self._slot_for(there, reader), reader)

    def _is_outdated(self, directory: Directory, slot: int, reader: Reader) -> bool:
        """Whether what was opened is another file than the one the kernel takes this slot for."""
        if directory.live:
            return False
        entry = directory.entries[slot]
        now = entry_of(entry, reader)
        return (
            not directory.is_current(slot)
            or (now.size, now.mtime_ns) != (entry.size, entry.mtime_ns)
            or now.access != entry.access  # the kernel has allowed something else
            or bool(now.identity and entry.identity and now.identity != entry.identity)
        )

    async def _slot_for(self, named: tuple[Directory, str], file: Reader, *, was: int = -1) -> int:
        """A slot for what was opened: that of its name, unless others know better what is under that.

        `was`: the slot that it was opened by. Closes the file if that cannot be told.
        """
        directory, name = named
        entry = entry_of(directory.last_seen(name), file)
        slot = directory.slots.get(name, was)
        if slot != was and entry.identity and directory.is_another(entry, slot):
            # Who locks a file has to have its one inode.
            try:
                slot = directory.put(await self._looked_up(directory, name))
            except NotFound:
                pass
            except BaseException:
                file.close()
                raise
        if slot == was or not directory.is_another(entry, slot):
            return directory.put(entry)
        return directory.put_apart(entry)

    def _counted(self, directory: Directory, slot: int, reader: Reader) -> OpenFile:
        """A file that was opened to be read, counted among those that are open in its folder."""
        file = OpenFile(reader, directory.inode_of(slot))
        if isinstance(reader, LiveReader):
            return file
        is_shared = is_live(reader)
        seen = (-1, -1) if is_shared else (reader.size, reader.mtime_ns)
        handles, *before = directory.opened.get(slot, (0, -1, -1))
        if not is_shared and (not isinstance(reader, Rendered) or reader.lasting):
            file.is_kept = tuple(before) == seen
        directory.opened[slot] = (handles + 1, *seen)
        file.is_counted = True
        return file

    def _handle_on(self, file: OpenFile, *, direct: bool = False) -> pyfuse3.FileInfo:
        """A handle; `direct`: what is read by it is not what the kernel has of the inode."""
        handle = self._new_handle()
        self._files[handle] = file
        file.handles += 1
        self.inodes.hold(file.inode)
        info = pyfuse3.FileInfo(fh=handle)
        info.direct_io = direct or isinstance(file.reader, LiveReader)
        info.keep_cache = False
        if info.direct_io:
            self._put_past_cache(file)
        elif file.is_kept is not None:
            info.keep_cache = file.is_kept or self._push(file)
            file.is_kept = True  # from now on it is what this handle reads
        return info

    def _push(self, file: OpenFile) -> bool:
        """Give a small file to the kernel's page cache, before it asks; whether that was done.

        Elsewhere this can deadlock inside a handler: the kernel waits for a page that is locked by
        a read which waits for us. No such read can be out while nobody has the file open.
        """
        reader, size = file.reader, file.reader.size
        if not 0 < size <= self._tuning.pushed_bytes:
            return False
        directory, slot = self.inodes.place(file.inode)
        if directory.opened[slot][0] > 1:
            return False
        data = self._buffer[:size]
        try:
            reader.readinto(data, 0, wait=False)
            pyfuse3.notify_store(file.inode, 0, data)  # type: ignore[arg-type]  # any buffer will do
        except (
            BaseException
        ):  # not at hand, not readable, not taken: then it is read when it is read
            return False
        return True

    async def read(  # type: ignore[override]  # any buffer will do
        self, fh: int, off: int, size: int
    ) -> bytes | memoryview | bytearray:
        """Bytes of an open file; fewer than asked only at its end.

        Not `answered` itself, which would cost a tenth of a small read: whatever goes wrong here
        goes wrong again, and is told, where the store is waited for.
        """
        try:
            reader = self._files[fh].reader
            size = min(size, reader.size - off)
            if size <= 0:
                return b""
            if size <= LARGEST_READ:
                shared = self._buffer[:size]
                reader.readinto(shared, off, wait=False)
                self.requests += 1
                self.bytes_read += size
                return shared
        except BaseException:  # awaited below: what is raised in here carries this one along
            pass
        return await self._read_waiting(fh, off, size)

    @answered
    async def _read_waiting(self, fh: int, off: int, size: int) -> bytearray:
        file = self._files[fh]
        own = bytearray(min(size, file.reader.size - off))
        read = functools.partial(file.read_in_thread, memoryview(own), off)
        await self._workers.run(read, self._folder_of(file))
        self.bytes_read += len(own)
        return own

    def _folder_of(self, file: OpenFile) -> str:
        return self.inodes.place(file.inode)[0].folder.path

    @answered
    async def release(self, fh: int) -> None:
        """The last user of a handle is gone."""
        file = self._files.pop(fh)
        try:
            await self._one_less(file)
        finally:
            self.inodes.let_go(file.inode)

    async def _one_less(self, file: OpenFile) -> None:
        file.handles -= 1
        if not file.handles:
            await self._end(file)

    async def _end(self, file: OpenFile) -> None:
        """Nobody has the file open any more."""
        self._count_off(file)
        file.close()

    def _count_off(self, file: OpenFile) -> None:
        """An open file that was counted in its folder is none any more."""
        past_cache = self._past_cache.get(file.shown_inode, [])
        if file in past_cache:
            past_cache.remove(file)
        if not past_cache:
            self._past_cache.pop(file.shown_inode, None)
        if not file.is_counted:
            return
        file.is_counted = False
        directory, slot = self.inodes.place(file.inode)
        opened = directory.opened.get(slot)
        if opened is not None:
            directory.opened[slot] = (opened[0] - 1, *opened[1:])


def _close(reader: Reader) -> None:
    reader.close()
