"""How long a request may take, how often it is repeated, and how many run at one time.

Used by the other modules of `remote`: each request of theirs is a call here.

* A try has `try_s`, and a second more for each 256 KiB that it fetches; a call ends after `timeout_s`, with
  `TimedOut`, or with the error of its last try.
* What fails with `TryAgain`, a broken connection or a time-out is repeated after a pause that doubles, or
  the longer one that the server asked for.
* A try that takes three times as long as nine of ten did gets a second one beside it (a hedge), and the
  first answer counts: so one stalled connection costs little. At most one request in ten is a hedge.
* At most `at_once` requests run at one time, half of them listings, which may take minutes. A pause before
  the next try does not count.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from zarrfuse.errors import TimedOut
from zarrfuse.stores.remote.requests import TryAgain

T = TypeVar("T")

_BYTES_PER_S = 256 * 1024
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_HEDGE_FACTOR = 3.0
_HEDGES_OF = 10  # one in so many requests
_FREE_HEDGES = 10
_REMEMBERED = 200
_FEWEST_REMEMBERED = 10
_SHORTEST_HEDGE_S = 0.1
_FIRST_HEDGE_S = 2.0

# What is learned of the way to the server: the share of each new time in what is known.
_LEARNED = 0.25
_FEW_BYTES = 128 * 1024
_MANY_BYTES = 1 << 20
_SHORTEST_S = 1e-3


@dataclass(frozen=True, slots=True)
class Patience:
    """Times in seconds, and the number of requests at one time."""

    timeout_s: float = 30.0
    at_once: int = 64

    @property
    def try_s(self) -> float:
        """For one try, without the time that its bytes take."""
        return self.timeout_s / 3

    def bytes_s(self, nbytes: int) -> float:
        """For one try that fetches so many bytes."""
        return self.try_s + nbytes / _BYTES_PER_S


class Calls:
    """The requests to one server. All methods but `status` belong to the loop."""

    def __init__(self, patience: Patience) -> None:
        self.patience = patience
        self._free = asyncio.Semaphore(patience.at_once)
        self._free_for_long = asyncio.Semaphore(max(patience.at_once // 2, 1))
        self._took_s: deque[float] = deque(maxlen=_REMEMBERED)
        self._slow_s = _FIRST_HEDGE_S
        self._way_s = self._bytes_per_s = 0.0
        self.made = self.repeated = self.hedged = self.failed = 0

    def status(self) -> dict[str, int]:
        """Counts, for the control files: requests, of which repeated, of which hedges; failed calls."""
        return {
            "requests": self.made,
            "repeated": self.repeated,
            "hedged": self.hedged,
            "failed": self.failed,
        }

    async def call(
        self, what: str, once: Callable[[], Awaitable[T]], *, nbytes: int = 0, try_s: float = 0.0
    ) -> T:
        """The result of `once`, which is one request, repeated where that may help.

        `what`: for the error. `nbytes`: what it fetches. `try_s`: more time for each try, for what consists
        of many requests; it then is not hedged. What fails is not repeated for longer than other calls:
        whoever waits is to hear why.
        """
        began = time.monotonic()
        until = began + max(self.patience.timeout_s, try_s)
        a_try_s = try_s or self.patience.bytes_s(nbytes)
        pause_s = _FIRST_PAUSE_S
        while True:
            left_s = until - time.monotonic()
            try:
                async with asyncio.timeout(min(a_try_s, left_s)):
                    if try_s:
                        return await self._one(once)
                    return await self._hedged(once, nbytes)
            except TimeoutError:
                error: Exception = TimedOut(
                    f"{what}: the server did not answer within {time.monotonic() - began:.0f} s"
                )
                asked_s = None
            except TryAgain as refused:
                error, asked_s = refused, refused.retry_after_s
            except ConnectionError as broken:
                error, asked_s = broken, None
            # A server that says `Retry-After: 0` each time must not be asked a thousand times a second.
            wait_s = max(random.uniform(pause_s / 2, pause_s), asked_s or 0.0)
            if time.monotonic() + wait_s >= began + self.patience.timeout_s:
                self.failed += 1
                raise error
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            self.repeated += 1
            await asyncio.sleep(wait_s)

    async def _one(self, once: Callable[[], Awaitable[T]]) -> T:
        async with self._free_for_long, self._free:
            self.made += 1
            return await once()

    async def _hedged(self, once: Callable[[], Awaitable[T]], nbytes: int) -> T:
        async with self._free:
            self.made += 1
            began = time.monotonic()
            running: set[asyncio.Future[T]] = {asyncio.ensure_future(once())}
            slow_s = self._slow_s + nbytes / _BYTES_PER_S / 4
            try:
                done, _ = await asyncio.wait(running, timeout=slow_s)
                if not done and self._may_hedge():
                    self.made += 1
                    self.hedged += 1
                    running.add(asyncio.ensure_future(once()))
                answer = await _first(running)
            finally:
                for task in running:
                    task.cancel()
            self._note(time.monotonic() - began, nbytes)
            return answer

    def _may_hedge(self) -> bool:
        return self.hedged < _FREE_HEDGES + self.made // _HEDGES_OF

    @property
    def bytes_for_nothing(self) -> int:
        """The bytes that arrive in the time that a request takes for its way; 0 if that is not known."""
        return int(self._bytes_per_s * self._way_s)

    def _note(self, took_s: float, nbytes: int) -> None:
        """Learn from a request how long the way is, how fast bytes come, and what is slow."""
        if nbytes >= _MANY_BYTES:
            bytes_per_s = nbytes / max(took_s - self._way_s, _SHORTEST_S)
            self._bytes_per_s += (bytes_per_s - self._bytes_per_s) * _LEARNED
        if nbytes > _FEW_BYTES:
            return
        self._way_s += (took_s - self._way_s) * _LEARNED if self._way_s else took_s
        self._took_s.append(took_s)
        count = len(self._took_s)
        if count >= _FEWEST_REMEMBERED and self.made % _FEWEST_REMEMBERED == 0:
            of_ten = sorted(self._took_s)[count * 9 // 10]
            self._slow_s = max(_SHORTEST_HEDGE_S, min(of_ten * _HEDGE_FACTOR, _FIRST_HEDGE_S))


async def _first(running: set[asyncio.Future[T]]) -> T:
    """The result of the first that succeeds, or fails for good; else the error of the last."""
    while True:
        done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            running.discard(task)
            error = task.exception()
            if error is None:
                return task.result()
            if not running or not isinstance(error, TryAgain | ConnectionError):
                raise error
