"""A real Dask cluster of two processes on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager

import distributed


@contextmanager
def dask_cluster(workers: int = 2) -> Iterator[str]:
    """The address of its scheduler. It has no dashboard."""
    with distributed.LocalCluster(
        n_workers=workers, threads_per_worker=2, processes=True, dashboard_address=":0"
    ) as cluster:
        yield cluster.scheduler_address
