"""Attributes of which one member is broken, or all are hostile: a sentence, never an exception."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from builders.nodes import array_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ome_attributes import (
    BIOFORMATS2RAW,
    IDR,
    IDR_FIRST,
    MU,
    NAMED_AXES,
    NGFF_ZARR,
    NODE,
    OME_ZARR_PY,
    changed,
    letters,
    move,
    only_pyramid,
    scale,
    scaled,
    space,
    v2_array,
    v2_group,
    v3_group,
    with_value,
)
from sampling import examples

from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.node_v2 import parse_v2_group
from zarrfuse.spec.ome import Picture, Pyramid, picture_of, pyramids_of

# -- every member broken in turn


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all members of a JSON value, itself excepted."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, item in items:
        found.append((*way, key))
        if isinstance(item, dict | list):
            found += places(item, (*way, key))
    return found


BREAKS: list[Callable[[Any, Any], None]] = [
    lambda holder, key: holder.pop(key),
    *(
        (lambda holder, key, value=value: holder.__setitem__(key, value))
        for value in (None, True, 0, -1.5, 10**30, "", "..", "\x00", [], [[]], {}, {"a": [{}]})
    ),
]
WRITTEN = {
    "IDR": IDR,
    "0.1": IDR_FIRST,
    "0.3": NAMED_AXES,
    "bioformats2raw": BIOFORMATS2RAW,
    "ome-zarr-py": OME_ZARR_PY,
    "ngff-zarr": NGFF_ZARR,
}


def assert_sound(pyramid: Pyramid, picture: Picture, node: ArrayNode) -> None:
    """What is promised holds, and so all of it can be printed, sent and reckoned with."""
    assert (pyramid.problem is None) == bool(pyramid.levels)
    for level in pyramid.levels:
        assert level.path
        assert not {"", ".", ".."} & set(level.path.split("/"))
        assert level.scale is None or all(one is None or one > 0 for one in level.scale)
    assert len(picture.axes) == node.ndim
    for channel in pyramid.channels:
        assert channel.window is None or channel.window[0] < channel.window[1]
        assert channel.color is None or 0 <= channel.color <= 0xFFFFFF
        assert channel.label is None or channel.label.isprintable()
    for axis in picture.axes:
        assert axis.scale is None or 0 < axis.scale < float("inf")
        assert axis.origin is None or abs(axis.origin) < float("inf")
        assert axis.name == "" or axis.name.isprintable()
    if "C" in letters(picture):
        count = node.shape[letters(picture).index("C")]
        assert len(picture.channels) in (0, count)
    else:
        assert len(picture.channels) <= 1
    assert msgspec.json.encode(picture)


@pytest.mark.parametrize("attributes", WRITTEN.values(), ids=WRITTEN.keys())
def test_nothing_raises_whichever_member_is_broken(attributes: Any) -> None:
    nodes = [array_of(*[9] * ndim) for ndim in range(6)]
    for way in places(attributes):
        for change in BREAKS:
            for pyramid in pyramids_of(v3_group(changed(attributes, way, change))):
                for node in nodes:
                    for level in range(-1, 4):
                        assert_sound(pyramid, picture_of(node, pyramid, level), node)


MULTISCALE = ("multiscales", 0)


@pytest.mark.parametrize("path", [None, 0, "", ".", "..", "../1", "/1", "1/", "a//b", "a\\b", "\0"])
def test_a_level_with_a_path_that_leads_nowhere_is_left_out(path: Any) -> None:
    broken = with_value(IDR, *MULTISCALE, "datasets", 1, "path", value=path)
    assert [level.path for level in only_pyramid(broken).levels] == ["0", "2"]


def test_a_path_that_stands_twice_is_one_level() -> None:
    broken = with_value(IDR, *MULTISCALE, "datasets", 1, "path", value="0")
    levels = only_pyramid(broken).levels
    assert [level.path for level in levels] == ["0", "2"]
    assert levels[0] == only_pyramid(IDR).levels[0]


def test_a_path_longer_than_any_is_left_out() -> None:
    broken = with_value(IDR, *MULTISCALE, "datasets", 1, "path", value="a/" * 3000 + "a")
    assert [level.path for level in only_pyramid(broken).levels] == ["0", "2"]


@pytest.mark.parametrize("value", [None, 0, "0", [], {}])
def test_a_dataset_that_is_none_is_left_out(value: Any) -> None:
    broken = with_value(IDR, *MULTISCALE, "datasets", 1, value=value)
    assert [level.path for level in only_pyramid(broken).levels] == ["0", "2"]


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"multiscales": 1}, "multiscales: must be an array, not 1"),
        ({"multiscales": [7]}, "multiscales[0]: must be an object, not 7"),
        ({"multiscales": [{}]}, "multiscales[0]: datasets: is missing"),
        ({"multiscales": [{"datasets": {}}]}, "multiscales[0]: datasets: must be an array"),
        ({"multiscales": [{"datasets": []}]}, "multiscales[0]: datasets: names no array below"),
        ({"ome": {"multiscales": [{"datasets": ["0"]}]}}, "multiscales[0]: datasets: names no arr"),
        ({"multiscales": [[" " * (5 << 20)]]}, "multiscales: has 52"),
    ],
)
def test_a_pyramid_without_arrays_says_why(attributes: Any, problem: str) -> None:
    (pyramid,) = pyramids_of(v2_group(attributes))
    assert pyramid.problem is not None
    assert pyramid.problem.startswith(problem)
    assert pyramid.levels == ()
    assert picture_of(NODE, pyramid) == picture_of(NODE)


def test_a_broken_multiscale_leaves_the_others() -> None:
    found = pyramids_of(v2_group({"multiscales": [None, IDR["multiscales"][0]]}))
    assert [pyramid.problem is None for pyramid in found] == [False, True]


@pytest.mark.parametrize("value", [None, "czyx", {}, 4, [], [1] * 65])
def test_axes_that_are_no_list_are_those_of_the_array(value: Any) -> None:
    pyramid = only_pyramid(with_value(IDR, *MULTISCALE, "axes", value=value))
    names = ["c", "z", "q", "r"]
    picture = picture_of(array_of(2, 9, 9, 9, dimension_names=names), pyramid)
    assert [axis.name for axis in picture.axes] == names
    assert letters(picture) == "CZYX"
    assert picture.axes[1].scale == 0.5002025531914894


@pytest.mark.parametrize("value", [None, 3, {}, {"name": 5, "type": []}, ["c"], ""])
def test_a_broken_axis_is_called_what_the_array_calls_it(value: Any) -> None:
    pyramid = only_pyramid(with_value(IDR, *MULTISCALE, "axes", 0, value=value))
    picture = picture_of(array_of(2, 9, 9, 9, dimension_names=["ch", "a", "b", "d"]), pyramid)
    assert [axis.name for axis in picture.axes] == ["ch", "z", "y", "x"]
    assert letters(picture) == "CZYX"


@pytest.mark.parametrize("value", [None, 1, [], "furlong", "second"])
def test_a_broken_unit_is_none(value: Any) -> None:
    pyramid = only_pyramid(with_value(IDR, *MULTISCALE, "axes", 3, "unit", value=value))
    axes = picture_of(NODE, pyramid).axes
    assert (axes[2].unit, axes[3].unit) == (MU, None)
    assert axes[3].scale == 0.3603981534640209


def test_a_broken_name_of_a_pyramid_is_none() -> None:
    assert only_pyramid(with_value(BIOFORMATS2RAW, *MULTISCALE, "name", value=7)).name is None
    assert only_pyramid(with_value(BIOFORMATS2RAW, *MULTISCALE, "name", value="\n")).name is None


# -- hostile


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
VALUES = st.one_of(
    st.sampled_from(["scale", "translation", "identity", "time", "channel", "second", "x", "1"]),
    st.floats() | st.sampled_from([0, -1, 2**70, 10**310]),
    st.lists(st.floats(0.1, 10), max_size=5),
    st.sampled_from([scale(1, 2), move(3, 4), scaled("7", 1, 2), space("z")]),
    JSON,
)


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """Attributes as a program writes them, with other values in some places."""
    attributes = draw(st.sampled_from(list(WRITTEN.values())))
    for _ in range(draw(st.integers(0, 5))):
        ways = places(attributes)
        if ways:
            attributes = with_value(attributes, *draw(st.sampled_from(ways)), value=draw(VALUES))
    return attributes


@settings(max_examples=examples(500), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(damaged(), st.lists(st.integers(0, 5), max_size=5), st.integers(-1, 3))
def test_nothing_raises_wherever_and_however_attributes_are_damaged(
    attributes: Any, shape: list[int], level: int
) -> None:
    node = v2_array(attributes, *shape)
    for pyramid in pyramids_of(v2_group(attributes)):
        assert_sound(pyramid, picture_of(node, pyramid, level), node)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(["multiscales", "omero", "ome", "_ARRAY_DIMENSIONS"]), JSON))
def test_nothing_raises_whatever_stands_in_the_attributes(attributes: Any) -> None:
    for pyramid in pyramids_of(v2_group(attributes)):
        assert pyramid.problem is not None
    node = v2_array(attributes, 9, 9, 9)
    assert_sound(Pyramid(problem="none"), picture_of(node), node)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_nothing_raises_whatever_the_bytes_are(document: bytes) -> None:
    for attributes in (document, b'{"multiscales": ' + document, b'{"ome": ' + document + b"}"):
        for pyramid in pyramids_of(parse_v2_group(b'{"zarr_format": 2}', attributes)):
            assert pyramid.problem is not None


MANY = 1_000_000
HOSTILE = {
    "levels": '{"multiscales": [{"datasets": [' + '{"path": "0"},' * MANY + "{}]}]}",
    "other levels": json.dumps(
        {"multiscales": [{"datasets": [{"path": f"{i}"} for i in range(999)]}]}
    ),
    "short levels": '{"multiscales": [{"datasets": [' + "0," * MANY + "0]}]}",
    "axes": '{"multiscales": [{"axes": [' + '"x",' * MANY + '"x"], "datasets": [{"path": "0"}]}]}',
    "channels": '{"omero": {"channels": [' + "{}," * MANY + "{}]}, "
    '"multiscales": [{"datasets": [{"path": "0"}]}]}',
    "multiscales": '{"multiscales": [' + "{}," * MANY + "{}]}",
    "depth": '{"multiscales": ' + "[" * MANY + "]" * MANY + "}",
    "depth of ome": '{"ome": ' + '{"ome": ' * 100_000 + "1" + "}" * 100_000 + "}",
    "digits": '{"multiscales": [{"datasets": [{"path": ' + "9" * MANY + "}]}]}",
    "a path": '{"multiscales": [{"datasets": [{"path": "' + "a/" * MANY + '"}]}]}',
    "a name": '{"multiscales": [{"name": "' + "\\u0000" * 500_000 + '", "datasets": ['
    '{"path": "0"}]}]}',
    "transformations": json.dumps(
        {
            "multiscales": [
                {"datasets": [scaled(f"{i}", *[2] * 64) for i in range(64)]}
                | {"coordinateTransformations": [scale(*[2] * 64), move(*[2] * 64)] * 4}
            ]
            * 16
        }
    ),
}


@pytest.mark.parametrize("attributes", HOSTILE.values(), ids=HOSTILE.keys())
def test_metadata_without_bounds_are_bounded(attributes: str) -> None:
    group = parse_v2_group(b'{"zarr_format": 2}', attributes.encode())
    node = array_of(*[3] * 64)
    found = pyramids_of(group)
    for pyramid in found:
        assert_sound(pyramid, picture_of(node, pyramid), node)
    assert len(found) <= 16
    assert all(len(pyramid.levels) <= 64 and len(pyramid.channels) <= 4096 for pyramid in found)


def test_an_array_of_very_many_dimensions_is_a_picture() -> None:
    node = array_of(*[2] * 10_000)
    assert letters(picture_of(node, only_pyramid(IDR))) == "-" * 9_995 + "TCZYX"
