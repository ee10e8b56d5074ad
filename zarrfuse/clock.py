"""The clock by which caches say how old something is.

It runs as the monotonic clock does, until a user wants nothing of before: then it is set forward, and all
that has a time to live counts as old. Used by whatever keeps something for a time; time-outs have the
monotonic clock.
"""

import time

LONGEST_TTL_S = 1e9
"""The longest time to live (s): 31 years. What is kept for longer never counts as old."""

_ahead_s = 0.0


def now() -> float:
    """Seconds by this clock."""
    return time.monotonic() + _ahead_s


def outdate_all() -> None:
    """Set the clock forward."""
    global _ahead_s  # noqa: PLW0603  # one clock for all
    _ahead_s += 2 * LONGEST_TTL_S
