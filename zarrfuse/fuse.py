"""Kernel requests in, replies and errno out: a view as a FUSE file system.

Owns the protocol: inode numbers, handles, caching, what is asked of a view at once and what in a
thread. Knows nothing of Zarr. Used by `daemon`.

Every question is put to the view twice at most: first with `wait=False` from the event loop, and
only if that says `BlockingIOError`, in a thread, with a time-out. Replies are copied out by pyfuse3
before anything else runs, so one buffer and one pair of attribute objects serve all requests that
are answered at once.
"""

import errno
import functools
import logging
import os
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

import pyfuse3
import trio
from pyfuse3 import FUSEError

from zarrfuse.config import Tuning
from zarrfuse.errors import (
    Corrupt,
    Denied,
    NotFound,
    ReadOnly,
    Stale,
    ZarrfuseError,
    errno_of,
    is_expected,
    text_of,
)
from zarrfuse.files.segments import Rendered
from zarrfuse.handles import OpenDirectory, OpenFile, ToldStale
from zarrfuse.inodes import CONTROL_INODE, ROOT_INODE, Directory, InodeTable, is_hidden
from zarrfuse.replies import OWN_OFFSETS, Replies
from zarrfuse.stores.base import Entry, Kind, Reader, entry_of, is_live
from zarrfuse.threads import Scan, Workers
from zarrfuse.views.attributes import attributes
from zarrfuse.views.base import Folder
from zarrfuse.views.control import CONTROL_NAME, ControlFolder, LiveReader, RootWithControl

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="ZarrOperations")

LARGEST_READ = 1 << 20  # no kernel asks for more at once
WRITING = os.O_WRONLY | os.O_RDWR | os.O_TRUNC
_MOST_TOLD = 1000
_MOST_TRIES = 10
_ANSWERS = frozenset(
    {
        *(errno.ENOENT, errno.EROFS, errno.ENOSYS),
        *(errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR),
    }
)
"""Not counted as errors, nor logged."""


def answered(
    handler: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Turn whatever leaves a handler into an errno: anything else would kill the mount.

    What is not there because a folder above is being renamed is asked for again.
    """
    request = handler.__name__.strip("_").partition("_")[0]

    @functools.wraps(handler)
    async def wrapper(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
        self.requests += 1
        for tries in range(1, _MOST_TRIES + 1):
            moves = self._moves
            try:
                return await handler(self, *args, **kwargs)
            except (FUSEError, trio.Cancelled):
                raise
            except BaseException as error:  # a store in Rust panics with one
                if tries == _MOST_TRIES or not isinstance(error, NotFound) or self._settled(moves):
                    raise FUSEError(self.failed(request, error)) from None
            await self._until_nothing_moves()
        raise AssertionError("unreachable")

    return wrapper  # type: ignore[return-value]  # functools hides that it is a method


class ZarrOperations(pyfuse3.Operations):
    """Serves the tree below `root` read-only.

    `ttl_s`: how long the kernel may keep names and attributes, in seconds. `xattrs`: whether to
    offer extended attributes; without, the kernel is told once that there are none. `about`: what
    `.zarrfuse/status.json` says of the mount before its counters; `cache`: tells of decoded chunks.
    """

    writable = False
    supports_dot_lookup = False  # inode numbers mean nothing once they are forgotten
    enable_writeback_cache = False

    def __init__(
        self,
        root: Folder,
        root_entry: Entry,
        *,
        ttl_s: float,
        space: Callable[[], tuple[int, int]],
        xattrs: bool = False,
        tuning: Tuning | None = None,
        about: Mapping[str, Any] | None = None,
        cache: Callable[[], Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__()
        self._tuning = tuning or Tuning()
        self._workers = Workers(self._tuning.threads, self._tuning.store_timeout_s)
        self._nursery: trio.Nursery | None = None
        control = ControlFolder(self.status, root)
        self.inodes = InodeTable(RootWithControl(root, control), root_entry)
        self._ttl_s = ttl_s
        self._space = space
        self._about = about or {}
        self._cache = cache
        self._xattrs = xattrs
        self._files: dict[int, OpenFile] = {}
        self._told_stale: dict[int, ToldStale] = {}
        """By thread: the name that it was told to look up again."""
        self._moving: set[trio.Event] = set()
        """Folders that are being renamed now, until when."""
        self._moves = 0
        """How many folders were renamed."""
        self._past_cache: dict[int, list[OpenFile]] = {}
        """By inode: the files that were opened there and have other bytes than the inode."""
        self._directories: dict[int, OpenDirectory] = {}
        self._next_handle = 1
        self._buffer = memoryview(bytearray(LARGEST_READ))
        self._replies = Replies(ttl_s, self.failed, self._as_now, writable=self.writable)
        self._started = time.monotonic()
        self.requests = 0
        self.bytes_read = 0
        self.errors = 0
        self.last_errors: dict[str, str] = {}
        self._reported: set[str] = set()

    async def serve(self, most_requests: int) -> None:
        """Answer requests until the file system is unmounted."""
        async with trio.open_nursery() as self._nursery:
            await pyfuse3.main(min_tasks=1, max_tasks=most_requests)
            self._nursery.cancel_scope.cancel()

    @property
    def busy(self) -> bool:
        """Whether store calls are out in threads."""
        return self._workers.busy > 0

    # -- answers and errors ------------------------------------------------------------------

    def failed(self, request: str, error: BaseException) -> int:
        """The errno for an error; logs what is not an answer, once, with its traceback."""
        code = errno_of(error)
        if code in _ANSWERS:
            return code
        self.errors += 1
        text = text_of(error)
        self.last_errors[request] = text
        if is_expected(error):
            log.debug("%s: %s", request, text)
        elif text not in self._reported and len(self._reported) < 1000:
            self._reported.add(text)
            log.error("%s failed and is answered as EIO", request, exc_info=error)
        return code

    def _fresh(self, directory: Directory) -> bool:
        return time.monotonic() - directory.listed_at < self._ttl_s and not directory.live

    async def _entry(self, directory: Directory, name: str) -> Entry:
        """The entry of a name: from a fresh listing, else from the view. Raises `NotFound`."""
        if self._fresh(directory) and name not in directory.unsure:
            entry = directory.listing.get(name)
            if entry is None:
                raise NotFound(f"no {name} in {directory.folder.path or 'the root'}")
            return entry
        return await self._looked_up(directory, name)

    async def _looked_up(self, directory: Directory, name: str) -> Entry:
        """Asked of the view; again, if the name was changed by the mount before that answered."""
        while True:
            slot, lookup = directory.slots.get(name), directory.folder.lookup
            try:
                return lookup(name, wait=False)
            except BlockingIOError:
                entry = await self._workers.run(functools.partial(lookup, name))
            if directory.slots.get(name) == slot:
                return entry

    def _settled(self, moves: int) -> bool:
        """Whether no folder is being renamed, nor was since there had been so many `moves`."""
        return not self._moving and self._moves == moves

    async def _until_nothing_moves(self) -> None:
        while self._moving:
            await next(iter(self._moving)).wait()

    def status(self) -> dict[str, Any]:
        """What `.zarrfuse/status.json` says; sizes in bytes, times in seconds."""
        return {
            **self._about,
            "uptime_s": round(time.monotonic() - self._started, 3),
            "requests": self.requests,
            "bytes_read": self.bytes_read,
            "kernel_lookups": len(self.inodes),
            "open_files": len(self._files),
            "open_folders": len(self._directories),
            **({} if self._cache is None else {"cache": dict(self._cache())}),
            "errors": self.errors,
            "last_errors": self.last_errors,
        }

    # -- names -------------------------------------------------------------------------------

    @answered
    async def lookup(
        self, parent_inode: int, name: bytes, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        """A name in a folder. A name that is not there is an answer to keep as well."""
        return await self._named(parent_inode, name, ctx.pid)

    async def _named(self, parent_inode: int, name: bytes, thread: int) -> pyfuse3.EntryAttributes:
        text, moves = os.fsdecode(name), self._moves
        directory = self.inodes.directory(parent_inode)
        if is_hidden(text):
            return self._replies.nothing
        if self._is_control(directory, text):
            return self._replies.attributes(self.inodes.entry(CONTROL_INODE), CONTROL_INODE)
        try:
            entry = await self._entry(directory, text)
        except NotFound:
            if not self._settled(moves):
                raise
            directory.drop(text)
            self._told_stale.pop(thread, None)
            return self._replies.nothing
        again = self._told_stale.get(thread)
        if again is None or (again.directory, again.name) != (directory, text):
            return self._told(directory, entry)
        told = self._told(directory, entry, live=True)
        again.inode = told.st_ino
        return told

    def _as_now(self, inode: int, entry: Entry) -> Entry:
        """An entry as it is at the moment of the reply."""
        return entry

    def _is_control(self, directory: Directory, name: str) -> bool:
        return name == CONTROL_NAME and directory is self.inodes.root

    def _told(
        self, directory: Directory, entry: Entry, *, live: bool = False
    ) -> pyfuse3.EntryAttributes:
        """The kernel is told of an entry, under its number; `live`: it is to keep nothing of it."""
        inode = directory.inode_of(directory.put(entry))
        entry = self._as_now(inode, entry)
        live = live or directory.live or entry.name in directory.writers
        filled = self._replies.attributes(entry, inode, live=live)
        self.inodes.looked_up_one(inode)  # only now: what cannot be told of is not looked up
        return filled

    async def forget(self, inode_list: Sequence[tuple[int, int]]) -> None:
        """The kernel gives lookups back. Nothing may leave this handler."""
        try:
            self.inodes.forget(inode_list)
        except Exception:
            log.exception("forget failed")

    @answered
    async def getattr(self, inode: int, ctx: pyfuse3.RequestContext) -> pyfuse3.EntryAttributes:
        """Attributes; asked again of the view when they are older than the kernel may keep them."""
        return await self._looked_at(inode, ctx.pid)

    async def _looked_at(self, inode: int, thread: int) -> pyfuse3.EntryAttributes:
        directory, slot = self.inodes.place(inode)
        entry = directory.entries[slot]
        if inode == ROOT_INODE:
            entry = await self._looked_up(self.inodes.root, "")
        elif directory.number and not (
            self._fresh(directory)
            and entry.name not in directory.unsure
            and directory.is_current(slot)
        ):
            return await self._reexamined(directory, slot, thread)
        entry = self._as_now(inode, entry)
        return self._replies.attributes(entry, inode, live=directory.live)

    async def _reexamined(
        self, directory: Directory, slot: int, thread: int
    ) -> pyfuse3.EntryAttributes:
        """A slot as it is now; as it was, if it is open and is gone, changed, or cannot be asked for:
        who has it open goes on reading. If it is not, the kernel means what has its name now."""
        entry = directory.entries[slot]
        inode, was_current = directory.inode_of(slot), directory.is_current(slot)
        past_cache = self._open_past_cache(inode, thread)
        if past_cache is not None and not directory.live:
            now = entry_of(entry.name, past_cache.reader)
            return self._replies.attributes(now, inode, live=True)
        if was_current or not directory.is_open(slot):
            try:
                now = await self._entry(directory, entry.name)
            except (ZarrfuseError, OSError):
                if was_current and not directory.is_open(slot):
                    raise
            else:
                at = directory.put(now)
                if at == slot or not directory.is_open(slot):
                    inode = directory.inode_of(at)
                    now = self._as_now(inode, now)
                    return self._replies.attributes(now, inode, live=directory.live or at != slot)
        return self._replies.attributes(self._as_now(inode, entry), inode, live=directory.live)

    def _open_past_cache(self, inode: int, thread: int) -> OpenFile | None:
        """The file which a thread means that has opened an inode past its cache.

        The kernel does not tell. It is what the thread itself has opened last, or else what anybody has,
        if nobody has opened it otherwise.
        """
        files = self._past_cache.get(inode)
        if files is None:
            return None
        own = next((file for file in reversed(files) if file.thread == thread), None)
        return own if own or self._is_open(inode) else files[-1]

    def _is_open(self, inode: int) -> bool:
        directory, slot = self.inodes.place(inode)
        return directory.is_open(slot)

    @answered
    async def readlink(self, inode: int, ctx: pyfuse3.RequestContext) -> bytes:
        """Where a link leads."""
        directory, slot = self.inodes.place(inode)
        name = directory.entries[slot].name
        return os.fsencode(
            await self._workers.run(functools.partial(directory.folder.readlink, name))
        )

    @answered
    async def access(self, inode: int, mode: int, ctx: pyfuse3.RequestContext) -> bool:
        """Nothing may be written; the kernel checks the rest by the modes (default_permissions)."""
        if mode & os.W_OK:
            raise ReadOnly("the mount is read-only")
        return True

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
            directory.extend(await self._workers.more_of(scan))
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
        while True:
            moves = self._moves
            try:
                return await self._open(inode, flags, ctx.pid, is_second=is_second)
            except Stale:
                self._tell_stale(inode, ctx.pid)
                raise
            except NotFound as error:
                if self._settled(moves):
                    raise FUSEError(self.failed("open", error)) from None
                await self._until_nothing_moves()

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
            open_ = functools.partial(directory.folder.open, entry.name)
            try:
                reader = open_(wait=False)
            except BlockingIOError:
                reader = await self._workers.run(open_, late=_close)
            if self.inodes.place(inode) == (directory, slot):
                break
            reader.close()  # it was renamed meanwhile
        if reader.size < 0:
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
            self._past_cache.setdefault(inode, []).append(file)
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

    # -- the whole ---------------------------------------------------------------------------

    @answered
    async def statfs(self, ctx: pyfuse3.RequestContext) -> pyfuse3.StatvfsData:
        """What the store lies on."""
        total, free = await self._workers.run(self._space)
        reply = pyfuse3.StatvfsData()
        reply.f_bsize = reply.f_frsize = block = 4096
        reply.f_blocks = total // block
        reply.f_bfree = reply.f_bavail = free // block
        reply.f_namemax = 255
        return reply

    @answered
    async def getxattr(self, inode: int, name: bytes, ctx: pyfuse3.RequestContext) -> bytes:
        """One attribute of `listxattr`."""
        if not self._xattrs:
            raise FUSEError(errno.ENOSYS)  # the kernel asks once, and never again
        if not name.startswith(b"user.zarr"):
            raise FUSEError(pyfuse3.ENOATTR)
        try:
            return (await self._attributes(inode))[name]
        except KeyError:
            raise FUSEError(pyfuse3.ENOATTR) from None

    @answered
    async def listxattr(self, inode: int, ctx: pyfuse3.RequestContext) -> list[bytes]:
        """What the control files say, as attributes."""
        if not self._xattrs:
            raise FUSEError(errno.ENOSYS)
        return list(await self._attributes(inode))

    async def _attributes(self, inode: int) -> dict[bytes, bytes]:
        directory, slot = self.inodes.place(inode)
        entry = directory.entries[slot]
        if entry.denied or directory.live:
            return {}
        if entry.kind is Kind.FOLDER:
            folder = self.inodes.directory(inode).folder
            return attributes(await self._workers.run(functools.partial(folder.facts, None)))
        return attributes(
            await self._workers.run(functools.partial(directory.folder.facts, entry.name))
        )

    @answered
    async def flush(self, fh: int) -> None:
        """Nothing is written: the kernel need not tell of each close."""
        raise FUSEError(errno.ENOSYS)

    @answered
    async def _refuse(self, *_: Any) -> NoReturn:
        raise ReadOnly("the mount is read-only")

    # Any: what can be written answers these.
    create: Any = _refuse
    link: Any = _refuse
    mkdir: Any = _refuse
    mknod: Any = _refuse
    removexattr: Any = _refuse
    rename: Any = _refuse
    rmdir: Any = _refuse
    setattr: Any = _refuse
    setxattr: Any = _refuse
    symlink: Any = _refuse
    unlink: Any = _refuse
    write: Any = _refuse


def _close(reader: Reader) -> None:
    reader.close()
