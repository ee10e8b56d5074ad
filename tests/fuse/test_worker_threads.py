"""Store calls in threads: what comes back, how many at a time, and who is given up."""

import errno
import threading
from functools import partial

import pytest
import trio
from builders.fake_stores import MemoryStore

from zarrfuse.errors import NotFound, TimedOut
from zarrfuse.fuse.scan import Scan
from zarrfuse.fuse.workers import Workers
from zarrfuse.views.raw.view import RawFolder


def test_result_or_error_of_a_call_comes_back():
    def missing() -> None:
        raise NotFound("no key a")

    async def main() -> None:
        workers = Workers(1, 30)
        assert await workers.run(lambda: 7, "a") == 7
        with pytest.raises(NotFound, match="no key a"):
            await workers.run(missing, "a")
        assert await workers.run(threading.get_ident, "a") != threading.get_ident()
        assert workers.busy == 0

    trio.run(main)


def test_no_more_calls_run_at_a_time_than_there_are_threads():
    lock = threading.Lock()
    running: list[int] = []
    most = 0

    def call(number: int, end: threading.Event) -> None:
        nonlocal most
        with lock:
            running.append(number)
            most = max(most, len(running))
        assert end.wait(30)
        with lock:
            running.remove(number)

    async def main() -> None:
        workers = Workers(3, 30)
        end = threading.Event()
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(workers.run, partial(call, number, end), f"{number}")
            while len(running) < 3:
                await trio.sleep(0.001)
            assert workers.busy == 10
            end.set()
        assert (most, workers.busy) == (3, 0)

    trio.run(main)


def test_call_that_is_given_up_leaves_its_place_to_others_and_may_come_late():
    came = threading.Event()
    late: list[int] = []

    def slow(end: threading.Event) -> int:
        assert end.wait(30)
        return 7

    def keep(result: int) -> None:
        late.append(result)
        came.set()

    async def main() -> None:
        workers = Workers(1, 0.05)
        end = threading.Event()
        with pytest.raises(TimedOut):
            await workers.run(partial(slow, end), "a", late=keep)
        assert await workers.run(lambda: 8, "b") == 8  # while the only thread is still out
        end.set()
        assert await workers.run(lambda: came.wait(30), "b", longer_s=30)
        assert late == [7]

    trio.run(main)


def test_place_is_given_back_when_no_thread_can_be_started(monkeypatch):
    def none_left(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> None:
        workers = Workers(1, 30)
        with monkeypatch.context() as patch:
            patch.setattr(trio.lowlevel, "start_thread_soon", none_left)
            with pytest.raises(OSError, match="no thread") as refused:
                await workers.run(lambda: 7, "a")
        assert refused.value.errno == errno.ENOMEM
        assert await workers.run(lambda: 7, "a") == 7

    trio.run(main)


def test_call_of_a_task_that_is_cancelled_is_left_to_itself():
    async def main() -> None:
        workers = Workers(1, 30)
        end = threading.Event()
        with trio.move_on_after(0.05) as scope:
            await workers.run(partial(end.wait, 30), "a")
        assert scope.cancelled_caught
        assert workers.busy == 0
        end.set()
        assert await workers.run(lambda: 7, "b") == 7  # as soon as the first has ended

    trio.run(main)


def test_listing_that_cannot_have_a_thread_fails_alone(monkeypatch):
    def none_left(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> None:
        workers, folder = Workers(4, 30), RawFolder(MemoryStore({"a": b""}))
        async with trio.open_nursery() as nursery:
            with monkeypatch.context() as patch:
                patch.setattr(trio.lowlevel, "start_thread_soon", none_left)
                with pytest.raises(OSError, match="no thread"):
                    await Scan(folder, workers, nursery).more()
            [entry] = await Scan(folder, workers, nursery).more()
            assert entry.name == "a"

    trio.run(main)
