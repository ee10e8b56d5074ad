"""Threads, and memory for what they make, where a store may never answer.

Owns the bounds: so many threads, so many bytes under way. Used where many reads of a store are made
at once: by `keys_store` and by what decodes chunks. It knows no stores.
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
    """At most `most` threads, made when they are needed.

    Unlike those of `ThreadPoolExecutor`, no program waits for them at its end: one that waits for a
    store which never answers would keep it.
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
        """Calls that no thread has begun yet."""
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
        """Begin nothing more. Never waits for what is under way; whatever has not begun is cancelled."""
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
    """So many bytes may be under way at one time; one that needs more than that goes alone.

    What has been under way for `patience_s` no longer counts: it waits for a store, and others must
    not wait with it.
    """

    def __init__(self, most_bytes: int, patience_s: float = 5.0) -> None:
        self._most_bytes = most_bytes
        self._patience_s = patience_s
        self._taken: dict[object, tuple[int, float]] = {}
        self._change = threading.Condition()

    @property
    def taken_bytes(self) -> int:
        """All that is under way."""
        return sum(nbytes for nbytes, _ in list(self._taken.values()))

    @contextmanager
    def taken(self, nbytes: int) -> Iterator[None]:
        """Wait until there is room for `nbytes`, and take it for as long as the block lasts."""
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
