"""Opens, reads, writes, stores and releases files.

Owns the open files, what the kernel may cache of them, and when a working copy is stored. Used by `names`
and `operations`. It must not know Zarr.

One inode is one file: all programs that have it open share its content. A file that is stored whole gets a
working copy at the first open for writing. It is stored at fsync, at each close of a handle that has
written, and at the release of the last handle. FLUSH does not tell which close is the last: a shell closes
a file that it has just opened for a command. So an empty copy is stored at the last release only.

OPEN of an inode opens the file that the lookup found, as on a disk. So an open inode is shared without a
store call, and one whose name is deleted in the mount is opened at that moment, and stays open until the
kernel forgets it. An inode that is not open becomes that of the file that has its name now. If that is
impossible, `open` is ESTALE, and the kernel looks the name up again within the same system call.
"""

import errno
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

import pyfuse3
from msgspec.structs import replace
from pyfuse3 import FUSEError

from zarrfuse.errors import Corrupt, Denied, Exists, NotFound, Stale, ZarrfuseError, text_of
from zarrfuse.formats.segments import Rendered
from zarrfuse.fuse.file import File
from zarrfuse.fuse.folders import Folders
from zarrfuse.fuse.nodes import Node, Nodes, is_same
from zarrfuse.fuse.workers import Workers
from zarrfuse.stores.access import Access, Change, new_file
from zarrfuse.stores.base import Entry, Kind, Reader, Writer, entry_of
from zarrfuse.transactions.working_copy import WorkingCopy
from zarrfuse.views.base import Folder
from zarrfuse.views.control_files import LiveReader

log = logging.getLogger(__name__)

T = TypeVar("T")

LARGEST_READ = 1 << 20  # no kernel asks for more at once
WRITING = os.O_WRONLY | os.O_RDWR | os.O_TRUNC
SLOWEST_STORE = 1 << 20
"""Bytes a second: the time-out for storing or copying a large file grows by its size over this."""


class Handle:
    """One opening of a file; `has_written`: whether it has written since the file was stored."""

    __slots__ = ("file", "has_written", "node", "number")

    def __init__(self, number: int, node: Node, file: File) -> None:
        self.number = number
        self.node = node
        self.file = file
        self.has_written = False


class Files:
    """All open files. Files of at most `pushed_bytes` are pushed into the kernel's page cache."""

    def __init__(
        self, nodes: Nodes, folders: Folders, workers: Workers, *, pushed_bytes: int
    ) -> None:
        self._nodes = nodes
        self._folders = folders
        self._workers = workers
        self._pushed_bytes = pushed_bytes
        self._handles: dict[int, Handle] = {}
        self._last_handle = 0
        self._buffer = memoryview(bytearray(LARGEST_READ))
        self.bytes_read = 0
        self.bytes_written = 0

    def __len__(self) -> int:
        """The number of open handles."""
        return len(self._handles)

    def __getitem__(self, fh: int) -> Handle:
        return self._handles[fh]

    # -- opening -------------------------------------------------------------------------------

    async def open(self, node: Node, flags: int) -> pyfuse3.FileInfo:
        """Open an inode. Raises `Stale` if the kernel has to look its name up again."""
        handle = self._handle_on(node, await self._opened(node, write=bool(flags & WRITING)))
        if node.is_unsure or flags & os.O_TRUNC:
            try:
                if node.is_unsure:
                    self.void(node)
                    if flags & os.O_APPEND:  # the kernel knows where the end is, and does not ask
                        raise Stale(f"{node.name} has another size now")
                if flags & os.O_TRUNC and handle.file.content.size:
                    await self.truncate(handle, 0)
            except BaseException:
                await self.close(handle)
                raise
        return self._info(handle)

    async def _opened(self, node: Node, *, write: bool) -> File:
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
                await self._close(content)  # it has been opened to write meanwhile
                continue
            return self._shared(node, content, write=is_written)

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
            await self._close(content)
            return None
        return content

    async def _content(self, node: Node, *, write: bool) -> Any:
        """Open the stored file of an inode: a `Reader`, or a `Writer`."""
        assert node.parent is not None
        name = node.name

        def opened(folder: Folder) -> Reader:
            return folder.write(name) if write else folder.open(name)

        return await self._folders.ask(node.parent, opened, late=_close)

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

    def _handle_on(self, node: Node, file: File) -> Handle:
        self._last_handle += 1
        handle = self._handles[self._last_handle] = Handle(self._last_handle, node, file)
        file.handles += 1
        return handle

    def _info(self, handle: Handle) -> pyfuse3.FileInfo:
        """The reply to OPEN: the kernel keeps its cached pages if size and time have not changed."""
        node, file = handle.node, handle.file
        info = pyfuse3.FileInfo(fh=handle.number, keep_cache=False)
        content = file.content
        if node.file is not file:
            info.direct_io = True
        elif type(content) is not Rendered or content.lasting:
            now = node.now
            seen = now.size, now.mtime_ns
            info.keep_cache = file.is_changed or node.seen == seen or self._push(node, file)
            node.seen = seen
        return info

    def _push(self, node: Node, file: File) -> bool:
        """Push a small file into the kernel's page cache; returns whether that was done.

        In other handlers this could deadlock: the kernel waits for a page that is locked by a read, which
        waits for us. There is no read of a file that is not open.
        """
        size = file.content.size
        if not 0 < size <= self._pushed_bytes or file.handles > 1 or file.writer is not None:
            return False
        data = self._buffer[:size]
        try:
            file.content.readinto(data, 0, wait=False)
            pyfuse3.notify_store(node.number, 0, data)  # type: ignore[arg-type]  # any buffer will do
        except BaseException:  # not at hand, not readable, not taken: it is read when it is read
            return False
        return True

    def void(self, node: Node) -> None:
        """Invalidate an inode's attributes in the kernel. That takes no lock in the kernel."""
        node.seen, node.is_unsure = None, False
        with suppress(OSError):  # it does not know the inode
            pyfuse3.invalidate_inode(node.number, attr_only=True)

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
            writer = await self._folders.ask(parent, made, late=_close)
            if being_made() is None:
                node = self._made(parent, name, writer)
                assert node.file is not None
                return self._info(self._handle_on(node, node.file)), node
            await self._close(writer)
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

    # -- reading -------------------------------------------------------------------------------

    def read_at_hand(self, fh: int, offset: int, size: int) -> memoryview | bytes:
        """Bytes that can be read without waiting, valid until the next call; else raises anything."""
        content = self._handles[fh].file.content
        size = min(size, content.size - offset)
        if size <= 0:
            return b""
        if size > LARGEST_READ:
            raise BlockingIOError(errno.EAGAIN, "more than the buffer holds")
        buffer = self._buffer[:size]
        content.readinto(buffer, offset, wait=False)
        self.bytes_read += size
        return buffer

    async def read(self, fh: int, offset: int, size: int) -> bytearray:
        """Bytes of an open file; fewer than asked only at its end."""
        handle = self._handles[fh]
        content = handle.file.content
        own = bytearray(max(min(size, content.size - offset), 0))
        file = handle.file  # whose content may be another one when the thread begins
        await self._in_thread(handle, lambda: file.content.readinto(memoryview(own), offset))
        self.bytes_read += len(own)
        return own

    # -- writing -------------------------------------------------------------------------------

    async def write(self, fh: int, offset: int, data: bytes) -> None:
        """Write to an open file: all of it, or an error."""
        handle = self._handles[fh]
        await self._change(handle, lambda: _writer_of(handle).write(data, offset))
        self.bytes_written += len(data)

    async def truncate(self, handle: Handle, size: int) -> None:
        """Set the size of an open file, in bytes."""
        await self._change(handle, lambda: _writer_of(handle).truncate(size))
        handle.file.is_broken = handle.file.is_broken and size > 0

    async def _change(self, handle: Handle, change: Callable[[], None]) -> None:
        file = handle.file
        _writer_of(handle)  # which raises EBADF
        file.is_refused, handle.has_written = False, True
        longer_s = file.content.size / SLOWEST_STORE  # the first change copies the file of before
        try:
            await self._in_thread(handle, change, longer_s=longer_s)
        except BaseException:
            file.is_broken = not file.is_live
            raise

    async def set_attributes(self, node: Node, change: Change) -> None:
        """Set times, mode and owner of a file or folder."""
        file = node.file
        if file is not None and file.is_made:
            assert file.copy is not None
            file.copy.given = change.of(node.entry.access or file.copy.given or Access(0o644, 0, 0))
            node.entry = replace(node.entry, access=file.copy.given)
            change = Change(change.mtime_ns)
        if file is not None and (file.is_changed or not node.is_named):
            handle = Handle(0, node, file)
            content: Any = file.content if file.is_live else _writer_of(handle)
            await self._in_thread(handle, partial(content.change, change))
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

    async def set_size(self, node: Node, size: int) -> None:
        """Set the size of a file that the program has not opened, in bytes."""
        file = None
        while file is None:
            file = await self._opened(node, write=True)
        handle = self._handle_on(node, file)
        try:
            await self.truncate(handle, size)
            if file.copy is not None:
                await self.store(handle)
        finally:
            await self.close(handle)

    # -- storing -------------------------------------------------------------------------------

    async def flush(self, fh: int) -> None:
        """FLUSH, when a program closes the file: store what it wrote. Raises if that fails."""
        handle = self._handles[fh]
        file, copy = handle.file, handle.file.copy
        if copy is None or not handle.has_written:
            return
        if file.is_broken or (copy.changed and copy.size):
            await self.store(handle)

    async def fsync(self, fh: int) -> None:
        """Store what was written, durably."""
        handle = self._handles[fh]
        if handle.file.copy is not None:
            await self.store(handle, sync=True)
        elif handle.file.is_live:
            await self._in_thread(handle, partial(_sync, handle.file))

    async def store(self, handle: Handle, *, sync: bool = False) -> None:
        """Store a changed working copy under its present name."""
        node, file = handle.node, handle.file
        async with file.storing:
            copy = file.copy
            assert copy is not None
            if file.is_broken:
                raise Corrupt("a write failed before, so nothing of this file is stored")
            if not copy.changed and sync:
                await self._in_thread(handle, copy.sync)
            if not copy.changed or not node.is_named or node.file is not file:
                return
            assert node.parent is not None
            name = node.name

            def store(folder: Folder) -> Entry | None:
                folder.store(name, copy, sync=sync)
                try:
                    return folder.lookup(name)
                except NotFound:  # an empty chunk, which is not stored
                    return None

            file.is_refused = True  # unless this succeeds: what a program was told failed stays so
            in_use = partial(_in_use, file, store)
            longer_s = copy.size / SLOWEST_STORE
            entry = await self._folders.ask(node.parent, in_use, longer_s=longer_s)
            file.is_refused = handle.has_written = False
            self._is_stored(node, file, entry)

    def _is_stored(self, node: Node, file: File, entry: Entry | None) -> None:
        assert node.parent is not None
        directory = self._nodes.directory_of(node.parent)
        if entry is None:
            file.is_made = True
            directory.making.add(node.name)
        else:
            file.is_made = False
            if file.copy is not None:
                file.copy.given = None  # what is stored hands its mode and owner on
            directory.making.discard(node.name)
            node.update(entry)
            file.known = entry
            node.seen = entry.size, entry.mtime_ns
        self._folders.put(node)
        self._folders.outdate(directory)  # with a document, all names may have become others

    async def store_node(self, node: Node) -> None:
        """Store the changes of a node's file, if it is open."""
        if node.file is not None and node.file.is_changed:
            await self.store(Handle(0, node, node.file))

    async def reopen(self, node: Node) -> None:
        """Open the stored file of an inode again, after its content was stored under another form."""
        file = node.file
        self.void(node)
        if file is not None and not file.is_changed:
            write = file.writer is not None
            content = await self._content(node, write=write)
            file.take(content, entry_of(node.entry, content), content if write else None)

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
                return self._handle_on(node, await self._opened(node, write=write))
        return None

    async def wait_for_stores(self, *nodes: Node | None) -> list[File]:
        """Keep working copies of nodes, and of those below them, from being stored; see `go_on`."""
        below = {each for node in nodes if node is not None for each in self._nodes.below(node)}
        held = []
        for each in sorted(below, key=attrgetter("number")):
            file = each.file
            if file is not None and file.copy is not None:
                await file.storing.acquire()
                held.append(file)
        return held

    def go_on(self, held: list[File]) -> None:
        """Let these files be stored again."""
        for file in held:
            file.storing.release()

    # -- the end -------------------------------------------------------------------------------

    async def close(self, handle: Handle | None) -> None:
        """RELEASE of a handle. If its changes cannot be stored, the error reaches only the log."""
        if handle is None:
            return
        file = handle.file
        try:
            is_last = file.copy is not None and file.handles == 1
            if is_last and file.is_changed and not file.is_refused and not file.is_broken:
                await self.store(handle)
        finally:
            del self._handles[handle.number]
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
            await self._close(file)

    async def close_idle(self) -> None:
        """Close the files of inodes that are forgotten."""
        while self._nodes.idle:
            await self._close(self._nodes.idle.pop())

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
            self.void(node)
        elif file.copy is not None:
            self.void(node)
            node.is_unsure = node.entry.size != file.copy.size  # a document is shown rewritten
            if file.is_changed:
                self._folders.outdate(directory)

    # -- how -----------------------------------------------------------------------------------

    async def _in_thread(
        self, handle: Handle, call: Callable[[], T], *, longer_s: float = 0.0
    ) -> T:
        path = "" if handle.node.parent is None else handle.node.folder.path
        in_use = partial(handle.file.in_use, call)
        return await self._workers.run(in_use, path, longer_s=longer_s)

    async def _close(self, closed: Reader | File) -> None:
        """Close in a thread: it may delete files, or send bytes to a server."""
        try:
            await self._workers.run(closed.close, None)
        except (ZarrfuseError, OSError) as error:  # of bytes that are stored, or that nobody wants
            log.warning("a file could not be closed: %s", text_of(error))
        except Exception:
            log.exception("a file could not be closed")


def _writer_of(handle: Handle) -> Writer:
    if handle.file.writer is None:
        raise FUSEError(errno.EBADF)
    return handle.file.writer


def _in_use(file: File, call: Callable[[Folder], T], folder: Folder) -> T:
    return file.in_use(lambda: call(folder))


def _sync(file: File) -> None:
    file.content.sync()  # type: ignore[attr-defined]


def _close(content: Reader) -> None:
    content.close()
