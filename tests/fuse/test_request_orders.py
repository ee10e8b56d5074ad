"""One inode is one file, in whatever order the requests of several programs come."""

import errno
import json
import os
import tempfile
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio.testing
from builders.documents import array
from builders.folders import write_keys
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from played_kernel import Opened, PlayedKernel, Steps, serving
from pyfuse3 import FUSEError
from sampling import examples

from zarrfuse.transactions.working_copy import WorkingCopy
from zarrfuse.views.chunks.view import ChunksFolder
from zarrfuse.views.plain.view import PlainFolder

DOCUMENT, ORDINARY = "zarr.json", "notes"
PROGRAMS = 1, 2, 3


def text(version: int) -> bytes:
    """A document, longer or shorter than the one before."""
    return array(attributes={"version": version, "pad": "x" * (version * 379 % 1000)})


def version(document: bytes) -> int:
    """Which of them it is, however it is laid out."""
    number: int = json.loads(document)["attributes"]["version"]
    return number


async def done(steps: Steps) -> None:
    """All of what a program does, with nothing in between."""
    async for _ in steps:
        pass


async def opened(kernel: PlayedKernel, name: str, flags: int) -> Opened:
    """Open a file, with nothing in between."""
    await done(kernel.opening(name, flags))
    return kernel.opened[-1]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_keys(tmp_path, {DOCUMENT: text(0), ORDINARY: text(0)})
    return tmp_path


Replace = Callable[[PlayedKernel, Path, str, bytes], Awaitable[None]]


async def by_rename(kernel: PlayedKernel, source: Path, name: str, data: bytes) -> None:
    """Replaced by a program in the mount."""
    await done(kernel.replacing(name, ".draft", data))


async def by_others(kernel: PlayedKernel, source: Path, name: str, data: bytes) -> None:
    """Replaced in the store, of which the kernel is not told. No number of a file comes again."""
    (source / name).rename(source / f"old{len(list(source.iterdir()))}")
    (source / name).write_bytes(data)


def files(test: Callable[..., None]) -> Callable[..., None]:
    """Of documents and ordinary files, in both views."""
    test = pytest.mark.parametrize("name", [DOCUMENT, ORDINARY])(test)
    return pytest.mark.parametrize("view", ["chunks", "plain"])(test)


@files
def test_all_who_have_an_inode_open_share_it(source: Path, view: str, name: str) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        inode = await kernel.lookup(name)
        reader = await kernel.open(name, inode, os.O_RDONLY)
        first, second = [await kernel.open(name, inode, os.O_RDWR) for _ in range(2)]
        for number, writer in ((1, first), (2, second)):
            await kernel.write(writer, text(number))
            for each in (reader, first, second):
                assert await kernel.read(each) == text(number)
            assert await kernel.size(inode) == len(text(number))
        assert not (reader.direct or first.direct or second.direct)
        assert await kernel.lookup(name) == inode
        await kernel.close(first)
        assert version((source / name).read_bytes()) == 2
        assert await kernel.size(inode) == len(await kernel.read(reader))
        for each in (second, reader):
            await kernel.close(each)
        assert version((source / name).read_bytes()) == 2
        assert await kernel.lookup(name) == inode

    with serving(source, view) as run:
        run(requests)


@pytest.mark.parametrize("replace", [by_rename, by_others])
@files
def test_who_has_a_replaced_file_open_keeps_it(
    source: Path, view: str, name: str, replace: Replace
) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        old = await kernel.open(name, await kernel.lookup(name), os.O_RDONLY)
        before = await kernel.read(old)
        await replace(kernel, source, name, text(1))
        new = await opened(kernel, name, os.O_RDWR)
        assert (await kernel.read(old), version(await kernel.read(new))) == (before, 1)
        assert new.inode != old.inode
        assert not new.direct
        await kernel.write(new, text(2))
        assert await kernel.read(old) == before
        assert await kernel.size(old.inode) == len(before)
        await kernel.close(new)
        assert version((source / name).read_bytes()) == 2

    with serving(source, view) as run:
        run(requests)


def test_an_open_document_has_the_size_of_its_bytes_when_others_write_it_in_place(
    source: Path,
) -> None:
    """A program in the store may be given the number of the file that it replaces, too."""

    async def requests(kernel: PlayedKernel) -> None:
        file = await kernel.open(DOCUMENT, await kernel.lookup(DOCUMENT), os.O_RDONLY)
        before = await kernel.read(file)
        (source / DOCUMENT).write_bytes(text(1))
        assert await kernel.lookup(DOCUMENT) != file.inode
        assert version(await kernel.read(await opened(kernel, DOCUMENT, os.O_RDONLY))) == 1
        assert await kernel.read(file) == before
        assert await kernel.size(file.inode) == len(before)

    with serving(source, "plain") as run:
        run(requests)


@pytest.mark.parametrize("name", [DOCUMENT, ORDINARY])
def test_who_writes_a_file_goes_on_when_others_have_changed_it_in_place(
    source: Path, name: str
) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        writer = await kernel.open(name, await kernel.lookup(name), os.O_RDWR)
        with open(source / name, "r+b") as file:
            file.truncate(0)
            file.write(text(1))
        reader = await kernel.open(name, await kernel.lookup(name), os.O_RDONLY)
        assert version(await kernel.read(reader)) == 1
        await kernel.write(writer, text(2))
        await kernel.close(writer)
        assert version((source / name).read_bytes()) == 2

    with serving(source, "chunks") as run:
        run(requests)


@pytest.mark.parametrize("view", ["chunks", "plain"])
def test_a_file_that_is_looked_up_while_it_is_stored_is_that_which_is_written(
    source: Path, view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_stored, is_looked_up = threading.Event(), threading.Event()
    folder = {"chunks": ChunksFolder, "plain": PlainFolder}[view]
    store = folder.store

    def slowly(*arguments: Any, **options: Any) -> None:
        store(*arguments, **options)
        is_stored.set()
        assert is_looked_up.wait(20)

    monkeypatch.setattr(folder, "store", slowly)

    async def requests(kernel: PlayedKernel) -> None:
        writer = await kernel.open(DOCUMENT, await kernel.lookup(DOCUMENT), os.O_RDWR)
        await kernel.write(writer, text(1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kernel.operations.flush, writer.fh)
            while not is_stored.is_set():
                await trio.sleep(0.001)
            found = await kernel.lookup(DOCUMENT)
            is_looked_up.set()
        assert found == writer.inode
        await kernel.write(writer, text(2))
        await kernel.close(writer)
        assert version((source / DOCUMENT).read_bytes()) == 2

    with serving(source, view) as run:
        run(requests)


@pytest.mark.parametrize("view", ["chunks", "plain"])
def test_who_opens_to_write_while_a_reader_opens_can_write(
    source: Path, view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_opened, is_open_to_write = threading.Event(), threading.Event()
    folder = {"chunks": ChunksFolder, "plain": PlainFolder}[view]
    open_ = folder.open

    def slowly(of: Any, name: str, *, wait: bool = True) -> Any:
        if not wait:
            raise BlockingIOError
        opened = open_(of, name)
        is_opened.set()
        assert is_open_to_write.wait(20)
        return opened

    async def requests(kernel: PlayedKernel) -> None:
        inode = await kernel.lookup(DOCUMENT)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kernel.open, DOCUMENT, inode, os.O_RDONLY)
            while not is_opened.is_set():
                await trio.sleep(0.001)
            monkeypatch.setattr(folder, "open", open_)
            writer = await kernel.open(DOCUMENT, inode, os.O_RDWR)
            is_open_to_write.set()
        await kernel.write(writer, text(1))
        await kernel.close(writer)
        assert version((source / DOCUMENT).read_bytes()) == 1

    monkeypatch.setattr(folder, "open", slowly)
    with serving(source, view) as run:
        run(requests)


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR])
@files
def test_an_inode_that_nobody_has_open_becomes_that_of_the_new_file(
    source: Path, view: str, name: str, flags: int
) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        inode = await kernel.lookup(name)
        await by_others(kernel, source, name, text(1))
        file = await kernel.open(name, inode, flags)
        shown = await kernel.read(file)
        assert version(shown) == 1
        assert await kernel.size(inode) == len(shown)
        assert await kernel.lookup(name) == inode
        assert not file.direct
        assert not file.keep_cache

    with serving(source, view) as run:
        run(requests)


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR])
@pytest.mark.parametrize("is_open", [False, True])
@files
def test_a_name_that_is_replaced_while_it_is_opened_is_the_file_of_before(
    source: Path, view: str, name: str, flags: int, is_open: bool
) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        inode = await kernel.lookup(name)
        if is_open:
            await kernel.open(name, inode, os.O_RDONLY)
        draft = await kernel.create(".draft", os.O_RDWR | os.O_CREAT)
        await kernel.write(draft, text(1))
        await kernel.close(draft)
        await kernel.rename(".draft", name)
        file = await kernel.open(name, inode, flags)  # by who had found it before
        assert version(await kernel.read(file)) == 0
        if flags == os.O_RDWR:
            await kernel.write(file, text(2))
        await kernel.close(file)
        assert version((source / name).read_bytes()) == 1

    with serving(source, view) as run:
        run(requests)


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR])
@files
def test_a_name_that_is_deleted_while_it_is_opened_is_the_file_of_before(
    source: Path, view: str, name: str, flags: int
) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        inode = await kernel.lookup(name)
        await kernel.unlink(name)
        file = await kernel.open(name, inode, flags)
        assert version(await kernel.read(file)) == 0
        await kernel.close(file)
        again = await kernel.open(name, inode, flags)  # of others, who had also found it
        assert version(await kernel.read(again)) == 0
        await kernel.close(again)
        await kernel.forget()
        assert not (source / name).exists()

    with serving(source, view) as run:
        run(requests)


@files
def test_who_opens_a_file_that_others_have_open_shares_it_until_its_name_is_looked_up(
    source: Path, view: str, name: str
) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        inode = await kernel.lookup(name)
        reader = await kernel.open(name, inode, os.O_RDONLY)
        await by_others(kernel, source, name, text(1))
        assert version(await kernel.read(await kernel.open(name, inode, os.O_RDONLY))) == 0
        new = await kernel.open(name, await kernel.lookup(name), os.O_RDONLY)
        assert new.inode != reader.inode
        assert version(await kernel.read(new)) == 1
        assert version(await kernel.read(reader)) == 0

    with serving(source, view) as run:
        run(requests)


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR])
@pytest.mark.parametrize("name", [DOCUMENT, ORDINARY])
def test_who_makes_what_others_have_just_deleted_is_not_told_that_it_is_not_there(
    source: Path, name: str, flags: int
) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        await kernel.lookup(name)
        (source / name).unlink()
        await done(kernel.opening(name, flags | os.O_CREAT))
        assert len(kernel.opened) == 1

    with serving(source, "chunks") as run:
        run(requests)


@files
def test_who_locks_a_file_that_is_gone_and_back_locks_what_others_do(
    source: Path, view: str, name: str
) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        inode = await kernel.lookup(name)
        (source / name).unlink()
        with pytest.raises(FUSEError):
            await kernel.open(name, inode, os.O_RDWR)
        first = await kernel.create(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        second = await kernel.open(name, await kernel.lookup(name), os.O_RDWR)
        assert second.inode == first.inode  # the kernel keeps locks by inode

    with serving(source, view) as run:
        run(requests)


@files
def test_a_deleted_file_is_that_of_who_has_it_open(source: Path, view: str, name: str) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        inode = await kernel.lookup(name)
        writer = await kernel.open(name, inode, os.O_RDWR)
        reader = await kernel.open(name, inode, os.O_RDONLY)
        await kernel.unlink(name)
        assert not await kernel.lookup(name)
        await kernel.write(writer, text(1))
        assert await kernel.read(reader) == text(1)
        assert await kernel.size(inode) == len(text(1))
        again = await kernel.create(name, os.O_RDWR | os.O_CREAT)
        assert again.inode != inode
        await kernel.write(again, text(2))
        for each in (writer, reader, again):
            await kernel.close(each)
        assert version((source / name).read_bytes()) == 2

    with serving(source, view) as run:
        run(requests)


class Programs:
    """Three programs that use two files; each step of each is one request."""

    def __init__(self, kernel: PlayedKernel, source: Path) -> None:
        self.kernel = kernel
        self.source = source
        self.version = 0
        self.running: dict[int, Steps] = {}
        self.pages: dict[int, bytes] = {}
        """By inode: what the kernel has of it."""
        self.seen: set[Opened] = set()

    async def step(self, program: int, what: str, name: str, which: int) -> None:
        """One more step of what a program does; if it does nothing, the first one of `what`."""
        if program not in self.running:
            self.running[program] = self.begun(program, what, name, which)
        try:
            await anext(self.running[program])
        except StopAsyncIteration:
            del self.running[program]
        except FUSEError as error:
            del self.running[program]
            assert error.errno == errno.ENOENT, f"{what} {name}: {error}"
        await self.check()

    async def begun(self, program: int, what: str, name: str, which: int) -> Steps:
        kernel = self.kernel
        self.version += 1
        data = text(self.version)
        if what == "read":
            async for _ in kernel.opening(name, os.O_RDONLY):
                yield
        elif what == "write":
            async for _ in kernel.opening(name, os.O_RDWR | os.O_CREAT):
                yield
        elif what == "empty":
            async for _ in kernel.opening(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC):
                self.pages.clear()
                yield
            self.pages.clear()
        elif what == "replace":
            async for _ in kernel.replacing(name, f".{program}.draft", data):
                yield
        elif what == "unlink" and await kernel.lookup(name):
            await kernel.unlink(name)
        elif what == "outside":
            draft = self.source / ".outside"
            draft.write_bytes(data)
            draft.rename(self.source / name)
        elif handles := [each for each in kernel.opened if each.name in (DOCUMENT, ORDINARY)]:
            opened = handles[which % len(handles)]
            if what == "stat":
                assert await kernel.size(opened.inode) == len(await kernel.read(opened))
            elif what == "fill" and opened.writes:
                await self.fill(opened, data)
            elif what == "close":
                await self.close(opened)

    async def fill(self, opened: Opened, data: bytes) -> None:
        before = {each: await self.kernel.read(each) for each in self.kernel.opened}
        await self.kernel.write(opened, data)
        assert await self.kernel.read(opened) == data
        if opened.direct:
            self.pages.clear()
        else:
            self.pages[opened.inode] = data
            for each, kept in before.items():
                if not each.direct and each.inode != opened.inode:
                    assert await self.kernel.read(each) == kept

    async def close(self, opened: Opened) -> None:
        if opened.writes and not await self.kernel.read(opened):
            await self.fill(opened, text(0))  # an empty document would hide the other files
        await self.kernel.close(opened)

    async def check(self) -> None:
        """All who have an inode open have the same bytes, those that the kernel has in its cache."""
        for opened in self.kernel.opened:
            data = await self.kernel.read(opened)
            if opened.direct:
                continue
            if opened not in self.seen and not opened.keep_cache:
                self.pages.pop(opened.inode, None)
            self.seen.add(opened)
            assert self.pages.setdefault(opened.inode, data) == data, opened.name


OPENING = "read", "write", "empty", "replace"
AT_ONCE = "unlink", "outside", "stat", "fill", "close"


@settings(
    max_examples=examples(300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@pytest.mark.parametrize("view", ["chunks", "plain"])
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(PROGRAMS),
            st.sampled_from(OPENING) | st.sampled_from(AT_ONCE),
            st.sampled_from([DOCUMENT, DOCUMENT, DOCUMENT, ORDINARY]),
            st.integers(0, 4),
        ),
        max_size=60,
    )
)
def test_whatever_is_done_meanwhile_an_open_file_is_one_file(
    view: str, steps: list[tuple[int, str, str, int]]
) -> None:
    async def requests(kernel: PlayedKernel) -> None:
        programs = Programs(kernel, Path(folder))
        for step in steps:
            await programs.step(*step)
        while programs.running:
            await programs.step(next(iter(programs.running)), "", "", 0)
        for opened in list(kernel.opened):
            await programs.close(opened)
        await kernel.forget()
        status = kernel.operations.status()
        assert (status["kernel_lookups"], status["open_files"]) == (0, 0)

    with tempfile.TemporaryDirectory() as folder:
        write_keys(Path(folder), {DOCUMENT: text(0), ORDINARY: text(0)})
        with serving(Path(folder), view) as run:
            run(requests)


def test_a_program_that_ends_while_it_truncates_spoils_no_other(source, monkeypatch) -> None:
    begun, may_end = threading.Event(), threading.Event()
    truncate = WorkingCopy.truncate

    def slow(self: WorkingCopy, size: int) -> None:
        begun.set()
        assert may_end.wait(30)
        truncate(self, size)

    async def requests(kernel: PlayedKernel) -> None:
        other = await opened(kernel, DOCUMENT, os.O_RDWR)
        await kernel.write(other, text(1))
        monkeypatch.setattr(WorkingCopy, "truncate", slow)

        async def open_or_end() -> None:
            with suppress(FUSEError):
                await opened(kernel, DOCUMENT, os.O_WRONLY | os.O_TRUNC)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(open_or_end)
            await trio.to_thread.run_sync(begun.wait, 30)
            assert not kernel.operations.interrupts._waiting  # so nothing ends it
            await trio.testing.wait_all_tasks_blocked()
            may_end.set()
        monkeypatch.undo()
        await kernel.write(other, text(2))
        await kernel.operations.fsync(other.fh, False)
        for one in list(kernel.opened):
            await kernel.close(one)
        assert not kernel.operations._handles

    with serving(source, "chunks") as run:
        run(requests)
    assert version((source / DOCUMENT).read_bytes()) == 2
