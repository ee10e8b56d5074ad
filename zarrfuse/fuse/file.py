"""An open file: one object for an inode, whoever has it open.

Owns the content and that it is not closed while a thread is at it. Used by `files`; it knows neither
the kernel nor views.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

import trio
from msgspec.structs import replace

from zarrfuse.stores.base import Entry, Reader, Writer, entry_of
from zarrfuse.transactions.working_copy import WorkingCopy

T = TypeVar("T")


class File:
    """What is open under an inode. `content` is what is stored, or a working copy of it.

    `writer` is the content, if it can be written. `is_made`: nothing is stored of it yet.
    """

    __slots__ = (
        "_calls",
        "_closing",
        "_guard",
        "_replaced",
        "_storing",
        "content",
        "copy",
        "handles",
        "is_broken",
        "is_live",
        "is_made",
        "is_refused",
        "known",
        "writer",
    )

    def __init__(self, content: Reader, known: Entry, writer: Writer | None = None) -> None:
        self._set(content, known, writer)
        self.handles = 0
        self.is_made = False
        self.is_broken = False
        """Whether a write failed, so that what there is must not be stored."""
        self.is_refused = False
        """Whether a program was told that it cannot be stored as it is."""
        self._storing: trio.Lock | None = None
        self._guard = threading.Lock()
        self._calls = 0
        self._replaced: list[Reader] = []
        self._closing = False

    def _set(self, content: Reader, known: Entry, writer: Writer | None) -> None:
        self.content = content
        self.known = known
        """What was stored when it was opened, or stored last."""
        self.writer = writer
        self.copy = writer if isinstance(writer, WorkingCopy) else None
        """The working copy, if it is one."""
        self.is_live = content.is_live
        """Whether it is the stored file itself, so that its size and time are those of now."""

    @property
    def storing(self) -> trio.Lock:
        """Held while it is stored, and while it gets another name or none."""
        if self._storing is None:
            self._storing = trio.Lock()
        return self._storing

    @property
    def is_changed(self) -> bool:
        """Whether it holds what has not been stored."""
        copy = self.copy
        return self.is_broken or (copy is not None and copy.changed)

    @property
    def is_ahead(self) -> bool:
        """Whether what is stored, if anything, is not what it holds, or is just becoming that."""
        if self.writer is None:
            return False
        is_being_stored = self._storing is not None and self._storing.locked()
        return self.is_changed or self.is_made or is_being_stored

    def is_current(self, entry: Entry) -> bool:
        """Whether it is what an entry tells of, which was found under its name."""
        if self.is_ahead or self.is_live:
            return True
        return (entry.size, entry.mtime_ns) == (self.known.size, self.known.mtime_ns)

    def entry(self, known: Entry) -> Entry:
        """Its entry as it is now, of which `known` was told before."""
        copy = self.copy
        if copy is not None:
            mtime_ns = copy.mtime_ns if self.is_changed else known.mtime_ns
            ctime_ns = 0 if self.is_changed else known.ctime_ns
            return replace(known, size=copy.size, mtime_ns=mtime_ns, ctime_ns=ctime_ns)
        return entry_of(known, self.content) if self.is_live else known

    def take(self, content: Reader, known: Entry, writer: Writer | None) -> None:
        """Go on with another content."""
        before = self.content
        self._set(content, known, writer)
        with self._guard:
            if self._calls:
                self._replaced.append(before)
                return
        before.close()

    def in_use(self, call: Callable[[], T]) -> T:
        """`call()`, in a thread; until it has returned, nothing is closed.

        Also of a call that was given up: it would go on with whatever file has the descriptor next.
        """
        with self._guard:
            self._calls += 1
        try:
            return call()
        finally:
            with self._guard:
                self._calls -= 1
                idle = not self._calls
            if idle:
                self._close_idle()

    def close(self) -> None:
        """Close the content now, or leave it to the last call that is out."""
        with self._guard:
            self._closing = True
            idle = not self._calls
        if idle:
            self._close_idle()

    def _close_idle(self) -> None:
        with self._guard:
            replaced, self._replaced = self._replaced, []
        for content in replaced:
            content.close()
        if self._closing:
            self.content.close()
