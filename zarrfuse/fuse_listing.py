"""Handlers of open folders: listings, and those under way.

Used by `fuse_reading`; knows nothing of Zarr.
"""

import time

import pyfuse3

from zarrfuse.errors import Denied
from zarrfuse.fuse import ZarrOperations, answered
from zarrfuse.handles import OpenDirectory
from zarrfuse.inodes import Directory
from zarrfuse.replies import OWN_OFFSETS
from zarrfuse.threads import Scan


class ListingOperations(ZarrOperations):
    """Lists folders."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # those of the base class
        self._next_handle = 1

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
            found = await self._workers.run(directory.folder.list, directory.folder.path)
            directory.update(found, started)
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

    def _new_handle(self) -> int:
        self._next_handle += 1
        return self._next_handle
