"""Shrinks large images: each pixel is the mean of the pixels in a box of a grid.

Owns the arithmetic of the means: images come in bands of rows, pixels may be NaN or missing, sums must not
overflow. Used by `plane`. It must not know chunks or colours.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_LARGEST = 1e300
"""The sum of 64 Mi such numbers fits into a float64."""
_AT_ONCE = 1 << 20
"""How many pixels are summed at a time, so that intermediate arrays fit into the CPU's cache."""
_TALL = 16
"""A box with at least so many rows is summed by itself."""


class Shrunk:
    """Images of one shape, of which bands of rows are added, shrunk to `size`, (height, width).

    Each pixel of an image belongs to one box. The boxes are as equal as whole pixels allow: 1025
    rows shrunk to 1024 are one box of two rows and 1023 of one. NaN and infinities count as not
    there. `size` is at most `shape`.
    """

    def __init__(self, images: int, shape: tuple[int, int], size: tuple[int, int]) -> None:
        self._rows, self._columns = (_edges(*pair) for pair in zip(shape, size, strict=True))
        self._sums = np.zeros((images, *size))
        self._lost: NDArray[np.float64] | None = None
        """How many pixels of each box are missing; None if none is."""

    def add(self, image: int, first_row: int, band: NDArray[Any]) -> None:
        """Add rows of an image, whole, from `first_row` on: booleans, integers or floats.

        Each row is to be added once.
        """
        rows, columns = band.shape
        step = max(1, _AT_ONCE // columns)
        boxes = max(1, (len(self._columns) - 1) * _AT_ONCE // columns)
        for row in range(0, rows, step):
            for first in range(0, len(self._columns) - 1, boxes):
                edges = self._columns[first : first + boxes + 1]
                part = band[row : row + step, edges[0] : edges[-1]]
                self._add_numbers(image, first_row + row, first, part)

    def _add_numbers(self, image: int, row: int, box: int, part: NDArray[Any]) -> None:
        """Add pixels from a row and the first column of a box on; columns of whole boxes."""
        if part.dtype.kind == "f":
            there = np.isfinite(part)
            if not there.all():
                part = np.where(there, part, 0)
                self._add(self._lost_of(image), row, box, ~there)
            if part.dtype.itemsize == 8:
                part = np.clip(part, -_LARGEST, _LARGEST)
        self._add(self._sums[image], row, box, part)

    def leave_out(self, image: int, rows: slice, columns: slice) -> None:
        """Count pixels as missing, for which zeros were added."""
        within_rows, within_columns = _within(self._rows, rows), _within(self._columns, columns)
        self._lost_of(image)[...] += np.outer(within_rows, within_columns)

    def means(self) -> NDArray[np.float64]:
        """The means (images, height, width), NaN for a box without pixels. Call it once."""
        pixels = np.outer(np.diff(self._rows), np.diff(self._columns)).astype(np.float64)
        with np.errstate(invalid="ignore"):  # 0 of 0 is the NaN that is wanted
            self._sums /= pixels if self._lost is None else pixels - self._lost
        return self._sums

    def _lost_of(self, image: int) -> NDArray[np.float64]:
        if self._lost is None:
            self._lost = np.zeros_like(self._sums)
        lost: NDArray[np.float64] = self._lost[image]
        return lost

    def _add(self, sums: NDArray[np.float64], row: int, box: int, part: NDArray[Any]) -> None:
        first, last = np.searchsorted(self._rows, (row, row + len(part) - 1), "right") - 1
        starts = np.maximum(self._rows[first : last + 1] - row, 0)
        added = _sums_of_rows(part, starts, _sum_type(part.dtype))
        ends = np.searchsorted(self._columns, self._columns[box] + part.shape[1])
        columns = self._columns[box:ends]
        if len(columns) < part.shape[1]:
            added = np.add.reduceat(added, columns - columns[0], axis=1, dtype=np.float64)
        sums[first : last + 1, box:ends] += added


def _edges(count: int, boxes: int) -> NDArray[np.int64]:
    """Where each of `boxes` boxes of `count` pixels begins, and the end of the last."""
    return np.arange(boxes + 1, dtype=np.int64) * count // boxes


def _within(edges: NDArray[np.int64], pixels: slice) -> NDArray[np.int64]:
    """How many of these pixels are in each box."""
    inside = np.minimum(edges[1:], pixels.stop) - np.maximum(edges[:-1], pixels.start)
    counts: NDArray[np.int64] = np.maximum(inside, 0)
    return counts


def _sum_type(dtype: np.dtype[Any]) -> type[np.generic]:
    """The type for the sum of 2**15 elements: exact, if there is such a type."""
    if dtype.kind == "f" or dtype.itemsize == 8:
        return np.float64
    if dtype.itemsize == 4:
        return np.int64
    return np.int32 if dtype.kind == "i" else np.uint32


def _sums_of_rows(
    band: NDArray[Any], starts: NDArray[np.int64], dtype: type[np.generic]
) -> NDArray[Any]:
    """The rows from each start to the next added up: (starts, columns).

    `np.add.reduceat` along the first axis takes ten times as long (numpy 2.4, 4096 x 4096 uint16).
    """
    if len(starts) == len(band):
        return band.astype(dtype)
    counts = np.diff(starts, append=len(band))
    if counts.max() > _TALL:
        boxes = zip(starts, counts, strict=True)
        return np.stack([band[a : a + n].sum(axis=0, dtype=dtype) for a, n in boxes])
    sums: NDArray[Any] = band[starts].astype(dtype)
    for further in range(1, int(counts.max())):
        longer = counts > further
        if longer.all():
            sums += band[starts + further]
        else:
            sums[longer] += band[starts[longer] + further]
    return sums
