"""Says whether what was looked up earlier may still be used.

Every cache with a time to live notes the moment of a look-up (`now`, before the store is
asked), and asks `is_fresh` before it uses the result. `clear` makes all of them look up anew,
whatever their time to live: no cache is registered, so none can be forgotten. Time-outs have
nothing to do with it.
"""

import time

_cleared_at = 0.0


def now() -> float:
    """The present moment, in seconds of the monotonic clock."""
    return time.monotonic()


def is_fresh(looked_up_at: float, ttl_s: float, at: float | None = None) -> bool:
    """Whether the result of a look-up may still be used, `ttl_s` seconds after it at most.

    `at`: the present moment, for callers that ask many times in a row.
    """
    return (
        looked_up_at > _cleared_at
        and (time.monotonic() if at is None else at) - looked_up_at < ttl_s
    )


def cleared_at() -> float:
    """The moment of the last `clear`; 0 if there was none."""
    return _cleared_at


def clear() -> None:
    """Let everything that was looked up until now count as old."""
    global _cleared_at  # noqa: PLW0603  # one for all caches of the process
    _cleared_at = time.monotonic()
