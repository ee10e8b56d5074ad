"""What hangs below one folder leaves threads to the others: calls, and a file system that stops."""

import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing
from builders.folders import write_files
from builders.mounts import Daemon, serving
from daemons import errno_when, fake

from zarrfuse.errors import TimedOut
from zarrfuse.fuse.workers import Workers

DATA = b"slow" * 1000
HANGING = 79
GOOD_WITHIN_S = 10  # of 30 until the time-out; alone it takes milliseconds


@asynccontextmanager
async def hanging(workers: Workers, folders: list[str]) -> AsyncIterator[threading.Event]:
    """A call in each of the folders that hangs until the event is set, at the latest at the end."""
    end = threading.Event()

    async def hang(folder: str) -> None:
        with suppress(TimedOut):
            await workers.run(partial(end.wait, 60), folder)

    async with trio.open_nursery() as nursery:
        for folder in folders:
            nursery.start_soon(hang, folder)
        await trio.testing.wait_all_tasks_blocked()
        try:
            yield end
        finally:
            end.set()


def test_calls_that_hang_in_one_folder_leave_half_of_the_threads_to_others():
    async def main() -> None:
        workers = Workers(4, 30)
        async with hanging(workers, ["a"] * 20):
            with trio.fail_after(10):
                assert await workers.run(lambda: 7, "b") == 7
                assert await workers.run(lambda: 7, None) == 7

    trio.run(main)


def test_calls_that_hang_in_many_folders_do_not_hold_the_others_until_their_time():
    async def main() -> None:
        workers = Workers(4, 30)
        async with hanging(workers, [f"a/{n}" for n in range(20)]):
            with trio.fail_after(10):
                assert await workers.run(lambda: 7, "b") == 7

    trio.run(main)


def test_threads_beyond_the_limit_are_bounded_and_given_back():
    async def main() -> None:
        workers = Workers(2, 30, most_long=3)
        folders = [f"a/{n}" for n in range(5)]
        async with hanging(workers, folders) as end:
            with trio.move_on_after(1.5) as scope:  # all five places are held by what hangs
                await workers.run(lambda: 7, "b")
            assert scope.cancelled_caught
            end.set()
        with trio.fail_after(10):
            assert await workers.run(lambda: 7, "b") == 7
        async with hanging(workers, ["a/0", "a/1"]):  # 2 threads again, since none is out for long
            with trio.move_on_after(0.2) as scope:
                await workers.run(lambda: 7, "b")
            assert scope.cancelled_caught

    trio.run(main)


def test_folder_that_has_lost_all_its_threads_fails_at_once_until_one_comes_back():
    async def main() -> None:
        workers = Workers(4, 0.1)
        async with hanging(workers, ["a"] * 3) as end:
            await trio.sleep(0.3)  # two have begun and were given up; the third never began
            called = []
            with pytest.raises(TimedOut, match="folder a"):
                await workers.run(lambda: called.append(7), "a")
            assert not called
            assert await workers.run(lambda: 7, "b") == 7
            assert await workers.run(lambda: 7, None) == 7
            end.set()
            with trio.fail_after(10):
                while True:
                    try:
                        assert await workers.run(lambda: 7, "a") == 7
                        break
                    except TimedOut:
                        await trio.sleep(0.01)

    trio.run(main)


@contextmanager
def stopped_below(tmp_path: Path, folders: int) -> Iterator[tuple[Daemon, Daemon, list[Path]]]:
    """A mount whose folders `good` and `stopped` are other mounts, the second of which has stopped; both
    daemons, and the 79 files in there, in so many folders, whose names are known already."""
    inner_source, source = tmp_path / "inner-source", tmp_path / "source"
    names = [f"{n % folders}/{n}" for n in range(HANGING)]
    write_files(inner_source, dict.fromkeys(names, DATA))
    options = ("--cache-ttl", "600", "--timeout", "30")
    source.mkdir()
    with (
        serving(source, inner_source, name="good"),
        serving(source, inner_source, name="stopped") as inner,
        serving(tmp_path, source, *options, command=fake(store="local")) as outer,
    ):
        for _ in os.walk(outer.mountpoint):
            pass
        files = [outer.mountpoint / "stopped" / name for name in names]
        for file in files:
            file.stat()
        inner.process.send_signal(signal.SIGSTOP)
        try:
            yield outer, inner, files
        finally:
            inner.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("folders", [1, HANGING])
def test_file_system_that_stops_below_a_folder_holds_no_others(tmp_path: Path, folders: int):
    with (
        ThreadPoolExecutor(HANGING) as pool,
        stopped_below(tmp_path, folders) as (outer, inner, files),
    ):
        hanging = [pool.submit(errno_when, file.read_bytes) for file in files]
        time.sleep(0.3)  # all have been asked for; if not, the rest of the test is easier to pass
        begun = time.monotonic()
        assert (outer.mountpoint / "good/0/0").read_bytes() == DATA
        assert time.monotonic() - begun < GOOD_WITHIN_S
        assert not any(future.done() for future in hanging)
        inner.process.send_signal(signal.SIGCONT)
        assert {future.result(30) for future in hanging} == {0}
        assert outer.status()["errors"] == {}
