"""How long calls took: their number in buckets, each twice as long as the one before. Used by `workers`."""

from collections.abc import Iterator

_LEAST_S = 1e-4
_BUCKETS = 21
"""The last bound is 105 s; the last bucket has what took longer."""


class Latencies:
    """The number of calls that took so long. For one thread."""

    def __init__(self) -> None:
        self._counts = [0] * (_BUCKETS + 1)
        self._sum_s = 0.0

    def add(self, seconds: float) -> None:
        """Count a call."""
        self._counts[min(int(seconds / _LEAST_S).bit_length(), _BUCKETS)] += 1
        self._sum_s += seconds

    def buckets(self) -> Iterator[tuple[float, int]]:
        """(bound in seconds, number of calls that took less), as histograms of Prometheus have them."""
        count = 0
        for number, each in enumerate(self._counts):
            count += each
            yield _LEAST_S * 2**number if number < _BUCKETS else float("inf"), count

    def status(self) -> dict[str, object]:
        """For `status.json`: times in seconds; a percentile is the bound of its bucket."""
        buckets = list(self.buckets())
        count = buckets[-1][1]
        percentiles = {
            f"p{percent}_s": next(
                min(bound, _LEAST_S * 2**_BUCKETS)
                for bound, below in buckets
                if below >= count * percent / 100
            )
            for percent in (50, 90, 99)
        }
        return {
            "calls": count,
            "seconds": round(self._sum_s, 6),
            **(percentiles if count else {}),
            "buckets": [[bound, below] for bound, below in buckets[:-1]],
        }
