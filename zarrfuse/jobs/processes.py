"""Does work in processes of this machine. Used by `opening`.

Owns how the processes start and end: Ctrl-C is for this process alone, and they end with it, whatever ends
it. They are forked by the fork server of `multiprocessing`, which imports the module of the work once; it
stays until this process ends, and takes no work.

Each process has a pipe and one item at a time. A `ProcessPoolExecutor` has one pipe for all results: a
process that is killed while it writes a result makes its `shutdown` wait forever.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from multiprocessing import connection, forkserver
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

from zarrfuse.errors import JobsFailed
from zarrfuse.jobs.base import A, B
from zarrfuse.jobs.outcome import attempted, packed, result_of

_END_S = 2.0
_SAFE_PATH = "PYTHONSAFEPATH"


class Processes:
    """See `base.Jobs`. The processes start with the first work."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._all: list[_Process] = []
        self._idle: list[_Process] = []

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
        idle, self._idle = self._idle, []
        for process in self._all:
            if process in idle:
                process.dismiss()
            else:
                process.kill()
        for process in self._all:
            process.join()
        self._all = []

    def map(self, work: Callable[[A], B], items: Iterable[A]) -> Generator[B, None, None]:
        """See `base.Jobs`. Processes that are at work when it is given up are killed."""
        packed_work = packed(work)
        todo = iter(items)
        busy: dict[Any, _Process] = {}
        try:
            while True:
                for item in islice(todo, self._count - len(busy)):
                    packed_item = packed(item)
                    process = self._taken(work)
                    busy[process.pipe] = process
                    process.begin(packed_work, packed_item)
                if not busy:
                    return
                for pipe in connection.wait(list(busy)):
                    outcome = busy[pipe].outcome()
                    self._idle.append(busy.pop(pipe))
                    yield result_of(outcome)
        finally:
            for process in busy.values():
                process.kill()
            for process in busy.values():
                process.join()
            self._all = [process for process in self._all if process not in busy.values()]

    def _taken(self, work: Callable[..., Any]) -> "_Process":
        if self._idle:
            return self._idle.pop()
        _start_fork_server(work)
        process = _Process()
        self._all.append(process)
        return process


class _Process:
    """One process that works, and this side of its pipe."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("forkserver")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=[theirs], name="zarrfuse-work")
        self._process.start()
        theirs.close()  # else the pipe does not end with the process

    def begin(self, work: bytes, item: bytes) -> None:
        """Give work to the process, which must have none."""
        try:
            self.pipe.send_bytes(work)
            self.pipe.send_bytes(item)
        except OSError as error:
            raise self._ended() from error

    def outcome(self) -> bytes:
        """Wait for the outcome of the work."""
        try:
            return self.pipe.recv_bytes()
        except (EOFError, OSError) as error:
            raise self._ended() from error

    def dismiss(self) -> None:
        """Let the process end, which must have no work."""
        self.pipe.close()

    def kill(self) -> None:
        """End the process whatever it does."""
        self._process.kill()
        self.pipe.close()

    def join(self) -> None:
        """Wait until the process has ended."""
        self._process.join(_END_S)
        self._process.kill()
        self._process.join()

    def _ended(self) -> JobsFailed:
        self._process.join(_END_S)
        status = self._process.exitcode
        if status is not None and status < 0:
            how = f"was killed ({signal.Signals(-status).name}), perhaps because memory is short"
        else:
            how = f"ended with status {status}"
        return JobsFailed(f"one of the processes that work {how}")


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


def _work(pipe: Connection) -> None:
    """In a process that works: do what arrives, until the other side closes the pipe."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # if another part of the program began the fork server
    threading.Thread(target=_end_with_parent, name="zarrfuse-parent", daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            work = pipe.recv_bytes()
            pipe.send_bytes(attempted(work, pipe.recv_bytes()))


def _end_with_parent() -> None:
    """End this process when its parent ends, also in the middle of work."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
