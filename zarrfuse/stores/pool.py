"""A bounded thread pool, and a bounded memory budget, for calls that may never return.

Used where many reads of a store run at once: by `zarr_python` and by what decodes chunks. It must not know
stores.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_LOOK_AGAIN_S = 1.0


class Threads(Executor):
    """At most `most` threads, started when they are needed.

    Unlike with `ThreadPoolExecutor`, the interpreter does not wait for them at exit: one of them may wait
    for a store that never answers.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._todo: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._wake = threading.Condition()
        self._made = self._idle = 0
        self._closed = False

    @property
    def waiting(self) -> int:
        """The number of calls that no thread has begun."""
        return len(self._todo)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """See `concurrent.futures.Executor`."""
        future: Future[T] = Future()
        with self._wake:
            if self._closed:
                raise RuntimeError("the threads have been closed")
            self._todo.append((future, lambda: fn(*args, **kwargs)))
            if self._idle < len(self._todo) and self._made < self._most:
                self._made += 1
                threading.Thread(
                    target=self._work, name=f"{self._name}-{self._made}", daemon=True
                ).start()
            else:
                self._wake.notify()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """Cancel calls that have not begun. Does not wait for running ones."""
        with self._wake:
            self._closed = True
            while self._todo:
                self._todo.popleft()[0].cancel()
            self._wake.notify_all()

    def _work(self) -> None:
        while True:
            with self._wake:
                self._idle += 1
                while not self._todo and not self._closed:
                    self._wake.wait()
                self._idle -= 1
                if self._closed:
                    return
                future, call = self._todo.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = call()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
            del future, call  # and what they hold, until there is more to do


class Budget:
    """A limit of bytes that are in use at one time; a larger request runs alone.

    A request that has run for `patience_s` no longer counts: it waits for a store, and others must not wait
    for it.
    """

    def __init__(self, most_bytes: int, patience_s: float = 5.0) -> None:
        self._most_bytes = most_bytes
        self._patience_s = patience_s
        self._taken: dict[object, tuple[int, float]] = {}
        self._change = threading.Condition()

    @property
    def taken_bytes(self) -> int:
        """The bytes in use."""
        return sum(nbytes for nbytes, _ in list(self._taken.values()))

    @contextmanager
    def taken(self, nbytes: int) -> Iterator[None]:
        """Wait until `nbytes` are free, and use them within the block."""
        ticket = object()
        with self._change:
            while self._counted() and self._counted() + nbytes > self._most_bytes:
                self._change.wait(min(_LOOK_AGAIN_S, self._patience_s))
            self._taken[ticket] = nbytes, time.monotonic()
        try:
            yield
        finally:
            with self._change:
                del self._taken[ticket]
                self._change.notify_all()

    def _counted(self) -> int:
        since = time.monotonic() - self._patience_s
        return sum(nbytes for nbytes, begun_at in self._taken.values() if begun_at > since)
