"""Chooses where work is done. Used by `indexing` and `check`."""

from collections.abc import Iterator
from contextlib import contextmanager

from zarrfuse.jobs.base import Jobs
from zarrfuse.jobs.in_process import InProcess


@contextmanager
def open_jobs(processes: int = 1, scheduler: str | None = None) -> Iterator[Jobs]:
    """A block in which work can be done; at its end no work goes on, and no process is left that works.

    Args:
        processes: How many processes of this machine work; 1 is this process itself.
        scheduler: The address of the scheduler of a Dask cluster that works instead: `tcp://HOST:PORT`.

    Raises `JobsFailed` if the scheduler does not answer, or distributed is not installed.
    """
    if processes < 1:
        raise ValueError(f"{processes} processes cannot work")
    if scheduler is not None:
        from zarrfuse.jobs.dask_cluster import on_cluster  # noqa: PLC0415  # as below

        with on_cluster(scheduler) as cluster:
            yield cluster
    elif processes == 1:
        yield InProcess()
    else:
        from zarrfuse.jobs.processes import Processes  # noqa: PLC0415  # multiprocessing: 20 ms

        with Processes(processes) as pool:
            yield pool
