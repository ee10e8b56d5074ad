"""Channels of a picture: colours, windows and labels, whole and broken."""

from typing import Any

import pytest
from builders.nodes import array_of
from ome_attributes import IDR, NGFF_ZARR, NODE, OME_ZARR_PY, only_pyramid, window, with_value

from zarrfuse.spec.ome import Channel, picture_of

CHANNEL = ("omero", "channels", 0)


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
    labels = [channel.label for channel in picture_of(array_of(3, 9, 9, 9), pyramid).channels]
    assert labels == ["LaminB1", "Dapi", None]
    assert len(picture_of(array_of(1, 9, 9, 9), pyramid).channels) == 1
    assert picture_of(array_of(2**40, 9, 9, 9), pyramid).channels == ()


def test_without_an_axis_of_channels_there_is_one_or_none() -> None:
    assert len(picture_of(array_of(9, 9, 9), only_pyramid(OME_ZARR_PY)).channels) == 1
    two = {**NGFF_ZARR, "omero": IDR["omero"]}
    assert picture_of(array_of(9, 9), only_pyramid(two)).channels == ()
    colour = {**NGFF_ZARR, "omero": OME_ZARR_PY["ome"]["omero"]}
    picture = picture_of(array_of(9, 9, 3, dimension_names=["y", "x", "rgb"]), only_pyramid(colour))
    assert picture.samples
    assert picture.channels == ()
