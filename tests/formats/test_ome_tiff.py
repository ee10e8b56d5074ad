"""The layout of a pyramidal OME-TIFF follows from shapes; its header is a TIFF that readers take."""

import os
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from zarrfuse.formats.ome_tiff import (
    CLASSIC_LIMIT,
    Layout,
    pyramid_header,
    pyramid_layout,
    pyramid_problem,
)
from zarrfuse.formats.tiles import tile_side
from zarrfuse.spec.axes import Axis
from zarrfuse.spec.ome import Channel, Picture

OME = "{http://www.openmicroscopy.org/Schemas/OME/2016-06}"
KINDS = {"T": "time", "C": "channel", "S": "sample", "": "other"}


def picture(letters: str, *channels: Channel) -> Picture:
    axes = tuple(
        Axis(letter.lower(), KINDS.get(letter, "space"), letter, None, None, None)
        for letter in letters
    )
    return Picture(axes, channels, None, letters.endswith("S"))


def layout(
    shapes: list[tuple[int, ...]],
    letters: str,
    dtype: str = "u2",
    chunk: tuple[int, int] = (256, 256),
    name: str = "p",
) -> Layout:
    dtypes = (np.dtype(dtype),) * len(shapes)
    return pyramid_layout(tuple(shapes), dtypes, picture(letters), chunk, name)


def halves(shape: tuple[int, ...], count: int) -> list[tuple[int, ...]]:
    return [
        (*shape[:-2], max(shape[-2] >> level, 1), max(shape[-1] >> level, 1))
        for level in range(count)
    ]


def sparse(folder: Path, made: Layout) -> Path:
    """The file with holes in place of pixels."""
    path = folder / "p.ome.tiff"
    with path.open("wb") as file:
        file.write(pyramid_header(made))
        os.ftruncate(file.fileno(), made.size)
    return path


@pytest.mark.parametrize(
    ("chunk", "length", "side"),
    [
        (256, 5000, 256),
        (512, 5000, 512),
        (1024, 5000, 1024),
        (2048, 5000, 1024),
        (1536, 5000, 768),
        (4096, 4096, 1024),
        (64, 5000, 128),
        (48, 5000, 160),
        (100, 5000, 224),
        (1, 5000, 128),
        (1000, 5000, 1024),
        (5000, 5000, 1024),
        (256, 130, 160),
        (256, 20, 128),
        (0, 20, 128),
    ],
)
def test_tiles_are_near_multiples_or_fractions_of_chunks(
    chunk: int, length: int, side: int
) -> None:
    assert tile_side(chunk, length) == side


@given(st.integers(0, 100_000), st.integers(1, 100_000))
def test_sides_of_tiles_are_multiples_of_32_between_128_and_1024(chunk: int, length: int) -> None:
    side = tile_side(chunk, length)
    assert side % 32 == 0
    assert 128 <= side <= 1024


def test_many_small_chunks_share_larger_tiles() -> None:
    assert layout(halves((100_000, 100_000), 2), "YX", "u1", (128, 128)).tiles.shape == (128, 128)
    assert layout(halves((200_000, 200_000), 2), "YX", "u1", (128, 128)).tiles.shape == (256, 256)
    assert layout(halves((900_000, 900_000), 2), "YX", "u1", (1, 5000)).tiles.shape == (1024, 1024)


def no_image(shapes: list[tuple[int, ...]], letters: str, *dtypes: str) -> str | None:
    types = [np.dtype(name) for name in dtypes or ("u2",)]
    types += [types[-1]] * (len(shapes) - len(types))
    return pyramid_problem(shapes, types, picture(letters))


@pytest.mark.parametrize(
    ("problem", "shapes", "letters", "dtypes"),
    [
        ("it has no levels", [], "YX", ("u2",)),
        ("it has 1 dimensions, fewer than an image", [(5,)], "X", ("u2",)),
        ("it has 2 dimensions, fewer than an image", [(5, 3)], "YS", ("u2",)),
        ("level 0 is empty", [(0, 5)], "YX", ("u2",)),
        ("level 1 is empty", [(5, 5), (0, 5)], "YX", ("u2",)),
        ("level 1 has 3 dimensions and level 0 has 2", [(5, 5), (1, 5, 5)], "YX", ("u2",)),
        ("level 1 is of type uint8 and level 0 of uint16", [(5, 5), (2, 2)], "YX", ("u2", "u1")),
        ("level 2 is larger than the level before", [(9, 9), (4, 4), (4, 5)], "YX", ("u2",)),
        ("level 1 is larger than the level before", [(2, 9, 9), (3, 4, 4)], "ZYX", ("u2",)),
        (
            "level 1 has 1 elements along axis c and level 0 2",
            [(2, 9, 9), (1, 4, 4)],
            "CYX",
            ("u2",),
        ),
        (
            "level 1 has 3 elements along axis s and level 0 4",
            [(9, 9, 4), (4, 4, 3)],
            "YXS",
            ("u2",),
        ),
        (
            "it would have 80000 planes in all its levels, more than 65536",
            [(40_000, 9, 9), (40_000, 4, 4)],
            "TYX",
            ("u2",),
        ),
        (
            "it would have 9539713 tiles, more than 4194304",
            [(3_162_000, 3_162_000), (64_000, 64_000)],
            "YX",
            ("u1",),
        ),
        ("it is longer than OME-XML can say", [(1, 1 << 31)], "YX", ("u2",)),
    ],
)
def test_what_is_no_image_pyramid_says_why(
    problem: str, shapes: list[tuple[int, ...]], letters: str, dtypes: tuple[str, ...]
) -> None:
    assert no_image(shapes, letters, *dtypes) == problem
    if shapes:
        types = tuple(np.dtype(name) for name in dtypes)
        types += (types[-1],) * (len(shapes) - len(types))
        with pytest.raises(ValueError, match=problem):
            pyramid_layout(tuple(shapes), types, picture(letters), (9, 9), "p")


@pytest.mark.parametrize("dtype", ["u8", "i8", "c8", "c16", "f2", "M8[s]", "V3", "S4", "U2"])
def test_types_that_readers_do_not_know_are_named(dtype: str) -> None:
    said = no_image([(5, 5)], "YX", dtype)
    assert said == f"{np.dtype(dtype)} has no type in OME-TIFF that readers know"


def test_axes_that_are_none_of_an_image_become_one_that_is(tmp_path: Path) -> None:
    odd = Picture((Axis("phase", "other", ""), Axis("q", "other", ""), *picture("ZYX").axes))
    shapes = (2, 3, 4, 300, 200), (2, 3, 4, 150, 100)
    made = pyramid_layout(shapes, (np.dtype("u2"),) * 2, odd, (128, 128), "p")
    with tifffile.TiffFile(sparse(tmp_path, made)) as tif:
        assert tif.series[0].axes == "TZYX"
        assert tif.series[0].shape == (6, 4, 300, 200)


def test_pixels_per_centimeter_stand_in_the_tags_of_each_level(tmp_path: Path) -> None:
    axes = (
        Axis("y", "space", "Y", "micrometer", 0.5, None),
        Axis("x", "space", "X", "nanometer", 250.0, None),
    )
    made = pyramid_layout(
        ((300, 200), (150, 100)),
        (np.dtype("u2"),) * 2,
        Picture(axes, (), None, False),
        (128, 128),
        "p",
    )
    with tifffile.TiffFile(sparse(tmp_path, made)) as tif:
        page = tif.pages[0]
        assert page.resolutionunit == tifffile.RESUNIT.CENTIMETER
        assert page.resolution == pytest.approx((40_000, 20_000))
        assert page.pages[0].resolution == pytest.approx((20_000, 10_000))


def test_a_file_below_4_gib_is_a_classic_tiff_and_one_from_there_on_a_bigtiff() -> None:
    below = layout([(65_536 - 2048, 32_768)], "YX", chunk=(1024, 1024))
    assert below.size < CLASSIC_LIMIT
    assert not below.is_bigtiff
    assert pyramid_header(below)[:4] == b"II\x2a\x00"
    above = layout([(65_536, 32_768)], "YX", chunk=(1024, 1024))
    assert above.size > CLASSIC_LIMIT
    assert above.is_bigtiff
    assert pyramid_header(above)[:4] == b"II\x2b\x00"


def test_headers_are_the_same_bytes_each_time() -> None:
    made = layout(halves((3, 1000, 900), 3), "CYX")
    first = pyramid_header(made)
    assert len(first) <= made.tiles.start
    time.sleep(0.01)
    pyramid_layout.cache_clear()
    again = layout(halves((3, 1000, 900), 3), "CYX")
    assert again is not made
    assert pyramid_header(again) == first


def test_images_that_differ_are_told_apart_by_their_uuid() -> None:
    def uuid(made: Layout) -> str:
        return pyramid_header(made).split(b'UUID="urn:uuid:')[1][:36].decode()

    ones = [
        layout([(500, 500)], "YX"),
        layout([(500, 501)], "YX"),
        layout([(500, 500)], "YX", "u1"),
        layout([(500, 500)], "YX", name="q"),
    ]
    assert len({uuid(made) for made in ones}) == 4


def test_64_gib_in_one_plane_open_at_once(tmp_path: Path) -> None:
    made = layout(halves((185_364, 185_364), 8), "YX")
    assert made.size > 64 << 30
    path = sparse(tmp_path, made)
    with tifffile.TiffFile(path) as tif:
        assert tif.is_bigtiff
        (series,) = tif.series
        assert [level.shape for level in series.levels] == halves((185_364, 185_364), 8)
        page = tif.pages[0]
        assert page.tile == (256, 256)
        assert max(page.dataoffsets) + 256 * 256 * 2 <= made.size
    path.unlink()


def test_a_thousand_planes_in_six_levels_open_at_once(tmp_path: Path) -> None:
    made = layout(halves((10, 4, 25, 5800, 5900), 6), "TCZYX")
    path = sparse(tmp_path, made)
    with tifffile.TiffFile(path) as tif:
        (series,) = tif.series
        assert series.shape == (10, 4, 25, 5800, 5900)
        assert [level.shape for level in series.levels] == halves((10, 4, 25, 5800, 5900), 6)
    path.unlink()


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e-6, 1e12, 1e300])
def test_pixels_of_any_size_make_a_header(tmp_path: Path, scale: float) -> None:
    axes = tuple(Axis(name, "space", name.upper(), "micrometer", scale, None) for name in "yx")
    picture = Picture(axes, (), None, False)
    made = pyramid_layout(((300, 200),), (np.dtype("u2"),), picture, (128, 128), "p")
    with tifffile.TiffFile(sparse(tmp_path, made)) as tif:
        pixels = ElementTree.fromstring(tif.ome_metadata).find(f"{OME}Image/{OME}Pixels")
        assert float(pixels.get("PhysicalSizeX")) == scale


def test_every_tile_of_every_ifd_lies_where_the_layout_says(tmp_path: Path) -> None:
    made = layout([(2, 3, 700, 500), (2, 3, 350, 250), (2, 1, 80, 70)], "CZYX", chunk=(128, 160))
    path = sparse(tmp_path, made)
    found: dict[int, tuple[Any, ...]] = {}
    for piece in made.tiles.pieces(made.tiles.start, made.size):
        assert (piece.start, piece.stop) == (0, made.tiles.tile_bytes)
        at = made.tiles.start + len(found) * made.tiles.tile_bytes
        found[at] = (piece.level, piece.leading, piece.y, piece.x)
    assert made.tiles.start + len(found) * made.tiles.tile_bytes == made.size
    seen = set()
    with tifffile.TiffFile(path) as tif:
        assert len(tif.pages) == 6
        for plane in range(6):
            page = tif.pages.get(plane)
            for number, ifd in enumerate([page, *page.pages]):
                channel, z = divmod(plane, 3)
                leading = (channel, 0 if number == 2 else z)
                columns = -(-made.tiles.levels[number].width // made.tiles.shape[1])
                assert set(ifd.databytecounts) == {made.tiles.tile_bytes}
                for tile, at in enumerate(ifd.dataoffsets):
                    row, column = divmod(tile, columns)
                    y, x = row * made.tiles.shape[0], column * made.tiles.shape[1]
                    assert found[at] == (number, leading, y, x)
                    seen.add(at)
    assert seen == set(found)


def test_pixels_begin_on_a_page_with_the_coarsest_level_first() -> None:
    made = layout(halves((3, 1000, 900), 3), "CYX")
    assert made.tiles.start % 4096 == 0
    starts = made.tiles.starts
    assert list(starts) == sorted(starts, reverse=True)
    assert starts[-1] == made.tiles.start


def test_smaller_resolutions_are_marked_as_such(tmp_path: Path) -> None:
    path = sparse(tmp_path, layout(halves((3, 1000, 900), 3), "CYX"))
    with tifffile.TiffFile(path) as tif:
        page = tif.pages[0]
        assert not page.is_reduced
        assert len(page.subifds) == 2
        assert all(reduced.is_reduced for reduced in page.pages)


def test_channels_sizes_and_origin_stand_in_the_xml() -> None:
    axes = (
        Axis("c", "channel", "C", None, None, None),
        Axis("z", "space", "Z", "micrometer", 2.0, 10.0),
        Axis("y", "space", "Y", "micrometer", 0.5, 30.0),
        Axis("x", "space", "X", "micrometer", 0.25, -20.0),
    )
    channels = (Channel("DAPI <405>", 0x0000FF), Channel("Grün & gut", 0xFF0000))
    made = pyramid_layout(
        ((2, 3, 300, 200), (2, 3, 150, 100)),
        (np.dtype("u2"),) * 2,
        Picture(axes, channels, None, False),
        (128, 128),
        'well "A1"',
    )
    image = xml_of(made).find(f"{OME}Image")
    assert image.get("Name") == 'well "A1"'
    pixels = image.find(f"{OME}Pixels")
    assert [pixels.get(f"Size{axis}") for axis in "XYZCT"] == ["200", "300", "3", "2", "1"]
    sizes = [float(pixels.get(f"PhysicalSize{axis}")) for axis in "XYZ"]
    assert sizes == [0.25, 0.5, 2.0]
    assert {pixels.get(f"PhysicalSize{axis}Unit") for axis in "XYZ"} <= {"µm", None}
    assert pixels.get("Type") == "uint16"
    said = pixels.findall(f"{OME}Channel")
    assert [channel.get("Name") for channel in said] == ["DAPI <405>", "Grün & gut"]
    colours = [int(channel.get("Color")) & 0xFFFFFFFF for channel in said]
    assert colours == [0x0000FFFF, 0xFF0000FF]
    planes = pixels.findall(f"{OME}Plane")
    assert [float(plane.get("PositionX")) for plane in planes] == [-20.0] * 6
    assert [float(plane.get("PositionY")) for plane in planes] == [30.0] * 6
    assert [float(plane.get("PositionZ")) for plane in planes] == [10.0, 12.0, 14.0] * 2


def xml_of(made: Layout) -> ElementTree.Element:
    header = pyramid_header(made)
    start = header.index(b"<?xml")
    return ElementTree.fromstring(header[start : header.index(b"</OME>", start) + 6])


names = st.text(max_size=40) | st.sampled_from(["\udc80", '"' * 500, "&" * 1000, "\x00", "\ud800é"])
labels = st.none() | st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=60)
numbers = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=examples(80), deadline=None)
@given(
    st.text("TCZ", max_size=3).filter(lambda leading: len(set(leading)) == len(leading)),
    names,
    st.lists(labels, min_size=4, max_size=4),
    st.lists(numbers, min_size=4, max_size=4),
    st.sampled_from([None, "micrometer", "nanometer", "second", "angstrom", "parsec"]),
    st.integers(1, 4),
)
def test_a_header_always_fits_into_its_room_and_is_read(
    leading: str,
    name: str,
    said: list[str | None],
    values: list[float | None],
    unit: str | None,
    count: int,
) -> None:
    axes = tuple(
        Axis(letter, KINDS.get(letter, "space"), letter, unit, abs(values[0] or 1) or None, value)
        for letter, value in zip(f"{leading}YX", values * 2, strict=False)
    )
    channels = tuple(Channel(label, 0xFFFFFF) for label in said) if "C" in leading else ()
    shapes = tuple(halves((4,) * len(leading) + (600, 500), count))
    made = pyramid_layout(
        shapes,
        (np.dtype("f4"),) * count,
        Picture(axes, channels, None, False),
        (128, 128),
        name,
    )
    assert len(pyramid_header(made)) <= made.tiles.start
    pixels = xml_of(made).find(f"{OME}Image/{OME}Pixels")
    assert pixels.get("SizeX") == "500"


def test_a_name_whose_every_letter_becomes_six_fits_into_its_room() -> None:
    made = layout([(200, 200)], "YX", name='"' * 5000)
    assert len(pyramid_header(made)) <= made.tiles.start
    assert xml_of(made).find(f"{OME}Image").get("Name") == '"' * 5000
