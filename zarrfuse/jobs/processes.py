"""Does work in processes of this machine. Used by `opening`.

Owns how the processes start and end: Ctrl-C is for this process alone, and they end with it, whatever ends
it. They are forked by the fork server of `multiprocessing`, which imports the module of the work once; it
stays until this process ends, and takes no work.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import islice
from multiprocessing import connection, forkserver
from types import TracebackType
from typing import Any

from zarrfuse.errors import JobsFailed
from zarrfuse.jobs.base import A, B
from zarrfuse.jobs.outcome import attempted, packed, result_of

_AHEAD = 2
"""Items in flight for each process: one that is worked on, and the next one."""
_SAFE_PATH = "PYTHONSAFEPATH"


class Processes:
    """See `base.Jobs`. The processes start with the first work."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool: ProcessPoolExecutor | None = None
        self._in_flight: set[Future[bytes]] = set()

    @property
    def name(self) -> str:
        """See `base.Jobs`."""
        return f"{self._count} processes"

    def __enter__(self) -> "Processes":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pool, self._pool = self._pool, None
        if pool is None:
            return
        if any(not future.done() for future in self._in_flight):
            _kill(pool)
        pool.shutdown(wait=True, cancel_futures=True)

    def map(self, work: Callable[[A], B], items: Iterable[A]) -> Generator[B, None, None]:
        """See `base.Jobs`."""
        pool = self._started(work)
        packed_work = packed(work)
        todo = iter(items)
        mine: set[Future[bytes]] = set()
        try:
            while True:
                for item in islice(todo, self._count * _AHEAD - len(mine)):
                    future = self._submitted(pool, packed_work, packed(item))
                    mine.add(future)
                    self._in_flight.add(future)
                if not mine:
                    return
                done, mine = wait(mine, return_when=FIRST_COMPLETED)
                self._in_flight -= done
                for future in done:
                    yield result_of(self._outcome(future))
        finally:
            # One that has begun stays in `_in_flight`: at the end of the block its process is killed.
            self._in_flight -= {future for future in mine if future.cancel()}

    def _started(self, work: Callable[..., Any]) -> ProcessPoolExecutor:
        if self._pool is None:
            _start_fork_server(work)
            self._pool = ProcessPoolExecutor(
                self._count,
                mp_context=multiprocessing.get_context("forkserver"),
                initializer=_prepare_process,
            )
        return self._pool

    def _submitted(self, pool: ProcessPoolExecutor, work: bytes, item: bytes) -> Future[bytes]:
        try:
            return pool.submit(attempted, work, item)
        except BrokenProcessPool as error:
            raise self._killed() from error

    def _outcome(self, future: Future[bytes]) -> bytes:
        try:
            return future.result()
        except BrokenProcessPool as error:
            raise self._killed() from error

    def _killed(self) -> JobsFailed:
        return JobsFailed(
            f"one of the {self.name} that work was killed, perhaps because memory is short: try fewer"
        )


def _kill(pool: ProcessPoolExecutor) -> None:
    """End the processes of a pool, whatever they do. Python 3.14 has `kill_workers` for that."""
    for process in list((pool._processes or {}).values()):
        process.kill()


def _start_fork_server(work: Callable[..., Any]) -> None:
    """Start the fork server, which imports the module of `work`, unless it runs already."""
    while isinstance(work, partial):
        work = work.func
    module = getattr(work, "__module__", None) or __name__
    if module != "__main__":
        forkserver.set_forkserver_preload([__name__, module])
    with _sigint_blocked(), _safe_path():
        forkserver.ensure_running()


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """A process that is started in this block, and its children, never get SIGINT."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _safe_path() -> Iterator[None]:
    """Python that is started in this block does not import from the current folder, maybe a stranger's."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


def _prepare_process() -> None:
    """In a process that works, before its first work."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # if another part of the program began the fork server
    threading.Thread(target=_end_with_parent, name="zarrfuse-parent", daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent ends: it would wait for work forever if that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
