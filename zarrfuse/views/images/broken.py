"""Which chunks cannot be decoded, so that not every read tries once more.

Owns how long that is believed. Used by `blocks`. A chunk that takes its process down costs a second and
more at each try, and programs read a file in many pieces.
"""

from zarrfuse.views.images.regions import Corner
from zarrfuse.views.images.zarr_array import Stamp

_BELIEVED_S = 10.0
_MOST = 1000


class Broken:
    """Chunks, or inner chunks, that could not be decoded, by their place. For any thread."""

    def __init__(self) -> None:
        self._known: dict[Corner, tuple[Stamp, float, Exception]] = {}

    def add(self, unit: Corner, stamp: Stamp, now: float, error: Exception) -> None:
        """Take note of what went wrong with a chunk that is stored with this size and time."""
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[unit] = stamp, now, error

    def error(self, unit: Corner, stamp: Stamp, now: float) -> Exception | None:
        """What went wrong a moment ago, if the chunk is stored as it was then."""
        known = self._known.get(unit)
        if known is None or known[0] != stamp or now - known[1] > _BELIEVED_S:
            return None
        return known[2]
