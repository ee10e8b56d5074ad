"""Pyramids and pictures as programs write them: axes, levels, scales, channels; and those of ZEP 10."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from builders.documents import extension
from builders.nodes import array_of
from ome_attributes import (
    BIOFORMATS2RAW,
    IDR,
    IDR_FIRST,
    MU,
    NAMED_AXES,
    NGFF_ZARR,
    OME_ZARR_PY,
    changed,
    letters,
    only_pyramid,
    scaled,
    space,
    v2_array,
    v2_group,
    v3_group,
)

from zarrfuse.spec.active import below
from zarrfuse.spec.axes import Axis
from zarrfuse.spec.node import GroupNode, Node
from zarrfuse.spec.node_v2 import parse_v2_group
from zarrfuse.spec.ome import Channel, Level, Picture, Pyramid, level_of, picture_of, pyramids_of
from zarrfuse.spec.references import resolve

BIOFORMATS2RAW_ROOT: dict[str, Any] = {"bioformats2raw.layout": 3}
LABELS: dict[str, Any] = {  # a segmentation
    "ome": {
        "version": "0.5",
        "multiscales": [
            {"axes": [space("y"), space("x")], "datasets": [scaled("0", 0.2, 0.2)], "name": "cells"}
        ],
        "image-label": {"colors": [{"label-value": 1, "rgba": [255, 255, 255, 0]}]},
    }
}
PLATE: dict[str, Any] = {
    "ome": {
        "version": "0.5",
        "plate": {"columns": [{"name": "1"}], "rows": [{"name": "A"}], "wells": [{"path": "A/1"}]},
    }
}
WELL: dict[str, Any] = {"well": {"images": [{"path": "0", "acquisition": 1}], "version": "0.4"}}


# -- as it is written


@pytest.mark.parametrize("group", [v2_group, v3_group])
def test_a_picture_of_idr(group: Callable[[Any], GroupNode]) -> None:
    (pyramid,) = pyramids_of(group(IDR))
    assert [level.path for level in pyramid.levels] == ["0", "1", "2"]
    assert pyramid.levels[1].scale == (1.0, 0.5002025531914894, *[0.7207963069280418] * 2)
    assert pyramid.name is None
    assert picture_of(array_of(2, 236, 275, 271), pyramid) == Picture(
        (
            Axis("c", "channel", "C", None, 1.0),
            Axis("z", "space", "Z", MU, 0.5002025531914894),
            Axis("y", "space", "Y", MU, 0.3603981534640209),
            Axis("x", "space", "X", MU, 0.3603981534640209),
        ),
        (
            Channel("LaminB1", 0x0000FF, (0.0, 1500.0)),
            Channel("Dapi", 0xFFFF00, (0.0, 1500.0)),
        ),
    )


@pytest.mark.parametrize("version", ["0.1", "0.2", "0.3", None])
def test_pictures_before_0_4_may_leave_out_their_five_axes(version: str | None) -> None:
    attributes = copy.deepcopy(IDR_FIRST)
    attributes["multiscales"][0]["version"] = version
    (pyramid,) = pyramids_of(v2_group(attributes))
    picture = picture_of(v2_array({}, 3, 1, 2, 50, 4), pyramid)
    assert letters(picture) == "TCZYX"
    assert [axis.name for axis in picture.axes] == ["t", "c", "z", "y", "x"]
    assert picture.axes[4] == Axis("x", "space", "X")
    assert picture.channels == (Channel("Cy3", 0xFF0000, (0.0, 1500.0), active=False),)


@pytest.mark.parametrize("version", ["0.4", "0.5", 4, {"0": 1}, [1]])
def test_later_pictures_say_their_axes(version: Any) -> None:
    attributes = copy.deepcopy(IDR_FIRST)
    attributes["multiscales"][0]["version"] = version
    (pyramid,) = pyramids_of(v2_group(attributes))
    assert pyramid.axes is None


def test_axes_that_0_5_leaves_out_are_not_known() -> None:
    assert only_pyramid(without(NGFF_ZARR, "ome", "multiscales", 0, "axes")).axes is None


def test_axes_of_0_3_are_names() -> None:
    (pyramid,) = pyramids_of(v2_group(NAMED_AXES))
    picture = picture_of(v2_array({"_ARRAY_DIMENSIONS": list("tczyx")}, 9, 9, 9, 9, 9), pyramid, 1)
    assert [axis.name for axis in picture.axes] == list("tczyx")
    assert letters(picture) == "TCZYX"
    assert [axis.kind for axis in picture.axes] == ["time", "channel", "space", "space", "space"]
    assert pyramid.name == "example"


def test_a_picture_of_bioformats2raw() -> None:
    (pyramid,) = pyramids_of(v2_group(BIOFORMATS2RAW))
    picture = picture_of(v2_array({}, 1, 1, 9, 512, 512), pyramid, 1)
    assert letters(picture) == "TCZYX"
    assert [axis.scale for axis in picture.axes] == [1.0, 1.0, 1.0, 0.65, 0.65]
    assert [axis.unit for axis in picture.axes] == [None, None, None, MU, MU]
    assert picture.channels == (Channel("Channel 0", 0x808080, (12.0, 240.0)),)


def test_a_picture_of_ome_zarr_py_in_zarr_v3() -> None:
    pyramid = only_pyramid(OME_ZARR_PY)
    assert pyramid.name == "/"
    picture = picture_of(array_of(9, 9, 9, dimension_names=["z", "y", "x"]), pyramid, 1)
    assert [(axis.letter, axis.scale) for axis in picture.axes] == [
        ("Z", 0.5),
        ("Y", 0.4),
        ("X", 0.4),
    ]
    assert picture.channels == (Channel("random", 0x00FFFF, (0.0, 20.0)),)


def test_a_translation_is_the_origin() -> None:
    pyramid = only_pyramid(NGFF_ZARR)
    assert [level.path for level in pyramid.levels] == ["scale0/image", "scale1/image"]
    picture = picture_of(array_of(64, 64), pyramid, 1)
    assert picture.axes == (
        Axis("y", "space", "Y", MU, 1.0, 10.25),
        Axis("x", "space", "X", MU, 0.5, -2.875),
    )


def test_labels_are_a_pyramid() -> None:
    assert only_pyramid(LABELS).levels == (Level("0", (0.2, 0.2)),)


@pytest.mark.parametrize("attributes", [{}, BIOFORMATS2RAW_ROOT, PLATE, WELL, {"multiscales": []}])
def test_other_groups_are_no_pyramids(attributes: Any) -> None:
    assert pyramids_of(v3_group(attributes)) == ()
    assert pyramids_of(v2_group(attributes)) == ()
    assert pyramids_of(parse_v2_group(b'{"zarr_format": 2}')) == ()


def test_where_both_are_there_the_newer_one_counts() -> None:
    assert only_pyramid({**IDR, **NGFF_ZARR}).name == "image"


def test_channels_may_stand_where_they_stood_before_0_5() -> None:
    assert len(only_pyramid({**NGFF_ZARR, "omero": IDR["omero"]}).channels) == 2


def test_each_multiscale_is_a_pyramid() -> None:
    two = [IDR["multiscales"][0] | {"name": name} for name in ("2D", "3D")]
    assert [each.name for each in pyramids_of(v2_group({"multiscales": two}))] == ["2D", "3D"]


def test_nan_without_quotes_costs_only_itself() -> None:
    attributes = json.dumps({**IDR, "mean": float("nan")}).encode()
    (pyramid,) = pyramids_of(parse_v2_group(b'{"zarr_format": 2}', attributes))
    assert pyramid.problem is None


def test_large_attributes_beside_it_do_no_harm() -> None:
    attributes = {**IDR, "acquisition": ["x" * 1000] * 6000}
    assert len(pyramids_of(v2_group(attributes))[0].levels) == 3


# -- level_of


def test_the_level_of_an_array_is_its_place_in_the_pyramid() -> None:
    pyramid = only_pyramid(NGFF_ZARR)
    assert level_of(pyramid, "scale0/image") == 0
    assert level_of(pyramid, "scale1/image") == 1
    for path in ("", "scale0", "scale0/image/", "image"):
        assert level_of(pyramid, path) is None
    assert level_of(Pyramid(problem="broken"), "0") is None


def without(attributes: Any, *way: Any) -> Any:
    return changed(attributes, way, lambda holder, key: holder.pop(key))


# -- ZEP 10


def multiscale_arrays(*paths: str) -> dict[str, Any]:
    return extension("example.multiscale-arrays", multiscale={"datasets": list(paths)})


def test_multiscale_arrays_are_a_pyramid_without_axes() -> None:
    group = v3_group({}, extensions=[multiscale_arrays("a/0", "a/1")])
    assert pyramids_of(group) == (Pyramid(levels=(Level("a/0"), Level("a/1"))),)
    picture = picture_of(array_of(9, 9, 9, dimension_names=["c", "y", "x"]), pyramids_of(group)[0])
    assert letters(picture) == "CYX"
    assert picture.channels == ()


def test_ome_ngff_says_more_of_the_same_arrays() -> None:
    group = v3_group(IDR, extensions=[multiscale_arrays("0", "1")])
    (pyramid,) = pyramids_of(group)
    assert pyramid.axes is not None


def test_multiscale_arrays_beside_ome_ngff_are_another_pyramid() -> None:
    group = v3_group(IDR, extensions=[multiscale_arrays("other/0", "other/1")])
    first, second = pyramids_of(group)
    assert [level.path for level in first.levels] == ["0", "1", "2"]
    assert [level.path for level in second.levels] == ["other/0", "other/1"]


def test_multiscale_arrays_stand_in_for_broken_ome_ngff() -> None:
    group = v3_group({"multiscales": [{}]}, extensions=[multiscale_arrays("0")])
    assert [pyramid.problem is None for pyramid in pyramids_of(group)] == [False, True]


def referring(reference: str, *paths: str) -> GroupNode:
    """The group `image`, which takes what the node at `reference` says of multiscale arrays."""
    there = v3_group({}, extensions=[multiscale_arrays(*paths)])
    here = v3_group(
        {}, extensions=[extension("example.multiscale-arrays-ref", reference=reference)]
    )

    def load(path: str) -> Node:
        return here if path == "image" else there

    found = resolve(here, "image", load)
    assert isinstance(found, GroupNode)
    return found


def test_multiscale_arrays_at_another_node_are_told_from_here() -> None:
    (pyramid,) = pyramids_of(referring("..", "image/0", "image/1"))
    assert pyramid.levels == (Level("0"), Level("1"))


def test_arrays_that_do_not_lie_below_are_no_pyramid() -> None:
    (pyramid,) = pyramids_of(referring("..", "other/0"))
    assert pyramid.problem == "example.multiscale-arrays: names no array below the group"
    assert pyramids_of(referring("../other", "0")) == ()


def test_multiscale_arrays_are_not_inherited() -> None:
    group = v3_group({}, extensions=[multiscale_arrays("a/0")])
    assert below(group.active, "a") == ()


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (5, 1023, (5.0, 1023.0)),
        (-0.5, 0.5, (-0.5, 0.5)),
        (3, 3, None),
        (0, 10**310, None),
    ],
)
def test_statistics_are_the_display_range(low: float, high: float, expected: Any) -> None:
    node = array_of(9, 9, extensions=[extension("example.array-statistics", min=low, max=high)])
    assert picture_of(node).display_range == expected
    assert picture_of(array_of(9, 9)).display_range is None


def test_an_offset_is_where_the_translation_is() -> None:
    node = array_of(9, 9, extensions=[extension("example.offset", offset=[12, -24])])
    axes = picture_of(node, only_pyramid(NGFF_ZARR)).axes
    assert [axis.origin for axis in axes] == [10.0 - 12 * 0.5, -3.0 + 24 * 0.25]


def test_an_offset_without_transformations_counts_elements() -> None:
    node = array_of(9, 9, 9, extensions=[extension("example.offset", offset=[0, 12, -24])])
    assert [axis.origin for axis in picture_of(node).axes] == [None, -12.0, 24.0]


def test_an_offset_of_steps_that_nobody_knows_has_no_position() -> None:
    node = array_of(9, 9, extensions=[extension("example.offset", offset=[12, 2**300])])
    broken = without(NGFF_ZARR, "ome", "multiscales", 0, "datasets", 0, "coordinateTransformations")
    assert [axis.origin for axis in picture_of(node, only_pyramid(broken)).axes] == [None, None]


def test_an_offset_beyond_all_floats_has_no_position() -> None:
    node = array_of(9, 9, extensions=[extension("example.offset", offset=[1, 10**310])])
    assert [axis.origin for axis in picture_of(node).axes] == [-1.0, None]
