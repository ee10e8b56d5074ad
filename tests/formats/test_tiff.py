"""tifffile and libtiff read what stands around the pixels, and the pixels between."""

import io
import subprocess
import sys
from math import prod
from pathlib import Path

import numpy as np
import pytest
import tifffile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pictures import counting, picture, whole
from sampling import examples
from tiff_pictures import RGB, made

from zarrfuse.formats.tiff import array_tiff, tiff_problem
from zarrfuse.spec.ome import Channel, Picture

pytestmark = pytest.mark.usefixtures("no_complaints")

TYPES = [
    *("bool", "uint8", "uint16", "uint32", "int8", "int16", "int32"),
    *("float16", "float32", "float64"),
]
OF_IMAGEJ = ["bool", "uint8", "uint16", "int16", "uint32", "int32", "float32"]
LEADING = ["", "T", "Z", "C", "TZ", "TC", "ZT", "ZC", "CT", "CZ"]
LEADING += ["TZC", "TCZ", "ZTC", "ZCT", "CTZ", "CZT", "-", "--", "T-Z", "-T-Z", "TZ-C", "C-Z-"]


def shown_as(array: np.ndarray) -> np.ndarray:
    return array.view(np.uint8) if array.dtype == np.bool_ else array


@st.composite
def pictures(draw: st.DrawFn) -> tuple[tuple[int, ...], Picture]:
    rows = draw(st.sampled_from(["", "X", "YX", "YX", "YX", "YXS"]))
    leading = draw(st.sampled_from(LEADING)) if len(rows) > 1 else ""
    letters = leading + rows
    lengths = st.integers(1, 5)
    shape = tuple(draw(st.sampled_from([3, 4]) if x == "S" else lengths) for x in letters)
    channels: tuple[Channel, ...] = ()
    if draw(st.booleans()):
        count = prod(n for n, x in zip(shape, letters, strict=True) if x == "C")
        channel = st.builds(
            Channel,
            st.none() | st.text(max_size=4),
            st.none() | st.integers(0, 0xFFFFFF),
            st.none() | st.just((1.0, 9.0)),
        )
        channels = tuple(draw(st.lists(channel, min_size=count, max_size=count)))
    statistics = draw(st.none() | st.just((-3.5, 90.0)))
    scaled = draw(st.booleans())
    return shape, picture(letters, scaled=scaled, channels=channels, display_range=statistics)


def is_contiguous(shown: tuple[tuple[int, ...], Picture]) -> bool:
    """Whether no plane of the array is twice in its file."""
    return not array_tiff(shown[0], np.dtype("uint8"), shown[1], "a").again


# -- whole arrays


@given(pictures(), st.sampled_from(TYPES), st.text(max_size=8))
@settings(max_examples=examples(300), deadline=None)
def test_tifffile_reads_the_array(
    shown: tuple[tuple[int, ...], Picture], dtype: str, name: str
) -> None:
    array, content = made(*_with(shown, dtype), name)

    read = tifffile.imread(io.BytesIO(content))

    assert read.dtype == shown_as(array).dtype
    assert np.array_equal(read.reshape(array.shape), shown_as(array))


def _with(
    shown: tuple[tuple[int, ...], Picture], dtype: str
) -> tuple[tuple[int, ...], str, Picture]:
    return shown[0], dtype, shown[1]


@given(pictures().filter(is_contiguous), st.sampled_from(TYPES))
@settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_elements_can_be_mapped_into_memory(
    tmp_path: Path, shown: tuple[tuple[int, ...], Picture], dtype: str
) -> None:
    array, content = made(*_with(shown, dtype))
    file = tmp_path / "a.tiff"
    file.write_bytes(content)

    assert tifffile.memmap(file, mode="r").tobytes() == array.tobytes()


@given(pictures(), st.sampled_from(TYPES))
@settings(max_examples=examples(100), deadline=None)
def test_every_page_is_a_plane(shown: tuple[tuple[int, ...], Picture], dtype: str) -> None:
    array, content = made(*_with(shown, dtype))
    plane = (1, 1, *array.shape)[-3 if shown[1].samples else -2 :]

    with tifffile.TiffFile(io.BytesIO(content)) as file:
        pages = [page.asarray() for page in file.pages]

    assert np.array_equal(np.array(pages), shown_as(array).reshape(-1, *plane))


@pytest.mark.parametrize("leading", ["T", "Z", "C", "TZ", "ZC", "TC", "TZC", "CZ", "TCZ"])
@pytest.mark.parametrize("dtype", OF_IMAGEJ)
def test_hyperstack_of_imagej_has_the_axes_of_the_array(leading: str, dtype: str) -> None:
    shape = (*range(2, 2 + len(leading)), 6, 7)
    _, content = made(shape, dtype, picture(f"{leading}YX", scaled=True))

    with tifffile.TiffFile(io.BytesIO(content)) as file:
        (series,) = file.series
        assert (series.axes, series.shape) == (f"{leading}YX", shape)
        metadata = file.imagej_metadata

    counts = {
        {"T": "frames", "Z": "slices", "C": "channels"}[x]: n
        for x, n in zip(leading, shape, strict=False)
    }
    assert metadata is not None
    for name in ("frames", "slices", "channels"):
        assert metadata.get(name, 1) == counts.get(name, 1)
    assert metadata["unit"] == "\\u00B5m".lower()
    assert metadata.get("spacing") == (2.0 if "Z" in leading else None)
    assert metadata.get("finterval") == (0.003 if "T" in leading else None)


def test_slices_before_channels_have_their_last_plane_once_more_at_the_end() -> None:
    shape = (2, 3, 6, 7)
    array = counting(shape, "uint16")

    around = array_tiff(shape, array.dtype, picture("CZYX"), "a")

    assert around.again == 6 * 7 * 2
    with tifffile.TiffFile(io.BytesIO(whole(array, around))) as file:
        assert file.imagej_metadata["order"] == "zct"
        assert "images" not in file.imagej_metadata  # ImageJ would not look at the order
        offsets = [page.dataoffsets[0] for page in file.pages]
    steps = np.diff(offsets)
    assert set(steps[:-1]) == {around.again}
    assert steps[-1] > around.again
    assert offsets == sorted(offsets)


def test_slices_before_channels_are_told_to_all_readers() -> None:
    shape = (2, 3, 4, 6, 7)

    _, content = made(shape, "uint16", picture("TCZYX", scaled=True), "cells")

    with tifffile.TiffFile(io.BytesIO(content)) as file:
        page = file.pages[0]
        assert page.description.startswith("<?xml")  # Bio-Formats takes the first
        assert page.description1.startswith("ImageJ=")  # ImageJ takes what begins with its name
        assert (file.series[0].kind, file.series[0].axes) == ("ome", "TCZYX")
        assert len(file.pages) == 24


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_planes_one_pixel_wide_are_read(dtype: str) -> None:
    for shape in [(2, 3, 5, 1), (2, 3, 1, 5), (2, 3, 1, 1)]:
        array, content = made(shape, dtype, picture("CZYX"))
        assert np.array_equal(tifffile.imread(io.BytesIO(content)).reshape(shape), array)


@pytest.mark.parametrize(
    ("letters", "counts"),
    [
        ("CTZYX", {"channels": 2, "slices": 12}),
        ("ZCTYX", {"frames": 2, "channels": 3, "slices": 4}),
        ("ZTYX", {"frames": 6}),
        ("ZTCYX", {"frames": 6, "channels": 4}),
        ("--YX", {"frames": 6}),
        ("-ZYX", {"frames": 2, "slices": 3}),
    ],
)
def test_channels_stay_channels_in_orders_that_imagej_lacks(
    letters: str, counts: dict[str, int]
) -> None:
    shape = (*range(2, len(letters)), 5, 6)

    _, content = made(shape, "uint8", picture(letters))

    with tifffile.TiffFile(io.BytesIO(content)) as file:
        metadata = file.imagej_metadata
    assert metadata is not None
    for name in ("frames", "slices", "channels"):
        assert metadata.get(name, 1) == counts.get(name, 1)


def test_display_range_is_that_of_the_statistics() -> None:
    shown = picture("ZYX", display_range=(-5.0, 70.5))

    _, unsigned = made((2, 4, 5), "uint16", shown)
    _, signed = made((2, 4, 5), "int16", shown)

    with tifffile.TiffFile(io.BytesIO(unsigned)) as file:
        assert (file.imagej_metadata["min"], file.imagej_metadata["max"]) == (-5, 70.5)
    with tifffile.TiffFile(io.BytesIO(signed)) as file:
        assert (file.imagej_metadata["min"], file.imagej_metadata["max"]) == (32763, 32838.5)


def test_channels_have_their_colours_and_windows() -> None:
    channels = tuple(
        Channel(channel.label, channel.color, (index, 100.0)) for index, channel in enumerate(RGB)
    )

    _, content = made((3, 2, 4, 5), "uint8", picture("CZYX", channels=channels))

    with tifffile.TiffFile(io.BytesIO(content)) as file:
        metadata = file.imagej_metadata
    assert metadata is not None
    assert metadata["mode"] == "composite"
    assert metadata["Ranges"] == (0.0, 100.0, 1.0, 100.0, 2.0, 100.0)
    brightest = [table[:, 255].tolist() for table in metadata["LUTs"]]
    assert brightest == [[255, 0, 0], [0, 255, 0], [0, 0, 255]]
    assert [table[0, 128] for table in metadata["LUTs"]] == [128, 0, 0]


def test_windows_that_are_missing_or_odd_are_those_of_the_others() -> None:
    channels = (Channel(window=(5.0, 9.0)), Channel(), Channel(window=(1.0, float("inf"))))

    _, content = made((3, 4, 5), "uint8", picture("CYX", channels=channels))

    with tifffile.TiffFile(io.BytesIO(content)) as file:
        metadata = file.imagej_metadata
    assert metadata["Ranges"] == (5.0, 9.0) * 3
    assert metadata["mode"] == "grayscale"


@pytest.mark.parametrize("letters", ["ZYX", "CYX"])
def test_statistics_go_before_the_windows_of_channels(letters: str) -> None:
    channels = (Channel(window=(5.0, 9.0)),) * (3 if letters[0] == "C" else 1)
    told = picture(letters, channels=channels, display_range=(1.0, 100.0))

    _, content = made((3, 4, 5), "uint8", told)

    with tifffile.TiffFile(io.BytesIO(content)) as file:
        metadata = file.imagej_metadata
    if letters[0] == "C":
        assert metadata["Ranges"] == (1.0, 100.0) * 3
    else:
        assert (metadata["min"], metadata["max"]) == (1.0, 100.0)


def test_pixels_have_their_size_in_the_resolution() -> None:
    _, content = made((4, 5), "uint8", picture("YX", scaled=True))

    with tifffile.TiffFile(io.BytesIO(content)) as file:
        tags = file.pages[0].tags
        assert tags["XResolution"].value == (4, 1)
        assert tags["YResolution"].value == (2, 1)
        assert file.imagej_metadata["xorigin"] == -40


@pytest.mark.parametrize("dtype", ["int8", "float64"])
def test_types_that_imagej_lacks_have_ome_xml(dtype: str) -> None:
    shown = picture("TCZYX", scaled=True, channels=RGB[:2])
    shape = (3, 2, 2, 4, 5)

    _, content = made(shape, dtype, shown, "cells")

    with tifffile.TiffFile(io.BytesIO(content)) as file:
        (series,) = file.series
        assert (series.kind, series.axes, series.shape) == ("ome", "TCZYX", shape)
        assert series.name == "cells"


def test_rgb_is_rgb() -> None:
    _, content = made((2, 4, 5, 3), "uint8", picture("ZYXS"))

    with tifffile.TiffFile(io.BytesIO(content)) as file:
        assert len(file.pages) == 2
        assert file.pages[0].photometric.name == "RGB"
        assert file.pages[0].shape == (4, 5, 3)


def test_odd_names_and_units_change_nothing() -> None:
    odd = 'a\x00\ud800\n<&"]]>{}\U0001f600\uffff'
    shown = picture("CYX", channels=(Channel(odd, 1), Channel(odd, 2)))

    for dtype in TYPES:
        array, content = made((2, 4, 5), dtype, shown, odd)
        assert np.array_equal(tifffile.imread(io.BytesIO(content)), shown_as(array))


@given(pictures(), st.sampled_from(TYPES), st.text(max_size=8))
@settings(max_examples=examples(50), deadline=None)
def test_bytes_are_always_the_same(
    shown: tuple[tuple[int, ...], Picture], dtype: str, name: str
) -> None:
    shape, of_it = shown

    first = array_tiff(shape, np.dtype(dtype), of_it, name)

    assert array_tiff(shape, np.dtype(dtype), of_it, name) == first
    assert tifffile.__version__.encode() not in first.head


# -- chunks


@given(st.lists(st.integers(1, 4), max_size=6).map(tuple), st.booleans(), st.sampled_from(TYPES))
@settings(max_examples=examples(300), deadline=None)
def test_tifffile_reads_a_chunk_of_any_shape(
    shape: tuple[int, ...], samples: bool, dtype: str
) -> None:
    samples = samples and len(shape) > 2 and shape[-1] in (3, 4)
    letters = "-" * (len(shape) - 3) + "YXS" if samples else "-" * len(shape)
    array = counting(shape, dtype)

    around = array_tiff(shape, array.dtype, picture(letters), "a", align=None)
    read = tifffile.imread(io.BytesIO(whole(array, around)))

    assert np.array_equal(read.ravel(), shown_as(array).ravel())


@pytest.mark.parametrize("shape", [(), (3,), (5, 6), (2, 5, 6), (2, 3, 5, 6), (2, 5, 1)])
def test_chunk_can_be_mapped_into_memory(shape: tuple[int, ...], tmp_path: Path) -> None:
    array = counting(shape, "int16")
    file = tmp_path / "0.tiff"
    around = array_tiff(shape, array.dtype, picture("-" * len(shape)), "a", align=None)
    file.write_bytes(whole(array, around))

    mapped = tifffile.memmap(file, mode="r")

    assert np.array_equal(mapped.ravel(), array.ravel())


def test_pixels_of_a_chunk_follow_right_behind_the_header() -> None:
    around = array_tiff((5, 6), np.dtype("uint8"), picture("YX"), "a", align=None)
    assert len(around.head) < 512


# -- what there is no TIFF of


@pytest.mark.parametrize(
    "dtype", ["int64", "uint64", "complex64", "complex128", "V3", "M8[s]", "U3"]
)
def test_types_without_a_tiff_are_named(dtype: str) -> None:
    problem = tiff_problem((2, 3), np.dtype(dtype))

    assert problem is not None
    assert np.dtype(dtype).name in problem
    with pytest.raises(ValueError, match="no type in TIFF"):
        array_tiff((2, 3), np.dtype(dtype), picture("YX"), "a")


@pytest.mark.parametrize("dtype", TYPES)
def test_other_types_have_one(dtype: str) -> None:
    assert tiff_problem((2, 3), np.dtype(dtype)) is None


def test_arrays_without_elements_have_no_tiff() -> None:
    assert tiff_problem((2, 0), np.dtype("u1")) == "it has no elements"


def test_axes_beyond_two_milliards_have_no_tiff() -> None:
    for shape in ((1 << 31,), (1 << 31, 5), (1 << 31, 5, 3)):
        assert "2147483648" in (tiff_problem(shape, np.dtype("u1")) or "")
    assert tiff_problem((1 << 40, 1, 2, 3), np.dtype("u1")) is None


# -- other readers


@pytest.mark.parametrize(
    ("letters", "shape", "dtype"),
    [
        ("TZCYX", (2, 3, 4, 5, 6), "uint16"),
        ("ZYX", (4, 5, 6), "float32"),
        ("ZYXS", (2, 5, 6, 3), "uint8"),
        ("YXS", (5, 6, 4), "uint8"),
        ("TZCYX", (2, 3, 4, 5, 6), "float64"),
        ("", (), "int16"),
    ],
)
def test_libtiff_reads_every_page(
    letters: str, shape: tuple[int, ...], dtype: str, tmp_path: Path
) -> None:
    array, content = made(shape, dtype, picture(letters, channels=RGB[:0]))
    shown = picture(letters, channels=RGB[:0])
    chunk = whole(array, array_tiff(shape, array.dtype, shown, "a", align=None))
    pages = prod(shape[: -3 if letters.endswith("S") else -2])

    for data in (content, chunk):
        file = tmp_path / "a.tiff"
        file.write_bytes(data)
        done = subprocess.run(["tiffinfo", "-d", file], capture_output=True, text=True, check=True)
        assert done.stdout.count("=== TIFF directory") == pages
        assert "rror" not in done.stderr
        assert "arning" not in done.stderr
        # Page by page, all pixels.
        copy = tmp_path / "copy.tiff"
        subprocess.run(["tiffcp", file, copy], check=True, capture_output=True)
        with tifffile.TiffFile(copy) as copied:
            assert b"".join(page.asarray().tobytes() for page in copied.pages) == array.tobytes()


def test_libtiff_warns_of_two_descriptions_and_reads_every_page(tmp_path: Path) -> None:
    array, content = made((2, 3, 4, 5, 6), "uint16", picture("TCZYX"))
    file, copy = tmp_path / "a.tiff", tmp_path / "copy.tiff"
    file.write_bytes(content)

    done = subprocess.run(["tiffcp", file, copy], capture_output=True, text=True, check=True)

    (warning,) = done.stderr.splitlines()
    assert "not sorted in ascending order" in warning
    with tifffile.TiffFile(copy) as copied:
        assert b"".join(page.asarray().tobytes() for page in copied.pages) == array.tobytes()


def test_tifffile_is_imported_with_the_first_header() -> None:
    code = "import sys, zarrfuse.formats.tiff as t; assert 'tifffile' not in sys.modules"

    subprocess.run([sys.executable, "-c", code], check=True)
