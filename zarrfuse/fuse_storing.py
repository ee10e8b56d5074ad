"""Handlers that store what was written: write, flush, fsync, release.

Owns when a private copy is stored, and the end of open files. Used by `fuse_writing`, which opens
them; knows nothing of Zarr, nor of parts.

A close does not tell whether it is the last: a shell closes what it has just opened for a command.
So a copy that is still empty is stored when the last handle is gone, not before. What a program was
told is not stored stays so: it is not tried again behind its back.
"""

import errno
import functools
import logging
import time
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TypeVar

import pyfuse3
import trio
from pyfuse3 import FUSEError

from zarrfuse.errors import Corrupt, is_expected, text_of
from zarrfuse.fuse import answered
from zarrfuse.fuse_reading import ReadingOperations
from zarrfuse.handles import OpenFile, Opening
from zarrfuse.inodes import Directory
from zarrfuse.stores.base import entry_of
from zarrfuse.views.base import Writer

log = logging.getLogger(__name__)

T = TypeVar("T")

SLOWEST_STORE = 1 << 20
"""Bytes a second; so much longer may it take to store or copy a large file."""
_STORING = frozenset({"flush", "fsync", "release"})
_TOLD = frozenset({errno.EINVAL, errno.ENOSPC, errno.EDQUOT})
"""Errors that say no more to a person than that something is wrong."""
_LINGERING_S = 1.0
"""How long a deleted file can still be opened by who has just looked up its name."""


class StoringOperations(ReadingOperations):
    """Takes what is written, and stores it."""

    writable = True

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self._copies: set[OpenFile] = set()
        """The private copies that are open."""
        self._private: dict[int, OpenFile] = {}
        """By inode that was made for it: a private copy."""
        self._shared: dict[int, OpenFile] = {}
        """By inode: the shared file that was opened there last."""
        self._lingering: dict[int, OpenFile] = {}
        """By inode: shared files without a name that nobody has open, for `_LINGERING_S`."""
        self._opening: set[Opening] = set()
        self.bytes_written = 0

    def status(self) -> dict[str, object]:
        """See `ZarrOperations`."""
        return {**super().status(), "read_write": True, "bytes_written": self.bytes_written}

    @answered
    async def access(self, inode: int, mode: int, ctx: pyfuse3.RequestContext) -> bool:
        """The kernel checks by the modes (default_permissions)."""
        return True

    def failed(self, request: str, error: BaseException) -> int:
        """See `ZarrOperations`; why something was not stored is told in the log each time."""
        code = super().failed(request, error)
        if is_expected(error) and (request in _STORING or code in _TOLD):
            log.warning("%s: %s", request, text_of(error))
        return code

    # -- writing -------------------------------------------------------------------------------

    @answered
    async def write(self, fh: int, off: int, buf: bytes) -> int:
        """Write to an open file: all of it, or an error."""
        file, writer = self._written(fh)
        file.is_refused = False
        write = functools.partial(writer.write, buf, off)
        try:  # the first one copies the file of before
            await self._in_thread(file, write, longer_s=writer.size / SLOWEST_STORE)
        except BaseException:
            file.is_broken = writer.is_private
            raise
        self._has_changed(file, writer)
        self.bytes_written += len(buf)
        return len(buf)

    def _has_changed(self, file: OpenFile, writer: Writer) -> None:
        """The size and time of a shared file are no longer those of a listing."""
        if not writer.is_private:
            directory, slot = self.inodes.place(file.inode)
            directory.changed(directory.entries[slot].name, time.monotonic())

    @answered
    async def flush(self, fh: int) -> None:
        """A program closes the file: what it wrote is stored, and it is told if that fails."""
        file, writer = self._files[fh], self._files[fh].writer
        # A first write that failed has changed nothing, and is told of all the same.
        if writer is not None and (file.is_broken or (writer.changed and writer.size)):
            await self._store(file, writer, sync=False)

    @answered
    async def fsync(self, fh: int, datasync: bool) -> None:
        """What was written is stored, and outlives the machine."""
        file = self._files[fh]
        sync = getattr(file.reader, "sync", None)
        if file.writer is not None:
            await self._store(file, file.writer, sync=True)
        elif sync is not None:
            await self._in_thread(file, sync)

    @answered
    async def fsyncdir(self, fh: int, datasync: bool) -> None:
        """The names in a folder outlive the machine."""
        folder = self._directories[fh].directory.folder
        await self._workers.run(folder.sync, folder.path)

    # -- the end of open files, and storing ----------------------------------------------------

    async def _end(self, file: OpenFile) -> None:
        """See `ReadingOperations`. Nobody can be told any more if something cannot be stored."""
        self._count_off(file)
        directory, slot = self.inodes.place(file.inode)
        if self._shared.get(file.inode) is file:
            del self._shared[file.inode]
            if file.writer is not None and directory.is_current(slot):
                entry = directory.entries[slot]
                try:
                    directory.put(entry_of(entry, file.writer))
                except OSError:
                    directory.changed(entry.name, time.monotonic())  # asked for when it is needed
        if self._is_shared(directory, slot) and directory.is_open(slot):
            for other in self._files.values():
                if other.inode == file.inode:
                    self._shared.setdefault(file.inode, other)
                    break
        if file.writer is not None and file.writer.is_private:
            await self._end_private(file, file.writer)
        elif file.writer is None and directory.is_current(slot):
            file.close()
        elif directory.is_current(slot) or file.writer is None or file.inode in self._lingering:
            await self._closed(file)  # with it, what was written may be sent, or deleted
        else:
            self._let_linger(file)

    async def _end_private(self, file: OpenFile, writer: Writer) -> None:
        try:
            if writer.changed and not (file.is_refused or file.is_broken):
                await self._store(file, writer, sync=False)
        finally:
            if not file.handles and file in self._copies:  # not opened once more meanwhile
                self._copies.discard(file)
                if self._private.get(file.inode) is file:
                    del self._private[file.inode]
                assert file.named is not None
                directory, name = file.named
                directory.written(name, -1)
                await self._closed(file)

    async def _closed(self, file: OpenFile) -> None:
        """Close a file, which may take a while: what is deleted with it, or sent to a server."""
        try:
            await self._workers.run(file.close, None)
        except Exception as error:  # in tasks of ours, where nobody waits for it
            self.failed("release", error)

    def _let_linger(self, file: OpenFile) -> None:
        """Keep a file open that has no name any more.

        Others may have looked its name up a moment ago, and open it next: on a disk they can, and who
        takes a lock file in turn with others relies on that. The kernel asks twice, no more.
        """
        self._lingering[file.inode] = file
        self.inodes.hold(file.inode)
        assert self._nursery is not None
        self._nursery.start_soon(self._end_lingering, file)

    async def _end_lingering(self, file: OpenFile) -> None:
        await trio.sleep(_LINGERING_S)
        if self._lingering.get(file.inode) is file:
            del self._lingering[file.inode]
            self.inodes.let_go(file.inode)
            await self._closed(file)

    async def _store(self, file: OpenFile, writer: Writer, *, sync: bool) -> None:
        if file.is_broken:
            raise Corrupt("a write failed before, so nothing of this file is stored")

        def store() -> bool:
            with file.storing:
                return not file.is_deleted and writer.store(sync=sync)

        file.is_refused = True  # unless this succeeds: what a program was told failed stays so
        stored = await self._in_thread(file, store, longer_s=writer.size / SLOWEST_STORE)
        file.is_refused = False
        if stored and file.named is not None:
            directory, name = file.named
            directory.retire(name, time.monotonic())

    def _being_written(
        self, directory: Directory, name: str | None = None
    ) -> Iterator[OpenFile | Opening]:
        """The private copies that are open, or about to be, of a name, or of all names in a folder."""
        for file in chain[OpenFile | Opening](self._copies, self._opening):
            assert file.named is not None
            where, written = file.named
            if where is directory and name in (None, written) and not file.is_deleted:
                yield file

    def _is_written_below(self, directory: Directory) -> bool:
        """Whether private copies are open of names in a folder, or in a folder in it."""
        for file in self._copies:
            assert file.named is not None
            where: Directory | None = file.named[0]
            while where is not None and where is not directory:
                where = where.parent
            if where is not None and not file.is_deleted:
                return True
        return False

    def _written(self, fh: int) -> tuple[OpenFile, Writer]:
        file = self._files[fh]
        if file.writer is None:
            raise FUSEError(errno.EBADF)
        return file, file.writer

    async def _in_thread(
        self, file: OpenFile, call: Callable[[], T], *, longer_s: float = 0.0
    ) -> T:
        in_use = functools.partial(file.in_use, call)
        return await self._workers.run(in_use, self._folder_of(file), longer_s=longer_s)

    def _is_shared(self, directory: Directory, slot: int) -> bool:
        return directory.opened.get(slot, (0, 0, 0))[1] == -1
