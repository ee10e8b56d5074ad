"""The bytes of remote objects, in blocks that are cached in memory and on disk.

Used by `reading` and `store`. Owns how blocks become requests: each block is fetched once for all who want
it (single-flight), and neighbours in one request.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from zarrfuse.stores.cache import ByteCache
from zarrfuse.stores.remote.calls import Calls
from zarrfuse.stores.remote.disk import BLOCK_BYTES, DiskBlocks
from zarrfuse.stores.remote.requests import Found, Requests, TryAgain

_BLOCKS_A_REQUEST = 4
_AHEAD_BYTES = 64 << 20
_DISK_THREADS = 2
_MOST_UNWRITTEN = 64  # blocks that wait to be written to the disk; more are not kept there


@dataclass(frozen=True, slots=True)
class Remote:
    """An object whose blocks are cached; `opening`: of one that cannot be told apart, a number."""

    path: str
    found: Found
    opening: int = 0

    @property
    def blocks(self) -> int:
        """The number of its blocks."""
        return -(-self.found.size // BLOCK_BYTES)


class Blocks:
    """The blocks of the objects of one store. What is `at_hand` is for any thread, the rest for the loop.

    `store_id`: names the store on the disk, which others share.
    """

    def __init__(
        self,
        requests: Requests,
        calls: Calls,
        cache: ByteCache,
        disk: DiskBlocks | None,
        store_id: str,
    ) -> None:
        self._requests = requests
        self._calls = calls
        self.cache = cache
        self._disk = disk
        self._store_id = store_id
        self._threads = ThreadPoolExecutor(_DISK_THREADS, "zarrfuse-disk") if disk else None
        self._unwritten = threading.Semaphore(_MOST_UNWRITTEN)
        self._flights: dict[tuple[Remote, int], asyncio.Future[memoryview]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ahead_bytes = 0
        self._most_ahead = min(_AHEAD_BYTES, cache.capacity_bytes // 2)

    def at_hand(self, remote: Remote, index: int) -> memoryview | None:
        """A block that is in memory, or None."""
        block: memoryview | None = self.cache.get((remote, index))
        return block

    def read_from_disk(
        self, remote: Remote, index: int, buffer: memoryview, offset: int, *, wait: bool
    ) -> bool:
        """Fill `buffer` with bytes of a block, from `offset` in it on, if it is on the disk.

        What was read from the disk the kernel keeps, twice: it is not put into memory here.
        """
        if self._disk is None or not self._is_kept(remote):
            return False
        size = min(BLOCK_BYTES, remote.found.size - index * BLOCK_BYTES)
        return self._disk.readinto(self._name(remote, index), size, buffer, offset, wait=wait)

    @property
    def for_nothing(self) -> int:
        """How many blocks arrive in the time that a request takes for its way."""
        return self._calls.bytes_for_nothing // BLOCK_BYTES

    async def fetch(
        self, remote: Remote, wanted: range, around: range = range(0)
    ) -> dict[int, memoryview]:
        """Blocks by number; then fetch those `around` them ahead.

        Raises what the request raises: `Stale` if there is another object now.
        """
        blocks: dict[int, memoryview] = {}
        flights: dict[int, asyncio.Future[memoryview]] = {}
        missing: list[int] = []
        for index in wanted:
            block = self.at_hand(remote, index)
            if block is not None:
                blocks[index] = block
                continue
            flight = self._flights.get((remote, index))
            if flight is None:
                flight = self._flights[remote, index] = asyncio.get_running_loop().create_future()
                missing.append(index)
            flights[index] = flight
        for run in _runs(missing):
            self._start(self._fill(remote, run))
        if around:
            self._start(self.fetch_ahead(remote, around))
        for index, flight in flights.items():
            blocks[index] = await asyncio.shield(flight)
        return blocks

    async def fetch_ahead(self, remote: Remote, wanted: range) -> None:
        """Begin to fetch blocks, as far as there is room. Errors are raised when they are read."""
        if self._disk is not None and self._is_kept(remote):
            loop = asyncio.get_running_loop()
            wanted = await loop.run_in_executor(self._threads, self._not_on_disk, remote, wanted)
        room = (self._most_ahead - self._ahead_bytes) // BLOCK_BYTES
        wanted = wanted[: max(0, room)]
        taken = len(wanted) * BLOCK_BYTES
        self._ahead_bytes += taken
        try:
            await self.fetch(remote, wanted)
        except Exception:  # whoever reads it asks again, and is told
            return
        finally:
            self._ahead_bytes -= taken

    def forget(self, remote: Remote) -> None:
        """Drop the blocks of an object from memory."""
        self.cache.drop_all(lambda key: isinstance(key, tuple) and key[0] == remote)

    def close(self) -> None:
        """Stop the threads of the disk; what is being written is finished."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do work in a task, which the loop itself would not keep."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fill(self, remote: Remote, run: range) -> None:
        """Land the flights of neighbouring blocks."""
        try:
            await self._from_server(remote, run)
        except BaseException as error:
            for index in run:
                flight = self._flights.pop((remote, index), None)
                if flight is not None and not flight.done():
                    flight.set_exception(error)
                    flight.exception()  # perhaps nobody waits for it
            if not isinstance(error, Exception):
                raise

    async def _from_server(self, remote: Remote, run: range) -> None:
        path, found = remote.path, remote.found
        start, stop = run.start * BLOCK_BYTES, min(run.stop * BLOCK_BYTES, found.size)

        async def once() -> memoryview:
            data = memoryview(await self._requests.get(path, start, stop, found)).cast("B")
            if len(data) != stop - start:
                raise TryAgain(
                    f"{path}: {len(data)} bytes came where {stop - start} were asked for"
                )
            return data

        data = await self._calls.call(path, once, nbytes=stop - start)
        for index in run:
            at = index * BLOCK_BYTES - start
            # A copy, since the answer is in memory as long as one of its blocks.
            block = data if len(run) == 1 else memoryview(bytes(data[at : at + BLOCK_BYTES]))
            self._land(remote, index, block)
            threads = self._threads if self._is_kept(remote) else None
            if threads is not None and self._unwritten.acquire(blocking=False):
                threads.submit(self._write, self._name(remote, index), block)

    def _not_on_disk(self, remote: Remote, wanted: range) -> range:
        """The blocks from the first to the last that is not on the disk."""
        assert self._disk is not None
        missing = [n for n in wanted if not self._disk.has(self._name(remote, n))]
        return range(missing[0], missing[-1] + 1) if missing else range(0)

    def _write(self, name: str, block: memoryview) -> None:
        assert self._disk is not None
        try:
            self._disk.put(name, block)
        finally:
            self._unwritten.release()

    def _land(self, remote: Remote, index: int, block: memoryview) -> None:
        self.cache.put((remote, index), block)
        flight = self._flights.pop((remote, index))
        if not flight.done():
            flight.set_result(block)

    def _is_kept(self, remote: Remote) -> bool:
        # Whoever says that nothing changes while it is mounted does not say so of the next mount.
        return not remote.opening and remote.found.is_certain

    def _name(self, remote: Remote, index: int) -> str:
        found = remote.found
        parts = (self._store_id, remote.path, found.version, found.size, found.mtime_ns, index)
        return "\0".join(map(str, parts))


def _runs(indices: Iterable[int]) -> Iterator[range]:
    """Neighbours, as many as one request fetches."""
    run = range(0)
    for index in indices:
        if run and index == run.stop and len(run) < _BLOCKS_A_REQUEST:
            run = range(run.start, index + 1)
            continue
        if run:
            yield run
        run = range(index, index + 1)
    if run:
        yield run
