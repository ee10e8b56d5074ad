"""The handler that sets attributes: sizes and times of files that are written, or of others.

Owns what truncate(2), utimensat(2), chmod(2) and chown(2) do on a mount that is written. Used by
`fuse_names`; knows nothing of Zarr, nor of parts.
"""

import functools
import time

import pyfuse3

from zarrfuse.errors import NotSupported, ReadOnly, Stale
from zarrfuse.fuse import answered
from zarrfuse.fuse_storing import SLOWEST_STORE
from zarrfuse.fuse_writing import WritingOperations
from zarrfuse.handles import OpenFile, Opening, SecondTry
from zarrfuse.inodes import ROOT_INODE
from zarrfuse.stores.base import entry_of


class AttributeOperations(WritingOperations):
    """Sets what can be set of a file."""

    @answered
    async def setattr(
        self,
        inode: int,
        attr: pyfuse3.EntryAttributes,
        fields: pyfuse3.SetattrFields,
        fh: int | None,
        ctx: pyfuse3.RequestContext,
    ) -> pyfuse3.EntryAttributes:
        """Size and time are set; modes are accepted and have no effect, owners must be as they are."""
        if fields.update_uid or fields.update_gid:
            own = await self._attributes_of(inode, ctx.pid)
            if (fields.update_uid and attr.st_uid != own.st_uid) or (
                fields.update_gid and attr.st_gid != own.st_gid
            ):
                raise NotSupported("owners cannot be changed through a mount")
        size = attr.st_size if fields.update_size else None
        mtime_ns = attr.st_mtime_ns if fields.update_mtime else None
        file = self._written_at(inode, size, ctx.pid) if fh is None else self._files[fh]
        if file is not None and file.writer is not None:
            writer = file.writer
            if size is not None:
                file.is_refused = False
                truncate = functools.partial(writer.truncate, size)
                longer_s = writer.size / SLOWEST_STORE
                try:
                    await self._in_thread(file, truncate, longer_s=longer_s)
                except BaseException:
                    file.is_broken = writer.is_private
                    raise
                file.is_broken = file.is_broken and size > 0
            if mtime_ns is not None:
                await self._in_thread(file, functools.partial(writer.set_mtime, mtime_ns))
            self._has_changed(file, writer)
        elif size is not None or mtime_ns is not None:
            is_second = self._is_second(inode, ctx.pid)
            try:
                await self._change(inode, size, mtime_ns, is_second=is_second)
            except Stale:
                if ctx.pid and not is_second:
                    await self._no_second_try(ctx.pid)
                    self._try_again(ctx.pid, SecondTry(inode, self._names_of(inode), None))
                raise
        return await self._attributes_of(inode, ctx.pid)

    def _written_at(self, inode: int, size: int | None, thread: int) -> OpenFile | None:
        """The open file that an inode without a name of its own stands for."""
        directory, slot = self.inodes.place(inode)
        file = self._private.get(inode)
        if file is None and not directory.is_current(slot):
            file = self._shared.get(inode)
        if file is None and size is None:  # the time: of an open file that comes without its handle
            return self._open_past_cache(inode, thread)
        return file

    async def _change(
        self, inode: int, size: int | None, mtime_ns: int | None, *, is_second: bool
    ) -> None:
        """Set the size or time of what nobody has open to write."""
        place, slot = self.inodes.place(inode)
        directory, name = self._named_at(inode)
        is_root = inode == ROOT_INODE
        if place.number == 0 and not is_root:
            raise ReadOnly("control files are made by the mount")
        if not (is_root or is_second or place.is_current(slot) or slot in place.became):
            raise Stale(f"{name} is another file now")
        folder = directory.folder
        opening, known = Opening(directory, name), place.entries[slot]

        def change() -> None:
            if size is not None:
                writer = folder.write(name)
                try:
                    if not is_second and entry_of(known, writer).access != known.access:
                        raise Stale(f"{name} has another mode or owner now")
                    writer.truncate(size)
                    with opening.storing:
                        if not opening.is_deleted:
                            writer.store()
                finally:
                    writer.close()
            if mtime_ns is not None:
                folder.set_mtime("" if is_root else name, mtime_ns)

        if size is not None and place.is_open(slot) and not self._is_shared(place, slot):
            directory.retire(name, time.monotonic())
            if not is_second:
                raise Stale(f"{name} is open: who reads it keeps its inode")
        longer_s = max(place.entries[slot].size, size or 0) / SLOWEST_STORE
        self._opening.add(opening)
        try:
            await self._workers.run(change, folder.path, longer_s=longer_s)
        finally:
            self._opening.discard(opening)
        directory.changed(name, time.monotonic())
