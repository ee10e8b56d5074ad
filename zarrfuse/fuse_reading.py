"""Handlers of what is open to be read: folders that are listed, and files.

Owns handles, listings under way, and what the kernel may keep of a file's bytes. Knows nothing of
Zarr. Used by `daemon`, and by `fuse_storing` for mounts that are written.
"""

import functools
import os
import time

import pyfuse3

from zarrfuse.errors import Corrupt, Denied, NotFound, ReadOnly, Stale
from zarrfuse.files.segments import Rendered
from zarrfuse.fuse import ZarrOperations, answered
from zarrfuse.handles import OpenDirectory, OpenFile, ToldStale
from zarrfuse.inodes import Directory
from zarrfuse.replies import OWN_OFFSETS
from zarrfuse.stores.base import Reader, entry_of, is_live
from zarrfuse.threads import Scan
from zarrfuse.views.control import LiveReader

LARGEST_READ = 1 << 20  # no kernel asks for more at once
WRITING = os.O_WRONLY | os.O_RDWR | os.O_TRUNC
_MOST_TOLD = 1000


class ReadingOperations(ZarrOperations):
    """Serves a tree read-only."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # those of the base class
        self._next_handle = 1
        self._buffer = memoryview(bytearray(LARGEST_READ))

    # -- folders -----------------------------------------------------------------------------

    @answered
    async def opendir(self, inode: int, ctx: pyfuse3.RequestContext) -> int:
        """Open a folder. Whether it can be listed is known when this is answered."""
        if self.inodes.entry(inode).denied:
            raise Denied("this folder lies outside the store")
        directory = self.inodes.directory(inode)
        directory.handles += 1
        try:
            await self._begin_listing(directory)
        except BaseException:
            self._release_directory(directory)
            raise
        handle = self._new_handle()
        self._directories[handle] = OpenDirectory(directory)
        return handle

    async def _begin_listing(self, directory: Directory) -> None:
        """Make sure of a listing no older than names may be kept, or of one that is under way."""
        while directory.scan is not None:  # somebody else lists it for the first time
            await self._continue_listing(directory, directory.scan)
        if self._fresh(directory) and not directory.unsure:
            return
        started = time.monotonic()
        if directory.entries or self._nursery is None:
            directory.update(await self._workers.run(directory.folder.list), started)
            return
        directory.scan = self._workers.scan(directory.folder, self._nursery)
        await self._continue_listing(directory, directory.scan)

    async def _continue_listing(self, directory: Directory, scan: Scan) -> None:
        """Wait for more names of a listing that is under way, and take them."""
        try:
            directory.extend(await self._workers.more_of(scan), scan.started_at)
        finally:
            if directory.scan is scan and (scan.complete or scan.failure):
                directory.scan = None
                if scan.complete:
                    directory.listed(scan.started_at)

    def _end_listing(self, directory: Directory) -> None:
        if directory.scan is not None:
            directory.scan.wanted = False
            directory.scan = None

    def _release_directory(self, directory: Directory) -> None:
        directory.handles -= 1
        if not directory.handles:
            directory.recent.clear()
            self._end_listing(directory)
        self.inodes.release(directory)

    @answered
    async def readdir(self, fh: int, start_id: int, token: pyfuse3.ReaddirToken) -> None:
        """Entries with their attributes; an offset is the slot of a name, so it stays true."""
        handle = self._directories[fh]
        directory = handle.directory
        if start_id == 0 and handle.begun:  # the program starts over
            await self._begin_listing(directory)
        if start_id == 0 or not handle.begun:
            handle.begin()
        first = max(start_id - OWN_OFFSETS, 0)
        while handle.scan is not None and first >= len(directory.entries):
            if handle.scan.complete:
                break
            await self._continue_listing(directory, handle.scan)
        if self._replies.own_names(token, directory, start_id):
            told, guests = self._replies.names(token, directory, handle.slots_from(first))
            self.inodes.looked_up(directory, told)
            for inode in guests:
                self.inodes.looked_up_one(inode)

    @answered
    async def releasedir(self, fh: int) -> None:
        """A folder is closed."""
        handle = self._directories.pop(fh)
        self._release_directory(handle.directory)

    # -- files -------------------------------------------------------------------------------

    @answered
    async def open(self, inode: int, flags: int, ctx: pyfuse3.RequestContext) -> pyfuse3.FileInfo:
        """Open a file. What the kernel has cached of it stays, unless size or time changed."""
        is_second = self._is_second(inode, ctx.pid)
        try:
            return await self._open(inode, flags, ctx.pid, is_second=is_second)
        except Stale:
            if not is_second:
                self._tell_stale(inode, ctx.pid)
            raise

    def _is_second(self, inode: int, thread: int) -> bool:
        """Whether the kernel asks for a file again, as it was told to."""
        told = self._told_stale.pop(thread, None)
        if told is None:
            return False
        named = self._named_now(*self.inodes.place(inode))
        return inode == told.inode or named == (told.directory, told.name)

    def _tell_stale(self, inode: int, thread: int) -> None:
        """The kernel is to look a name up again."""
        directory, name = self._named_now(*self.inodes.place(inode))
        self._told_stale[thread] = ToldStale(inode, directory, name)
        if len(self._told_stale) > _MOST_TOLD:
            del self._told_stale[next(iter(self._told_stale))]

    async def _open(
        self, inode: int, flags: int, thread: int, *, is_second: bool
    ) -> pyfuse3.FileInfo:
        """Raises `Stale` if the kernel has to look the name up again; not if `is_second`.

        It does so only once: then what is under the name now is opened, past the kernel's cache.
        """
        if flags & WRITING:
            raise ReadOnly("the mount is read-only")
        return await self._open_to_read(inode, thread, is_second=is_second)

    def _named_now(self, directory: Directory, slot: int) -> tuple[Directory, str]:
        """The name that the kernel takes an inode for."""
        return directory, directory.entries[slot].name

    async def _open_to_read(self, inode: int, thread: int, *, is_second: bool) -> pyfuse3.FileInfo:
        """Raises `Stale` for a file that has changed; not if the kernel asks a second time."""
        while True:
            directory, slot = self.inodes.place(inode)
            entry = directory.entries[slot]
            if entry.denied:
                raise Denied(f"{entry.name} leads out of the store")
            folder = directory.folder
            open_ = functools.partial(folder.open, entry.name)
            try:
                try:
                    reader = open_(wait=False)
                except BlockingIOError:
                    reader = await self._workers.run(open_, late=_close)
            except NotFound:
                if await self._has_moved(directory, folder):
                    continue
                raise
            if self.inodes.place(inode) == (directory, slot):
                break
            reader.close()  # it was renamed meanwhile
        if not 0 <= reader.size < 1 << 63:  # what no kernel takes
            reader.close()
            raise Corrupt(f"{entry.name} is said to have {reader.size} bytes")
        is_outdated = self._is_outdated(directory, slot, reader)
        if is_outdated and not is_second:
            reader.close()
            raise Stale(f"{entry.name} has changed; the kernel looks it up again")
        handle = self._new_handle()
        file = self._files[handle] = OpenFile(reader, inode, thread=thread)
        info = pyfuse3.FileInfo(fh=handle)
        is_shared = is_live(reader)
        if isinstance(reader, LiveReader) or (is_outdated and not directory.is_current(slot)):
            # Rendered now, or another file for the second time meanwhile: nothing of it is to be
            # kept, nor to be read from what the kernel has of this inode.
            self._put_past_cache(file)
            info.direct_io = True
            info.keep_cache = False
            return info
        seen = (-1, -1) if is_shared else (reader.size, reader.mtime_ns)
        handles, *before = directory.opened.get(slot, (0, -1, -1))
        if is_shared or (
            isinstance(reader, Rendered) and not reader.lasting
        ):  # it may have changed
            info.keep_cache = False
        else:
            info.keep_cache = tuple(before) == seen or self._push(inode, reader, handles)
        directory.opened[slot] = (handles + 1, *seen)
        file.is_counted = True
        return info

    def _is_outdated(self, directory: Directory, slot: int, reader: Reader) -> bool:
        """Whether what was opened is another file than the one this slot stands for.

        Answered as ESTALE, the kernel looks the name up again by itself, and opens once more: only
        once, so a file that has changed again by then must be let pass.
        """
        entry = directory.entries[slot]
        now = entry_of(entry.name, reader)
        is_same = (now.size, now.mtime_ns) == (entry.size, entry.mtime_ns) and not (
            now.identity and entry.identity and now.identity != entry.identity
        )
        if directory.live or (is_same and directory.inode_of(slot) not in self._past_cache):
            return False
        if directory.is_current(slot):  # else others know better what is under the name
            directory.put(now)
        return True

    def _push(self, inode: int, reader: Reader, handles: int) -> bool:
        """Give a small file to the kernel's page cache, before it asks; whether that was done.

        Elsewhere this can deadlock inside a handler: the kernel waits for a page that is locked by
        a read which waits for us. No such read can be out while nobody has the file open.
        """
        size = reader.size
        if handles or not 0 < size <= self._tuning.pushed_bytes:
            return False
        data = self._buffer[:size]
        try:
            reader.readinto(data, 0, wait=False)
            pyfuse3.notify_store(inode, 0, data)  # type: ignore[arg-type]  # any buffer will do
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
        await self._workers.run(functools.partial(file.read_in_thread, memoryview(own), off))
        self.bytes_read += len(own)
        return own

    @answered
    async def release(self, fh: int) -> None:
        """The last user of a handle is gone."""
        file = self._files.pop(fh)
        file.close()
        self._count_off(file)

    def _count_off(self, file: OpenFile) -> None:
        """An open file that was counted in its folder is none any more."""
        past_cache = self._past_cache.get(file.inode, [])
        if file in past_cache:
            past_cache.remove(file)
        if not past_cache:
            self._past_cache.pop(file.inode, None)
        if not file.is_counted:
            return
        file.is_counted = False
        directory, slot = self.inodes.place(file.inode)
        opened = directory.opened.get(slot)
        if opened is not None:
            directory.opened[slot] = (opened[0] - 1, *opened[1:])

    def _new_handle(self) -> int:
        self._next_handle += 1
        return self._next_handle


def _close(reader: Reader) -> None:
    reader.close()
