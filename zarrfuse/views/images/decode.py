"""Decoded arrays: their elements and their bytes, by boxes.

Used by all renderings. `blocks` decodes and caches, `regions` has the arithmetic.

The last dimension is counted in bytes, so that every range of bytes of a file is a few boxes of the array,
also if it begins or ends within an element.
"""

import errno
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import inf
from typing import Any

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from zarrfuse import caching
from zarrfuse.decoding.messages import Bytes
from zarrfuse.errors import NotSupported
from zarrfuse.spec.coordinates import MOST_AXES
from zarrfuse.stores.cache import ByteCache
from zarrfuse.views.chunks.view import ChunksView
from zarrfuse.views.images.blocks import MOST_AT_ONCE, Block, Blocks, Shared
from zarrfuse.views.images.decode_grid import in_bytes, in_bytes_at
from zarrfuse.views.images.regions import Box, Corner, common, first_units_of, slices, units_of
from zarrfuse.views.images.stored_bytes import ArrayFiles, StoredBytes
from zarrfuse.views.images.types import LARGEST_ELEMENT, array_type
from zarrfuse.views.images.zarr_array import ZarrArray

_ARRAYS_KEPT = 1000


class Decoder:
    """Decodes the arrays of one view. Call `close` after the last read."""

    def __init__(self, chunks: ChunksView, cache: ByteCache) -> None:
        self.chunks = chunks
        self.stored = StoredBytes()
        self.shared = Shared(cache, inf if chunks.store.permanent else chunks.ttl_s)
        self._arrays: LRUCache[str, DecodedArray] = LRUCache(_ARRAYS_KEPT)
        self._lock = threading.Lock()

    def array(self, files: ArrayFiles) -> "DecodedArray":
        """The array of these files: the same object as long as its document is the same.

        Reads and imports nothing. Raises `NotSupported` for elements without a fixed size, and for more
        dimensions than numpy has.
        """
        with self._lock:
            loaded = files.loaded
            array = self._arrays.get(loaded.path)
            if array is None or not (array.loaded is loaded or array.loaded == loaded):
                array = self._arrays[loaded.path] = DecodedArray(self, files)
            return array

    def close(self) -> None:
        """End the threads after their current task."""
        self.shared.threads.shutdown()
        self.stored.close()


class DecodedArray:
    """The decoded elements of one array. For any thread.

    `unit_shape` is the smallest box that is decoded by itself: a chunk, or an inner chunk of a shard.
    """

    def __init__(self, decoder: Decoder, files: ArrayFiles) -> None:
        node = files.node
        dtype = array_type(node)
        self.loaded = files.loaded
        self.path = self.loaded.path
        if dtype is None:
            raise NotSupported(
                f"{self.path or 'the root array'}: its elements have no fixed size that numpy knows"
            )
        if node.ndim > MOST_AXES:
            raise NotSupported(
                f"{self.path or 'the root array'}: it has {node.ndim} dimensions, more than numpy has"
            )
        if dtype.itemsize > LARGEST_ELEMENT:
            raise NotSupported(
                f"{self.path or 'the root array'}: an element has {dtype.itemsize} bytes, "
                f"more than the {LARGEST_ELEMENT} that are decoded"
            )
        self.dtype = dtype
        self.shape = node.shape
        self._zarr = ZarrArray(decoder.stored, files, decoder.chunks.report, dtype)
        self.blocks = Blocks(decoder.shared, self._zarr, node, dtype.itemsize)
        self.unit_shape = self.blocks.unit_shape
        self.byte_shape = in_bytes(self.shape, dtype.itemsize)
        self.byte_unit = in_bytes(self.unit_shape, dtype.itemsize)
        self.capacity_bytes = decoder.shared.cache.capacity_bytes
        """The size of the cache of decoded chunks in bytes, which all arrays share."""

    def check(self, *, wait: bool = True) -> None:
        """Raises `NotSupported` if the array cannot be decoded; see `ZarrArray.check`."""
        self._zarr.check(wait=wait)

    # -- elements ----------------------------------------------------------------------------

    def read(self, box: tuple[slice, ...], *, wait: bool = True) -> NDArray[Any]:
        """The elements of a box: a new C-contiguous array.

        `box` has a slice `start:stop` for each dimension, within the shape. Raises `BlockingIOError` if
        `wait` is false and some of it is not decoded yet, `NotSupported` if the array cannot be decoded,
        and `Corrupt` with the name of the chunk.
        """
        low, high = self._corners(box)
        shape = tuple(b - a for a, b in zip(low, high, strict=True))
        found: NDArray[Any] = np.empty(shape, self.dtype)
        if found.size:
            self._fill_elements(found, low, high, wait)
        return found

    def readinto(self, out: NDArray[Any], box: tuple[slice, ...], *, wait: bool = True) -> None:
        """Write what `read` returns into an array of the shape of the box."""
        low, high = self._corners(box)
        shape = tuple(b - a for a, b in zip(low, high, strict=True))
        if out.shape != shape:
            raise ValueError(f"the box has the shape {shape}, the array for it {out.shape}")
        if not out.size:
            return
        if out.dtype == self.dtype and (not out.ndim or out.strides[-1] == out.itemsize):
            self._fill_elements(out, low, high, wait)
        else:
            out[...] = self.read(box, wait=wait)

    def _corners(self, box: tuple[slice, ...]) -> Box:
        if len(box) != len(self.shape):
            raise ValueError(f"the box has {len(box)} dimensions, the array {len(self.shape)}")
        for part, length in zip(box, self.shape, strict=True):
            if part.step not in (None, 1) or not 0 <= part.start <= part.stop <= length:
                raise ValueError(f"{box} is no box of an array of the shape {self.shape}")
        return tuple(part.start for part in box), tuple(part.stop for part in box)

    def _fill_elements(self, out: NDArray[Any], low: Corner, high: Corner, wait: bool) -> None:
        if not self.shape:
            self.fill(out.reshape(1).view(np.uint8), (0,), self.byte_shape, wait=wait)
            return
        size = self.dtype.itemsize
        self.fill(out.view(np.uint8), in_bytes_at(low, size), in_bytes(high, size), wait=wait)

    # -- bytes -------------------------------------------------------------------------------

    def fill(self, out: Bytes, low: Corner, high: Corner, *, wait: bool = True) -> None:
        """Fill `out`, which has the shape of the box, with bytes of the array.

        The last dimension of the box is in bytes; the box is not empty. Raises as `read`. After
        `BlockingIOError` a part of `out` may be filled.
        """
        units = units_of(low, high, self.byte_unit)
        while some := list(islice(units, MOST_AT_ONCE)):
            self._fill_units(out, low, high, some, wait)
            if not wait and len(some) == MOST_AT_ONCE and next(units, None) is not None:
                raise BlockingIOError(errno.EAGAIN, "many chunks have to be looked at")

    def _fill_units(
        self, out: Bytes, low: Corner, high: Corner, units: list[Corner], wait: bool
    ) -> None:
        """Fill the parts of `out` that lie in these units."""
        now = caching.now()
        blocks = self.blocks
        missing: list[Corner] = []
        last: Block | None = None
        for unit in units:
            block = blocks.at_hand(unit, now) or blocks.current(unit, now, wait=wait)
            if block is not None:
                if block is not last:
                    _copy(out, low, high, block)
                    last = block
            elif blocks.is_absent(unit, now):
                self._copy_fill_value(out, low, high, unit)
            elif wait:
                missing.append(unit)
            else:
                raise BlockingIOError(errno.EAGAIN, "chunks have to be decoded")
        if not missing:
            return
        copied: set[Block] = set()

        def take(unit: Corner, block: Block | None) -> None:
            if block is None:
                self._copy_fill_value(out, low, high, unit)
            elif block not in copied:
                copied.clear()  # so that no more is held than has to be
                copied.add(block)
                _copy(out, low, high, block)

        blocks.bring(missing, take)

    def _copy_fill_value(self, out: Bytes, low: Corner, high: Corner, unit: Corner) -> None:
        value = self.blocks.fill_value
        assert value is not None
        unit_low = tuple(n * u for n, u in zip(unit, self.byte_unit, strict=True))
        unit_high = tuple(a + u for a, u in zip(unit_low, self.byte_unit, strict=True))
        begin, end = common(low, high, unit_low, unit_high)
        part = out[slices(begin, end, low)]
        if value.count(value[:1]) == len(value):
            part[...] = value[0]
            return
        phase = begin[-1] % len(value)
        length = end[-1] - begin[-1]
        row = np.frombuffer(value * (-(-(phase + length) // len(value))), np.uint8)
        part[...] = row[phase : phase + length]

    # -- in order ----------------------------------------------------------------------------

    def decode_ahead(self, low: Corner, high: Corner, is_wanted: Callable[[], bool]) -> None:
        """Have the chunks of a box of bytes, or the first of many, decoded by other threads.

        See `Blocks.decode_ahead`.
        """
        self.blocks.decode_ahead(self._first_units((low, high)), is_wanted)

    def cool(self, passed: Iterable[Box], spared: Iterable[Box]) -> None:
        """Let the cache drop the blocks of the boxes `passed` first, but not those of `spared`."""
        wanted = {unit for box in spared for unit in self._first_units(box)}
        touched = (unit for box in passed for unit in self._first_units(box))
        self.blocks.cool(unit for unit in touched if unit not in wanted)

    def _first_units(self, box: Box) -> Iterator[Corner]:
        return first_units_of(*box, self.byte_unit, MOST_AT_ONCE)


def _copy(out: Bytes, low: Corner, high: Corner, block: Block) -> None:
    begin, end = common(low, high, block.low, block.high)
    out[slices(begin, end, low)] = block.data[slices(begin, end, block.low)]
