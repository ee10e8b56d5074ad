"""Which of the requests that wait are ended."""

import trio
from trio.testing import MockClock

from zarrfuse.fuse import interrupts
from zarrfuse.fuse.interrupts import Interrupts


def test_a_program_is_ended_that_waits_behind_many_others(monkeypatch) -> None:
    monkeypatch.setattr(interrupts, "_is_to_end", lambda pid: pid == 7)

    async def main() -> None:
        waiting = Interrupts()
        others = [waiting.begin(1) for _ in range(230)]
        ending = waiting.begin(7)
        with trio.fail_after(5), ending:
            await trio.sleep_forever()
        assert ending.cancelled_caught
        assert not any(other.cancel_called for other in others)
        for scope in (*others, ending):
            waiting.end(scope)

    trio.run(main, clock=MockClock(autojump_threshold=0))
