"""The class that pyfuse3 calls: a handler for each FUSE request.

Owns how the parts of `fuse` are put together, and the counters of `status.json`. Used by `mounts`. pyfuse3
copies a reply before anything else runs, so one buffer and one pair of attribute objects serve all replies.
"""

import errno
import os
import stat
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import pyfuse3
import trio
from pyfuse3 import FUSEError

from zarrfuse import caching
from zarrfuse.config import ShownAccess, Tuning
from zarrfuse.errors import Denied, NotFound, NotSupported, ReadOnly
from zarrfuse.fuse.answering import answered, changing
from zarrfuse.fuse.attributes import Attributes
from zarrfuse.fuse.contents import Contents
from zarrfuse.fuse.failures import Failures
from zarrfuse.fuse.files import WRITING, Files
from zarrfuse.fuse.folders import Folders
from zarrfuse.fuse.interrupts import interruptible
from zarrfuse.fuse.listing import is_hidden
from zarrfuse.fuse.names import Names
from zarrfuse.fuse.nodes import Node, Nodes
from zarrfuse.fuse.replies import OWN_OFFSETS, Replies
from zarrfuse.fuse.shown import Shown
from zarrfuse.fuse.storing import Storing
from zarrfuse.fuse.workers import Workers
from zarrfuse.stores.access import Access, Change, made_by
from zarrfuse.stores.base import Entry
from zarrfuse.views.base import Folder
from zarrfuse.views.control_files import ControlFolder, RootWithControl

_OUTDATED_AT_ONCE = 1000
"""Inodes that are outdated while requests wait: some milliseconds."""


class Operations(pyfuse3.Operations):
    """Serves the tree below `root`; `writable`: also for writing.

    `ttl_s`: how long listings are cached, and attributes by the kernel, in seconds; `names_ttl_s`: how long
    the kernel may cache dentries. `xattrs`: whether there are
    extended attributes. `about`: members of `.zarrfuse/status.json` before its counters; `counted`: returns
    those of caches and servers. `lists_all`: see `Store.lists_all`. `shown`: see `Shown`.
    """

    supports_dot_lookup = False  # inode numbers mean nothing once they are forgotten
    enable_writeback_cache = False

    def __init__(
        self,
        root: Folder,
        root_entry: Entry,
        *,
        ttl_s: float,
        names_ttl_s: float,
        space: Callable[[], tuple[int, int]],
        writable: bool = False,
        xattrs: bool = False,
        tuning: Tuning | None = None,
        about: Mapping[str, Any] | None = None,
        counted: Callable[[], Mapping[str, Any]] | None = None,
        lists_all: bool = True,
        shown: ShownAccess | None = None,
    ) -> None:
        super().__init__()
        tuning = tuning or Tuning()
        self.writable = writable
        self.failures = Failures(writable=writable)
        self.counts: dict[str, int] = defaultdict(int)
        self._workers = Workers(tuning.threads, tuning.store_timeout_s)
        self._nodes = Nodes(RootWithControl(root, ControlFolder(self.status, root)), root_entry)
        self._folders = Folders(self._nodes, self._workers, ttl_s, lists_all=lists_all)
        self._shown = Shown(shown)
        self._contents = Contents(self._workers, drops_set_id=not self._shown.is_stored)
        parts = self._nodes, self._folders, self._contents
        self._attributes = Attributes(*parts)
        self._storing = Storing(*parts)
        self._files = Files(*parts, self._storing, pushed_bytes=tuning.pushed_bytes)
        self._handles = self._files.handles
        self._names = Names(self._nodes, self._folders, self._files, self._storing)
        self._replies = Replies(
            ttl_s, names_ttl_s, self.failures.note, writable=writable, shown=self._shown
        )
        self.interrupts = self._workers.interrupts
        self._space = space
        self._xattrs = xattrs
        self._about = about or {}
        self._counted = counted
        self._started = time.monotonic()

    async def serve(self, most_requests: int) -> None:
        """Answer requests until the file system is unmounted."""
        async with trio.open_nursery() as nursery:
            self._folders.start(nursery)
            await pyfuse3.main(min_tasks=1, max_tasks=most_requests)
            nursery.cancel_scope.cancel()

    async def outdate(self) -> None:
        """Let all that is kept of the store count as old, here and in the kernel."""
        caching.clear()
        for number, node in enumerate(self._nodes.all(), 1):
            self._files.page_cache.outdate(node)
            if number % _OUTDATED_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()

    @property
    def busy(self) -> bool:
        """Whether store calls are running in threads."""
        return self._workers.busy > 0

    def status(self) -> dict[str, Any]:
        """The content of `.zarrfuse/status.json`; sizes in bytes, times in seconds."""
        counts = dict(self.counts)
        written = {"read_write": True, "bytes_written": self._contents.bytes_written}
        return {
            **self._about,
            "uptime_s": round(time.monotonic() - self._started, 3),
            "requests": sum(counts.values()),
            "requests_by_kind": counts,
            "bytes_read": self._contents.bytes_read + self._files.page_cache.pushed_bytes,
            "kernel_lookups": self._nodes.lookups,
            "open_files": len(self._handles),
            "open_folders": len(self._folders.handles),
            "store_calls": self._workers.latencies.status(),
            **({} if self._counted is None else self._counted()),
            **self.failures.status(),
            **(written if self.writable else {}),
        }

    # -- names and attributes ------------------------------------------------------------------

    @answered
    @interruptible
    async def lookup(
        self, parent_inode: int, name: bytes, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        """Look a name up in a folder. The kernel caches a missing name, too."""
        parent, text = self._nodes[parent_inode], os.fsdecode(name)
        if is_hidden(text):
            return self._replies.nothing
        directory = self._nodes.directory_of(parent)
        node = directory.nodes.get(text)
        if node is None or not node.is_ahead:  # else it is not what is stored
            try:
                entry = self._folders.at_hand(directory, text)
                if entry is None:
                    entry = await self._folders.look(parent, text)
            except NotFound:
                self._folders.forget(parent, text)
                return self._replies.nothing
            node = self._nodes.found(parent, entry)
        return self._told(node)

    def _told(self, node: Node) -> pyfuse3.EntryAttributes:
        filled = self._replies.attributes(node)
        self._nodes.told(node)  # only now: what cannot be told of is not looked up
        return filled

    async def forget(self, inode_list: Sequence[tuple[int, int]]) -> None:
        """The kernel gives lookups back. This handler must not raise."""
        try:
            self._nodes.forget(inode_list)
            await self._files.close_idle()
        except Exception as error:
            self.failures.note("forget", error)

    @answered
    @interruptible
    async def getattr(self, inode: int, ctx: pyfuse3.RequestContext) -> pyfuse3.EntryAttributes:
        """Attributes; looked up again in the view when they are older than the TTL."""
        node = self._nodes[inode]
        await self._attributes.refresh(node)
        return self._replies.attributes(node)

    @answered
    async def setattr(
        self,
        inode: int,
        attr: pyfuse3.EntryAttributes,
        fields: pyfuse3.SetattrFields,
        fh: int | None,
        ctx: pyfuse3.RequestContext,
    ) -> pyfuse3.EntryAttributes:
        """Set size, times, mode and owner, as far as the store has them."""
        if not self.writable:
            raise ReadOnly("the mount is read-only")
        node = self._nodes[inode]
        if node.parent is not None:
            self._names.check(node.parent, node.name, ReadOnly)
        asked = Change(
            attr.st_mtime_ns if fields.update_mtime else None,
            stat.S_IMODE(attr.st_mode) if fields.update_mode else None,
            attr.st_uid if fields.update_uid else None,
            attr.st_gid if fields.update_gid else None,
            attr.st_atime_ns if fields.update_atime else None,
        )
        change = self._shown.stored(asked, node.entry)
        if fields.update_size and fh is not None:
            await self._contents.truncate(self._handles[fh], attr.st_size)
        elif fields.update_size:
            await self._files.set_size(node, attr.st_size)
        if change != Change():
            await self._attributes.set(node, change)
        await self._attributes.refresh(node)
        return self._replies.attributes(node)

    @answered
    async def access(self, inode: int, mode: int, ctx: pyfuse3.RequestContext) -> bool:
        """Whether a file may be written or executed, if the kernel does not check; opening checks reads."""
        self._attributes.check_access(self._nodes[inode], mode)
        return True

    @answered
    async def readlink(self, inode: int, ctx: pyfuse3.RequestContext) -> bytes:
        """The target of a symlink."""
        node = self._nodes[inode]
        assert node.parent is not None
        parent, name = node.parent, node.name
        return os.fsencode(await self._folders.ask(parent, lambda at: at.readlink(name)))

    # -- folders -------------------------------------------------------------------------------

    @answered
    @interruptible
    async def opendir(self, inode: int, ctx: pyfuse3.RequestContext) -> int:
        """Open a folder; fails if it cannot be listed."""
        node = self._nodes[inode]
        if node.entry.denied:
            raise Denied("this folder lies outside the store")
        return await self._folders.open(node)

    @answered
    async def readdir(self, fh: int, start_id: int, token: pyfuse3.ReaddirToken) -> None:
        """Entries with their attributes, from an offset on."""
        opened = self._folders.handles[fh]
        if start_id == 0 and opened.is_read:  # the program starts over
            await self._folders.begin(opened)
        opened.is_read = True
        first = max(start_id - OWN_OFFSETS, 0)
        await self._folders.reach(opened, first)
        if self._replies.own_names(token, opened.node, start_id):
            self._replies.names(token, self._nodes, opened, first)

    @answered
    async def fsyncdir(self, fh: int, datasync: bool) -> None:
        """Make the names in a folder durable."""
        await self._folders.ask(self._folders.handles[fh].node, lambda folder: folder.sync())

    @answered
    async def releasedir(self, fh: int) -> None:
        """Close a folder."""
        self._folders.close(fh)

    # -- files ---------------------------------------------------------------------------------

    @answered
    @interruptible
    async def open(self, inode: int, flags: int, ctx: pyfuse3.RequestContext) -> pyfuse3.FileInfo:
        """Open a file. The kernel keeps cached pages, unless size or time changed."""
        if flags & WRITING and not self.writable:
            raise ReadOnly("the mount is read-only")
        return await self._files.open(self._nodes[inode], flags)

    @changing
    async def create(
        self, parent_inode: int, name: bytes, mode: int, flags: int, ctx: pyfuse3.RequestContext
    ) -> tuple[pyfuse3.FileInfo, pyfuse3.EntryAttributes]:
        """Create a file and open it."""
        parent, text = self._nodes[parent_inode], os.fsdecode(name)
        self._names.check(parent, text)
        asked = Access(mode & self._shown.file_bits, ctx.uid, ctx.gid)
        given = made_by(asked, parent.entry.access)
        info, node = await self._files.create(parent, text, flags, given)
        return info, self._told(node)

    async def read(  # type: ignore[override]  # any buffer will do
        self, fh: int, off: int, size: int
    ) -> bytes | memoryview | bytearray:
        """Bytes of an open file; fewer than requested only at its end.

        It is not `answered`, which would cost a tenth of a small read: an error here is raised again by the
        call that waits.
        """
        try:
            data = self._contents.read_at_hand(self._handles[fh], off, size)
        except BaseException:  # awaited below: what is raised in here carries this one along
            pass
        else:
            self.counts["read"] += 1
            return data
        return await self._read_waiting(fh, off, size)

    @answered
    async def _read_waiting(self, fh: int, off: int, size: int) -> bytearray:
        return await self._contents.read(self._handles[fh], off, size)

    @answered
    async def write(self, fh: int, off: int, buf: bytes) -> int:
        """Write to an open file: all of it, or an error."""
        await self._contents.write(self._handles[fh], off, buf)
        return len(buf)

    @answered
    async def flush(self, fh: int) -> None:
        """A program closes a file: store what it wrote.

        With a read-only mount the kernel need not send it.
        """
        if not self.writable:
            raise FUSEError(errno.ENOSYS)
        await self._storing.flush(self._handles[fh])

    @answered
    async def fsync(self, fh: int, datasync: bool) -> None:
        """Store what was written, durably."""
        await self._storing.fsync(self._handles[fh])

    @answered
    async def release(self, fh: int) -> None:
        """Release a handle."""
        await self._files.close(self._handles[fh])

    # -- changes of names ----------------------------------------------------------------------

    @changing
    async def unlink(self, parent_inode: int, name: bytes, ctx: pyfuse3.RequestContext) -> None:
        """Delete a file."""
        await self._names.unlink(self._nodes[parent_inode], os.fsdecode(name))

    @changing
    async def rmdir(self, parent_inode: int, name: bytes, ctx: pyfuse3.RequestContext) -> None:
        """Delete an empty folder."""
        await self._names.rmdir(self._nodes[parent_inode], os.fsdecode(name))

    @changing
    async def mkdir(
        self, parent_inode: int, name: bytes, mode: int, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        """Make an empty folder."""
        parent = self._nodes[parent_inode]
        asked = Access(mode & 0o7777, ctx.uid, ctx.gid)
        given = made_by(asked, parent.entry.access, is_folder=True)
        return self._told(await self._names.mkdir(parent, os.fsdecode(name), given))

    @changing
    async def symlink(
        self, parent_inode: int, name: bytes, target: bytes, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        """Make a symlink."""
        parent = self._nodes[parent_inode]
        given = made_by(Access(0o777, ctx.uid, ctx.gid), parent.entry.access)
        text = os.fsdecode(target)
        return self._told(await self._names.symlink(parent, os.fsdecode(name), text, given))

    @changing
    async def rename(
        self,
        parent_inode_old: int,
        name_old: bytes,
        parent_inode_new: int,
        name_new: bytes,
        flags: int,
        ctx: pyfuse3.RequestContext,
    ) -> None:
        """Rename a file or folder; it atomically replaces an existing one."""
        if flags & ~pyfuse3.RENAME_NOREPLACE:
            raise NotSupported("names cannot be exchanged")
        source, name = self._nodes[parent_inode_old], os.fsdecode(name_old)
        target, new_name = self._nodes[parent_inode_new], os.fsdecode(name_new)
        await self._names.rename(source, name, target, new_name, may_replace=not flags)

    @changing
    async def link(
        self, inode: int, new_parent_inode: int, new_name: bytes, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        """Give a file a second name."""
        node, parent = self._nodes[inode], self._nodes[new_parent_inode]
        return self._told(await self._names.link(node, parent, os.fsdecode(new_name)))

    # -- the whole -----------------------------------------------------------------------------

    @answered
    async def statfs(self, ctx: pyfuse3.RequestContext) -> pyfuse3.StatvfsData:
        """Total and free space of the store."""
        total, free = await self._workers.run(self._space, "")
        return self._replies.space(total, free)

    @answered
    async def getxattr(self, inode: int, name: bytes, ctx: pyfuse3.RequestContext) -> bytes:
        """One attribute of `listxattr`."""
        if not self._xattrs:
            raise FUSEError(errno.ENOSYS)  # the kernel asks once, and never again
        if not name.startswith(b"user.zarr"):
            raise FUSEError(pyfuse3.ENOATTR)
        try:
            return (await self._attributes.extended(self._nodes[inode]))[name]
        except KeyError:
            raise FUSEError(pyfuse3.ENOATTR) from None

    @answered
    async def listxattr(self, inode: int, ctx: pyfuse3.RequestContext) -> list[bytes]:
        """The names of the extended attributes, which are facts of control files."""
        if not self._xattrs:
            raise FUSEError(errno.ENOSYS)
        return list(await self._attributes.extended(self._nodes[inode]))

    @changing
    async def _not_offered(self, *_: Any) -> NoReturn:
        raise NotSupported("not offered: see docs/semantics.md")

    @changing
    async def _never_offered(self, *_: Any) -> NoReturn:
        raise FUSEError(errno.ENOSYS)  # ENOTSUP to the program, and the kernel asks no more

    mknod: Any = _not_offered
    setxattr: Any = _never_offered
    removexattr: Any = _never_offered
