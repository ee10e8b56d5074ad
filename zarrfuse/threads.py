"""Store calls in worker threads: with a time-out, and folders handed over while they are listed.

Owns the limit on threads, and what becomes of a call that nobody waits for any more. Used by `fuse`.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import trio

from zarrfuse.errors import TimedOut, guarded
from zarrfuse.stores.base import Entry
from zarrfuse.views.base import Folder

if TYPE_CHECKING:
    from outcome import Outcome

log = logging.getLogger(__name__)

T = TypeVar("T")


_MOST_GIVEN_UP = 400  # threads that wait for a store which may never answer; each takes 30 KiB
_BATCH = 2000  # names: a reply of 1 MiB holds 6,000 to 7,000


class Workers:
    """Runs store calls in at most `threads` threads, and waits `timeout_s` for each."""

    def __init__(self, threads: int, timeout_s: float) -> None:
        self._threads = threads
        self._timeout_s = timeout_s
        self._limiter: trio.CapacityLimiter | None = None
        self._given_up = 0
        self.busy = 0
        """Calls that are out now."""

    async def run(
        self,
        call: Callable[[], T],
        late: Callable[[T], None] | None = None,
        *,
        longer_s: float = 0.0,
    ) -> T:
        """`call()` in a thread; `longer_s`: how many seconds more than others it may take.

        Raises `TimedOut` when it has not returned in time; the thread is left to itself, and what it
        then still brings is given to `late`.
        """
        lock = threading.Lock()
        begun = given_up = False
        brought: list[T] = []
        token = trio.lowlevel.current_trio_token()

        def work() -> T:
            nonlocal begun
            with lock:
                if given_up:  # between the last moment and this thread
                    raise self._timed_out()
                begun = True
            try:
                result = guarded(call)
                with lock:
                    brought.append(result)
                    if given_up and late is not None:
                        late(result)
                return result
            finally:
                if given_up:
                    token.run_sync_soon(self._change_places, -1)

        with trio.move_on_after(self._timeout_s + longer_s):
            return await self._in_thread(work)
        with lock:
            if brought:  # at the last moment
                return brought[0]
            given_up = True
            if begun:
                self._change_places(+1)
        raise self._timed_out()

    def _change_places(self, by: int) -> None:
        """A call that was given up keeps its thread: others get another, up to a limit."""
        if self._limiter is not None:
            self._given_up += by
            self._limiter.total_tokens = self._threads + min(self._given_up, _MOST_GIVEN_UP)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        """`call()` in a thread that is left to itself when this task is cancelled.

        As `trio.to_thread.run_sync`, without what that does for calls that come back to trio, and
        without giving the thread another name twice: half of its time.
        """
        if self._limiter is None:  # made here, because it belongs to the running loop
            self._limiter = trio.CapacityLimiter(self._threads)
        limiter, place = self._limiter, object()
        token = trio.lowlevel.current_trio_token()
        waiting: trio.lowlevel.Task | None = trio.lowlevel.current_task()

        def deliver(result: "Outcome[T]") -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(take, result)

        def take(result: "Outcome[T]") -> None:
            limiter.release_on_behalf_of(place)
            if waiting is not None:
                trio.lowlevel.reschedule(waiting, result)

        def abandon(_: object) -> trio.lowlevel.Abort:
            nonlocal waiting
            waiting = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.checkpoint_if_cancelled()
        self.busy += 1
        try:
            try:
                limiter.acquire_on_behalf_of_nowait(place)
            except trio.WouldBlock:
                await limiter.acquire_on_behalf_of(place)
            try:
                trio.lowlevel.start_thread_soon(call, deliver)
            except BaseException:  # no thread could be started
                limiter.release_on_behalf_of(place)
                raise
            result: T = await trio.lowlevel.wait_task_rescheduled(abandon)
            return result
        finally:
            self.busy -= 1

    def _timed_out(self) -> TimedOut:
        return TimedOut(f"the store did not answer within {self._timeout_s:g} s")

    def scan(self, folder: Folder, nursery: trio.Nursery) -> "Scan":
        """Start to list a folder in a thread."""
        scan = Scan(folder)
        nursery.start_soon(self._list, scan)
        return scan

    async def _list(self, scan: "Scan") -> None:
        await self._in_thread(scan.run)
        if scan.given_up:
            self._change_places(-1)

    async def more_of(self, scan: "Scan") -> list[Entry]:
        """What a scan has found since the last time; waits until there is something, or the end.

        Raises what listing the folder raised, or `TimedOut`, then and from then on.
        """
        if scan.failure is None:
            with trio.move_on_after(self._timeout_s) as scope:
                await scan.found_more()
            if scope.cancelled_caught and scan.failure is None:
                scan.failure = self._timed_out()
                scan.wanted = False
                if scan.begun:
                    scan.given_up = True
                    self._change_places(+1)
        if scan.failure is not None:
            raise scan.failure
        return scan.take()


class Scan:
    """A folder that is being listed in a thread; what it has found so far can be taken.

    So the kernel and the program that lists work on the first names while the last are still being
    looked at: a folder of 100,000 takes a third less time.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._token = trio.lowlevel.current_trio_token()
        self._event = trio.Event()
        self._batches: deque[list[Entry]] = deque()
        self._error: Exception | None = None
        self._ended = False
        self.complete = False
        """Whether everything was found, and taken."""
        self.failure: Exception | None = None
        """Why it ended before, once that was told."""
        self.wanted = True
        self.begun = False
        """Whether it has got its thread."""
        self.given_up = False
        """Whether it has kept that beyond its time."""
        self.started_at = time.monotonic()

    def run(self) -> None:
        """List the folder; to be called in a thread. Ends early when it is not `wanted`."""
        self.begun = True  # before it looks at `wanted`: who gives up asks the other way round
        try:
            names = guarded(lambda: iter(self._folder.scan() if self.wanted else ()))
            while self.wanted and (batch := guarded(lambda: list(islice(names, _BATCH)))):
                self._batches.append(batch)
                self._wake()
        except Exception as error:
            self._error = error
        finally:
            self._ended = True
            self._wake()

    def _wake(self) -> None:
        try:
            self._token.run_sync_soon(self._announce)
        except trio.RunFinishedError:
            self.wanted = False

    def _announce(self) -> None:
        event, self._event = self._event, trio.Event()
        event.set()

    async def found_more(self) -> None:
        """Wait until there is something to take, or nothing more will come."""
        if not self._batches and not self._ended:
            await self._event.wait()

    def take(self) -> list[Entry]:
        """What was found since the last time. Raises what listing raised, behind the last name."""
        ended = self._ended  # looked at before the batches: the last one comes before the end
        taken: list[Entry] = []
        while self._batches:
            taken += self._batches.popleft()
        if ended and self._error is None:
            self.complete = True
        elif ended and not taken:
            self.failure = self._error
            raise self._error or TimedOut("the listing was given up")
        return taken
