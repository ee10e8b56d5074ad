"""How many commits of this process are under way, so that nobody takes from under them what they use.

Owns the count. Used by `commits`. A thread that was given up on may still be in the middle of a commit
when the store is closed.
"""

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_PATIENCE_S = 10.0


class UnderWay:
    """The commits under way; any thread may call it."""

    def __init__(self) -> None:
        self._new_process()

    def _new_process(self) -> None:
        """The threads of the parent do not run in a child."""
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._count = 0
        self._is_stopped = False
        self._is_ended = False

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count one for as long as the block lasts.

        Raises `OSError` (EBUSY) if stopped for long, or for good.
        """
        changed = self._condition()
        with changed:
            if not changed.wait_for(lambda: self._is_ended or not self._is_stopped, _PATIENCE_S):
                raise OSError(errno.EBUSY, "the store is being closed")
            if self._is_ended:
                raise OSError(errno.EBUSY, "the store is closed")
            self._count += 1
        try:
            yield
        finally:
            with changed:
                self._count -= 1
                changed.notify_all()

    @contextmanager
    def stopped(self, wait_s: float, *, for_good: bool = False) -> Iterator[bool]:
        """Wait so long until there is none, then let none begin; whether there is none.

        `for_good`: none begins after the block either, whether there was none or not.
        """
        changed = self._condition()
        with changed:
            is_quiet = changed.wait_for(lambda: not self._count and not self._is_stopped, wait_s)
            if is_quiet:
                self._is_stopped = True
            self._is_ended = self._is_ended or for_good
            changed.notify_all()
        try:
            yield is_quiet
        finally:
            if is_quiet:
                with changed:
                    self._is_stopped = False
                    changed.notify_all()

    def _condition(self) -> threading.Condition:
        if self._pid != os.getpid():
            self._new_process()
        return self._changed
