"""What a thread is answered that was told to look a name up again: the kernel does so once, no more.

The requests of a kernel are made here one by one, for the order in which they come is what matters.
"""

import errno
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyfuse3
import pytest
import trio
from datasets import array, write_keys
from pyfuse3 import FUSEError

from zarrfuse.fuse_names import ReadWriteOperations
from zarrfuse.inodes import ROOT_INODE
from zarrfuse.opening import open_view
from zarrfuse.stores.base import Entry, Kind
from zarrfuse.stores.local_writing import WritableLocalStore
from zarrfuse.writing.commits import Commits

NAME = b"zarr.json"
THREAD: Any = SimpleNamespace(pid=1)
OTHER: Any = SimpleNamespace(pid=2)

Kernel = Callable[[Callable[[ReadWriteOperations], Awaitable[None]]], None]


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """Serves a folder with one document to requests that a test makes."""
    write_keys(tmp_path, {NAME.decode(): array()})
    store = WritableLocalStore(str(tmp_path))
    commits = Commits(store)
    root = open_view("chunks", store, 1.0, commits=commits)
    entry = Entry("", Kind.FOLDER, 0, 0)
    operations = ReadWriteOperations(root, entry, ttl_s=1.0, space=store.space)

    def serve(requests: Callable[[ReadWriteOperations], Awaitable[None]]) -> None:
        async def main(**_: object) -> None:
            await requests(operations)

        monkeypatch.setattr(pyfuse3, "main", main)
        trio.run(operations.serve, 1)

    yield serve
    commits.close()
    store.close()


async def is_told_stale(operations: ReadWriteOperations, inode: int) -> None:
    with pytest.raises(FUSEError) as told:
        await operations.open(inode, os.O_RDWR, THREAD)
    assert told.value.errno == errno.ESTALE


async def make_anew(operations: ReadWriteOperations) -> None:
    info, _ = await operations.create(ROOT_INODE, NAME, 0o644, os.O_RDWR | os.O_CREAT, OTHER)
    await operations.write(info.fh, 0, array())
    await operations.flush(info.fh)
    await operations.release(info.fh)


def test_a_writer_gets_an_inode_of_its_own_at_the_second_try(kernel: Kernel) -> None:
    async def requests(operations: ReadWriteOperations) -> None:
        first = (await operations.lookup(ROOT_INODE, NAME, THREAD)).st_ino
        await is_told_stale(operations, first)
        second = (await operations.lookup(ROOT_INODE, NAME, THREAD)).st_ino
        assert second != first
        info = await operations.open(second, os.O_RDWR, THREAD)
        await operations.release(info.fh)

    kernel(requests)


def test_a_name_that_is_gone_and_back_while_it_is_looked_up_again_is_opened(kernel: Kernel) -> None:
    async def requests(operations: ReadWriteOperations) -> None:
        inode = (await operations.lookup(ROOT_INODE, NAME, THREAD)).st_ino
        await operations.unlink(ROOT_INODE, NAME, OTHER)
        await is_told_stale(operations, inode)
        # The kernel asks whether what it knew is still so, and when it is not, for what there is.
        assert (await operations.lookup(ROOT_INODE, NAME, THREAD)).st_ino == 0
        await make_anew(operations)
        inode = (await operations.lookup(ROOT_INODE, NAME, THREAD)).st_ino
        info = await operations.open(inode, os.O_RDWR, THREAD)
        await operations.release(info.fh)

    kernel(requests)


def test_a_name_that_stays_gone_is_a_new_one_when_it_comes_back(kernel: Kernel) -> None:
    async def requests(operations: ReadWriteOperations) -> None:
        inode = (await operations.lookup(ROOT_INODE, NAME, THREAD)).st_ino
        await operations.unlink(ROOT_INODE, NAME, OTHER)
        await is_told_stale(operations, inode)
        for _ in range(2):
            assert (await operations.lookup(ROOT_INODE, NAME, THREAD)).st_ino == 0
        await make_anew(operations)
        inode = (await operations.lookup(ROOT_INODE, NAME, THREAD)).st_ino
        await is_told_stale(operations, inode)

    kernel(requests)
