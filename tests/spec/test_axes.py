"""Which dimension of an array is what in a picture, and the units of its axes."""

from typing import Any

import pytest
from builders.nodes import array_of, v2_array_of
from hypothesis import given, settings
from hypothesis import strategies as st

from zarrfuse.spec.axes import OF_FIVE_DIMENSIONS, Axis, Description, axes_of, unit_of
from zarrfuse.spec.dimensions import may_be_rgb, names_of
from zarrfuse.spec.node import ArrayNode

NGFF = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}


def letters(
    shape: tuple[int, ...],
    names: str | list[str] = "",
    types: list[str | None] | None = None,
    *,
    may_be_rgb: bool = False,
) -> str:
    """The letters of the axes, `-` for none; names as one word or as a list, none if left out."""
    words = names.split() if isinstance(names, str) else names
    words = words or [""] * len(shape)
    kinds = types or [None] * len(shape)
    described = [Description(*said) for said in zip(words, kinds, strict=True)]
    axes = axes_of(shape, described, may_be_rgb=may_be_rgb)
    return "".join(axis.letter or "-" for axis in axes)


# -- letters


@pytest.mark.parametrize(
    ("ndim", "expected"),
    [(0, ""), (1, "X"), (2, "YX"), (3, "ZYX"), (4, "TZYX"), (5, "TCZYX"), (6, "-TCZYX")],
)
def test_dimensions_without_names_are_guessed_from_the_right(ndim: int, expected: str) -> None:
    assert letters((9,) * ndim) == expected


@pytest.mark.parametrize(
    "names", ["dim_0 dim_1 dim_2 dim_3", "axis_0 axis_1 y x", ["", "", "lat", "lon"]]
)
def test_names_that_number_dimensions_say_nothing(names: str | list[str]) -> None:
    assert letters((9,) * 4, names) == "TZYX"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("t c z y x", "TCZYX"),
        ("z c t y x", "ZCTYX"),
        ("Time Channel Depth Row Column", "TCZYX"),
        ("frame slice y x", "TZYX"),
        ("band lat lon", "CYX"),
        ("c y x", "CYX"),
        ("plane y x", "ZYX"),
        ("angle t y x", "-TYX"),
        ("angle illumination y x", "--YX"),
        ("position t c z y x", "-TCZYX"),
    ],
)
def test_leading_axes_go_by_their_names(names: str, expected: str) -> None:
    assert letters((9,) * len(names.split()), names) == expected


def test_a_type_says_more_than_a_name() -> None:
    assert letters((9,) * 4, "c z y x", ["time", None, "space", "space"]) == "TZYX"
    assert letters((9,) * 3, "lambda y x", ["channel", "space", "space"]) == "CYX"


def test_a_custom_type_leaves_the_name_to_say() -> None:
    assert letters((9,) * 4, "t angle y x", ["custom", "angle", "space", "space"]) == "T-YX"


def test_an_axis_of_custom_type_without_a_name_is_not_guessed() -> None:
    assert letters((9,) * 4, ["", "", "y", "x"], ["phase", None, None, None]) == "-ZYX"


@pytest.mark.parametrize(
    ("names", "expected"), [("t time z y x", "-TZYX"), ("c band c y x", "--CYX")]
)
def test_of_two_axes_that_claim_a_letter_the_inner_one_gets_it(names: str, expected: str) -> None:
    assert letters((9,) * 5, names) == expected


def test_three_axes_of_space_leave_the_outer_one_without_a_letter() -> None:
    assert letters((9,) * 4, "w z y x", ["space"] * 4) == "-ZYX"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["", "z", "y", "x"], "TZYX"),
        (["z", "", "y", "x"], "ZTYX"),
        (["", "c", "y", "x"], "ZCYX"),
        (["", "", "z", "y", "x"], "TCZYX"),
        (["t", "", "z", "y", "x"], "TCZYX"),
        (["", "", "", "z", "y", "x"], "-TCZYX"),
    ],
)
def test_axes_without_names_share_the_letters_that_are_left(
    names: list[str], expected: str
) -> None:
    assert letters((9,) * len(names), names) == expected


@pytest.mark.parametrize("names", ["x y", "z t", "c z", "a b"])
def test_the_last_two_axes_are_height_and_width_whatever_they_are_called(names: str) -> None:
    assert letters((9, 9), names) == "YX"
    assert letters((9, 9, 9), f"t {names}") == "TYX"


# -- samples


@pytest.mark.parametrize(
    "name", ["c", "C", " channel ", "channels", "s", "samples", "rgb", "RGBA", "band", "colour"]
)
@pytest.mark.parametrize("count", [3, 4])
def test_a_last_axis_of_3_or_4_with_such_a_name_are_samples(name: str, count: int) -> None:
    assert letters((9, 9, count), ["y", "x", name]) == "YXS"
    assert letters((9, 9, 9, count), ["z", "y", "x", name]) == "ZYXS"


@pytest.mark.parametrize(
    ("shape", "names"),
    [((9, 9, 5), "y x c"), ((9, 9, 2), "y x c"), ((9, 9, 3), "z y x"), ((9, 9, 3), "y x angle")],
)
def test_another_length_or_name_are_no_samples(shape: tuple[int, ...], names: str) -> None:
    assert letters(shape, names, may_be_rgb=True) == letters((9,) * 3, names)


def test_two_dimensions_have_no_samples() -> None:
    assert letters((9, 3), "x c", may_be_rgb=True) == "YX"


def test_the_type_of_the_last_axis_counts_more_than_its_name() -> None:
    assert letters((9, 9, 3), "z y c", ["space"] * 3) == "ZYX"
    assert letters((9, 9, 3), "y x lambda", ["space", "space", "channel"]) == "YXS"


def test_samples_leave_the_letter_of_channels_to_a_leading_axis() -> None:
    assert letters((9, 9, 9, 3), "c y x rgb") == "CYXS"


def test_without_names_it_depends_on_the_data_type_and_the_size() -> None:
    assert letters((9, 8, 3), may_be_rgb=True) == "YXS"
    assert letters((9, 9, 8, 4), may_be_rgb=True) == "ZYXS"
    assert letters((9, 8, 3), may_be_rgb=False) == "ZYX"
    assert letters((9, 8, 5), may_be_rgb=True) == "ZYX"
    assert letters((4, 4, 4), may_be_rgb=True) == "ZYX"
    assert letters((9, 8, 3), ["y", "", ""], may_be_rgb=True) == "-YX"


# -- kinds


def test_kinds_follow_from_type_or_name_or_place() -> None:
    axes = axes_of(
        (9, 9, 9, 9, 9, 3),
        [
            Description("angle", "phase"),
            Description("t"),
            Description("lambda", "channel"),
            Description("row"),
            Description(),
            Description("rgb"),
        ],
        may_be_rgb=False,
    )
    kinds = [axis.kind for axis in axes]
    assert kinds == ["other", "time", "channel", "space", "space", "sample"]
    assert [axis.name for axis in axes] == ["angle", "t", "lambda", "row", "", "rgb"]


def test_guessed_axes_have_the_kind_of_their_letter() -> None:
    axes = axes_of((9,) * 6, [Description()] * 6, may_be_rgb=False)
    assert [axis.kind for axis in axes] == ["other", "time", "channel", "space", "space", "space"]


def test_height_called_time_is_of_kind_time() -> None:
    axes = axes_of((9, 9), [Description("t"), Description("x")], may_be_rgb=False)
    assert [(axis.kind, axis.letter) for axis in axes] == [("time", "Y"), ("space", "X")]


def test_a_custom_type_is_of_another_kind_wherever_it_stands() -> None:
    axes = axes_of((9, 9), [Description("q", "angle"), Description("x")], may_be_rgb=False)
    assert [(axis.kind, axis.letter) for axis in axes] == [("other", "Y"), ("space", "X")]


# -- units


@pytest.mark.parametrize(
    ("written", "unit"),
    [
        ("micrometer", "micrometer"),
        ("Micrometers", "micrometer"),
        ("micrometre", "micrometer"),
        ("microns", "micrometer"),
        ("um", "micrometer"),
        ("\u00b5m", "micrometer"),
        ("\u03bcm", "micrometer"),
        (" nm ", "nanometer"),
        ("m", "meter"),
        ("mm", "millimeter"),
        ("angstrom", "angstrom"),
        ("inch", "inch"),
        ("in", "inch"),
        ("s", "second"),
        ("Seconds", "second"),
        ("ms", "millisecond"),
        ("min", "minute"),
        ("hours", "hour"),
        ("day", "day"),
        ("yottasecond", "yottasecond"),
        ("pixel", None),
        ("", None),
        ("Mm", None),
        ("micro", None),
        (None, None),
    ],
)
def test_units_are_spelled_as_ome_ngff_spells_them(written: str | None, unit: str | None) -> None:
    assert unit_of(written) == unit


@pytest.mark.parametrize(
    ("kind", "written", "unit"),
    [
        ("space", "micrometer", "micrometer"),
        ("space", "second", None),
        ("time", "second", "second"),
        ("time", "micrometer", None),
        ("channel", "nanometer", None),
        ("spectral", "nanometer", "nanometer"),
    ],
)
def test_a_unit_must_go_with_the_kind_of_axis(kind: str, written: str, unit: str | None) -> None:
    described = [Description("a", kind, written), Description("y"), Description("x")]
    assert axes_of((9, 9, 9), described, may_be_rgb=False)[0].unit == unit


# -- what the array says itself


def array(**members: Any) -> ArrayNode:
    return array_of(*members.pop("shape", (9, 9, 9)), **members)


def v2_array(attributes: bytes | None = None, dtype: Any = "<u2") -> ArrayNode:
    return v2_array_of(9, 9, 9, attributes=attributes, dtype=dtype)


def test_dimension_names_are_the_names() -> None:
    assert names_of(array(dimension_names=["c", None, "x\n"])) == ("c", "", "x")
    assert names_of(array()) == ("", "", "")


def test_in_zarr_v2_they_are_where_xarray_keeps_them() -> None:
    assert names_of(v2_array(b'{"_ARRAY_DIMENSIONS": ["c", "lat", "lon"]}')) == ("c", "lat", "lon")
    assert names_of(v2_array(b'{"_ARRAY_DIMENSIONS": ["c", 7, null]}')) == ("c", "", "")


@pytest.mark.parametrize(
    "attributes",
    [
        None,
        b"",
        b"no JSON",
        b"[]",
        b"{}",
        b'{"_ARRAY_DIMENSIONS": "czy"}',
        b'{"_ARRAY_DIMENSIONS": ["y", "x"]}',
        b'{"_ARRAY_DIMENSIONS": {"0": "z"}}',
        b'{"_ARRAY_DIMENSIONS": [1e999, 1, 1]}',
        b'{"_ARRAY_DIMENSIONS": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_no_list_of_as_many_names_is_none(attributes: bytes | None) -> None:
    assert names_of(v2_array(attributes)) == ("", "", "")


@pytest.mark.parametrize("dtype", ["|u1", "<u2", ">u2"])
def test_types_of_colour_pictures_of_v2(dtype: str) -> None:
    assert may_be_rgb(v2_array(dtype=dtype))


@pytest.mark.parametrize("dtype", ["<u4", "|i1", "<f4", [["r", "|u1"]]])
def test_types_that_colour_pictures_of_v2_do_not_have(dtype: Any) -> None:
    assert not may_be_rgb(v2_array(dtype=dtype))


def test_types_of_colour_pictures_of_v3() -> None:
    assert may_be_rgb(array(data_type="uint8"))
    assert may_be_rgb(array(data_type={"name": "uint16"}))
    assert not may_be_rgb(array(data_type="float32"))
    assert not may_be_rgb(array(data_type="r24"))


# -- anything


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 5),
            st.builds(
                Description,
                st.sampled_from(["", "t", "c", "z", "y", "x", "dim_0", "rgb", "what"]) | st.text(),
                st.none() | st.sampled_from(["time", "channel", "space", "other"]),
                st.none() | st.sampled_from(["second", "micrometer"]) | st.text(),
            ),
        ),
        max_size=9,
    ),
    st.booleans(),
)
def test_each_letter_is_there_once_and_the_plane_comes_last(
    dimensions: list[tuple[int, Description]], may_be_rgb: bool
) -> None:
    shape = tuple(length for length, _ in dimensions)
    described = [said for _, said in dimensions]
    axes = axes_of(shape, described, may_be_rgb=may_be_rgb)
    assert [axis.name for axis in axes] == [said.name for said in described]
    found = [axis.letter for axis in axes if axis.letter]
    assert len(found) == len(set(found))
    assert set(found) <= set("TCZYXS")
    plane = "".join(found).removesuffix("S")
    assert plane.endswith("YX"[-len(shape) :] if shape else "")
    assert ("S" in found) == (axes[-1].kind == "sample" if axes else False)


def test_the_axes_of_old_pictures_of_five_dimensions() -> None:
    axes = axes_of((2, 3, 4, 5, 3), OF_FIVE_DIMENSIONS, may_be_rgb=True)
    assert axes == tuple(Axis(n, NGFF[n], n.upper()) for n in "tczyx")  # type: ignore[arg-type]
