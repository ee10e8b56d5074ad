"""Pyramids and pictures: attributes as programs write them, each member broken, and anything else."""

import copy
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from array_nodes import array
from builders.documents import extension
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampling import examples

from zarrfuse.spec.active import below
from zarrfuse.spec.axes import Axis
from zarrfuse.spec.coordinates import combined
from zarrfuse.spec.node import ArrayNode, GroupNode, Node
from zarrfuse.spec.node_v2 import parse_v2_array, parse_v2_group
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.spec.ome import Channel, Level, Picture, Pyramid, level_of, picture_of, pyramids_of
from zarrfuse.spec.references import resolve

MU = "micrometer"


def space(name: str, unit: str | None = MU) -> dict[str, Any]:
    return {"name": name, "type": "space"} | ({} if unit is None else {"unit": unit})


def scaled(path: str, *scale: float) -> dict[str, Any]:
    return {"path": path, "coordinateTransformations": [{"type": "scale", "scale": list(scale)}]}


def window(start: float, end: float, low: float, high: float) -> dict[str, float]:
    return {"start": start, "end": end, "min": low, "max": high}


IDR: dict[str, Any] = {  # image 6001240 of IDR, OME-NGFF 0.4
    "multiscales": [
        {
            "axes": [{"name": "c", "type": "channel"}, space("z"), space("y"), space("x")],
            "datasets": [
                scaled("0", 1.0, 0.5002025531914894, 0.3603981534640209, 0.3603981534640209),
                scaled("1", 1.0, 0.5002025531914894, 0.7207963069280418, 0.7207963069280418),
                scaled("2", 1.0, 0.5002025531914894, 1.4415926138560835, 1.4415926138560835),
            ],
            "version": "0.4",
        }
    ],
    "omero": {
        "channels": [
            {
                "active": True,
                "coefficient": 1.0,
                "color": "0000FF",
                "family": "linear",
                "inverted": False,
                "label": "LaminB1",
                "window": window(0.0, 1500.0, 0.0, 65535.0),
            },
            {
                "active": True,
                "coefficient": 1.0,
                "color": "FFFF00",
                "family": "linear",
                "inverted": False,
                "label": "Dapi",
                "window": window(0.0, 1500.0, 0.0, 65535.0),
            },
        ],
        "id": 1,
        "rdefs": {"defaultT": 0, "defaultZ": 118, "model": "color"},
        "version": "0.4",
    },
}

IDR_FIRST: dict[str, Any] = {  # OME-NGFF 0.1, as the first pictures of IDR were published
    "multiscales": [{"datasets": [{"path": "0"}, {"path": "1"}], "version": "0.1"}],
    "omero": {
        "channels": [
            {
                "active": False,
                "color": "FF0000",
                "label": "Cy3",
                "window": {"end": 1500.0, "max": 65535.0, "min": 0.0, "start": 0.0},
            }
        ],
        "rdefs": {"model": "color"},
        "version": "0.1",
    },
}

NAMED_AXES: dict[str, Any] = {  # OME-NGFF 0.3
    "multiscales": [
        {
            "version": "0.3",
            "name": "example",
            "datasets": [{"path": "0"}, {"path": "1"}],
            "axes": ["t", "c", "z", "y", "x"],
            "type": "gaussian",
            "metadata": {"method": "skimage.transform.pyramid_gaussian", "args": "[true]"},
        }
    ],
}

BIOFORMATS2RAW: dict[str, Any] = {  # and NGFF-Converter, which runs it: the group `0` of a file
    "multiscales": [
        {
            "metadata": {
                "method": "loci.common.image.SimpleImageScaler",
                "version": "Bio-Formats 7.1.0",
            },
            "axes": [
                {"name": "t", "type": "time"},
                {"name": "c", "type": "channel"},
                space("z", None),
                space("y"),
                space("x"),
            ],
            "name": "image 1",
            "datasets": [
                scaled("0", 1.0, 1.0, 1.0, 0.325, 0.325),
                scaled("1", 1.0, 1.0, 1.0, 0.65, 0.65),
            ],
            "version": "0.4",
        }
    ],
    "omero": {
        "channels": [
            {
                "color": "808080",
                "coefficient": 1,
                "active": True,
                "label": "Channel 0",
                "window": window(12.0, 240.0, 12.0, 240.0),
                "family": "linear",
                "inverted": False,
            }
        ],
        "rdefs": {"defaultT": 0, "model": "greyscale", "defaultZ": 0},
    },
}
BIOFORMATS2RAW_ROOT: dict[str, Any] = {"bioformats2raw.layout": 3}

OME_ZARR_PY: dict[str, Any] = {  # `write_image` with OME-NGFF 0.5, into Zarr v3
    "ome": {
        "version": "0.5",
        "multiscales": [
            {
                "datasets": [scaled("0", 0.5, 0.2, 0.2), scaled("1", 0.5, 0.4, 0.4)],
                "name": "/",
                "axes": [space("z"), space("y"), space("x")],
                "metadata": {"method": "ome_zarr.scale.Scaler", "version": "0.11.1"},
            }
        ],
        "omero": {
            "channels": [
                {
                    "color": "00FFFF",
                    "window": {"start": 0, "end": 20},
                    "label": "random",
                    "active": True,
                }
            ]
        },
    }
}

NGFF_ZARR: dict[str, Any] = {  # translations, since pixels of coarser levels have other centres
    "ome": {
        "version": "0.5",
        "multiscales": [
            {
                "axes": [space("y"), space("x")],
                "datasets": [
                    {
                        "path": "scale0/image",
                        "coordinateTransformations": [
                            {"scale": [0.5, 0.25], "type": "scale"},
                            {"translation": [10.0, -3.0], "type": "translation"},
                        ],
                    },
                    {
                        "path": "scale1/image",
                        "coordinateTransformations": [
                            {"scale": [1.0, 0.5], "type": "scale"},
                            {"translation": [10.25, -2.875], "type": "translation"},
                        ],
                    },
                ],
                "name": "image",
                "@type": "ngff:Image",
            }
        ],
    }
}

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


# -- nodes


def v3_group(attributes: Any, **members: Any) -> GroupNode:
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes, **members}
    node = parse_v3(json.dumps(document).encode())
    assert isinstance(node, GroupNode)
    return node


def v2_group(attributes: Any) -> GroupNode:
    return parse_v2_group(b'{"zarr_format": 2}', json.dumps(attributes).encode())


def v2_array(attributes: Any, *shape: int) -> ArrayNode:
    document = {
        **{"zarr_format": 2, "shape": shape, "chunks": [1] * len(shape), "dtype": "<u2"},
        **{"compressor": None, "fill_value": 0, "order": "C", "filters": None},
    }
    return parse_v2_array(json.dumps(document).encode(), json.dumps(attributes).encode())


def only_pyramid(attributes: Any) -> Pyramid:
    (found,) = pyramids_of(v3_group(attributes))
    assert found.problem is None
    return found


def letters(picture: Picture) -> str:
    return "".join(axis.letter or "-" for axis in picture.axes)


# -- as it is written


@pytest.mark.parametrize("group", [v2_group, v3_group])
def test_a_picture_of_idr(group: Callable[[Any], GroupNode]) -> None:
    (pyramid,) = pyramids_of(group(IDR))
    assert [level.path for level in pyramid.levels] == ["0", "1", "2"]
    assert pyramid.levels[1].scale == (1.0, 0.5002025531914894, *[0.7207963069280418] * 2)
    assert pyramid.name is None
    assert picture_of(array(2, 236, 275, 271), pyramid) == Picture(
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
    picture = picture_of(array(9, 9, 9, dimension_names=["z", "y", "x"]), pyramid, 1)
    assert [(axis.letter, axis.scale) for axis in picture.axes] == [
        ("Z", 0.5),
        ("Y", 0.4),
        ("X", 0.4),
    ]
    assert picture.channels == (Channel("random", 0x00FFFF, (0.0, 20.0)),)


def test_a_translation_is_the_origin() -> None:
    pyramid = only_pyramid(NGFF_ZARR)
    assert [level.path for level in pyramid.levels] == ["scale0/image", "scale1/image"]
    picture = picture_of(array(64, 64), pyramid, 1)
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


# -- transformations


def scale(*values: Any) -> dict[str, Any]:
    return {"type": "scale", "scale": list(values)}


def move(*values: Any) -> dict[str, Any]:
    return {"type": "translation", "translation": list(values)}


def test_those_of_the_multiscale_come_after_those_of_the_dataset() -> None:
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
    picture = picture_of(array(9, 9, 9, dimension_names=["t", "q", "r"]), pyramid)
    assert picture == picture_of(array(9, 9, 9, dimension_names=["t", "q", "r"]))


@pytest.mark.parametrize("level", [-1, 2, 10**30])
def test_a_level_that_is_not_there_has_no_scale(level: int) -> None:
    picture = picture_of(array(9, 9), only_pyramid(NGFF_ZARR), level)
    assert picture.axes[0] == Axis("y", "space", "Y", MU)


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


def changed(value: Any, way: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    whole = copy.deepcopy(value)
    holder = whole
    for key in way[:-1]:
        holder = holder[key]
    change(holder, way[-1])
    return whole


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
    nodes = [array(*[9] * ndim) for ndim in range(6)]
    for way in places(attributes):
        for change in BREAKS:
            for pyramid in pyramids_of(v3_group(changed(attributes, way, change))):
                for node in nodes:
                    for level in range(-1, 4):
                        assert_sound(pyramid, picture_of(node, pyramid, level), node)


def without(attributes: Any, *way: Any) -> Any:
    return changed(attributes, way, lambda holder, key: holder.pop(key))


def with_value(attributes: Any, *way: Any, value: Any) -> Any:
    return changed(attributes, way, lambda holder, key: holder.__setitem__(key, value))


NODE = array(2, 9, 9, 9)
MULTISCALE = ("multiscales", 0)
CHANNEL = ("omero", "channels", 0)


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
    picture = picture_of(array(2, 9, 9, 9, dimension_names=names), pyramid)
    assert [axis.name for axis in picture.axes] == names
    assert letters(picture) == "CZYX"
    assert picture.axes[1].scale == 0.5002025531914894


@pytest.mark.parametrize("value", [None, 3, {}, {"name": 5, "type": []}, ["c"], ""])
def test_a_broken_axis_is_called_what_the_array_calls_it(value: Any) -> None:
    pyramid = only_pyramid(with_value(IDR, *MULTISCALE, "axes", 0, value=value))
    picture = picture_of(array(2, 9, 9, 9, dimension_names=["ch", "a", "b", "d"]), pyramid)
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


# -- channels


def first_channel(attributes: Any) -> Channel:
    return picture_of(NODE, only_pyramid(attributes)).channels[0]


@pytest.mark.parametrize(
    ("written", "color"),
    [
        ("00ff7F", 0x00FF7F),
        ("#00FF7F", 0x00FF7F),
        ("000000", 0),
        *((broken, None) for broken in ("", "red", "00FF7", "00FF7F00", "##FF7F", "00FF7F\n")),
        *((broken, None) for broken in ("\uff10" * 6, "0x00FF", -1, 65280, None, [], {}, True)),
    ],
)
def test_a_color_is_six_hexadecimal_digits(written: Any, color: int | None) -> None:
    assert first_channel(with_value(IDR, *CHANNEL, "color", value=written)).color == color


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (window(0, 1500, 0, 65535), (0.0, 1500.0)),
        ({"start": -1.5, "end": 2}, (-1.5, 2.0)),
        ({"min": 1, "max": 2}, (1.0, 2.0)),
        ({"start": 5, "end": 5, "min": 1, "max": 9}, (1.0, 9.0)),
        ({"start": 9, "end": 5, "min": 1, "max": 9}, (1.0, 9.0)),
        ({"start": "0", "end": 5, "min": 1, "max": 9}, (1.0, 9.0)),
        ({"end": 5, "min": 1, "max": 9}, (1.0, 9.0)),
        ({"start": 0, "end": 10**300, "min": 1, "max": 9}, (0.0, 1e300)),
        ({"start": 0, "min": 9, "max": 9}, None),
        ({"start": None, "end": "NaN"}, None),
        *((broken, None) for broken in (None, [], [0, 1], "0-1", 7)),
    ],
)
def test_a_window_is_from_start_to_end_or_else_from_min_to_max(written: Any, expected: Any) -> None:
    assert first_channel(with_value(IDR, *CHANNEL, "window", value=written)).window == expected


@pytest.mark.parametrize(
    ("written", "label"),
    [
        ("Dapi", "Dapi"),
        (" a\tb\x00c\u2028d ", "a b c d"),
        ("x" * 2000, "x" * 1000),
        *((broken, None) for broken in ("", " \n", None, 5, [], {})),
    ],
)
def test_a_label_can_be_printed(written: Any, label: str | None) -> None:
    assert first_channel(with_value(IDR, *CHANNEL, "label", value=written)).label == label


@pytest.mark.parametrize(
    ("written", "active"), [(True, True), (False, False), (None, True), (0, True), ("no", True)]
)
def test_a_channel_is_active_unless_it_says_no(written: Any, active: bool) -> None:
    assert first_channel(with_value(IDR, *CHANNEL, "active", value=written)).active is active


def test_a_broken_channel_keeps_its_place() -> None:
    pyramid = only_pyramid(with_value(IDR, *CHANNEL, value=None))
    assert [channel.label for channel in picture_of(NODE, pyramid).channels] == [None, "Dapi"]


@pytest.mark.parametrize("value", [None, [], 3, {"channels": None}, {"channels": {"0": {}}}, {}])
def test_broken_channels_are_none(value: Any) -> None:
    assert only_pyramid(with_value(IDR, "omero", value=value)).channels == ()


def test_channels_are_as_many_as_the_axis_is_long() -> None:
    pyramid = only_pyramid(IDR)
    labels = [channel.label for channel in picture_of(array(3, 9, 9, 9), pyramid).channels]
    assert labels == ["LaminB1", "Dapi", None]
    assert len(picture_of(array(1, 9, 9, 9), pyramid).channels) == 1
    assert picture_of(array(2**40, 9, 9, 9), pyramid).channels == ()


def test_without_an_axis_of_channels_there_is_one_or_none() -> None:
    assert len(picture_of(array(9, 9, 9), only_pyramid(OME_ZARR_PY)).channels) == 1
    two = {**NGFF_ZARR, "omero": IDR["omero"]}
    assert picture_of(array(9, 9), only_pyramid(two)).channels == ()
    colour = {**NGFF_ZARR, "omero": OME_ZARR_PY["ome"]["omero"]}
    picture = picture_of(array(9, 9, 3, dimension_names=["y", "x", "rgb"]), only_pyramid(colour))
    assert picture.samples
    assert picture.channels == ()


# -- ZEP 10


def multiscale_arrays(*paths: str) -> dict[str, Any]:
    return extension("example.multiscale-arrays", multiscale={"datasets": list(paths)})


def test_multiscale_arrays_are_a_pyramid_without_axes() -> None:
    group = v3_group({}, extensions=[multiscale_arrays("a/0", "a/1")])
    assert pyramids_of(group) == (Pyramid(levels=(Level("a/0"), Level("a/1"))),)
    picture = picture_of(array(9, 9, 9, dimension_names=["c", "y", "x"]), pyramids_of(group)[0])
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
    node = array(9, 9, extensions=[extension("example.array-statistics", min=low, max=high)])
    assert picture_of(node).display_range == expected
    assert picture_of(array(9, 9)).display_range is None


def test_an_offset_is_where_the_translation_is() -> None:
    node = array(9, 9, extensions=[extension("example.offset", offset=[12, -24])])
    axes = picture_of(node, only_pyramid(NGFF_ZARR)).axes
    assert [axis.origin for axis in axes] == [10.0 - 12 * 0.5, -3.0 + 24 * 0.25]


def test_an_offset_without_transformations_counts_elements() -> None:
    node = array(9, 9, 9, extensions=[extension("example.offset", offset=[0, 12, -24])])
    assert [axis.origin for axis in picture_of(node).axes] == [None, -12.0, 24.0]


def test_an_offset_of_steps_that_nobody_knows_has_no_position() -> None:
    node = array(9, 9, extensions=[extension("example.offset", offset=[12, 2**300])])
    broken = without(NGFF_ZARR, "ome", "multiscales", 0, "datasets", 0, "coordinateTransformations")
    assert [axis.origin for axis in picture_of(node, only_pyramid(broken)).axes] == [None, None]


def test_an_offset_beyond_all_floats_has_no_position() -> None:
    node = array(9, 9, extensions=[extension("example.offset", offset=[1, 10**310])])
    assert [axis.origin for axis in picture_of(node).axes] == [-1.0, None]


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
    node = array(*[3] * 64)
    found = pyramids_of(group)
    for pyramid in found:
        assert_sound(pyramid, picture_of(node, pyramid), node)
    assert len(found) <= 16
    assert all(len(pyramid.levels) <= 64 and len(pyramid.channels) <= 4096 for pyramid in found)


def test_an_array_of_very_many_dimensions_is_a_picture() -> None:
    node = array(*[2] * 10_000)
    assert letters(picture_of(node, only_pyramid(IDR))) == "-" * 9_995 + "TCZYX"
