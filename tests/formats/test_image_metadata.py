"""What OME-XML and ImageJ are told of a picture is valid, whatever the metadata say."""

import re
from dataclasses import replace
from math import prod
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import picture
from tifffile import OmeXml

from zarrfuse.formats import imagej
from zarrfuse.formats.image_metadata import LENGTHS, TIMES, ome_metadata, stacked
from zarrfuse.spec.axes import Axis
from zarrfuse.spec.ome import Channel, Picture

OME = "{http://www.openmicroscopy.org/Schemas/OME/2016-06}"
# OME-XML schema 2016-06, UnitsLength and UnitsTime.
OF_LENGTH = [
    "Ym",
    "Zm",
    "Em",
    "Pm",
    "Tm",
    "Gm",
    "Mm",
    "km",
    "hm",
    "dam",
    "m",
    "dm",
    "cm",
    "mm",
    "\u00b5m",
    "nm",
    "pm",
    "fm",
    "am",
    "zm",
    "ym",
    "\u00c5",
    "thou",
    "li",
    "in",
    "ft",
    "yd",
    "mi",
    "ua",
    "ly",
    "pc",
    "pt",
]
OF_TIME = [
    "Ys",
    "Zs",
    "Es",
    "Ps",
    "Ts",
    "Gs",
    "Ms",
    "ks",
    "hs",
    "das",
    "s",
    "ds",
    "cs",
    "ms",
    "\u00b5s",
    "ns",
    "ps",
    "fs",
    "as",
    "zs",
    "ys",
    "min",
    "h",
    "d",
]
ODD = 'a\x00\ud800\n<&"]]>{}\U0001f600\uffff b'


def pixels(shape: tuple[int, ...], shown: Picture, name: str = "a") -> tuple[Any, Any]:
    """The elements Image and Pixels of the OME-XML."""
    shape, shown = stacked(shape, shown)
    metadata = ome_metadata(shape, np.dtype("uint8"), shown, name)
    image = 3 if shown.samples else 2
    samples = shape[-1] if shown.samples else 1
    height, width = shape[len(shape) - image :][:2]
    xml = OmeXml(**metadata)
    stored = (prod(shape[:-image]), 1, 1, height, width, samples)
    xml.addimage(dtype="uint8", shape=shape, storedshape=stored, **metadata)
    root = ElementTree.fromstring(xml.tostring(declaration=True).encode())
    found = root.find(f"{OME}Image")
    assert found is not None
    return found, found.find(f"{OME}Pixels")


def test_sizes_of_steps_have_the_units_of_ome() -> None:
    _, found = pixels((2, 3, 4, 5), picture("TZYX", scaled=True))

    assert (found.get("PhysicalSizeX"), found.get("PhysicalSizeXUnit")) == ("0.25", "\u00b5m")
    assert (found.get("PhysicalSizeY"), found.get("PhysicalSizeYUnit")) == ("0.5", "\u00b5m")
    assert (found.get("PhysicalSizeZ"), found.get("PhysicalSizeZUnit")) == ("2.0", "\u00b5m")
    assert (found.get("TimeIncrement"), found.get("TimeIncrementUnit")) == ("3.0", "ms")


def test_every_unit_is_one_of_ome() -> None:
    assert set(LENGTHS.values()) <= set(OF_LENGTH)
    assert set(TIMES.values()) <= set(OF_TIME)


@pytest.mark.parametrize("unit", [None, "second", "furlong", "micrometre"])
def test_steps_in_other_units_are_left_out(unit: str | None) -> None:
    shown = Picture((Axis("y", "space", "Y", unit, 2.0), Axis("x", "space", "X", unit, 2.0)))

    _, found = pixels((3, 4), shown)

    assert found.get("PhysicalSizeX") is None


@pytest.mark.parametrize("scale", [0.0, float("nan"), float("inf"), None])
def test_steps_without_a_size_are_left_out(scale: float | None) -> None:
    axes = (Axis("y", "space", "Y"), Axis("x", "space", "X", "meter", scale))

    _, found = pixels((3, 4), Picture(axes))

    assert found.get("PhysicalSizeX") is None


def test_steps_backwards_have_a_positive_size() -> None:
    axes = (Axis("y", "space", "Y"), Axis("x", "space", "X", "meter", -0.5))

    _, found = pixels((3, 4), Picture(axes))

    assert found.get("PhysicalSizeX") == "0.5"


def test_channels_have_names_and_colours() -> None:
    channels = (Channel("DAPI", 0x0000FF), Channel(None, 0xFF8000), Channel("GFP"))

    _, found = pixels((3, 4, 5), picture("CYX", channels=channels))

    told = [(one.get("Name"), one.get("Color")) for one in found.findall(f"{OME}Channel")]
    colors = [None if color is None else int(color) & 0xFFFFFFFF for _, color in told]
    assert [name for name, _ in told] == ["DAPI", None, "GFP"]
    assert colors == [0x0000FFFF, 0xFF8000FF, None]
    assert all(color is None or -(1 << 31) <= int(color) < 1 << 31 for _, color in told)


def test_planes_lie_where_they_begin() -> None:
    _, found = pixels((2, 3, 4, 5), picture("CZYX", scaled=True))

    planes = found.findall(f"{OME}Plane")

    assert len(planes) == 6
    for plane in planes:
        z = int(plane.get("TheZ"))
        assert plane.get("PositionX") == "10.0"
        assert plane.get("PositionZ") == str(10.0 + 2.0 * z)
        assert plane.get("PositionZUnit") == "\u00b5m"


def test_positions_of_very_many_planes_are_left_out() -> None:
    shape, shown = stacked((5000, 2, 2), picture("TYX", scaled=True))

    assert "Plane" not in ome_metadata(shape, np.dtype("u1"), shown, "a")
    assert "Plane" in ome_metadata((4096, 2, 2), np.dtype("u1"), shown, "a")


def test_odd_characters_leave_valid_xml() -> None:
    image, found = pixels((1, 2, 3), picture("CYX", channels=(Channel(ODD, 1),)), ODD)

    assert image.get("Name") == 'a <&"]]>{}\U0001f600 b'
    assert found.find(f"{OME}Channel").get("Name") == image.get("Name")


def test_different_arrays_have_different_identifiers() -> None:
    shown = picture("YX")
    told = {
        ome_metadata(shape, np.dtype(dtype), shown, name)["UUID"]
        for shape in [(2, 3), (3, 2)]
        for dtype in ("u1", "u2")
        for name in ("a", "b\ud800")
    }

    assert len(told) == 8
    assert all(re.fullmatch("[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", one) for one in told)


@pytest.mark.parametrize(
    ("letters", "shape", "as_letters", "as_shape"),
    [
        ("", (), "YX", (1, 1)),
        ("X", (5,), "YX", (1, 5)),
        ("YXS", (5, 6, 3), "YXS", (5, 6, 3)),
        ("-YX", (4, 5, 6), "TYX", (4, 5, 6)),
        ("--YX", (3, 4, 5, 6), "TYX", (12, 5, 6)),
        ("-TYX", (3, 4, 5, 6), "ZTYX", (3, 4, 5, 6)),
        ("-C-YX", (3, 2, 4, 5, 6), "TCZYX", (3, 2, 4, 5, 6)),
        ("-TZCYX", (2, 3, 4, 5, 6, 7), "TZCYX", (6, 4, 5, 6, 7)),
        ("T-ZYX", (2, 3, 4, 5, 6), "TZYX", (6, 4, 5, 6)),
        ("TZ-CYX", (2, 1, 3, 4, 5, 6), "TZCYX", (2, 3, 4, 5, 6)),
        ("-TYX", (1, 4, 5, 6), "TYX", (4, 5, 6)),
    ],
)
def test_axes_without_a_letter_get_one_or_are_merged(
    letters: str, shape: tuple[int, ...], as_letters: str, as_shape: tuple[int, ...]
) -> None:
    stack_shape, stack = stacked(shape, picture(letters, scaled=True))

    assert "".join(axis.letter for axis in stack.axes) == as_letters
    assert stack_shape == as_shape


def test_steps_along_merged_axes_have_no_size() -> None:
    _, stack = stacked((2, 3, 4, 5, 6), picture("T-ZYX", scaled=True))

    assert [axis.scale for axis in stack.axes] == [None, 2.0, 0.5, 0.25]


def test_channels_of_a_merged_axis_are_dropped() -> None:
    channels = (Channel("a"), Channel("b"))
    shown = picture("TZC-YX", channels=channels)

    assert stacked((1, 1, 2, 1, 5, 6), shown)[1].channels == channels
    assert stacked((1, 1, 2, 3, 5, 6), shown)[1].channels == ()


NUMBERS = st.none() | st.floats() | st.sampled_from([1e-320, 1e308, -0.0, 0.1])
UNITS = st.none() | st.sampled_from([*LENGTHS, *TIMES, "furlong"]) | st.text(max_size=4)


@st.composite
def odd_pictures(draw: st.DrawFn) -> tuple[tuple[int, ...], Picture]:
    letters = draw(st.sampled_from(["YX", "TCZYX", "T-CYX", "--ZYX", "CYX", "ZYXS"]))
    shape = tuple(
        draw(st.sampled_from([3, 4]) if letter == "S" else st.integers(1, 3)) for letter in letters
    )
    axes = tuple(
        replace(axis, unit=draw(UNITS), scale=draw(NUMBERS), origin=draw(NUMBERS))
        for axis in picture(letters).axes
    )
    window = st.none() | st.tuples(st.floats(), st.floats())
    count = prod(length for length, letter in zip(shape, letters, strict=True) if letter == "C")
    label = st.none() | st.text(st.characters(), max_size=5)
    channel = st.builds(Channel, label, st.none() | st.integers(0, 0xFFFFFF), window)
    channels = draw(st.just([]) | st.lists(channel, min_size=count, max_size=count))
    return shape, Picture(axes, tuple(channels), draw(window), letters.endswith("S"))


@given(odd_pictures(), st.text(st.characters(), max_size=5))
def test_xml_is_well_formed_whatever_is_said(
    shown: tuple[tuple[int, ...], Picture], name: str
) -> None:
    _, found = pixels(*shown, name)

    for letter in "XYZ":
        size = found.get(f"PhysicalSize{letter}")
        assert size is None or float(size) > 0
        assert found.get(f"PhysicalSize{letter}Unit") in {None, *OF_LENGTH}


@given(odd_pictures(), st.sampled_from(["uint8", "uint16", "int16", "float32"]))
def test_imagej_is_told_lines_of_ascii(shown: tuple[tuple[int, ...], Picture], dtype: str) -> None:
    shape, stack_picture = stacked(*shown)
    stack = imagej.hyperstack(shape, np.dtype(dtype), stack_picture)
    if stack is None:
        assert stack_picture.samples
        return

    told = imagej.description(stack, np.dtype(dtype), stack_picture)
    tags = imagej.tags(stack, np.dtype(dtype), stack_picture)

    assert told.isascii()
    assert told.startswith("ImageJ=")
    for line in told.splitlines():
        assert re.fullmatch(r"[A-Za-z]+=(?!nan|-?inf)[^=]+", line)
    assert np.isfinite(tags.get("Ranges", [])).all()
    assert len(tags.get("LUTs", [])) in (0, stack.channels)
    assert len(tags.get("Ranges", [])) in (0, 2 * stack.channels)
