"""A kernel with one folder, played: what it asks when programs use files, one request at a time.

So a test says in which order the requests of several programs come, which is what matters, and which no
real kernel can be told. Like a kernel, this one remembers names, looks them up again where it was told
to keep nothing, and tries once more, no more, what was answered ESTALE.
"""

import errno
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pyfuse3
import trio
from pyfuse3 import FUSEError

from zarrfuse.fuse.nodes import ROOT_NUMBER
from zarrfuse.fuse.operations import Operations
from zarrfuse.stores.base import Entry, Kind
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits
from zarrfuse.views.choice import open_view

Steps = AsyncIterator[None]
"""What a program does: one request of the kernel at each step."""

_ANYBODY: Any = SimpleNamespace(pid=1, uid=0, gid=0)


@contextmanager
def serving(
    source: Path, view: str
) -> Iterator[Callable[[Callable[["PlayedKernel"], Awaitable[None]]], None]]:
    """Runs what makes the requests of a kernel that has mounted `source`."""
    store = WritableLocalStore(str(source))
    commits = Commits(store)
    root = open_view(view, store, 0.0, commits=commits)
    entry = Entry("", Kind.FOLDER, 0, 0)
    operations = Operations(
        root, entry, ttl_s=1.0, names_ttl_s=1.0, space=store.space, writable=True
    )

    def run(requests: Callable[[PlayedKernel], Awaitable[None]]) -> None:
        async def main(**_: object) -> None:
            await requests(PlayedKernel(operations))

        with patch.object(pyfuse3, "main", main):
            trio.run(operations.serve, 1)

    try:
        yield run
    finally:
        commits.close()
        store.close()


class Opened:
    """A handle of a program, with what the kernel was told of it."""

    def __init__(self, name: str, inode: int, flags: int, info: pyfuse3.FileInfo) -> None:
        self.name = name
        self.inode = inode
        self.writes = bool(flags & (os.O_WRONLY | os.O_RDWR))
        self.fh = info.fh
        self.keep_cache = info.keep_cache
        self.direct = info.direct_io


class PlayedKernel:
    """The names of one folder, and the files that are open."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.opened: list[Opened] = []
        self._names: dict[str, tuple[int, bool]] = {}
        """By name: the inode, and whether it may be used unasked."""
        self._lookups: Counter[int] = Counter()

    # -- requests ------------------------------------------------------------------------------

    async def lookup(self, name: str) -> int:
        """The inode of a name; 0 if there is none."""
        told = await self.operations.lookup(ROOT_NUMBER, name.encode(), _ANYBODY)
        if not told.st_ino:
            self._names.pop(name, None)
            return 0
        return self._told(name, told)

    async def is_still(self, name: str, inode: int) -> bool:
        """Whether a name still has the inode that was known. If not, what it has is not remembered."""
        told = await self.operations.lookup(ROOT_NUMBER, name.encode(), _ANYBODY)
        if told.st_ino == inode:
            self._told(name, told)
            return True
        self._lookups[told.st_ino] += told.st_ino > 0
        if self._names.get(name, (0,))[0] == inode:
            del self._names[name]
        return False

    def _told(self, name: str, told: pyfuse3.EntryAttributes) -> int:
        self._lookups[told.st_ino] += 1
        self._names[name] = told.st_ino, told.entry_timeout > 0
        return told.st_ino

    async def open(self, name: str, inode: int, flags: int) -> Opened:
        """Open an inode."""
        info = await self.operations.open(inode, flags, _ANYBODY)
        self.opened.append(Opened(name, inode, flags, info))
        return self.opened[-1]

    async def create(self, name: str, flags: int) -> Opened:
        """Make a file."""
        info, told = await self.operations.create(
            ROOT_NUMBER, name.encode(), 0o644, flags, _ANYBODY
        )
        self.opened.append(Opened(name, self._told(name, told), flags, info))
        return self.opened[-1]

    async def read(self, opened: Opened) -> bytes:
        """All that a handle has."""
        return bytes(await self.operations.read(opened.fh, 0, 1 << 20))

    async def write(self, opened: Opened, data: bytes) -> None:
        """Write all that a handle has."""
        attributes = pyfuse3.EntryAttributes()
        attributes.st_size = len(data)
        fields: Any = SimpleNamespace(
            update_size=True,
            update_mtime=False,
            update_atime=False,
            update_mode=False,
            update_uid=False,
            update_gid=False,
        )
        await self.operations.setattr(opened.inode, attributes, fields, opened.fh, _ANYBODY)
        await self.operations.write(opened.fh, 0, data)

    async def size(self, inode: int) -> int:
        """How large an inode is said to be."""
        return (await self.operations.getattr(inode, _ANYBODY)).st_size

    async def close(self, opened: Opened) -> None:
        """Close a handle. What is no document is not stored, which no test here asks for."""
        self.opened.remove(opened)
        for request in (self.operations.flush, self.operations.release):
            try:
                await request(opened.fh)
            except FUSEError as error:
                assert error.errno == errno.EINVAL

    async def unlink(self, name: str) -> None:
        """Delete a name."""
        await self.operations.unlink(ROOT_NUMBER, name.encode(), _ANYBODY)
        self._names.pop(name, None)

    async def rename(self, name: str, new_name: str) -> None:
        """Give a file another name."""
        await self.operations.rename(
            ROOT_NUMBER, name.encode(), ROOT_NUMBER, new_name.encode(), 0, _ANYBODY
        )
        if name in self._names:
            self._names[new_name] = self._names.pop(name)

    async def forget(self) -> None:
        """Give back all that was looked up. Nothing may be known of it then."""
        numbers = list((+self._lookups).items())
        await self.operations.forget(numbers)
        self._lookups.clear()
        self._names.clear()
        for number, _ in numbers:
            try:
                await self.size(number)
            except FUSEError as error:
                assert error.errno == errno.ESTALE
            else:
                raise AssertionError(f"the inode {number} is still known")

    # -- programs ------------------------------------------------------------------------------

    async def opening(self, name: str, flags: int) -> Steps:
        """`open(name, flags)`: how the kernel goes about it, with a second try."""
        for is_second in (False, True):
            inode, may_keep = self._names.get(name, (0, False))
            while not may_keep or is_second:
                if not inode:
                    inode = await self.lookup(name)
                    yield
                    break
                is_still = await self.is_still(name, inode)
                yield
                if is_still:
                    break
                inode, may_keep = self._names.get(name, (0, False))  # by others, meanwhile
            try:
                if inode:
                    await self.open(name, inode, flags & ~os.O_CREAT)
                elif flags & os.O_CREAT:
                    await self.create(name, flags)
                return
            except FUSEError as error:
                if error.errno != errno.ESTALE or is_second:
                    raise
            yield

    async def replacing(self, name: str, draft: str, data: bytes) -> Steps:
        """Write a new file, and give it the name of another."""
        opened = await self.create(draft, os.O_RDWR | os.O_CREAT)
        yield
        await self.write(opened, data)
        await self.close(opened)
        yield
        await self.lookup(name)
        await self.rename(draft, name)
