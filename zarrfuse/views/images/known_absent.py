"""Which chunks are known not to be stored: they read as the fill value without asking anybody.

Used by `blocks`. Bounded for all arrays of a view together.
"""

import threading
from weakref import WeakSet

from zarrfuse.views.images.regions import Corner

_MOST = 100_000


class Bound:
    """How many chunks all arrays together may know to be absent."""

    def __init__(self) -> None:
        self._of_arrays: WeakSet[AbsentChunks] = WeakSet()
        self._count = 0
        self._lock = threading.Lock()

    def count(self, absent: "AbsentChunks") -> None:
        """`absent` is about to take in another; all forget theirs if these have become too many."""
        with self._lock:
            self._of_arrays.add(absent)
            if self._count >= _MOST:
                for each in self._of_arrays:
                    each.clear()
                self._count = 0
            self._count += 1


class AbsentChunks:
    """The chunks of one array that were not stored when they were last looked for.

    `ttl_s`: how long, in seconds, that is believed. For any thread.
    """

    def __init__(self, bound: Bound, ttl_s: float) -> None:
        self._bound = bound
        self._ttl_s = ttl_s
        self._looked_at: dict[Corner, float] = {}

    def __bool__(self) -> bool:
        """Whether any is known."""
        return bool(self._looked_at)

    def has(self, chunk: Corner, now: float) -> bool:
        """Whether a chunk is known to be absent."""
        looked_at = self._looked_at.get(chunk)
        return looked_at is not None and now - looked_at < self._ttl_s

    def add(self, chunk: Corner, now: float) -> None:
        """A chunk was looked for, and is not stored."""
        if chunk not in self._looked_at:
            self._bound.count(self)
        self._looked_at[chunk] = now

    def discard(self, chunk: Corner) -> None:
        """A chunk is stored."""
        self._looked_at.pop(chunk, None)

    def clear(self) -> None:
        """Forget all of them."""
        self._looked_at.clear()
