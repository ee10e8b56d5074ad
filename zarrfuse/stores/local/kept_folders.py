"""Folders that a thread keeps open for a while, so that each is looked up once.

Used by `local_writing`. A folder that is renamed or deleted meanwhile goes on being used, as by a process
that is in it; one in which nothing is found any more is looked up anew.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zarrfuse.errors import NotFound

_MOST_KEPT = 32


class _Thread(threading.local):
    """What each thread has of its own; `found` is `None` outside a block.

    `found` are the folders that are looked up no more, by key and flags; all that are `open` are closed
    together, as a call may be using one that another call has found to be gone.
    """

    found: dict[tuple[str, int], int] | None = None
    open: list[int]


class KeptFolders:
    """Opens folders by `open_(key, flags)`, which gives a descriptor."""

    def __init__(self, open_: Callable[[str, int], int]) -> None:
        self._open = open_
        self._thread = _Thread()

    @contextmanager
    def block(self) -> Iterator[None]:
        """What this thread opens in here stays open until the end; blocks in here change nothing."""
        thread = self._thread
        if thread.found is not None:
            yield
            return
        thread.found, thread.open = {}, []
        try:
            yield
        finally:
            thread.found = None
            for fd in thread.open:
                os.close(fd)

    @contextmanager
    def opened(self, key: str, flags: int) -> Iterator[int]:
        """A folder, as a descriptor."""
        found = self._thread.found
        fd = -1 if found is None else found.get((key, flags), -1)
        if fd < 0:
            fd = self._open(key, flags)
            if found is None or len(self._thread.open) == _MOST_KEPT:
                try:
                    yield fd
                finally:
                    os.close(fd)
                return
            self._thread.open.append(fd)
            found[key, flags] = fd
        assert found is not None
        try:
            yield fd
        except (NotFound, FileNotFoundError):  # it may have been deleted, and made anew
            found.pop((key, flags), None)
            raise
