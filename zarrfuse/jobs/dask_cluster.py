"""Does work on a Dask cluster. Used by `opening`.

Owns what is asked of a cluster: the workers need the same version of zarrfuse, the scheduler needs none.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from zarrfuse.errors import JobsFailed, text_of
from zarrfuse.jobs.base import A, B
from zarrfuse.jobs.outcome import packed, result_of

if TYPE_CHECKING:
    from distributed import Client, Future

_VERSION: str = import_module("zarrfuse").__version__
"""The root of the package imports layers above this one, so there is no import statement for it here."""
_CONNECT_S = 10.0
_CLOSE_S = 5.0
_LOOK_EVERY_S = 5.0
"""How often the workers are counted."""
_AHEAD = 2
"""Items in flight for each thread of the workers: one that is worked on, and the next one."""
_LEAST_IN_FLIGHT = 32
"""Also if there are few workers: from what waits, an adaptive cluster sees that it needs more."""


@contextmanager
def on_cluster(address: str) -> Iterator["DaskCluster"]:
    """A connection to the Dask scheduler at `address`. Raises `JobsFailed`."""
    try:
        from distributed import Client, Security  # noqa: PLC0415  # takes 1 s
        from distributed.comm import resolve_address  # noqa: PLC0415
    except ImportError as error:
        raise JobsFailed(
            f"the Dask scheduler {address} needs the package distributed: pip install 'zarrfuse[dask]'"
        ) from error
    with _silent_client():
        try:
            # Asked before, since a client that cannot be made takes 20 s to end.
            has_tls = Security().get_connection_args("client").get("ssl_context") is not None
            if resolve_address(address).startswith(("tls://", "wss://")) and not has_tls:
                raise ValueError("for TLS, set distributed.comm.tls in the configuration of Dask")
            client = Client(address, timeout=_CONNECT_S, set_as_default=False)
        except ValueError as error:
            raise JobsFailed(f"the Dask scheduler {address} cannot be used: {error}") from error
        except Exception as error:  # of any kind: from the network, or TLS
            raise JobsFailed(
                f"the Dask scheduler {address} does not answer: {text_of(error)}"
            ) from error
        try:
            yield DaskCluster(client, address)
        finally:
            with suppress(Exception, asyncio.CancelledError):  # the scheduler may be gone
                client.close(_CLOSE_S)


@contextmanager
def _silent_client() -> Iterator[None]:
    """In this block the client logs no errors to stderr: they are raised as `JobsFailed`."""
    logger = logging.getLogger("distributed.client")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


class DaskCluster:
    """See `base.Jobs`. A worker that is lost is replaced by Dask."""

    def __init__(self, client: "Client", address: str) -> None:
        self._client = client
        self.name = f"the Dask cluster {address}"
        self._task = _task()
        self._threads = 0
        self._look_at = 0.0
        self._has_said = False

    def map(self, work: Callable[[A], B], items: Iterable[A]) -> Generator[B, None, None]:
        """See `base.Jobs`."""
        packed_work = packed(work)
        todo = iter(items)
        in_flight: dict[str, Future] = {}
        finished: SimpleQueue[Future] = SimpleQueue()
        try:
            while True:
                for item in islice(todo, self._most_in_flight() - len(in_flight)):
                    packed_item = packed(item)
                    with self._failures():
                        future = self._client.submit(
                            self._task, _VERSION, packed_work, packed_item, pure=False
                        )
                        future.add_done_callback(finished.put)
                    in_flight[future.key] = future
                if not in_flight:
                    return
                done = self._next(finished)
                with self._failures():
                    outcomes = self._client.gather(done)
                for future in done:
                    del in_flight[future.key]
                for outcome in outcomes:
                    if isinstance(outcome, str):
                        raise JobsFailed(outcome)
                    yield result_of(outcome)
        finally:
            if in_flight and self._client.status == "running":
                with suppress(Exception, asyncio.CancelledError):
                    self._client.cancel(list(in_flight.values()))

    def _next(self, finished: "SimpleQueue[Future]") -> "list[Future]":
        """All futures that have finished, at least one."""
        done: list[Future] = []
        while not done:
            try:
                done.append(finished.get(timeout=_LOOK_EVERY_S))
            except Empty:
                self._look()
        with suppress(Empty):
            while True:
                done.append(finished.get_nowait())
        return done

    def _most_in_flight(self) -> int:
        self._look()
        return max(_LEAST_IN_FLIGHT, self._threads * _AHEAD)

    def _look(self) -> None:
        """Count the workers from time to time, and tell once of a cluster that has none."""
        if time.monotonic() < self._look_at:
            return
        if self._client.status != "running":  # it connects again, but has given up all futures
            raise JobsFailed(f"the connection to {self.name} was lost")
        with self._failures():
            self._threads = sum(self._client.nthreads().values())
        self._look_at = time.monotonic() + _LOOK_EVERY_S
        if not self._threads and not self._has_said:
            self._has_said = True
            print(f"zarrfuse: {self.name} has no workers: waiting for one", file=sys.stderr)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Raises `JobsFailed` for what the client raises; the task itself raises nothing."""
        from distributed import KilledWorker  # noqa: PLC0415  # takes 1 s

        try:
            yield
        except KilledWorker as error:
            raise JobsFailed(
                f"on {self.name} several workers were killed over the same work, perhaps because memory is "
                "short"
            ) from error
        except (CancelledError, asyncio.CancelledError) as error:
            raise JobsFailed(f"the connection to {self.name} was lost") from error
        except Exception as error:
            raise JobsFailed(f"{self.name} has failed: {text_of(error)}") from error


def _task() -> Callable[[str, bytes, bytes], bytes | str]:
    """The function that workers run: returns an outcome, or a sentence if the worker cannot work.

    It is a function within a function, so that its code is pickled, not its name: else a scheduler or
    worker without zarrfuse fails before it runs, with an exception that says less.
    """

    def zarrfuse_work(version: str, work: bytes, item: bytes) -> bytes | str:
        import importlib  # noqa: PLC0415  # on the worker
        import socket  # noqa: PLC0415

        host = socket.gethostname()
        try:
            found = importlib.import_module("zarrfuse").__version__
        except ImportError:
            return f"the Dask worker on {host} has no zarrfuse: install zarrfuse {version} on all workers"
        if found != version:
            return (
                f"the Dask worker on {host} has zarrfuse {found}, and {version} is needed: install the "
                "same version everywhere"
            )
        from zarrfuse.jobs.outcome import attempted  # noqa: PLC0415

        return attempted(work, item)

    return zarrfuse_work
