"""Runs store calls in worker threads, with a time-out.

Owns the limits on threads, and what becomes of a call after its time-out.

A store, or one folder of it, may hang. So calls for one folder take at most half of the threads. A call
that runs long gives its place to another one, up to a limit of extra threads. And if calls that timed out
hold all threads of a folder, further calls for it are `TimedOut` at once, until one of them returns.
"""

import errno
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar
from weakref import WeakValueDictionary

import trio
from outcome import Outcome

from zarrfuse.errors import Interrupted, TimedOut, guarded
from zarrfuse.fuse.interrupts import ENDED, Interrupts
from zarrfuse.fuse.latencies import Latencies

log = logging.getLogger(__name__)

T = TypeVar("T")

SLOWEST_STORE = 1 << 20
"""Bytes a second: the time-out for storing or copying a large file grows by its size over this."""

_LONG_S = 0.5
"""A call that runs longer (s) gives its place to a waiting one, and keeps its thread."""
_MOST_LONG = 400  # threads beyond the limit; each takes 30 KiB


class _Share:
    """The threads that calls for one folder use; kept as long as there are such calls."""

    def __init__(self, threads: int) -> None:
        self.limiter = trio.CapacityLimiter(threads)
        self.lost = 0
        """The number of threads of calls that timed out."""

    @property
    def is_lost(self) -> bool:
        return self.lost >= self.limiter.total_tokens


class _Call:
    """A call that has a thread; `share` is `None` for one that belongs to no folder."""

    __slots__ = ("is_long", "is_lost", "share", "since")

    def __init__(self, share: _Share | None) -> None:
        self.share = share
        self.since = 0.0
        self.is_long = False
        self.is_lost = False


class Workers:
    """Runs store calls in `threads` threads, half of them for one folder, and waits `timeout_s` for each.

    `most_long`: how many long calls may have threads in addition.
    """

    def __init__(self, threads: int, timeout_s: float, *, most_long: int = _MOST_LONG) -> None:
        self._threads = threads
        self.timeout_s = timeout_s
        self._most_long = most_long
        self.interrupts = Interrupts()
        self._limiter: trio.CapacityLimiter | None = None
        self._shares: WeakValueDictionary[str, _Share] = WeakValueDictionary()
        self._running: dict[_Call, None] = {}
        """Running calls that are not long, in the order of their beginning."""
        self._long = 0
        self._is_watched = False
        self.latencies = Latencies()
        self.busy = 0
        """The number of running calls."""

    async def run(
        self,
        call: Callable[[], T],
        folder: str | None,
        late: Callable[[T], None] | None = None,
        *,
        longer_s: float = 0.0,
        may_end: bool = False,
    ) -> T:
        """Run `call` in a thread; `longer_s`: seconds to add to the time-out.

        `folder`: the path of the folder that it is for; None: it is run even if the folder hangs. Raises
        `TimedOut` if it does not return in time; its thread goes on, and a later result is passed to
        `late`. Raises `TimedOut` at once if calls that timed out hold all threads of the folder, and
        `OSError` (ENOMEM) if no thread can be started. With `may_end`, raises `Interrupted` if the
        program that asks is to end, and then as after a time-out.
        """
        lock = threading.Lock()
        given_up = False
        brought: list[T] = []

        def work() -> T:
            if given_up:  # between the last moment and this thread
                raise self.timed_out()
            result = guarded(call)
            with lock:
                brought.append(result)
                if given_up and late is not None:
                    late(result)
            return result

        with trio.move_on_after(self.timeout_s + longer_s) as scope:
            if not may_end:
                return await self.in_thread(work, folder)
            with self.interrupts.ending(scope):
                return await self.in_thread(work, folder)
        with lock:
            if brought:  # at the last moment
                return brought[0]
            given_up = True
        if scope.deadline == ENDED:
            raise Interrupted("the program that asked is to end")
        raise self.timed_out()

    async def in_thread(self, work: Callable[[], T], folder: str | None) -> T:
        """Run `work` in a thread, which goes on when this task is cancelled.

        Like `trio.to_thread.run_sync`, without its support for calls back to trio, and without renaming the
        thread twice, which is half of its time.
        """
        token = trio.lowlevel.current_trio_token()
        waiting: trio.lowlevel.Task | None = trio.lowlevel.current_task()

        def deliver(result: Outcome[T]) -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(take, result)

        def take(result: Outcome[T]) -> None:
            self._end(call)
            if waiting is not None:
                trio.lowlevel.reschedule(waiting, result)

        def abandon(_: object) -> trio.lowlevel.Abort:
            nonlocal waiting
            waiting = None
            self._lose(call)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.checkpoint_if_cancelled()
        self.busy += 1
        try:
            call = await self._begin(folder)
            try:
                trio.lowlevel.start_thread_soon(work, deliver)
            except RuntimeError as error:
                self._end(call)
                raise OSError(errno.ENOMEM, f"no thread for a store call: {error}") from None
            result: T = await trio.lowlevel.wait_task_rescheduled(abandon)
            return result
        finally:
            self.busy -= 1

    # -- places --------------------------------------------------------------------------------

    async def _begin(self, folder: str | None) -> _Call:
        """Wait for a free thread of the folder's share, then for one of all."""
        if self._limiter is None:  # made here, because it belongs to the running loop
            self._limiter = trio.CapacityLimiter(self._threads)
        share = None if folder is None else self._shares.get(folder)
        if share is None and folder is not None:
            share = self._shares[folder] = _Share(max(self._threads // 2, 1))
        call = _Call(share)
        if share is not None:
            if share.is_lost:
                raise TimedOut(f"no call for the folder {folder or '/'} has returned in time")
            await _acquire(share.limiter, call)
        try:
            if not self._limiter.available_tokens:
                self._watch_soon()
            await _acquire(self._limiter, call)
        except BaseException:
            if share is not None:
                share.limiter.release_on_behalf_of(call)
            raise
        call.since = time.monotonic()
        self._running[call] = None
        return call

    def _end(self, call: _Call) -> None:
        """Free the thread of a call."""
        assert self._limiter is not None
        self.latencies.add(time.monotonic() - call.since)
        if call.share is not None:
            call.share.lost -= call.is_lost
            call.share.limiter.release_on_behalf_of(call)
        self._limiter.release_on_behalf_of(call)
        self._running.pop(call, None)
        if call.is_long:
            self._count_long(-1)

    def _lose(self, call: _Call) -> None:
        """Note that a call timed out, and keeps its thread."""
        call.is_lost = True
        if call.share is not None:
            call.share.lost += 1
        self._is_out_long(call)

    def _is_out_long(self, call: _Call) -> None:
        if not call.is_long:
            call.is_long = True
            self._running.pop(call, None)
            self._count_long(+1)

    def _count_long(self, by: int) -> None:
        assert self._limiter is not None
        self._long += by
        self._limiter.total_tokens = self._threads + min(self._long, self._most_long)

    def _watch_soon(self) -> None:
        """Make sure that long calls give their places to waiting ones."""
        if not self._is_watched:
            self._is_watched = True
            trio.lowlevel.spawn_system_task(self._watch)

    async def _watch(self) -> None:
        assert self._limiter is not None
        while self._limiter.statistics().tasks_waiting:
            latest = time.monotonic() - _LONG_S
            for call in list(self._running):
                if call.since > latest:
                    break
                self._is_out_long(call)
            await trio.sleep(_LONG_S / 5)
        self._is_watched = False

    def timed_out(self) -> TimedOut:
        """The error for a store that has not answered in time."""
        return TimedOut(f"the store did not answer within {self.timeout_s:g} s")


async def _acquire(limiter: trio.CapacityLimiter, call: _Call) -> None:
    try:  # which costs less
        limiter.acquire_on_behalf_of_nowait(call)
    except trio.WouldBlock:
        await limiter.acquire_on_behalf_of(call)
