"""Counts the running commits of this process, so that closing the store waits for them.

Used by `commits`. A thread that timed out may still run a commit when the store is closed.
"""

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_PATIENCE_S = 10.0


class UnderWay:
    """The running commits. For any thread."""

    def __init__(self) -> None:
        self._new_process()

    def _new_process(self) -> None:
        """Reset the count in a child process, in which the threads of the parent do not run."""
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._count = 0
        self._is_stopped = False
        self._is_ended = False

    @contextmanager
    def one(self) -> Iterator[None]:
        """A block that is counted. Raises `OSError` (EBUSY) if commits stay stopped."""
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
        """A block in which no commit begins; yields whether the running ones ended in time.

        `for_good`: none begins after the block either.
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
