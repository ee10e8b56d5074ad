"""Kernel requests in, replies and errno out: the names of a view as a FUSE file system.

Owns what becomes of errors, the answers that tell of names and attributes, and what is asked of a view
at once and what in a thread. Knows nothing of Zarr. What is opened, `fuse_reading` answers.

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
from contextlib import suppress
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

import pyfuse3
import trio
from pyfuse3 import FUSEError

from zarrfuse.config import Tuning
from zarrfuse.errors import (
    Denied,
    NotFound,
    ReadOnly,
    ZarrfuseError,
)
from zarrfuse.failures import Failures
from zarrfuse.handles import OpenDirectory, OpenFile
from zarrfuse.inodes import CONTROL_INODE, ROOT_INODE, Directory, InodeTable, is_hidden
from zarrfuse.replies import Replies
from zarrfuse.stores.base import Entry, Kind, entry_of
from zarrfuse.threads import Workers
from zarrfuse.views.attributes import attributes
from zarrfuse.views.base import Folder
from zarrfuse.views.control import CONTROL_NAME, ControlFolder, RootWithControl

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="ZarrOperations")


def answered(
    handler: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Turn whatever leaves a handler into an errno: anything else would kill the mount."""
    request = handler.__name__.strip("_").partition("_")[0]

    @functools.wraps(handler)
    async def wrapper(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
        self.requests += 1
        try:
            return await handler(self, *args, **kwargs)
        except (FUSEError, trio.Cancelled):
            raise
        except BaseException as error:  # a store in Rust panics with one
            raise FUSEError(self.failed(request, error)) from None

    return wrapper  # type: ignore[return-value]  # functools hides that it is a method


class ZarrOperations(pyfuse3.Operations):
    """Serves the names of the tree below `root`, read-only.

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
        self._moving: dict[Directory, trio.Event] = {}
        """Folders that are being renamed, and the end of that."""
        self._past_cache: dict[int, list[OpenFile]] = {}
        """By inode: the files that were opened there, but have other bytes than it."""
        self._directories: dict[int, OpenDirectory] = {}
        self._replies = Replies(ttl_s, self.failed, self._as_now, writable=self.writable)
        self._started = time.monotonic()
        self.requests = 0
        self.bytes_read = 0
        self._failures = Failures()

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
        """The errno for an error, which is counted and logged."""
        return self._failures.note(request, error)

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
            slot, folder = directory.slots.get(name), directory.folder
            try:
                try:
                    return folder.lookup(name, wait=False)
                except BlockingIOError:
                    entry = await self._workers.run(
                        functools.partial(folder.lookup, name), folder.path
                    )
            except NotFound:
                if await self._has_moved(directory, folder):
                    continue
                raise
            if directory.slots.get(name) == slot:
                return entry

    async def _has_moved(self, directory: Directory, folder: Folder) -> bool:
        """Whether a directory is another folder by now, which is waited for if it is being renamed.

        Until that is noted, nothing is found in it. The kernel keeps others from renaming a name that is
        being looked up, but not a folder above.
        """
        while self._moving:
            above: Directory | None = directory
            while above is not None and above not in self._moving:
                above = above.parent
            if above is None:
                break
            await self._moving[above].wait()
        return directory.folder is not folder

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
            **self._failures.status(),
        }

    # -- names -------------------------------------------------------------------------------

    async def _named(self, parent_inode: int, name: str) -> pyfuse3.EntryAttributes:
        """A name in a folder. A name that is not there is an answer to keep as well."""
        directory = self.inodes.directory(parent_inode)
        if is_hidden(name):
            return self._replies.nothing
        if self._is_control(directory, name):
            return self._replies.attributes(self.inodes.entry(CONTROL_INODE), CONTROL_INODE)
        try:
            entry = await self._entry(directory, name)
        except NotFound:
            directory.drop(name)
            return self._replies.nothing
        return self._told(directory, entry)

    def _as_now(self, inode: int, entry: Entry) -> Entry:
        """An entry as it is at the moment of the reply."""
        return entry

    def _is_control(self, directory: Directory, name: str) -> bool:
        return name == CONTROL_NAME and directory is self.inodes.root

    def _told(self, directory: Directory, entry: Entry) -> pyfuse3.EntryAttributes:
        """The kernel is told of an entry, under its number."""
        inode = directory.inode_of(directory.put(entry))
        entry = self._as_now(inode, entry)
        live = directory.live or entry.name in directory.writers
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
            now = entry_of(entry, past_cache.reader)
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

    def _put_past_cache(self, file: OpenFile) -> None:
        """An open file has other bytes than its inode: nothing of the one is to serve for the other."""
        self._past_cache.setdefault(file.shown_inode, []).append(file)
        directory, slot = self.inodes.place(file.shown_inode)
        if directory.live:
            return
        directory.renew(slot)  # who maps the file shares the kernel's pages of this inode
        with suppress(OSError):  # it does not know the inode
            # It may have been told of the other one. Attributes alone: that waits for no lock.
            pyfuse3.invalidate_inode(file.shown_inode, attr_only=True)

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
        name, folder = directory.entries[slot].name, directory.folder
        target = await self._workers.run(functools.partial(folder.readlink, name), folder.path)
        return os.fsencode(target)

    @answered
    async def access(self, inode: int, mode: int, ctx: pyfuse3.RequestContext) -> bool:
        """What access(2) says where the kernel does not check: whether it may be read, opening tells."""
        if mode & os.W_OK:
            raise ReadOnly("the mount is read-only")
        entry = self.inodes.entry(inode)
        bits = 0 if entry.access is None else entry.access.mode
        if mode & os.X_OK and entry.kind is Kind.FILE and not bits & 0o111:
            raise Denied(f"{entry.name} is no program")
        return True

    # -- the whole ---------------------------------------------------------------------------

    @answered
    async def statfs(self, ctx: pyfuse3.RequestContext) -> pyfuse3.StatvfsData:
        """What the store lies on."""
        total, free = await self._workers.run(self._space, "")
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
        is_folder = entry.kind is Kind.FOLDER
        folder = self.inodes.directory(inode).folder if is_folder else directory.folder
        facts = functools.partial(folder.facts, None if is_folder else entry.name)
        return attributes(await self._workers.run(facts, folder.path))

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
