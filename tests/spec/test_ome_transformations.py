"""Scales and translations of a pyramid: how they add up, and what a broken one costs."""

import copy
from typing import Any

import pytest
from builders.nodes import array_of
from ome_attributes import MU, NGFF_ZARR, move, only_pyramid, scale, space

from zarrfuse.spec.axes import Axis
from zarrfuse.spec.coordinates import combined
from zarrfuse.spec.ome import Level, picture_of


def test_transformations_of_the_multiscale_come_after_those_of_the_dataset() -> None:
    attributes = copy.deepcopy(NGFF_ZARR)
    multiscale = attributes["ome"]["multiscales"][0]
    multiscale["coordinateTransformations"] = [scale(10, 100), move(1, 2)]
    levels = only_pyramid(attributes).levels
    assert levels[0] == Level("scale0/image", (5.0, 25.0), (101.0, -298.0))
    assert levels[1] == Level("scale1/image", (10.0, 50.0), (103.5, -285.5))


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ([], (None, None)),
        ([None, None], (None, None)),
        ([[]], (None, None)),
        ([[{"type": "identity"}]], (None, None)),
        ([[{"type": "identity"}, scale(2, 3)]], ((2.0, 3.0), None)),
        ([None, [scale(2, 3)]], ((2.0, 3.0), None)),
        ([[scale(2, 3), move(4, 5)]], ((2.0, 3.0), (4.0, 5.0))),
        ([[move(4, 5), scale(2, 3)]], ((2.0, 3.0), (8.0, 15.0))),
        ([[move(4, 5)]], (None, (4.0, 5.0))),
        ([[move(4, 5)], [move(1, 1)]], (None, (5.0, 6.0))),
        ([[scale(2, 3)], [scale(2, 3)]], ((4.0, 9.0), None)),
        ([[scale(2, 3), move(0, 0)]], ((2.0, 3.0), (0.0, 0.0))),
    ],
)
def test_transformations_are_applied_in_order(lists: list[Any], expected: Any) -> None:
    assert combined(lists, None) == expected
    assert combined(lists, 2) == expected


@pytest.mark.parametrize("broken", [0, -1, 0.0, "1", None, True, [1], "NaN", 10**400, float("nan")])
def test_a_broken_scale_costs_its_dimension(broken: Any) -> None:
    assert combined([[scale(2, broken), move(4, 5)]], 2) == ((2.0, None), (4.0, None))
    assert combined([[move(4, 5), scale(2, broken)]], 2) == ((2.0, None), (8.0, None))
    assert combined([[scale(2, broken)], [scale(2, 2)]], 2) == ((4.0, None), None)


@pytest.mark.parametrize("broken", ["1", None, False, [], float("inf"), -(10**400)])
def test_a_broken_translation_costs_a_position(broken: Any) -> None:
    assert combined([[scale(2, 3), move(4, broken)]], 2) == ((2.0, 3.0), (4.0, None))
    assert combined([[move(broken, 4)], [scale(2, 3)]], 2) == ((2.0, 3.0), (None, 12.0))


@pytest.mark.parametrize(
    "broken",
    [move(), move(1), move(1, 2, 3), {"type": "translation"}, {"type": "translation", "path": "t"}],
)
def test_a_translation_without_a_fitting_vector_costs_all_positions(broken: Any) -> None:
    assert combined([[scale(2, 3), broken]], 2) == ((2.0, 3.0), None)
    assert combined([[broken, scale(2, 3), move(1, 1)]], 2) == ((2.0, 3.0), None)


@pytest.mark.parametrize(
    "broken",
    [
        *(scale(), scale(1), scale(1, 2, 3), {"type": "scale"}, {"type": "scale", "path": "0/s"}),
        *({"type": "scale", "scale": 2}, {"type": "rotation", "rotation": [1, 0, 0, 1]}),
        *({"type": ["scale"]}, {"scale": [2, 3]}, {}, None, 1, "scale", [scale(2, 3)]),
    ],
)
def test_no_number_is_told_after_a_transformation_that_is_not_known(broken: Any) -> None:
    assert combined([[scale(2, 3), move(1, 1), broken]], 2) == (None, None)
    assert combined([[scale(2, 3)], [broken]], 2) == (None, None)


@pytest.mark.parametrize("broken", [{}, "scale", 3, True, [scale(1, 1)] * 9])
def test_what_is_no_list_of_a_few_transformations_is_not_known(broken: Any) -> None:
    assert combined([[scale(2, 3)], broken], 2) == (None, None)


def test_numbers_that_leave_the_range_of_floats_are_not_known() -> None:
    assert combined([[scale(1e300, 1e-300), move(1e300, 1)]] * 2, 2) == (None, (None, 1.0))


def test_scales_that_do_not_fit_the_axes_are_left_out() -> None:
    attributes = copy.deepcopy(NGFF_ZARR)
    attributes["ome"]["multiscales"][0]["axes"].insert(0, space("z"))
    assert only_pyramid(attributes).levels[0] == Level("scale0/image")


def test_what_does_not_fit_the_array_counts_as_not_said() -> None:
    pyramid = only_pyramid(NGFF_ZARR)
    picture = picture_of(array_of(9, 9, 9, dimension_names=["t", "q", "r"]), pyramid)
    assert picture == picture_of(array_of(9, 9, 9, dimension_names=["t", "q", "r"]))


@pytest.mark.parametrize("level", [-1, 2, 10**30])
def test_a_level_that_is_not_there_has_no_scale(level: int) -> None:
    picture = picture_of(array_of(9, 9), only_pyramid(NGFF_ZARR), level)
    assert picture.axes[0] == Axis("y", "space", "Y", MU)
