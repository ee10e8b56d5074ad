"""How requests are limited, repeated and hedged."""

import asyncio
import time

import pytest

from zarrfuse.errors import NotFound, TimedOut
from zarrfuse.stores.remote.calls import Calls, Patience
from zarrfuse.stores.remote.requests import TryAgain


class Once:
    """A request that does each thing of `does` once: an error, seconds to wait; then it answers 7."""

    def __init__(self, *does: BaseException | float) -> None:
        self.does = list(does)
        self.calls = 0
        self.ended = 0

    async def __call__(self) -> int:
        self.calls += 1
        try:
            wrong = self.does.pop(0) if self.does else 0.0
            if isinstance(wrong, BaseException):
                raise wrong
            await asyncio.sleep(wrong)
            return 7
        finally:
            self.ended += 1


def run(once: Once, timeout_s: float = 5.0, **options) -> tuple[int, Calls]:
    async def work() -> tuple[int, Calls]:
        calls = Calls(Patience(timeout_s=timeout_s))
        return await calls.call("a request", once, **options), calls

    return asyncio.run(work())


def test_what_may_pass_is_repeated():
    once = Once(TryAgain("503"), ConnectionResetError("gone"), TryAgain("503"))
    answer, calls = run(once)
    assert answer == 7
    assert calls.status() == {"requests": 4, "repeated": 3, "hedged": 0, "failed": 0}


def test_what_does_not_pass_is_not_repeated():
    once = Once(NotFound("no such key"))
    with pytest.raises(NotFound):
        run(once)
    assert once.calls == 1


def test_the_last_error_is_told_when_time_is_up():
    once = Once(*[TryAgain(f"the server says 503 ({number})") for number in range(100)])
    with pytest.raises(TryAgain, match="the server says 503"):
        run(once, timeout_s=0.3)
    assert 1 < once.calls < 10


def test_a_long_call_that_fails_at_once_is_not_repeated_for_longer_than_others():
    once = Once(*[TryAgain("connection refused")] * 100)
    with pytest.raises(TryAgain, match="connection refused"):
        run(once, timeout_s=0.3, try_s=3600.0)
    assert 1 < once.calls < 10


def test_a_server_that_asks_to_wait_is_asked_after_that():
    once = Once(TryAgain("429", retry_after_s=0.3))
    began = time.monotonic()
    assert run(once)[0] == 7
    assert time.monotonic() - began >= 0.3


def test_a_server_that_asks_for_too_much_is_not_waited_for():
    with pytest.raises(TryAgain, match="429"):
        run(Once(TryAgain("429", retry_after_s=3600.0)), timeout_s=1.0)


def test_a_server_that_never_answers_is_timed_out():
    once = Once(*[3600.0] * 20)
    with pytest.raises(TimedOut, match="a request: the server did not answer within"):
        run(once, timeout_s=0.5)
    assert once.ended == once.calls > 1


def test_a_stalled_request_gets_a_second_one_beside_it():
    async def work() -> None:
        calls = Calls(Patience(timeout_s=60.0))
        for _ in range(30):
            await calls.call("quick", Once())
        stalled = Once(3600.0)
        assert await calls.call("stalled", stalled) == 7
        await asyncio.sleep(0.01)
        assert (stalled.calls, stalled.ended) == (2, 2)
        assert calls.status()["hedged"] == 1

    asyncio.run(work())


def test_few_requests_are_hedges():
    async def work() -> None:
        calls = Calls(Patience(timeout_s=60.0))
        for _ in range(30):
            await calls.call("quick", Once())
        await asyncio.gather(*[calls.call("slow", Once(0.4, 0.4)) for _ in range(60)])
        assert 0 < calls.hedged <= 10 + calls.made // 10

    asyncio.run(work())


def test_no_more_run_at_one_time_than_are_allowed():
    running = most = 0

    async def once() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    async def work() -> None:
        calls = Calls(Patience(at_once=5))
        await asyncio.gather(*[calls.call("one of many", once) for _ in range(50)])

    asyncio.run(work())
    assert most == 5


def test_a_pause_before_the_next_try_holds_up_nobody():
    async def work() -> None:
        calls = Calls(Patience(at_once=1, timeout_s=60.0))
        waiting = asyncio.create_task(calls.call("waits", Once(TryAgain("429", 5.0))))
        await asyncio.sleep(0.05)
        assert await asyncio.wait_for(calls.call("goes on", Once()), 4.0) == 7
        waiting.cancel()

    asyncio.run(work())


def test_a_server_that_asks_for_no_pause_is_not_asked_without_end():
    once = Once(*[TryAgain("429", retry_after_s=0.0) for _ in range(10_000)])
    with pytest.raises(TryAgain):
        run(once, timeout_s=0.5)
    assert once.calls < 10
