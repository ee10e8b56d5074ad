"""The encoded inner chunks of a file: copied, or decoded and encoded anew.

Owns in which order and by how many threads they are made; what is in memory at a time is limited.
`stored_chunks` has those that are copied. Used by `run`. It must not know formats of files.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from zarrfuse.exporting.plan import Plan
from zarrfuse.exporting.source import Coords, SourceArray
from zarrfuse.exporting.stored_chunks import READ_BYTES, Stored, StoredChunks, runs
from zarrfuse.shards.layout import MISSING, Extents, grid_of

T = TypeVar("T")

_AHEAD_BYTES = 256 << 20
"""The bytes of decoded pixels, or of encoded ones, that wait to be written, beside those of one call."""
_MOST_AHEAD = 16
_DECODED_BYTES = 4 << 20
"""So many bytes of pixels are decoded at once, if they are more than one unit."""


class Tile(NamedTuple):
    """Encoded bytes of inner chunks; `places`: where they are in the grid of the file.

    `is_missing`: they are not stored in the array, and `data` is what a reader of the file has to see.
    """

    places: Sequence[Coords]
    data: bytes
    is_missing: bool = False


@dataclass(frozen=True)
class Tiles:
    """The inner chunks of a file; those that are not stored are one tile of `made`.

    `most_bytes`: the most bytes that they have together.
    """

    most_bytes: int
    made: Iterator[Tile]


class TileSource:
    """Makes the inner chunks of the files of a plan. For any thread."""

    def __init__(self, plan: Plan, array: SourceArray, executor: Executor) -> None:
        self._plan = plan
        self._array = array
        self._executor = executor
        self._stored = StoredChunks(plan, array)
        self._encode = plan.encoding.encoder() if plan.anew is not None else None
        self._fill = np.frombuffer(array.fill, plan.dtype)[0]
        self._fill_tile: bytes | None = None

    def of(self, coords: Coords, *, alone: bool) -> Tiles | None:
        """The inner chunks of the file at these coordinates; None if no chunk of the array is in it.

        `alone`: no other file is made at the same time, so that several threads make this one.
        """
        if self._plan.anew is None:
            return self._copied(coords, alone)
        return self._anew(coords, alone)

    def _places(self, coords: Coords) -> Iterator[Coords]:
        """The places of inner chunks with pixels of the array in them."""
        shape = self._plan.file_shape(coords)
        return product(*map(range, grid_of(shape, self._plan.inner_shape)))

    def _chunks(self, coords: Coords) -> Iterator[Coords]:
        """The chunks of the array of which pixels are in a file."""
        plan = self._plan
        ranges = (
            range(at * length // chunk, -(-(at * length + real) // chunk))
            for at, length, real, chunk in zip(
                coords,
                plan.chunk_shape,
                plan.file_shape(coords),
                plan.node.chunk_shape,
                strict=True,
            )
        )
        return product(*ranges)

    # -- copied --------------------------------------------------------------------------------

    def _copied(self, coords: Coords, alone: bool) -> Tiles | None:
        plan = self._plan
        per_file = plan.inner_grid
        per_chunk = grid_of(plan.node.chunk_shape, plan.inner_shape)
        stored: dict[Coords, tuple[Extents, Extents]] = {}
        for chunk in self._chunks(coords):
            extents = self._stored.extents(chunk)
            if extents is not None:
                stored[chunk] = extents
        if not stored:
            return None
        missing: list[Coords] = []
        found: list[Stored] = []
        for place in self._places(coords):
            inner = [at * n + i for at, n, i in zip(coords, per_file, place, strict=True)]
            chunk = tuple(i // n for i, n in zip(inner, per_chunk, strict=True))
            extents = stored.get(chunk)
            number = tuple(i % n for i, n in zip(inner, per_chunk, strict=True))
            if extents is None or extents[0][number] == MISSING:
                missing.append(place)
            else:
                found.append(Stored(place, chunk, int(extents[0][number]), int(extents[1][number])))

        def made() -> Iterator[Tile]:
            if missing:
                yield Tile(missing, self._of_fill(), is_missing=True)
            calls = (lambda run=run: self._read(run) for run in runs(found))
            for tiles in self._in_order(calls, alone, READ_BYTES):
                yield from tiles

        size = sum(each.size for each in found)
        if missing:
            size += len(self._of_fill())
        return Tiles(size, made())

    def _read(self, run: Sequence[Stored]) -> list[Tile]:
        """The inner chunks that follow each other in a chunk of the array."""
        encoded = self._stored.read(run)
        return [Tile([each.place], data) for each, data in zip(run, encoded, strict=True)]

    def _of_fill(self) -> bytes:
        """An encoded inner chunk of the fill value."""
        if self._fill_tile is None:
            chunk = np.full(self._plan.inner_shape, self._fill, self._plan.dtype)
            self._fill_tile = self._plan.encoding.encoder()(chunk)
        return self._fill_tile

    # -- anew ----------------------------------------------------------------------------------

    def _anew(self, coords: Coords, alone: bool) -> Tiles | None:
        plan = self._plan
        if not any(map(self._array.has_chunk, self._chunks(coords))):
            return None
        start = [at * length for at, length in zip(coords, plan.chunk_shape, strict=True)]
        shape = plan.file_shape(coords)
        step = self._step(shape)
        calls = (
            lambda low=low: self._encoded(start, low, step, shape)
            for low in product(*(range(0, n, by) for n, by in zip(shape, step, strict=True)))
        )

        def made() -> Iterator[Tile]:
            missing: list[Coords] = []
            for tiles, of_fill in self._in_order(
                calls, alone, 2 * prod(step) * plan.dtype.itemsize
            ):
                yield from tiles
                missing += of_fill
            if missing:
                yield Tile(missing, self._of_fill(), is_missing=True)

        count = prod(grid_of(shape, plan.inner_shape))
        # No compressor that is offered makes more of random bytes than this.
        return Tiles((count + 1) * (plan.inner_bytes + plan.inner_bytes // 64 + 1024), made())

    def _step(self, shape: Coords) -> Coords:
        """What is decoded at once in a file of this shape.

        It holds whole units, so that few are decoded twice, and several small ones: a call of zarr-python
        takes 1 ms.
        """
        plan = self._plan
        whole = [-(-n // inner) * inner for n, inner in zip(shape, plan.inner_shape, strict=True)]
        step = [
            min(-(-unit // inner) * inner, length)
            for unit, inner, length in zip(plan.unit_shape, plan.inner_shape, whole, strict=True)
        ]
        for axis in reversed(range(len(step))):
            times = max(1, _DECODED_BYTES // (prod(step) * plan.dtype.itemsize))
            step[axis] = min(step[axis] * times, whole[axis])
        return tuple(step)

    def _encoded(
        self, start: Sequence[int], low: Coords, step: Coords, shape: Coords
    ) -> tuple[list[Tile], list[Coords]]:
        """(the inner chunks in a box of a file, the places of those of the fill value alone)."""
        assert self._encode is not None
        plan = self._plan
        high = [min(a + by, n) for a, by, n in zip(low, step, shape, strict=True)]
        pixels = self._array.pixels(
            [a + b for a, b in zip(start, low, strict=True)],
            [a + b for a, b in zip(start, high, strict=True)],
        )
        tiles: list[Tile] = []
        of_fill: list[Coords] = []
        first = [a // inner for a, inner in zip(low, plan.inner_shape, strict=True)]
        for number in product(*map(range, grid_of(pixels.shape, plan.inner_shape))):
            box = tuple(
                slice(i * n, (i + 1) * n) for i, n in zip(number, plan.inner_shape, strict=True)
            )
            place = tuple(a + i for a, i in zip(first, number, strict=True))
            tile = self._whole(pixels[box])
            if self._is_fill(tile):
                of_fill.append(place)
            else:
                tiles.append(Tile([place], self._encode(tile)))
        return tiles, of_fill

    def _whole(self, pixels: NDArray[Any]) -> NDArray[Any]:
        """Pixels at the edge of the array as an inner chunk: the fill value is behind it."""
        if pixels.shape == self._plan.inner_shape:
            return np.ascontiguousarray(pixels)
        tile = np.full(self._plan.inner_shape, self._fill, self._plan.dtype)
        tile[tuple(map(slice, pixels.shape))] = pixels
        return tile

    def _is_fill(self, tile: NDArray[Any]) -> bool:
        """Whether all bytes are those of the fill value: 0.0 is not -0.0 here, and a NaN is itself."""
        if not any(self._array.fill):
            return not tile.view(np.uint8).any()
        elements = tile.reshape(-1).view(f"V{tile.dtype.itemsize}")
        return bool((elements == np.frombuffer(self._array.fill, elements.dtype)[0]).all())

    # -- threads -------------------------------------------------------------------------------

    def _in_order(
        self, calls: Iterator[Callable[[], T]], alone: bool, call_bytes: int
    ) -> Iterator[T]:
        """The results of calls, in their order; with `alone` some of them are made ahead, in threads."""
        ahead = min(_MOST_AHEAD, _AHEAD_BYTES // max(1, call_bytes)) if alone else 0
        if ahead < 2:
            for call in calls:
                yield call()
            return
        pending: deque[Future[T]] = deque()
        try:
            for call in islice(calls, ahead):
                pending.append(self._executor.submit(call))
            while pending:
                result = pending.popleft().result()
                for call in islice(calls, 1):
                    pending.append(self._executor.submit(call))
                yield result
        finally:
            for future in pending:
                future.cancel()
