"""Remembers chunks that are not stored: they read as the fill value without a store call.

Used by `blocks`. Bounded for all arrays of a view together.
"""

import threading
from weakref import WeakSet

from zarrfuse import caching
from zarrfuse.views.images.regions import Corner

_MOST = 100_000


class Bound:
    """The limit of absent chunks that all arrays together may remember."""

    def __init__(self) -> None:
        self._of_arrays: WeakSet[AbsentChunks] = WeakSet()
        self._count = 0
        self._lock = threading.Lock()

    def count(self, absent: "AbsentChunks") -> None:
        """Count one more in `absent`. At the limit, all arrays forget theirs."""
        with self._lock:
            self._of_arrays.add(absent)
            if self._count >= _MOST:
                for each in self._of_arrays:
                    each.clear()
                self._count = 0
            self._count += 1


class AbsentChunks:
    """The chunks of one array that were not stored when they were looked up; for any thread.

    `ttl_s`: how long a chunk is remembered, in seconds.
    """

    def __init__(self, bound: Bound, ttl_s: float) -> None:
        self._bound = bound
        self._ttl_s = ttl_s
        self._looked_at: dict[Corner, float] = {}

    def __bool__(self) -> bool:
        """Whether any is remembered."""
        return bool(self._looked_at)

    def has(self, chunk: Corner, now: float) -> bool:
        """Whether a chunk is known to be absent."""
        looked_at = self._looked_at.get(chunk)
        return looked_at is not None and caching.is_fresh(looked_at, self._ttl_s, now)

    def add(self, chunk: Corner, now: float) -> None:
        """Remember that a chunk is not stored."""
        if chunk not in self._looked_at:
            self._bound.count(self)
        self._looked_at[chunk] = now

    def discard(self, chunk: Corner) -> None:
        """Forget a chunk, which is stored."""
        self._looked_at.pop(chunk, None)

    def clear(self) -> None:
        """Forget all of them."""
        self._looked_at.clear()
