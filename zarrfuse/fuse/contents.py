"""Uses the contents of open files: reads, writes, truncates and closes them.

Owns the buffer of the reads in the event loop; everything else runs in a thread. Used by the modules that
open and store files, and by `operations`. It must not know pyfuse3 or views.
"""

import errno
import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from zarrfuse.errors import ZarrfuseError, text_of
from zarrfuse.fuse.file import File
from zarrfuse.fuse.handle import Handle
from zarrfuse.fuse.shown import SET_ID
from zarrfuse.fuse.workers import SLOWEST_STORE, Workers
from zarrfuse.stores.access import Change
from zarrfuse.stores.base import Reader, Writer

log = logging.getLogger(__name__)

T = TypeVar("T")

_LARGEST_READ = 1 << 20  # no kernel asks for more at once


class Contents:
    """Uses the contents of open files, and counts the bytes that are read and written.

    `drops_set_id`: whether writing takes setuid and setgid away. Else the kernel asks for that.
    """

    def __init__(self, workers: Workers, *, drops_set_id: bool = False) -> None:
        self._workers = workers
        self._drops_set_id = drops_set_id
        self._buffer = memoryview(bytearray(_LARGEST_READ))
        self.bytes_read = 0
        self.bytes_written = 0

    # -- reading -------------------------------------------------------------------------------

    def read_at_hand(self, handle: Handle, offset: int, size: int) -> memoryview | bytes:
        """Bytes that can be read without waiting, valid until the next call; else raises anything."""
        content = handle.file.content
        size = min(size, content.size - offset)
        if size <= 0:
            return b""
        if size > _LARGEST_READ:
            raise BlockingIOError(errno.EAGAIN, "more than the buffer holds")
        buffer = self._buffer[:size]
        content.readinto(buffer, offset, wait=False)
        self.bytes_read += size
        return buffer

    async def read(self, handle: Handle, offset: int, size: int) -> bytearray:
        """Bytes of an open file; fewer than asked only at its end."""
        content = handle.file.content
        own = bytearray(max(min(size, content.size - offset), 0))
        file = handle.file  # whose content may be another one when the thread begins
        await self.use(handle, lambda: file.content.readinto(memoryview(own), offset))
        self.bytes_read += len(own)
        return own

    # -- writing -------------------------------------------------------------------------------

    async def write(self, handle: Handle, offset: int, data: bytes) -> None:
        """Write to an open file: all of it, or an error."""
        await self._change(handle, lambda: self._writer(handle).write(data, offset))
        self.bytes_written += len(data)

    async def truncate(self, handle: Handle, size: int) -> None:
        """Set the size of an open file, in bytes."""
        await self._change(handle, lambda: self._writer(handle).truncate(size))
        handle.file.is_broken = handle.file.is_broken and size > 0

    async def _change(self, handle: Handle, change: Callable[[], None]) -> None:
        file = handle.file
        handle.writer()  # which raises EBADF
        file.is_refused, handle.has_written = False, True
        longer_s = file.content.size / SLOWEST_STORE  # the first change copies the file of before
        try:
            await self.use(handle, change, longer_s=longer_s)
        except BaseException:
            file.is_broken = not file.is_live
            raise

    def _writer(self, handle: Handle) -> Writer:
        """What the bytes of a handle are written to; called in a thread."""
        writer = handle.writer()
        if self._drops_set_id and writer.is_live and writer.access is not None:
            mode = writer.access.mode
            if mode & SET_ID:
                writer.change(Change(mode=mode & ~SET_ID))
        return writer

    # -- in threads ----------------------------------------------------------------------------

    async def use(self, handle: Handle, call: Callable[[], T], *, longer_s: float = 0.0) -> T:
        """Run a call that uses the content of an open file in a thread; see `Workers.run`."""
        path = "" if handle.node.parent is None else handle.node.folder.path
        in_use = partial(handle.file.in_use, call)
        return await self._workers.run(in_use, path, longer_s=longer_s)

    async def close(self, closed: Reader | File) -> None:
        """Close in a thread: it may delete files, or send bytes to a server."""
        try:
            await self._workers.run(closed.close, None)
        except (ZarrfuseError, OSError) as error:  # of bytes that are stored, or that nobody wants
            log.warning("a file could not be closed: %s", text_of(error))
        except Exception:
            log.exception("a file could not be closed")
