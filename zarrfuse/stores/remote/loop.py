"""The event loop of remote stores: one asyncio loop in a thread of its own, for the whole process.

Used by `remote`. It must not know what runs in it.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as WaitedTooLong
from typing import Any, TypeVar

from zarrfuse.errors import TimedOut, ZarrfuseError

T = TypeVar("T")


class Loop:
    """Runs coroutines for threads. Its own thread starts with the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin work, and return at once. What nobody waits for has to deal with its own errors."""
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def run(self, work: Coroutine[Any, Any, T], *, timeout_s: float, what: str) -> T:
        """The result of the work, for which this thread waits. Raises `TimedOut`, and ends the work."""
        future = self.submit(work)
        try:
            return future.result(timeout_s)
        except WaitedTooLong:
            if future.done():  # the work raised it
                raise
            future.cancel()
            raise TimedOut(f"{what}: no answer within {timeout_s:g} s") from None

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is not None:
                if self._process != os.getpid():
                    raise ZarrfuseError("a remote store was opened before a fork: open it after")
                return self._loop
            loop = self._loop = asyncio.new_event_loop()
            self._process = os.getpid()
            threading.Thread(target=loop.run_forever, name="zarrfuse-requests", daemon=True).start()
            return loop


LOOP = Loop()
"""The one loop."""
