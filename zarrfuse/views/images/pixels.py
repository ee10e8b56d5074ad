"""The pixels of an array, or of a box of it, as a reader of bytes.

Owns the way from ranges of bytes to boxes, and prefetching: when the bytes are read in order, the next
chunks are decoded ahead. Used by the files of the `images` view.
"""

import threading
from math import prod

import numpy as np

from zarrfuse import caching
from zarrfuse.stores.base import Reader
from zarrfuse.views.images.decode import DecodedArray
from zarrfuse.views.images.regions import Box, Corner, pieces

_RUN_BYTES = 3 << 20
"""How many bytes are read in order before the next ones are prefetched: a window of an image is less."""
_OUT_OF_ORDER = 3
"""The kernel sends several requests at a time: one may come so many of its sizes too early."""
_LATE = 2
"""A late request may lie so many of its sizes behind."""
_LEAST_AHEAD_BYTES = 32 << 20
_AHEAD_SHARE = 4
"""How much of the cache may be prefetched, as a fraction."""
_STEPS = 4
"""More is prefetched after this fraction of what was prefetched has been read."""
_FEW_ROWS = 4
"""At most so many rows of a chunk are copied one by one."""
_BEHIND_BYTES = 4 << 20
"""A request that is at most so late (bytes) still counts as in order."""


class Pixels(Reader):
    """The bytes of a box of an array in C order, little endian; see `stores.base.Reader`.

    `box`: a slice `start:stop` for each dimension, or None for all of it. `ahead`: whether chunks are
    prefetched when the bytes are read in order.
    """

    __slots__ = (
        "_ahead",
        "_ahead_bytes",
        "_ahead_to",
        "_array",
        "_closed",
        "_cooled_to",
        "_cools",
        "_few_bytes",
        "_frontier",
        "_leading",
        "_lock",
        "_origin",
        "_run",
        "_run_bytes",
        "_shape",
        "mtime_ns",
        "size",
    )

    def __init__(
        self, array: DecodedArray, box: tuple[slice, ...] | None, mtime_ns: int, *, ahead: bool
    ) -> None:
        self._array = array
        itemsize = array.dtype.itemsize
        if box is None or not array.shape:
            self._origin: Corner = (0,) * len(array.byte_shape)
            self._shape = array.byte_shape
        else:
            low = [part.start for part in box]
            lengths = [part.stop - part.start for part in box]
            self._origin = (*low[:-1], low[-1] * itemsize)
            self._shape = (*lengths[:-1], lengths[-1] * itemsize)
        self.size = prod(self._shape)
        self.mtime_ns = mtime_ns
        self._leading = tuple(reversed(range(len(self._shape) - 1)))
        self._few_bytes = _FEW_ROWS * min(self._shape[-1], array.byte_unit[-1])
        self._ahead = ahead
        self._ahead_bytes, self._cools = self._plan()
        self._closed = False
        self._lock = threading.Lock()
        self._run = 0  # counts the runs of reads in order: prefetching for an old one is cancelled
        self._run_bytes = 0
        self._frontier = self._ahead_to = self._cooled_to = 0

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `stores.base.Reader`. Raises what `DecodedArray.read` does."""
        count = len(buffer)
        if wait:
            self._note(offset, count)
        if count > self._few_bytes or not self._copy_rows(buffer, offset, count):
            self._copy_boxes(buffer, offset, wait)
        if not wait:
            self._note(offset, count)

    def _copy_rows(self, buffer: memoryview, offset: int, count: int) -> bool:
        """Fill the buffer row by row, if all of it is cached; returns whether it was.

        For a few rows this takes a fifth of the time that copying boxes takes.
        """
        blocks, shape, unit = self._array.blocks, self._shape, self._array.byte_unit
        width, first = shape[-1], self._origin[-1]
        now = caching.now()
        filled = 0
        while filled < count:
            row, column = divmod(offset + filled, width)
            at = [first + column]
            rest = count - filled if count - filled < width - column else width - column
            for axis in self._leading:
                row, n = divmod(row, shape[axis])
                at.append(n + self._origin[axis])
            at.reverse()
            block = blocks.at_hand(tuple([n // u for n, u in zip(at, unit, strict=True)]), now)
            if block is None:
                return False
            begin = 0
            for n, a, b in zip(at, block.low, block.high, strict=True):
                begin = begin * (b - a) + n - a
            length = min(rest, block.high[-1] - at[-1])
            buffer[filled : filled + length] = block.memory[begin : begin + length]
            filled += length
        return True

    def _copy_boxes(self, buffer: memoryview, offset: int, wait: bool) -> None:
        out = np.frombuffer(buffer, np.uint8)
        filled = 0
        for low, high in pieces(self._shape, offset, offset + len(out)):
            lengths = [b - a for a, b in zip(low, high, strict=True)]
            count = prod(lengths)
            self._array.fill(
                out[filled : filled + count].reshape(lengths),
                *self._in_array(low, high),
                wait=wait,
            )
            filled += count

    def close(self) -> None:
        """Nothing more is decoded ahead."""
        self._closed = True

    def _in_array(self, low: Corner, high: Corner) -> Box:
        origin = self._origin
        return (
            tuple([a + o for a, o in zip(low, origin, strict=True)]),
            tuple([b + o for b, o in zip(high, origin, strict=True)]),
        )

    def _boxes(self, start: int, stop: int) -> list[Box]:
        """The boxes of the array that hold the bytes `start:stop`."""
        start, stop = max(0, start), min(stop, self.size)
        return [self._in_array(low, high) for low, high in pieces(self._shape, start, stop)]

    # -- in order ----------------------------------------------------------------------------

    def _plan(self) -> tuple[int, bool]:
        """(bytes to prefetch, whether chunks are needed again that the cache cannot hold).

        A row of chunks of one plane is needed for each of its rows of pixels. If chunks are several planes
        deep, all chunks of a plane are needed again for the next plane.
        """
        unit = [min(u, n) for u, n in zip(self._array.byte_unit, self._shape, strict=True)]
        row_bytes, deep = prod(unit), 1
        largest = 0
        for axis, length in enumerate(self._shape):
            inner = prod(self._shape[axis + 1 :])
            is_split = inner > prod(unit[axis + 1 :])
            if is_split and unit[axis] > 1:
                largest = max(largest, prod(unit[: axis + 1]) * inner)
            if is_split and length:
                row_bytes, deep = unit[axis] * inner, prod(unit[:axis])
        capacity = self._array.capacity_bytes
        cools = largest > capacity * 3 // 4
        share = 2 * _AHEAD_SHARE if cools else _AHEAD_SHARE  # what is kept is worth more then
        most = capacity // (share * max(1, deep))
        return min(max(row_bytes, _LEAST_AHEAD_BYTES), most), cools

    def _note(self, offset: int, count: int) -> None:
        """Note a read; if reads are in order, prefetch, and let the cache drop what was read."""
        if not (self._ahead or self._cools):
            return
        with self._lock:
            frontier, end = self._frontier, offset + count
            slack = _OUT_OF_ORDER * count
            if frontier - max(slack, _BEHIND_BYTES) <= offset <= frontier + slack:
                if end > frontier:
                    self._run_bytes += min(count, end - frontier)
                    self._frontier = end
            else:
                self._run += 1
                self._run_bytes = count
                self._frontier = self._ahead_to = self._cooled_to = end
            if self._run_bytes < _RUN_BYTES:
                return
            frontier = self._frontier
            target = min(self.size, frontier + self._ahead_bytes)
            begin = max(self._ahead_to, frontier)
            step = self._ahead_bytes // _STEPS
            if target - begin < step and not (target == self.size and begin < target):
                return
            self._ahead_to = target
            run = self._run
            cooled_from = self._cooled_to
            cooled_to = max(cooled_from, frontier - _LATE * count)
            self._cooled_to = cooled_to
        if self._cools and cooled_from < cooled_to:
            self._array.cool(self._boxes(cooled_from, cooled_to), self._boxes(cooled_to, target))
        if self._ahead:
            for low, high in self._boxes(begin, target):
                self._array.decode_ahead(low, high, lambda: not self._closed and self._run == run)
