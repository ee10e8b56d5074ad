"""What does work on many items. Implemented by `in_process`, `processes` and `dask_cluster`."""

from collections.abc import Callable, Generator, Iterable
from typing import Protocol, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class Jobs(Protocol):
    """Does work on many items, some of them at the same time. Made by `opening.open_jobs`."""

    @property
    def name(self) -> str:
        """Where the work is done, for messages: "2 processes"."""

    def map(self, work: Callable[[A], B], items: Iterable[A]) -> Generator[B, None, None]:
        """Yield the result of `work` for each item, in the order in which they are completed.

        Args:
            work: A function of a module, or a `functools.partial` of one; it is pickled, and a process may
                run it in several threads at a time.
            items: Can be pickled. Few of them are taken ahead of the results, so there may be any number.

        Raises what the work raises, with its type if it can be pickled; what has not begun is cancelled
        then, and also when the generator is closed. Raises `JobsFailed` if a process that works is killed,
        or the cluster fails.
        """
