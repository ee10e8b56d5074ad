"""An open file: one object for an inode, shared by all programs that have it open.

Owns the content, and makes sure that it is not closed while a thread uses it. Used by `nodes`, and by the
modules that open, read and store files. It must not know the kernel or views.
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
    """The open file of an inode.

    `content`: the stored file, or its working copy. `writer`: the same, if it can be written. `is_made`: it
    is new, and not stored yet.
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
        """Whether a write failed, so that the working copy must not be stored."""
        self.is_refused = False
        """Whether storing it failed, and a program has got the error."""
        self._storing: trio.Lock | None = None
        self._guard = threading.Lock()
        self._calls = 0
        self._replaced: list[Reader] = []
        self._closing = False

    def _set(self, content: Reader, known: Entry, writer: Writer | None) -> None:
        self.content = content
        self.known = known
        """The stored entry of when it was opened, or stored last."""
        self.writer = writer
        self.copy = writer if type(writer) is WorkingCopy else None
        """The content, if it is a working copy."""
        self.is_live = content.is_live
        """Whether the content is the stored file itself, which others may change in place."""

    @property
    def storing(self) -> trio.Lock:
        """The lock that is held while it is stored, renamed or deleted."""
        if self._storing is None:
            self._storing = trio.Lock()
        return self._storing

    @property
    def is_changed(self) -> bool:
        """Whether it has changes that are not stored."""
        copy = self.copy
        return self.is_broken or (copy is not None and copy.changed)

    @property
    def is_ahead(self) -> bool:
        """Whether the stored file is not up to date with it: it is new, changed, or being stored."""
        if self.writer is None:
            return False
        is_being_stored = self._storing is not None and self._storing.locked()
        return self.is_changed or self.is_made or is_being_stored

    def is_current(self, entry: Entry) -> bool:
        """Whether an entry that was looked up under its name is that of this content."""
        if self.is_ahead or self.is_live:
            return True
        return (entry.size, entry.mtime_ns) == (self.known.size, self.known.mtime_ns)

    def entry(self, known: Entry) -> Entry:
        """Its entry now; `known`: the last one."""
        copy = self.copy
        if copy is not None:
            mtime_ns = copy.mtime_ns if self.is_changed else known.mtime_ns
            ctime_ns = 0 if self.is_changed else known.ctime_ns
            return replace(known, size=copy.size, mtime_ns=mtime_ns, ctime_ns=ctime_ns)
        return entry_of(known, self.content) if self.is_live else known

    def take(self, content: Reader, known: Entry, writer: Writer | None) -> None:
        """Replace the content."""
        before = self.content
        self._set(content, known, writer)
        with self._guard:
            if self._calls:
                self._replaced.append(before)
                return
        before.close()

    def in_use(self, call: Callable[[], T]) -> T:
        """Run `call` in a worker thread. No content is closed before it has returned.

        That holds after its time-out, too: it would go on with the file that gets the same descriptor next.
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
        """Close the content now, or at the end of the last running call."""
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
