"""Ends requests of programs that are being ended: Ctrl-C must not wait for a server.

Used by `operations`, `workers` and `scan`. Owns which signals count. The kernel does not tell pyfuse3 that
a program was interrupted; it waits until the request is answered, and the program with it. Reads need no
help: a program that waits for a page can be ended. So for look-ups and opens whose store calls take long,
the pending signals of the program are looked at (proc(5)).

Only waiting for a store call is interrupted, as by a time-out: what is done with its result is not.
"""

import functools
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import trio

P = ParamSpec("P")
T = TypeVar("T")

_EVERY_S = 0.1
_MOST_AT_ONCE = 50
_MASKS = frozenset({b"SigPnd", b"ShdPnd", b"SigBlk", b"SigIgn"})
_ENDING = sum(
    1 << number - 1
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGTERM)
)


class Interrupts:
    """The requests that may be interrupted, and what they wait for."""

    def __init__(self) -> None:
        self.programs: dict[trio.lowlevel.Task, int] = {}
        """The process that made the request of a task."""
        self._waiting: dict[trio.CancelScope, int] = {}
        self._is_watched = False

    @contextmanager
    def ending(self, scope: trio.CancelScope) -> Iterator[None]:
        """A block, inside of `scope`, that waits for a store.

        If the program of the request is to end, the scope is cancelled, with the deadline `ENDED`.
        """
        pid = self.programs.get(trio.lowlevel.current_task())
        if pid is None:
            yield
            return
        self._waiting[scope] = pid
        if not self._is_watched:
            self._is_watched = True
            trio.lowlevel.spawn_system_task(self._watch)
        try:
            yield
        finally:
            del self._waiting[scope]

    async def _watch(self) -> None:
        seen: set[trio.CancelScope] = set()
        turn = 0
        while self._waiting:
            await trio.sleep(_EVERY_S)
            waiting = list(self._waiting.items())
            first = turn % max(len(waiting), 1)  # all have their turn, also behind many that hang
            turn = first + _MOST_AT_ONCE
            for scope, pid in (waiting[first:] + waiting[:first])[:_MOST_AT_ONCE]:
                if scope in seen and _is_to_end(pid):
                    scope.deadline = ENDED
                    scope.cancel()
            seen = set(self._waiting)
        self._is_watched = False


ENDED = -1.0
"""The deadline of a scope that was cancelled because its program is to end."""


class Interruptible(Protocol):
    """What has handlers that can be interrupted."""

    interrupts: Interrupts


S = TypeVar("S", bound=Interruptible)


def interruptible(
    handler: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """A handler that may answer EINTR when its program is to end. Its last argument is the context."""

    @functools.wraps(handler)
    async def wrapper(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
        programs, task = self.interrupts.programs, trio.lowlevel.current_task()
        programs[task] = args[-1].pid  # type: ignore[attr-defined]
        try:
            return await handler(self, *args, **kwargs)
        finally:
            del programs[task]

    return wrapper  # type: ignore[return-value]  # functools hides that it is a method


def _is_to_end(pid: int) -> bool:
    """Whether a signal that ends programs is pending for a process, or for a thread by its number."""
    if not pid:  # of another namespace
        return False
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            masks = {line[:6]: int(line[7:], 16) for line in status if line[:6] in _MASKS}
    except (OSError, ValueError):  # it has ended
        return False
    pending = masks.get(b"SigPnd", 0) | masks.get(b"ShdPnd", 0)
    return bool(pending & ~masks.get(b"SigBlk", 0) & ~masks.get(b"SigIgn", 0) & _ENDING)
