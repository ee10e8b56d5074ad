"""Which of the requests that wait are ended."""

import trio
from trio.testing import MockClock

from zarrfuse.fuse import interrupts
from zarrfuse.fuse.interrupts import ENDED, Interrupts


def test_a_program_is_ended_that_waits_behind_many_others(monkeypatch) -> None:
    monkeypatch.setattr(interrupts, "_is_to_end", lambda pid: pid == 7)
    waiting = Interrupts()
    ended: list[int] = []

    async def wait(pid: int) -> None:
        waiting.programs[trio.lowlevel.current_task()] = pid
        with trio.move_on_after(1000) as scope, waiting.ending(scope):
            await trio.sleep_forever()
        if scope.deadline == ENDED:
            ended.append(pid)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for pid in (*[1] * 230, 7):
                nursery.start_soon(wait, pid)
            with trio.fail_after(5):
                while not ended:
                    await trio.sleep(0.05)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert ended == [7]


def test_what_no_request_waits_for_is_not_ended(monkeypatch) -> None:
    monkeypatch.setattr(interrupts, "_is_to_end", lambda _: True)

    async def main() -> None:
        with trio.move_on_after(3) as scope, Interrupts().ending(scope):
            await trio.sleep_forever()
        assert scope.deadline != ENDED

    trio.run(main, clock=MockClock(autojump_threshold=0))
