"""Boxes, ranges of bytes and places of chunks, against numpy."""

from itertools import product
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zarrfuse.views.images.regions import common, grouped, pieces, slices, units_of, volume

shapes = st.lists(st.integers(1, 5), min_size=1, max_size=5).map(tuple)


@st.composite
def ranges(draw: st.DrawFn) -> tuple[tuple[int, ...], int, int]:
    shape = draw(shapes)
    start = draw(st.integers(0, prod(shape)))
    return shape, start, draw(st.integers(start, prod(shape)))


@given(ranges())
def test_pieces_one_behind_the_other_are_the_range(
    drawn: tuple[tuple[int, ...], int, int],
) -> None:
    shape, start, stop = drawn
    array = np.arange(prod(shape)).reshape(shape)
    found = pieces(shape, start, stop)
    parts = [array[slices(low, high, (0,) * len(shape))].ravel() for low, high in found]
    assert np.array_equal(np.concatenate([np.empty(0), *parts]), np.arange(start, stop))
    assert len(found) <= 2 * len(shape) - 1


def test_whole_rows_are_one_piece() -> None:
    assert pieces((4, 6, 10), 60, 180) == [((1, 0, 0), (3, 6, 10))]
    assert pieces((4, 6, 10), 70, 90) == [((1, 1, 0), (1 + 1, 3, 10))]
    assert pieces((4, 6, 10), 73, 75) == [((1, 1, 3), (2, 2, 5))]


@given(ranges(), st.data())
def test_units_are_those_that_hold_an_element(
    drawn: tuple[tuple[int, ...], int, int], data: st.DataObject
) -> None:
    shape, start, stop = drawn
    unit = tuple(data.draw(st.integers(1, 6)) for _ in shape)
    for low, high in pieces(shape, start, stop):
        elements = product(*(range(a, b) for a, b in zip(low, high, strict=True)))
        places = {tuple(n // u for n, u in zip(e, unit, strict=True)) for e in elements}
        assert sorted(places) == list(units_of(low, high, unit))


@given(st.sets(st.tuples(*[st.integers(0, 4)] * 3), min_size=1), st.integers(1, 30))
def test_groups_hold_each_place_once(places: set[tuple[int, ...]], most: int) -> None:
    boxes = grouped(sorted(places), most)
    held = [place for low, high in boxes for place in units_of(low, high, (1, 1, 1))]
    assert sorted(held) == sorted(places)
    assert all(volume(low, high) <= most for low, high in boxes)


def test_neighbours_are_grouped() -> None:
    grid = list(product(range(2), range(4), range(3)))
    assert grouped(grid, 100) == [((0, 0, 0), (2, 4, 3))]
    assert grouped(grid, 12) == [((0, 0, 0), (1, 4, 3)), ((1, 0, 0), (2, 4, 3))]
    assert len(grouped(grid, 6)) == 4
    assert grouped([(0, 0), (0, 2), (1, 0)], 8) == [((0, 0), (2, 1)), ((0, 2), (1, 3))]


def test_the_common_box_of_two_boxes() -> None:
    assert common((0, 2), (4, 9), (1, 0), (9, 5)) == ((1, 2), (4, 5))
