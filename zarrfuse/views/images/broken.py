"""Remembers chunks that cannot be decoded, so that not every read tries again.

A chunk that crashes its worker costs a second or more each time, and programs read a file in many pieces.
Used by `blocks`.
"""

from zarrfuse import caching
from zarrfuse.views.images.regions import Corner
from zarrfuse.views.images.zarr_array import Stamp

_BELIEVED_S = 10.0
_MOST = 1000


class Broken:
    """The errors of chunks, or inner chunks, by their place in the grid. For any thread."""

    def __init__(self) -> None:
        self._known: dict[Corner, tuple[Stamp, float, Exception]] = {}

    def add(self, unit: Corner, stamp: Stamp, now: float, error: Exception) -> None:
        """Remember the error of a chunk that is stored with this size and time."""
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[unit] = stamp, now, error

    def error(self, unit: Corner, stamp: Stamp, now: float) -> Exception | None:
        """The recent error of a chunk, if it is stored with the same size and time."""
        known = self._known.get(unit)
        if known is None or known[0] != stamp or not caching.is_fresh(known[1], _BELIEVED_S, now):
            return None
        return known[2]
