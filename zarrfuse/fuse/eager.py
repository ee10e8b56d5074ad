"""Waits for kernel requests without parking the task in trio between them.

Half the cost of a small request is trio's scheduling: a task that waits for `/dev/fuse` to become readable
is parked, and woken through epoll, although the next request is mostly there already or comes within
microseconds. pyfuse3 waits through its module global `trio`, which its own asyncio support replaces, too.
`install` replaces it by an object that polls the descriptor first, and parks if nothing comes.

Used by `mounts`. Without it everything works, but slower. It does nothing if pyfuse3 is not built as
expected.
"""

import logging
import select
import time
import types
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pyfuse3
import trio

log = logging.getLogger(__name__)

REQUESTS_IN_A_ROW = 32
"""How many requests may be answered before other trio tasks run."""
SPIN_NS = 50_000
"""How long to look for the next request before parking: about what parking and waking costs."""


class _Now:
    """An awaitable that is done: awaiting it makes no coroutine and never parks."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return iter(())  # type: ignore[return-value]  # an iterator is all that is asked for


_NOW = _Now()


class _Turn:
    """The lock of the task that waits for requests; releasing it does not hand it over.

    `trio.Lock` hands itself to a waiting task, so two tasks would answer requests in turns and be scheduled
    for each. Here the running task may take the lock again at once. A waiting task is woken to try, and
    gets it when the first one waits for something else.
    """

    __slots__ = ("_held", "_lot", "_waiting")

    def __init__(self) -> None:
        self._held = False
        self._waiting = 0
        self._lot = trio.lowlevel.ParkingLot()

    def __aenter__(self) -> Awaitable[None]:
        if self._held:
            return self._wait()
        self._held = True
        return _NOW

    async def _wait(self) -> None:
        while self._held:
            self._waiting += 1
            try:
                await self._lot.park()
            finally:
                self._waiting -= 1
        self._held = True

    def __aexit__(self, *_: object) -> Awaitable[None]:
        self._held = False
        if self._waiting:
            self._lot.unpark()
        return _NOW


class _Waiter:
    """Replaces `trio.lowlevel.wait_readable` for the descriptor of the FUSE session."""

    def __init__(self, busy: Callable[[], bool]) -> None:
        self._busy = busy
        self._in_a_row = 0
        self._poll = select.poll()
        self._registered = -1

    def wait_readable(self, fd: int) -> Awaitable[None]:
        """Return when `fd` has a request; at once if it has one already."""
        if fd != self._registered:
            self._poll.register(fd, select.POLLIN)
            self._registered = fd
        if self._in_a_row < REQUESTS_IN_A_ROW and self._poll.poll(0):
            self._in_a_row += 1
            return _NOW
        return self._wait(fd)

    async def _wait(self, fd: int) -> None:
        if self._in_a_row < REQUESTS_IN_A_ROW and not self._busy():
            # With a store call out in a thread, that needs the interpreter more.
            end = time.perf_counter_ns() + SPIN_NS
            while time.perf_counter_ns() < end:
                if self._poll.poll(0):
                    self._in_a_row += 1
                    return
        self._in_a_row = 0
        await trio.lowlevel.wait_readable(fd)


def install(busy: Callable[[], bool]) -> bool:
    """Make pyfuse3 wait eagerly; `busy`: whether store calls are running in threads.

    Returns whether it could. Call it once, before `pyfuse3.main`.
    """
    if getattr(pyfuse3, "trio", None) is not trio:
        log.info(
            "pyfuse3 does not wait through its global trio: requests are answered the plain way"
        )
        return False
    lowlevel: Any = types.SimpleNamespace(**vars(trio.lowlevel))
    lowlevel.wait_readable = _Waiter(busy).wait_readable
    stand_in: Any = types.SimpleNamespace(**vars(trio))
    stand_in.lowlevel = lowlevel
    stand_in.Lock = _Turn
    pyfuse3.trio = stand_in  # type: ignore[attr-defined]
    return True
