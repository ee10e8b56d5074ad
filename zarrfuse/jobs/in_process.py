"""Does work in this process, one item after the other. Used by `opening`."""

from collections.abc import Callable, Generator, Iterable

from zarrfuse.jobs.base import A, B


class InProcess:
    """See `base.Jobs`."""

    name = "this process"

    def map(self, work: Callable[[A], B], items: Iterable[A]) -> Generator[B, None, None]:
        """See `base.Jobs`."""
        for item in items:
            yield work(item)
