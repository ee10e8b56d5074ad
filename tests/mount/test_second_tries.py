"""What a thread is answered that was told to look a name up again: the kernel does so once, no more."""

import errno
import os
import tempfile
from pathlib import Path

import pytest
import trio
from datasets import array, write_keys
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from played_kernel import Opened, PlayedKernel, Steps, serving
from pyfuse3 import FUSEError
from sampling import examples

DOCUMENT, ORDINARY = "zarr.json", "notes"
THREADS = 1, 2, 3


def text(version: int) -> bytes:
    """A document, longer or shorter than the one before."""
    return array(attributes={"version": version, "pad": "x" * (version * 379 % 1000)})


async def is_told_stale(kernel: PlayedKernel, inode: int, thread: int) -> None:
    with pytest.raises(FUSEError) as told:
        await kernel.open(DOCUMENT, inode, os.O_RDWR, thread)
    assert told.value.errno == errno.ESTALE


async def make_anew(kernel: PlayedKernel, name: str, version: int, thread: int) -> None:
    if await kernel.lookup(name, thread):
        await kernel.unlink(name, thread)
    opened = await kernel.create(name, os.O_RDWR | os.O_CREAT, thread)
    await kernel.write(opened, text(version), thread)
    await kernel.close(opened)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_keys(tmp_path, {DOCUMENT: text(0), ORDINARY: b"0"})
    return tmp_path


def test_a_writer_gets_an_inode_of_its_own_at_the_second_try(source: Path) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        first = await kernel.lookup(DOCUMENT, 1)
        await is_told_stale(kernel, first, 1)
        second = await kernel.lookup(DOCUMENT, 1)
        assert second != first
        opened = await kernel.open(DOCUMENT, second, os.O_RDWR, 1)
        assert not opened.direct

    with serving(source, "chunks") as run:
        run(requests)


def test_a_name_that_is_gone_and_back_while_it_is_looked_up_again_is_opened(source: Path) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        inode = await kernel.lookup(DOCUMENT, 1)
        await kernel.unlink(DOCUMENT, 2)
        await is_told_stale(kernel, inode, 1)
        # The kernel asks whether what it knew is still so, and when it is not, for what there is.
        assert not await kernel.lookup(DOCUMENT, 1)
        await make_anew(kernel, DOCUMENT, 1, 2)
        reader = await kernel.open(DOCUMENT, await kernel.lookup(DOCUMENT, 2), os.O_RDONLY, 2)
        inode = await kernel.lookup(DOCUMENT, 1)
        writer = await kernel.open(DOCUMENT, inode, os.O_RDWR, 1)
        # The kernel has one size for all that have an inode open.
        assert not writer.direct
        assert writer.inode != reader.inode

    with serving(source, "chunks") as run:
        run(requests)


def test_a_name_that_is_made_while_it_is_looked_up_again_is_opened(source: Path) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        inode = await kernel.lookup(DOCUMENT, 1)
        await kernel.unlink(DOCUMENT, 2)
        await is_told_stale(kernel, inode, 1)
        assert not await kernel.is_still(DOCUMENT, inode, 1)
        made = await kernel.create(DOCUMENT, os.O_RDWR | os.O_CREAT, 2)
        # The kernel finds what was made, and asks whether it is still so; it is not there yet.
        assert not await kernel.is_still(DOCUMENT, made.inode, 1)
        await kernel.write(made, text(1), 2)
        await kernel.close(made)
        inode = await kernel.lookup(DOCUMENT, 1)
        writer = await kernel.open(DOCUMENT, inode, os.O_RDWR, 1)
        assert await kernel.read(writer) == text(1)

    with serving(source, "chunks") as run:
        run(requests)


def test_who_locks_a_file_that_is_gone_and_back_locks_what_others_do(source: Path) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        inode = await kernel.lookup(ORDINARY, 1)
        (source / ORDINARY).unlink()
        with pytest.raises(FUSEError):
            await kernel.open(ORDINARY, inode, os.O_RDWR, 1)
        first = await kernel.create(ORDINARY, os.O_RDWR | os.O_CREAT | os.O_EXCL, 2)
        second = await kernel.open(ORDINARY, await kernel.lookup(ORDINARY, 1), os.O_RDWR, 1)
        assert second.inode == first.inode  # the kernel keeps locks by inode

    with serving(source, "chunks") as run:
        run(requests)


def test_who_does_not_come_to_the_second_try_reads_what_is_stored(source: Path) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        inode = await kernel.lookup(DOCUMENT, 1)
        with pytest.raises(FUSEError):
            await kernel.open(DOCUMENT, inode, os.O_RDWR | os.O_TRUNC, 1)
        # A folder above is gone for a moment, so the kernel does not come to this name.
        async for _ in kernel.opening(DOCUMENT, os.O_RDONLY, 1):
            pass
        assert await kernel.read(kernel.opened[0]) == text(0)
        assert not kernel.opened[0].direct

    with serving(source, "chunks") as run:
        run(requests)


@pytest.mark.parametrize("flags", [os.O_RDWR, os.O_RDWR | os.O_TRUNC])
def test_a_name_that_comes_back_later_is_not_a_second_try(source: Path, flags: int) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        inode = await kernel.lookup(DOCUMENT, 1)
        await kernel.unlink(DOCUMENT, 2)
        with pytest.raises(FUSEError):
            await kernel.open(DOCUMENT, inode, flags, 1)
        assert not await kernel.lookup(DOCUMENT, 1)  # so the program is told that there is none
        await make_anew(kernel, DOCUMENT, 1, 2)
        assert await kernel.size(await kernel.lookup(DOCUMENT, 1), 1) == len(text(1))
        await make_anew(kernel, DOCUMENT, 2, 2)
        async for _ in kernel.opening(DOCUMENT, os.O_RDWR, 1):
            pass
        assert await kernel.read(kernel.opened[0]) == text(2)

    with serving(source, "chunks") as run:
        run(requests)


def test_what_was_not_there_once_is_made_when_it_is_deleted_again(source: Path) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        inode = await kernel.lookup(DOCUMENT, 1)
        await kernel.unlink(DOCUMENT, 2)
        await is_told_stale(kernel, inode, 1)
        assert not await kernel.lookup(DOCUMENT, 1)
        await make_anew(kernel, DOCUMENT, 1, 2)
        assert await kernel.lookup(DOCUMENT, 2)  # so the kernel need not ask for thread 1
        (source / DOCUMENT).unlink()
        async for _ in kernel.opening(DOCUMENT, os.O_RDWR | os.O_CREAT, 1):
            pass
        assert len(kernel.opened) == 1

    with serving(source, "chunks") as run:
        run(requests)


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR])
@pytest.mark.parametrize("name", [DOCUMENT, ORDINARY])
def test_who_makes_what_others_have_just_deleted_is_not_told_that_it_is_not_there(
    source: Path, name: str, flags: int
) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        await kernel.lookup(name, 1)
        (source / name).unlink()
        async for _ in kernel.opening(name, flags | os.O_CREAT, 1):
            pass
        assert len(kernel.opened) == 1

    with serving(source, "chunks") as run:
        run(requests)


class Replaced:
    """A file that others replace in the source."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept = [path.open()]  # so that no two of them have the same number

    def by(self, data: bytes) -> None:
        draft = self.path.with_name(".draft")
        draft.write_bytes(data)
        self.kept.append(draft.open())
        draft.rename(self.path)


async def have_one_inode(kernel: PlayedKernel) -> None:
    """Two threads, of which the first was told to try again: the kernel keeps locks by inode."""
    first = await kernel.open(ORDINARY, await kernel.lookup(ORDINARY, 1), os.O_RDWR, 1)
    second = await kernel.open(ORDINARY, await kernel.lookup(ORDINARY, 2), os.O_RDWR, 2)
    assert first.inode == second.inode


def test_a_file_has_one_inode_however_often_it_was_replaced(source: Path) -> None:
    file = Replaced(source / ORDINARY)

    async def requests(kernel: PlayedKernel) -> None:
        oldest = await kernel.lookup(ORDINARY, 1)
        file.by(b"11")
        await trio.sleep(1.1)
        assert await kernel.lookup(ORDINARY, 2) != oldest
        file.by(b"222")
        with pytest.raises(FUSEError):
            await kernel.open(ORDINARY, oldest, os.O_RDWR, 1)
        await have_one_inode(kernel)

    with serving(source, "plain") as run:
        run(requests)


def test_a_file_that_others_make_anew_has_one_inode(source: Path) -> None:
    file = Replaced(source / ORDINARY)

    async def requests(kernel: PlayedKernel) -> None:
        inode = await kernel.lookup(ORDINARY, 1)
        file.path.unlink()
        with pytest.raises(FUSEError):
            await kernel.open(ORDINARY, inode, os.O_RDWR, 1)
        file.by(b"1")
        await have_one_inode(kernel)

    with serving(source, "plain") as run:
        run(requests)


def test_a_file_that_others_close_meanwhile_has_the_size_of_now(source: Path) -> None:
    file = Replaced(source / ORDINARY)

    async def requests(kernel: PlayedKernel) -> None:
        inode = await kernel.lookup(ORDINARY, 1)
        file.by(b"11")
        with pytest.raises(FUSEError):
            await kernel.open(ORDINARY, inode, os.O_RDWR, 1)
        inode = await kernel.lookup(ORDINARY, 1)
        other = await kernel.open(ORDINARY, await kernel.lookup(ORDINARY, 2), os.O_RDWR, 2)
        assert other.inode == inode
        await kernel.close(other)
        writer = await kernel.open(ORDINARY, inode, os.O_RDWR, 1)
        await kernel.unlink(ORDINARY, 2)
        await kernel.write(writer, b"of a file without a name", 1)
        assert await kernel.size(writer.inode, 1) == 24

    with serving(source, "plain") as run:
        run(requests)


class Programs:
    """Three threads that use two files; each step of each is one request."""

    def __init__(self, kernel: PlayedKernel, source: Path) -> None:
        self.kernel = kernel
        self.source = source
        self.version = 0
        self.running: dict[int, Steps] = {}
        self.seen: dict[Opened, bytes] = {}
        self.pages: dict[int, bytes] = {}

    async def step(self, thread: int, what: str, name: str, which: int) -> None:
        """One more step of what a thread does; if it does nothing, the first one of `what`."""
        if thread not in self.running:
            self.running[thread] = self.begun(thread, what, name, which)
        try:
            await anext(self.running[thread])
        except StopAsyncIteration:
            del self.running[thread]
        except FUSEError as error:
            del self.running[thread]
            assert error.errno == errno.ENOENT, f"{what} {name}"
        await self.check()

    async def begun(self, thread: int, what: str, name: str, which: int) -> Steps:
        kernel = self.kernel
        self.version += 1
        data = text(self.version)
        if what == "read":
            async for _ in kernel.opening(name, os.O_RDONLY, thread):
                yield
        elif what == "write":
            async for _ in kernel.opening(name, os.O_RDWR | os.O_CREAT, thread):
                yield
        elif what == "empty":
            async for _ in kernel.opening(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, thread):
                yield
        elif what == "replace":
            async for _ in kernel.replacing(name, data, thread):
                yield
        elif what == "unlink" and await kernel.lookup(name, thread):
            await kernel.unlink(name, thread)
        elif what == "anew":
            await make_anew(kernel, name, self.version, thread)
        elif what == "outside":
            draft = self.source / ".outside"
            draft.write_bytes(data)
            draft.rename(self.source / name)
        elif files := [opened for opened in kernel.opened if opened.name in (DOCUMENT, ORDINARY)]:
            opened = files[which % len(files)]
            if what == "stat":
                await self.stat(opened, thread)
            elif what == "fill" and opened.flags & os.O_RDWR:
                self.pages.pop(opened.inode, None)
                await kernel.write(opened, data, thread)
            elif what == "close":
                await self.close(opened, thread)

    async def close(self, opened: Opened, thread: int) -> None:
        data = await self.kernel.read(opened)
        if opened.flags & os.O_RDWR and not data:  # an empty document would hide the other files
            await self.kernel.write(opened, text(0), thread)
        if opened in self.seen:
            self.pages[opened.inode] = self.seen.pop(opened)
        await self.kernel.close(opened)

    async def stat(self, opened: Opened, thread: int) -> None:
        size = await self.kernel.size(opened.inode, thread)
        assert size == len(await self.kernel.read(opened))

    async def check(self) -> None:
        """All who have an inode open have the same bytes, and who reads a document keeps them."""
        by_inode: dict[int, bytes] = {}
        for opened in self.kernel.opened:
            assert not opened.direct
            data = await self.kernel.read(opened)
            assert by_inode.setdefault(opened.inode, data) == data
            if opened.name != ORDINARY and not opened.flags & os.O_RDWR:
                if opened not in self.seen and opened.keep_cache:
                    assert self.pages.get(opened.inode, data) == data
                assert self.seen.setdefault(opened, data) == data


OPENING = "read", "write", "empty", "replace"
AT_ONCE = "anew", "unlink", "outside", "stat", "fill", "close"


@settings(
    max_examples=examples(300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@pytest.mark.parametrize("view", ["chunks", "plain"])
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(THREADS),
            st.sampled_from(OPENING) | st.sampled_from(AT_ONCE),
            st.sampled_from([DOCUMENT, DOCUMENT, DOCUMENT, ORDINARY]),
            st.integers(0, 4),
        ),
        max_size=60,
    )
)
def test_whatever_is_done_meanwhile_a_second_try_has_one_whole_file(
    view: str, steps: list[tuple[int, str, str, int]]
) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        programs = Programs(kernel, Path(folder))
        for step in steps:
            await programs.step(*step)
        while programs.running:
            await programs.step(next(iter(programs.running)), "", "", 0)
        for opened in list(kernel.opened):
            await programs.close(opened, 1)
        await kernel.forget()
        assert not len(kernel.operations.inodes)

    with tempfile.TemporaryDirectory() as folder:
        write_keys(Path(folder), {DOCUMENT: text(0), ORDINARY: b"0"})
        with serving(Path(folder), view) as run:
            run(requests)
