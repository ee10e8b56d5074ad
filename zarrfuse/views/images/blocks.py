"""The decoded blocks of one array: chunks that are decoded together, each once.

Owns which chunks are decoded together, which thread decodes and which wait, how long a block is current,
errors, and decoding ahead. Used by `decode`. `zarr_array` decodes, `regions` has the arithmetic.

A unit is the smallest box that can be decoded by itself. It is named by its place in the grid of units.
The last dimension of blocks is counted in bytes.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Final
from weakref import WeakValueDictionary

import numpy as np

from zarrfuse import caching
from zarrfuse.decoding.memory import available_bytes
from zarrfuse.decoding.messages import Bytes
from zarrfuse.errors import Corrupt, NotSupported, Stale, ZarrfuseError
from zarrfuse.spec.node import ArrayNode
from zarrfuse.stores.cache import ByteCache, Flight, again
from zarrfuse.stores.pool import Budget, Threads
from zarrfuse.views.images.broken import Broken
from zarrfuse.views.images.decode_grid import in_bytes, in_bytes_at, unit_shape
from zarrfuse.views.images.known_absent import AbsentChunks, Bound
from zarrfuse.views.images.regions import Box, Corner, grouped, units_of, volume
from zarrfuse.views.images.types import fill_bytes
from zarrfuse.views.images.zarr_array import Stamp, ZarrArray, no_memory

_BLOCK_BYTES = 8 << 20
"""How many bytes of chunks are decoded together: each call of zarr-python costs 1 ms, and one for inner
chunks of a shard reads the index again."""
MOST_AT_ONCE = 4096
"""How many chunks are checked, decoded or prefetched at once: some arrays have chunks of one element, and
zarr-python makes several objects of 1 KB for each chunk."""
_MOST_TOGETHER = 1024
"""How many chunks are decoded together: after an error each is decoded alone."""
_ALONE_S = 2.0
"""How long chunks of a block are decoded alone (s): each may crash a worker, or take long."""
_CORES = min(16, os.cpu_count() or 2)
_UNDER_WAY_BYTES = max(2, _CORES) * (12 << 20)
"""How many bytes are decoded at one time; a larger block is decoded alone. zarr-python takes up to 3.5
times as much memory."""
_ALWAYS_BYTES, _TIMES = 256 << 20, 3
"""For a larger block so many times its size must be free: a mount that runs out of memory is killed."""
_AHEAD_THREADS = min(4, max(2, _CORES))
"""Each thread decodes several chunks at a time, in threads of zarr-python."""
_MOST_AHEAD = 64
"""How many blocks may wait to be prefetched."""
_TOUCHED_S = 0.02
"""A block that was used so recently (s) is not noted as used again, which takes 1 us."""


class Block:
    """The bytes of chunks that were decoded together: a box of the array.

    `key`: that in the cache. `stamps`: those of the stored chunks before they were read; `checked_at`: when
    they were last compared.
    """

    __slots__ = (
        "__weakref__",
        "checked_at",
        "data",
        "high",
        "key",
        "low",
        "memory",
        "nbytes",
        "stamps",
        "touched_at",
    )

    def __init__(
        self,
        low: Corner,
        high: Corner,
        data: Bytes,
        stamps: dict[Corner, Stamp],
        checked_at: float,
    ) -> None:
        self.key = object()
        self.low = low
        self.high = high
        self.data = data
        self.memory = data.reshape(-1).data
        self.nbytes = data.nbytes
        self.stamps = stamps
        self.checked_at = self.touched_at = checked_at


class _Absent:
    """Stands for chunks that are not stored."""


_ABSENT: Final = _Absent()

_Outcomes = dict[Corner, Block | _Absent | Exception]
"""The results for units."""


class Shared:
    """What the arrays of one view share: the cache, the threads that prefetch, the limits.

    `ttl_s`: seconds until a stored chunk is compared again.
    """

    def __init__(self, cache: ByteCache, ttl_s: float) -> None:
        self.cache = cache
        self.ttl_s = ttl_s
        self.budget = Budget(_UNDER_WAY_BYTES)
        self.threads = Threads(_AHEAD_THREADS, "zarrfuse-ahead")
        self.absent = Bound()
        self.large: Block | None = None
        """The last block that was larger than the cache: programs read it in many pieces."""


class Blocks:
    """The blocks of the array `node`, whose elements have `itemsize` bytes. For any thread."""

    def __init__(self, shared: Shared, zarr: ZarrArray, node: ArrayNode, itemsize: int) -> None:
        self._shared = shared
        self._cache = shared.cache
        self._ttl_s = shared.ttl_s
        self._zarr = zarr
        self._itemsize = itemsize
        self._shape = node.shape
        self.unit_shape = unit_shape(node)
        self.unit_bytes = prod(self.unit_shape) * itemsize
        self._per_chunk = tuple(
            c // u for c, u in zip(node.chunk_shape, self.unit_shape, strict=True)
        )
        self._together = min(_MOST_TOGETHER, max(1, _BLOCK_BYTES // self.unit_bytes))
        self._index: WeakValueDictionary[Corner, Block] = WeakValueDictionary()
        self._absent = AbsentChunks(shared.absent, shared.ttl_s)
        self._broken = Broken()
        self._under_way: dict[Corner, Flight[_Outcomes]] = {}
        self._lock = threading.Lock()
        self.fill_value: bytes | None = fill_bytes(node)
        """One element of the fill value; None as long as only zarr-python knows it."""

    @property
    def is_busy(self) -> bool:
        """Whether a block is being decoded, or waits to be prefetched."""
        return bool(self._under_way or self._shared.threads.waiting)

    # -- at hand -----------------------------------------------------------------------------

    def at_hand(self, unit: Corner, now: float) -> Block | None:
        """The block that holds a unit, if it is cached and need not be compared again."""
        block = self._index.get(unit)
        if block is None or not caching.is_fresh(block.checked_at, self._ttl_s, now):
            return None
        self._touch(block, now)
        return block

    def current(self, unit: Corner, now: float, *, wait: bool) -> Block | None:
        """The block that holds a unit, if it is cached and its stored chunks have not changed.

        `BlockingIOError` as for stores.
        """
        block = self._index.get(unit)
        if block is None:
            return None
        is_fresh = caching.is_fresh(block.checked_at, self._ttl_s, now)
        if not is_fresh and not self._is_current(block, now, wait):
            return None
        self._touch(block, now)
        return block

    def is_absent(self, unit: Corner, now: float) -> bool:
        """Whether a unit is known to be in no stored chunk, and the fill value is known."""
        if not self._absent or self.fill_value is None:
            return False
        return self._absent.has(self._chunk_of(unit), now)

    def _touch(self, block: Block, now: float) -> None:
        self._cache.hits += 1
        if now - block.touched_at > _TOUCHED_S:
            block.touched_at = now
            self._cache.get(block.key)

    # -- to be decoded -----------------------------------------------------------------------

    def bring(self, units: Sequence[Corner], take: Callable[[Corner, Block | None], None]) -> None:
        """Decode units, or wait for threads that do, and call `take` for each; None for an absent one.

        It decodes one box after the other of those that no thread decodes, so that threads that need the
        same chunks share the work. Then it waits for the others. Raises the error of one of them.
        """
        todo = dict.fromkeys(units)
        if len(todo) > self._together:  # the threads that read ahead lend a hand
            self._submit(list(todo)[self._together :], lambda: bool(todo))
        try:
            while todo:
                flight, mine = self._claim(todo)
                if flight is None:
                    outcomes = self._there(todo)
                elif mine:
                    outcomes = self._fly(flight, mine)
                else:
                    outcomes = flight.wait()
                for unit in [unit for unit in todo if unit in outcomes]:
                    outcome = outcomes[unit]
                    if isinstance(outcome, Exception):
                        raise again(outcome)
                    take(unit, outcome if isinstance(outcome, Block) else None)
                    del todo[unit]
        finally:
            todo.clear()  # nobody need lend a hand any more

    def _there(self, units: Iterable[Corner]) -> _Outcomes:
        found = {unit: self._index.get(unit) for unit in units}
        return {unit: block for unit, block in found.items() if block is not None}

    def _claim(self, units: Iterable[Corner]) -> "tuple[Flight[_Outcomes] | None, list[Corner]]":
        """A flight that brings some of these units, and those that the caller has to decode.

        No flight: some are decoded already.
        """
        with self._lock:
            free, other = [], None
            for unit in units:
                flight = self._under_way.get(unit)
                if flight is not None:
                    other = other or flight
                elif self._index.get(unit) is not None:
                    return None, []
                else:
                    free.append(unit)
            if not free:
                return other, []
            mine = _places(grouped(free, self._together)[0])
            flight = Flight()
            self._under_way.update(dict.fromkeys(mine, flight))
            return flight, mine

    def _fly(self, flight: Flight[_Outcomes], units: list[Corner]) -> _Outcomes:
        """Decode these units, and hand the results to all threads that wait for them."""
        kept: list[Block] = []  # as long as it takes to hand them over
        try:
            outcomes = self._decode(units)
            kept = [block for block in outcomes.values() if isinstance(block, Block)]
        except BaseException as error:
            with self._lock:
                self._end(units)
            flight.fail(error)
            raise
        with self._lock:
            for unit, outcome in outcomes.items():
                if isinstance(outcome, Block):
                    self._index[unit] = outcome
            for block in {id(block): block for block in kept}.values():
                self._cache.misses += 1
                if not self._cache.put(block.key, block):
                    self._shared.large = block
            self._end(units)
        flight.land(outcomes)
        return outcomes

    def _end(self, units: Iterable[Corner]) -> None:
        for unit in units:
            del self._under_way[unit]

    # -- decoding ----------------------------------------------------------------------------

    def _decode(self, units: list[Corner]) -> _Outcomes:
        """The result for each of these units, which may be the error of its chunk. Raises other errors."""
        now = caching.now()
        stamps: dict[Corner, Stamp | None] = {}
        outcomes: _Outcomes = {}
        present: list[Corner] = []
        for unit in units:
            chunk = self._chunk_of(unit)
            if chunk not in stamps:
                stamps[chunk] = self._zarr.stamp(chunk)
            stamp = stamps[chunk]
            if stamp is None:
                outcomes[unit] = _ABSENT
                continue
            self._absent.discard(chunk)
            error = self._broken.error(unit, stamp, now)
            if error is None:
                present.append(unit)
            else:
                outcomes[unit] = error
        if _ABSENT in outcomes.values() and self.fill_value is None:
            self.fill_value = self._zarr.fill_value()
        for chunk, stamp in stamps.items():
            if stamp is None:
                self._absent.add(chunk, now)
        for box in grouped(present, len(units)) if present else ():
            self._decode_box(box, stamps, now, outcomes)
        return outcomes

    def _decode_box(
        self, box: Box, stamps: dict[Corner, Stamp | None], now: float, outcomes: _Outcomes
    ) -> None:
        units = _places(box)
        try:
            block = self._block(box, units, stamps, now)
        except Exception as error:
            if len(units) == 1:
                outcomes[units[0]] = bare = _bare(error)
                stamp = stamps[self._chunk_of(units[0])]
                if isinstance(bare, Corrupt) and stamp is not None:
                    self._broken.add(units[0], stamp, caching.now(), bare)
                return
            if isinstance(error, NotSupported | Stale):  # so is all of the array
                raise
            until = time.monotonic() + _ALONE_S
            for unit in units:  # so that only what is broken cannot be read
                self._decode_box((unit, tuple(n + 1 for n in unit)), stamps, now, outcomes)
                if time.monotonic() > until:  # who needs the others comes again
                    return
            return
        outcomes.update(dict.fromkeys(units, block))

    def _block(
        self, box: Box, units: list[Corner], stamps: dict[Corner, Stamp | None], now: float
    ) -> Block:
        unit, size = self.unit_shape, self._itemsize
        low: Corner = ()
        high: Corner = ()
        if self._shape:
            low = tuple(n * u for n, u in zip(box[0], unit, strict=True))
            high = tuple(
                min(n * u, length) for n, u, length in zip(box[1], unit, self._shape, strict=True)
            )
        chunks = {self._chunk_of(unit) for unit in units}
        of_block = {chunk: stamp for chunk in chunks if (stamp := stamps[chunk]) is not None}
        indexes = len(of_block) * self._zarr.index_bytes
        nbytes = volume(low, high) * size
        needed = max(nbytes, self.unit_bytes) + indexes  # of a chunk at the edge all is decoded
        if needed > _ALWAYS_BYTES and needed * _TIMES > available_bytes():
            raise no_memory(needed)
        try:
            with self._shared.budget.taken(nbytes + indexes):
                elements = self._zarr.decode(
                    low, high, list(of_block), len(units) * self.unit_bytes, alone=len(units) == 1
                )
        except MemoryError as error:
            raise no_memory(nbytes) from error
        data = elements.reshape(-1).view(np.uint8)
        byte_low = in_bytes_at(low, size)
        byte_high = in_bytes(high, size)
        data = data.reshape([b - a for a, b in zip(byte_low, byte_high, strict=True)])
        data.flags.writeable = False
        return Block(byte_low, byte_high, data, of_block, now)

    def _chunk_of(self, unit: Corner) -> Corner:
        """The coordinates of the stored chunk that holds a unit."""
        if not self._shape:
            return ()
        return tuple(n // per for n, per in zip(unit, self._per_chunk, strict=True))

    # -- what is stored ----------------------------------------------------------------------

    def _is_current(self, block: Block, now: float, wait: bool) -> bool:
        """Whether the stored chunks of a block have not changed; if they have, it is dropped."""
        for chunk, stamp in block.stamps.items():
            if self._zarr.stamp(chunk, wait=wait) != stamp:
                self._drop(block)
                return False
        block.checked_at = now
        return True

    def _drop(self, block: Block) -> None:
        unit_bytes = in_bytes(self.unit_shape, self._itemsize)
        with self._lock:
            for unit in units_of(block.low, block.high, unit_bytes):
                if self._index.get(unit) is block:
                    del self._index[unit]
            if self._shared.large is block:
                self._shared.large = None
            self._cache.drop(block.key)

    # -- ahead -------------------------------------------------------------------------------

    def decode_ahead(self, units: Iterable[Corner], is_wanted: Callable[[], bool]) -> None:
        """Have other threads decode units, in this order.

        `is_wanted` is called again before each block. Never waits and never raises: an error is raised when
        the unit is read.
        """
        free = [unit for unit in units if unit not in self._index and unit not in self._under_way]
        if free:
            self._submit(free, is_wanted)

    def _submit(self, units: list[Corner], is_wanted: Callable[[], bool]) -> None:
        threads = self._shared.threads
        for box in grouped(units, self._together):
            if threads.waiting >= _MOST_AHEAD:
                return
            try:
                threads.submit(self._ahead, _places(box), is_wanted)
            except RuntimeError:  # closed
                return

    def _ahead(self, units: list[Corner], is_wanted: Callable[[], bool]) -> None:
        now = caching.now()
        todo = [unit for unit in units if not self.is_absent(unit, now)]
        while todo and is_wanted():
            with self._lock:
                todo = [
                    unit
                    for unit in todo
                    if unit not in self._under_way and self._index.get(unit) is None
                ]
            if not todo:
                return
            flight, mine = self._claim(todo)
            if not mine or flight is None:
                return
            self._fly(flight, mine)
            taken = set(mine)
            todo = [unit for unit in todo if unit not in taken]

    def cool(self, units: Iterable[Corner]) -> None:
        """Make the blocks of these units the first that the cache drops, the last of them first."""
        blocks = [self._index.get(unit) for unit in units]
        self._cache.cool(dict.fromkeys(block.key for block in blocks if block is not None))


def _bare(error: Exception) -> Exception:
    """An error without its traceback, which would keep objects such as the index of a shard alive."""
    if isinstance(error, ZarrfuseError | OSError):
        error.__cause__ = error.__context__ = error.__traceback__ = None
    return error


def _places(box: Box) -> list[Corner]:
    return list(units_of(*box, (1,) * len(box[0])))
