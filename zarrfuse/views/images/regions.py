"""Arithmetic between ranges of bytes, boxes of an array, and the chunks that boxes touch.

Pure: no arrays, no files. A box is a pair of corners `(low, high)`, `high` not included, one number
for each dimension; elements are in C order. Used by `decode`, `blocks` and `pixels`.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, product
from math import prod
from typing import TypeAlias

Corner: TypeAlias = tuple[int, ...]
Box: TypeAlias = tuple[Corner, Corner]
Slices: TypeAlias = tuple[slice, ...]
"""A box as an index of an array."""


def pieces(shape: Sequence[int], start: int, stop: int) -> list[Box]:
    """The boxes of an array of `shape` that one behind the other are its elements `start:stop`.

    At most two for each dimension but the last, and one more.
    """
    found: list[Box] = []
    if start < stop:
        _add_pieces(tuple(shape), prod(shape), start, stop, (), found)
    return found


def _add_pieces(
    shape: Corner, elements: int, start: int, stop: int, at: Corner, found: list[Box]
) -> None:
    """Add the pieces of the elements `start:stop` of what lies at the coordinates `at`.

    That has so many `elements`, and the dimensions of `shape` behind those of `at`.
    """
    axis = len(at)
    end = tuple([n + 1 for n in at])
    if axis == len(shape) - 1:
        found.append(((*at, start), (*end, stop)))
        return
    below = elements // shape[axis]
    first, head = divmod(start, below)
    last, tail = divmod(stop, below)
    if head and first == last:
        _add_pieces(shape, below, head, tail, (*at, first), found)
        return
    if head:
        _add_pieces(shape, below, head, below, (*at, first), found)
        first += 1
    if first < last:
        inner = shape[axis + 1 :]
        found.append(((*at, first, *(0,) * len(inner)), (*end, last, *inner)))
    if tail:
        _add_pieces(shape, below, 0, tail, (*at, last), found)


def units_of(low: Sequence[int], high: Sequence[int], unit: Sequence[int]) -> Iterator[Corner]:
    """The places in the grid of units that a box touches, in C order."""
    return product(
        *(range(a // u, (b - 1) // u + 1) for a, b, u in zip(low, high, unit, strict=True))
    )


def first_units_of(
    low: Sequence[int], high: Sequence[int], unit: Sequence[int], most: int
) -> Iterator[Corner]:
    """The first `most` of `units_of`; takes no more memory than these, however large the box."""
    ranges = [range(a // u, (b - 1) // u + 1) for a, b, u in zip(low, high, unit, strict=True)]
    return islice(product(*(along[:most] for along in ranges)), most)


def grouped(places: Sequence[Corner], most: int) -> list[Box]:
    """Places of a grid in few boxes, of at most so many places each.

    Neighbours in the last dimension come together first, as a store and a decoder like them.
    """
    boxes = [(place, tuple(n + 1 for n in place)) for place in places]
    if most > 1 and len(boxes) > 1:
        for axis in reversed(range(len(places[0]))):
            boxes = _joined(boxes, axis, most)
    return sorted(boxes)


def _joined(boxes: list[Box], axis: int, most: int) -> list[Box]:
    def order(box: Box) -> tuple[Corner, Corner, Corner, Corner, int]:
        low, high = box
        return low[:axis], high[:axis], low[axis + 1 :], high[axis + 1 :], low[axis]

    boxes.sort(key=order)
    joined = [boxes[0]]
    for low, high in boxes[1:]:
        before, end = joined[-1]
        if (
            end[axis] == low[axis]
            and before[:axis] == low[:axis]
            and end[:axis] == high[:axis]
            and before[axis + 1 :] == low[axis + 1 :]
            and end[axis + 1 :] == high[axis + 1 :]
            and volume(before, high) <= most
        ):
            joined[-1] = before, high
        else:
            joined.append((low, high))
    return joined


def volume(low: Sequence[int], high: Sequence[int]) -> int:
    """The number of elements, or places, in a box."""
    return prod(b - a for a, b in zip(low, high, strict=True))


def common(low: Corner, high: Corner, other_low: Corner, other_high: Corner) -> Box:
    """The box that is in both of two boxes which touch."""
    return tuple(map(max, low, other_low)), tuple(map(min, high, other_high))


def slices(low: Sequence[int], high: Sequence[int], origin: Sequence[int]) -> tuple[slice, ...]:
    """A box as an index of an array whose first element is at `origin`."""
    return tuple([slice(a - o, b - o) for a, b, o in zip(low, high, origin, strict=True)])
