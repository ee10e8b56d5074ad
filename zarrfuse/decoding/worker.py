"""The process that decodes chunks: zarr-python over bytes that it is given, within a memory limit.

Started by `workers`, which alone knows of stores: here nothing is read. Codecs decode what strangers
wrote. One that crashes ends this process alone, and one that takes more memory or time than the
decoded size explains is stopped by the kernel's limits.
"""

import ast
import asyncio
import gc
import os
import resource
import signal
import socket
import threading
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import numcodecs
import numpy as np
from cachetools import LRUCache

from zarrfuse.decoding.memory import give_back, settle
from zarrfuse.decoding.messages import Bytes, Job, Reply, Wanted, receive, receive_bytes, send
from zarrfuse.errors import text_of

if TYPE_CHECKING:
    from zarrfuse.decoding.brought_store import BroughtStore

_SLACK_BYTES = 96 << 20
"""Memory that a job may take beyond what follows from its size."""
_TIMES = 4
"""zarr-python takes up to 3.5 times the size of what it decodes."""
_OPENING_BYTES, _OPENING_CPU_S = 512 << 20, 30.0
"""What importing the codecs of an array may take."""
_KEPT_BYTES = 64 << 20
"""A worker that has grown by more than this once a job has failed for memory is replaced."""
_NUMCODECS = "numcodecs."
_ARRAYS_KEPT = 256
_THREADS = min(4, os.cpu_count() or 1)
_STACK_BYTES = 2 << 20


def main(descriptor: int) -> None:
    """Answer jobs that arrive at this socket, until the other side closes it."""
    os.chdir("/")  # so that no folder is kept busy
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the daemon, which says when to end
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    settle()
    threading.stack_size(_STACK_BYTES)
    warnings.simplefilter("ignore")
    sock = socket.socket(fileno=descriptor)
    try:
        decoding = _Decoding()
    except Exception as error:  # of a library that does not fit this machine
        send(sock, Reply("failed", text_of(error)))
        return
    send(sock, Reply("done"))
    try:
        while True:
            job = receive(sock, Job)
            with decoding.limited(job):
                brought = {
                    wanted: None if count is None else receive_bytes(sock, count)
                    for wanted, count in job.brought
                }
                reply, payload = decoding.reply(job, brought)
            del brought
            if reply.outcome in ("failed", "memory"):
                decoding.tidy()
            reply.is_last = reply.outcome == "memory" and decoding.has_grown()
            send(sock, reply, payload)
            del payload
    except (EOFError, OSError):
        pass
    os._exit(0)  # nothing is left to be done


class _Decoding:
    """The arrays that have been opened, and the limits of this process."""

    def __init__(self) -> None:
        from zarr.api.asynchronous import open_array  # noqa: PLC0415

        from zarrfuse.decoding.brought_store import BroughtStore, decode_something  # noqa: PLC0415

        self._open = open_array
        self._store_of = BroughtStore
        self._arrays: LRUCache[int, tuple[Any, BroughtStore]] = LRUCache(_ARRAYS_KEPT)
        self._hard_limit = resource.getrlimit(resource.RLIMIT_DATA)[1]
        self._runner = _runner()
        self._runner.run(decode_something())
        self._own_bytes = _data_bytes()

    @contextmanager
    def limited(self, job: Job) -> Iterator[None]:
        """Limits memory and processor time while a job is done. The kernel ends what takes longer."""
        self._limit(_most_bytes(job))
        signal.setitimer(signal.ITIMER_PROF, job.cpu_s)
        yield
        signal.setitimer(signal.ITIMER_PROF, 0)

    def reply(self, job: Job, brought: dict[Wanted, Bytes | None]) -> tuple[Reply, list[Bytes]]:
        """What becomes of a job, and the bytes that follow."""
        store = None
        try:
            array, store = self._opened(job, brought)
            store.brought, store.missing = brought, {}
            if job.is_fill:
                payload = self._is_fill(array)
            elif job.low is None:
                payload = self._checked(array, job)
            else:
                payload = self._elements(array, job.low, job.high or [], job)
            if not store.missing or (job.low is None and not job.is_fill):
                return Reply("done", nbytes=payload.nbytes), [payload]
        except _Answer as answer:
            return answer.reply, []
        except Exception as error:
            self._stop_others()
            if store is None or not store.missing:  # else a codec takes no absent chunk
                if isinstance(error, MemoryError):
                    return Reply("memory", nbytes=_most_bytes(job)), []
                return Reply("failed", text_of(error)), []
        finally:
            if store is not None:
                store.brought = {}
        return Reply("missing", wanted=list(store.missing)), []

    def _opened(self, job: Job, brought: dict[Wanted, Bytes | None]) -> "tuple[Any, BroughtStore]":
        """The array of zarr-python with its store. Raises `_Answer`."""
        known = self._arrays.get(job.array)
        if known is not None:
            return known
        store = self._store_of(brought)
        before = _data_bytes()
        self._limit(_OPENING_BYTES)
        signal.setitimer(signal.ITIMER_PROF, _OPENING_CPU_S)
        try:
            opening = self._open(store=store, mode="r", zarr_format=job.zarr_format)
            array = self._runner.run(opening)
        except MemoryError:
            raise
        except Exception as error:
            if store.missing:
                raise _Answer(Reply("missing", wanted=list(store.missing))) from None
            if isinstance(error, FileNotFoundError):
                raise _Answer(Reply("stale")) from None
            raise _Answer(Reply("refused", text_of(error))) from None
        if array.shape != tuple(job.shape) or (
            not job.is_fill and array.dtype.newbyteorder("<") != _dtype(job)
        ):
            raise _Answer(Reply("stale"))
        self._own_bytes += max(0, _data_bytes() - before)
        self._limit(_most_bytes(job))
        signal.setitimer(signal.ITIMER_PROF, job.cpu_s)
        self._arrays[job.array] = array, store
        return array, store

    def _checked(self, array: Any, job: Job) -> Bytes:
        """An element of the fill value. Raises `_Answer` where zarr-python cannot decode the array.

        Opening an array does not make all of its codecs: some are made when a chunk is decoded, here
        one that is absent, and those of numcodecs only when one is there.
        """
        try:
            for name, configuration in _of_numcodecs(getattr(array.metadata, "codecs", ())):
                numcodecs.get_codec({"id": name, **configuration})
            self._elements(array, [0] * len(job.shape), [min(1, n) for n in job.shape], job)
        except MemoryError:
            raise
        except Exception as error:
            raise _Answer(Reply("refused", text_of(error))) from None
        value = array.metadata.fill_value
        if value is None:  # null in Zarr v2: zarr-python fills with what the type has for it
            value = array.metadata.dtype.default_scalar()
        return np.frombuffer(np.array(value, _dtype(job)).tobytes(), np.uint8)

    def _elements(self, array: Any, low: list[int], high: list[int], job: Job) -> Bytes:
        selection = tuple(map(slice, low, high)) if low else ...
        found = np.asarray(self._runner.run(array.getitem(selection)))
        elements = np.ascontiguousarray(found.astype(_dtype(job), copy=False)).reshape(-1)
        return cast("Bytes", elements.view(np.uint8))

    def _is_fill(self, array: Any) -> Bytes:
        """One byte: 1 if all elements are the fill value, bit for bit."""
        found = np.asarray(self._runner.run(array.getitem(...)))
        value = array.metadata.fill_value
        if found.dtype.hasobject or found.dtype.kind == "T":  # strings of any length
            are = found == value
        else:
            fill = np.array(value, found.dtype).tobytes()
            elements = np.ascontiguousarray(found).reshape(-1).view(np.uint8)
            are = elements.reshape(found.size, -1) == np.frombuffer(fill, np.uint8)
        return np.array([np.all(are)], np.uint8)

    def _stop_others(self) -> None:
        """Wait for the chunks that are decoded beside one that failed: they take memory, too."""
        self._runner.close()
        self._runner = _runner()

    def tidy(self) -> None:
        """Free what the tracebacks of a failed job hold in reference cycles: the limit counts it."""
        gc.collect()
        give_back()

    def _limit(self, more_bytes: int) -> None:
        """Let this process take so many bytes more than it needs for itself."""
        limit = self._own_bytes + more_bytes
        if self._hard_limit != resource.RLIM_INFINITY:
            limit = min(limit, self._hard_limit)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, self._hard_limit))

    def has_grown(self) -> bool:
        """Whether jobs have left behind memory that is not given back."""
        return _data_bytes() > self._own_bytes + _KEPT_BYTES


def _runner() -> asyncio.Runner:
    """Runs what zarr-python does, with few threads for its codecs."""
    runner = asyncio.Runner()
    runner.get_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
    return runner


def _most_bytes(job: Job) -> int:
    """The memory that a job may take."""
    brought = sum(count or 0 for _, count in job.brought)
    return _SLACK_BYTES + _TIMES * job.needed_bytes + 2 * brought


def _dtype(job: Job) -> np.dtype[Any]:
    return np.lib.format.descr_to_dtype(ast.literal_eval(job.dtype))


class _Answer(Exception):
    """Ends a job with a reply."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self.reply = reply


def _of_numcodecs(codecs: Iterable[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and configuration of the codecs that numcodecs has to make, those in shards included."""
    for codec in codecs:
        written = codec.to_dict()
        if written["name"].startswith(_NUMCODECS):
            yield written["name"].removeprefix(_NUMCODECS), written.get("configuration", {})
        for name in ("codecs", "index_codecs"):
            yield from _of_numcodecs(getattr(codec, name, ()))


def _data_bytes() -> int:
    """What RLIMIT_DATA limits: memory that only this process can write to."""
    with open("/proc/self/statm", "rb", buffering=0) as file:
        return int(file.read().split()[5]) * resource.getpagesize()
