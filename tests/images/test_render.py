"""Pictures of arrays: what they show, what they cost, and that their size is known before."""

import logging
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from zarrfuse.errors import Corrupt, NotSupported
from zarrfuse.spec.axes import Axis
from zarrfuse.spec.ome import Channel, Picture, picture_of
from zarrfuse.stores.cache import ByteCache
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.stores.pool import Budget
from zarrfuse.views.chunks.view import ChunksView
from zarrfuse.views.images import render
from zarrfuse.views.images.decode import DecodedArray, Decoder
from zarrfuse.views.images.render import MOST_DECODED, Plan, plan
from zarrfuse.views.images.stored_bytes import ArrayFiles

RED, GREEN, BLUE, WHITE = 0xFF0000, 0x00FF00, 0x0000FF, 0xFFFFFF
KINDS = {"T": "time", "C": "channel", "S": "sample", "": "other"}


class InMemory:
    """An array in memory that is read by the chunk, as `DecodedArray` is, and counts what that costs."""

    def __init__(
        self, values: np.ndarray, unit: Sequence[int] | None = None, path: str = "a"
    ) -> None:
        self.values = values
        self.shape, self.dtype, self.path = values.shape, values.dtype, path
        self.unit_shape = tuple(unit or values.shape)
        self.corrupt: set[tuple[int, ...]] = set()
        self.refused: NotSupported | None = None
        self.decoded: list[tuple[int, ...]] = []
        self.on_read: Callable[[], object] = lambda: None

    @property
    def decoded_bytes(self) -> int:
        return len(self.decoded) * int(np.prod(self.unit_shape)) * self.dtype.itemsize

    def read(self, box: tuple[slice, ...], *, wait: bool = True) -> np.ndarray:
        self.on_read()
        if self.refused is not None:
            raise self.refused
        first = [along.start // unit for along, unit in zip(box, self.unit_shape, strict=True)]
        count = [
            -(-along.stop // unit) - start
            for along, unit, start in zip(box, self.unit_shape, first, strict=True)
        ]
        for place in np.ndindex(*count):
            chunk = tuple(a + b for a, b in zip(first, place, strict=True))
            if chunk in self.corrupt:
                raise Corrupt(f"{self.path}: chunk c/{'/'.join(map(str, chunk))}: is damaged")
            self.decoded.append(chunk)
        return np.array(self.values[box], order="C")


class Shape(InMemory):
    """An array of any size that nobody reads."""

    def __init__(
        self, shape: Sequence[int], unit: Sequence[int], dtype: str = "u2", path: str = "a"
    ) -> None:
        self.shape, self.unit_shape = tuple(shape), tuple(unit)
        self.dtype, self.path = np.dtype(dtype), path

    def read(self, box: tuple[slice, ...], *, wait: bool = True) -> np.ndarray:
        raise AssertionError("metadata are all there is")


def picture(letters: str, *channels: Channel, window: tuple[float, float] | None = None) -> Picture:
    """Of an array whose axes have these letters; `.` is one without a letter."""
    axes = [
        Axis("", KINDS.get(letter.strip("."), "space"), letter.strip("."))  # type: ignore[arg-type]
        for letter in letters
    ]
    return Picture(tuple(axes), channels, window, letters.endswith("S"))


def shown(planned: Plan) -> np.ndarray:
    """The pixels of a picture, which is exactly as large as it was said to be."""
    assert planned.problem is None
    file = planned.render()
    assert len(file) == planned.size
    pixels = imagecodecs.png_decode(file)
    assert pixels.dtype == np.uint8
    assert pixels.shape[:2] == (planned.height, planned.width)
    return pixels


def stretched(values: np.ndarray, low: float, high: float) -> np.ndarray:
    return np.rint(np.clip((values.astype(float) - low) / (high - low), 0, 1) * 255)


def ramp(*shape: int, dtype: str = "u2") -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


# -- contrast


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "i1", "i2", "i4", "f2", "f4", "f8"])
def test_numbers_are_stretched_between_their_percentiles(dtype: str) -> None:
    values = (ramp(20, 30, dtype="i8") % 117).astype(dtype)
    if values.dtype.kind != "u":
        values -= 60
    low, high = np.percentile(values.astype(float), [0.1, 99.9])
    pixels = shown(plan(picture("YX"), InMemory(values)))
    assert pixels.shape == (20, 30)
    assert np.abs(pixels - stretched(values, low, high)).max() <= 1
    assert pixels.min() == 0
    assert pixels.max() == 255


def test_booleans_are_black_and_white() -> None:
    values = ramp(6, 7) % 3 == 0
    assert np.array_equal(shown(plan(picture("YX"), InMemory(values))), values * 255)
    nothing = np.zeros((6, 7), bool)
    assert not shown(plan(picture("YX"), InMemory(nothing))).any()
    assert (shown(plan(picture("YX"), InMemory(~nothing))) == 255).all()


def test_statistics_go_before_the_window_of_a_channel_and_this_before_percentiles() -> None:
    values = ramp(16, 16)
    array = InMemory(values)
    channel = Channel(window=(100.0, 150.0))
    by_window = shown(plan(picture("YX", channel), array))
    assert np.abs(by_window - stretched(values, 100, 150)).max() <= 1
    by_statistics = shown(plan(picture("YX", channel, window=(0, 510)), array))
    assert np.abs(by_statistics - stretched(values, 0, 510)).max() <= 1


@pytest.mark.parametrize(("value", "grey"), [(0, 0), (7, 128), (-7, 128), (1e300, 128)])
def test_constant_image_is_grey_and_black_if_it_is_zero(value: float, grey: int) -> None:
    values = np.full((5, 6), value, float)
    assert (shown(plan(picture("YX"), InMemory(values))) == grey).all()


@pytest.mark.parametrize("dtype", ["u1", "u2", "f2", "f4", "f8"])
def test_means_of_a_constant_image_are_not_taken_for_contrast(dtype: str) -> None:
    values = np.full((1500, 1700), 0.1 if dtype[0] == "f" else 253, dtype)
    assert (shown(plan(picture("YX"), InMemory(values))) == 128).all()


def test_few_pixels_on_a_constant_ground_are_seen() -> None:
    values = np.zeros((100, 100), np.uint16)
    values[3, 4] = 9
    pixels = shown(plan(picture("YX"), InMemory(values)))
    assert pixels[3, 4] == 255
    assert pixels.sum() == 255


def test_what_is_no_number_is_black_and_does_not_count() -> None:
    values = ramp(16, 16).astype("f4") + 1000
    values[0, :8] = np.nan
    values[1, :4] = np.inf
    values[2, :4] = -np.inf
    there = np.isfinite(values)
    pixels = shown(plan(picture("YX"), InMemory(values)))
    assert not pixels[~there].any()
    low, high = np.percentile(values[there].astype(float), [0.1, 99.9])
    assert np.abs(pixels[there] - stretched(values[there], low, high)).max() <= 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_image_without_any_number_is_black(value: float) -> None:
    assert not shown(plan(picture("YX"), InMemory(np.full((5, 6), value, "f4")))).any()


def test_largest_floats_are_stretched() -> None:
    limit = np.finfo(np.float64).max
    pixels = shown(plan(picture("YX"), InMemory(np.array([[-limit, 0.0, limit]]))))
    assert pixels.tolist() == [[0, 128, 255]]


# -- planes, channels and samples


def test_middle_plane_of_each_leading_axis_is_shown() -> None:
    values = np.zeros((3, 4, 5, 8, 9), np.uint8)
    values[1, 2, 2] = np.arange(72, dtype=np.uint8).reshape(8, 9) * 3
    pixels = shown(plan(picture("T.ZYX", window=(0, 255)), InMemory(values)))
    assert np.array_equal(pixels, values[1, 2, 2])


def test_channels_are_added_in_their_colours_and_clipped() -> None:
    values = np.zeros((3, 1, 4), np.uint8)
    values[0] = [[0, 255, 0, 255]]
    values[1] = [[0, 0, 255, 255]]
    values[2] = [[51, 0, 0, 255]]
    window = (0.0, 255.0)
    channels = [Channel(color=color, window=window) for color in (0xFF8000, BLUE, WHITE)]
    pixels = shown(plan(picture("CYX", *channels), InMemory(values)))
    assert pixels.tolist() == [[[51, 51, 51], [255, 128, 0], [0, 0, 255], [255, 255, 255]]]


def test_channel_axis_may_be_any_leading_one() -> None:
    values = np.zeros((3, 2, 5, 4, 6), np.uint8)
    values[1, 0, 2, :2] = 255
    values[1, 1, 2, 2:] = 255
    channels = Channel(color=RED, window=(0, 255)), Channel(color=GREEN, window=(0, 255))
    pixels = shown(plan(picture("TCZYX", *channels), InMemory(values)))
    assert (pixels[:2] == (255, 0, 0)).all()
    assert (pixels[2:] == (0, 255, 0)).all()


def test_inactive_channels_are_left_out_and_not_read() -> None:
    values = np.zeros((3, 4, 6), np.uint8)
    values[:] = np.array([255, 200, 100])[:, None, None]
    array = InMemory(values, (1, 4, 6))
    window = (0.0, 255.0)
    channels = [Channel(color=color, window=window) for color in (RED, GREEN, BLUE)]
    channels[0] = Channel(color=RED, window=window, active=False)
    assert (shown(plan(picture("CYX", *channels), array)) == (0, 200, 100)).all()
    assert {chunk[0] for chunk in array.decoded} == {1, 2}
    none = [Channel(color=WHITE, window=window, active=False)] * 3
    assert (shown(plan(picture("CYX", *none), array)) == 255).all()


def test_channels_without_colours_get_those_of_imagej_and_one_is_grey() -> None:
    values = np.zeros((9, 1, 9), np.uint8)
    values[np.arange(9), 0, np.arange(9)] = 255
    pixels = shown(plan(picture("CYX", window=(0, 255)), InMemory(values)))
    assert pixels.tolist() == [
        [
            [255, 0, 0],
            [0, 255, 0],
            [0, 0, 255],
            [255, 255, 255],
            [0, 255, 255],
            [255, 0, 255],
            [255, 255, 0],
            [0, 0, 0],
            [0, 0, 0],
        ]
    ]
    assert shown(plan(picture("CYX"), InMemory(values[:1]))).shape == (1, 9)
    assert shown(plan(picture("YX", Channel(color=BLUE)), InMemory(values[0]))).shape == (1, 9, 3)


def test_rgb_is_as_it_is_and_alpha_left_out() -> None:
    values = np.random.default_rng(0).integers(30, 90, (7, 8, 4), np.uint8)
    values[..., 3] = 0
    assert np.array_equal(shown(plan(picture("YXS"), InMemory(values))), values[..., :3])
    three = InMemory(values[..., :3])
    assert np.array_equal(shown(plan(picture("YXS", window=(30, 40)), three)), values[..., :3])


def test_rgb_of_more_bits_is_stretched_by_one_window() -> None:
    values = np.zeros((4, 4, 3), np.uint16)
    values[..., 0], values[0, 0] = 2000, 4000
    pixels = shown(plan(picture("YXS", window=(0, 4000)), InMemory(values)))
    assert pixels[1, 1].tolist() == [128, 0, 0]
    assert pixels[0, 0].tolist() == [255, 255, 255]


def test_samples_in_chunks_of_their_own_are_put_together() -> None:
    values = np.random.default_rng(0).integers(0, 256, (2, 30, 40, 4), np.uint8)
    array = InMemory(values, (1, 16, 16, 1))
    assert np.array_equal(shown(plan(picture("ZYXS"), array)), values[1, ..., :3])
    assert {chunk[-1] for chunk in array.decoded} == {0, 1, 2}


# -- size


@settings(deadline=None)
@given(st.data())
def test_size_is_exact_for_any_array(data: st.DataObject) -> None:
    letters = data.draw(st.sampled_from(["YX", "ZYX", "CYX", "TCZYX", "YXS", "ZYXS", "..CYX"]))
    shape = [data.draw(st.integers(1, 4)) for _ in letters]
    y = letters.index("Y")
    shape[y : y + 2] = [data.draw(st.integers(1, 1500)), data.draw(st.integers(1, 30))]
    if data.draw(st.booleans()):
        shape[y], shape[y + 1] = shape[y + 1], shape[y]
    if letters[-1] == "S":
        shape[-1] = data.draw(st.sampled_from([3, 4]))
    unit = [data.draw(st.integers(1, length + 3)) for length in shape]
    unit[y], unit[y + 1] = max(unit[y], 7), max(unit[y + 1], 7)
    dtype = data.draw(st.sampled_from("?bBhHiIefd"))
    values = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
    planned = plan(picture(letters), InMemory(values, unit))
    pixels = shown(planned)
    assert max(pixels.shape[:2]) == min(1024, max(shape[y : y + 2]))
    assert planned.is_whole


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((1, 1), (1, 1)),
        ((1024, 1024), (1024, 1024)),
        ((1025, 1024), (1024, 1023)),
        ((2049, 10), (1024, 5)),
        ((10, 100_000), (1, 1024)),
        ((4096, 3000), (1024, 750)),
    ],
)
def test_longer_side_is_at_most_1024_and_nothing_is_enlarged(
    shape: tuple[int, int], size: tuple[int, int]
) -> None:
    planned = plan(picture("YX"), Shape(shape, (64, 64), "u1"))
    assert (planned.height, planned.width) == size


def test_large_image_is_shrunk_to_means() -> None:
    values = ramp(4096, 2048, dtype="f4")
    pixels = shown(plan(picture("YX"), InMemory(values, (500, 300))))
    means = values.astype("f8").reshape(1024, 4, 512, 4).mean(axis=(1, 3))
    low, high = np.percentile(means, [0.1, 99.9])
    assert np.abs(pixels - stretched(means, low, high)).max() <= 1


# -- what is read


def test_each_chunk_is_decoded_once_and_none_of_other_planes() -> None:
    values = np.zeros((4, 6, 900, 1100), np.uint16)
    array = InMemory(values, (2, 2, 128, 256))
    shown(plan(picture("CZYX"), array))
    assert len(array.decoded) == len(set(array.decoded)) == 2 * 8 * 5
    assert {chunk[1] for chunk in array.decoded} == {1}


def test_picture_is_planned_without_reading() -> None:
    shape = Shape((10**6, 10**7, 10**7), (1, 512, 512))
    assert plan(picture("ZYX"), shape, [Shape((10**6, 2**10, 2**10), (1, 512, 512))]).size


def test_coarsest_level_that_is_large_enough_is_read() -> None:
    levels = [Shape((n, n), (256, 256), path=str(n)) for n in (8192, 4096, 2048, 1024, 512)]
    assert plan(picture("YX"), levels[0], levels[1:]).source == "1024"
    assert plan(picture("YX"), levels[0], [levels[2], levels[1]]).source == "2048"
    assert plan(picture("YX"), levels[4], levels[:4]).source == "512"
    planned = plan(picture("YX"), levels[0], levels[1:])
    assert (planned.width, planned.height, planned.is_whole) == (1024, 1024, True)


def test_level_is_shown_at_the_shape_of_the_array() -> None:
    """Levels that are halved in X alone would be squeezed."""
    level = InMemory(ramp(3000, 1500), (500, 500), "1")
    assert shown(plan(picture("YX"), Shape((3000, 3000), (500, 500)), [level])).shape == (1024,) * 2


def test_middle_of_a_level_is_taken_by_its_own_depth() -> None:
    values = np.zeros((3, 1024, 1024), np.uint8)
    values[1] = 255
    level = InMemory(values, (1, 512, 512), "1")
    array = Shape((90, 4096, 4096), (1, 512, 512), "u1")
    assert (shown(plan(picture("ZYX", window=(0, 255)), array, [level])) == 255).all()


@pytest.mark.parametrize(
    "level",
    [
        Shape((1024, 1024), (64, 64), path="fewer dimensions"),
        Shape((3, 1024, 1024), (1, 64, 64), path="other channels"),
        Shape((2, 1024, 1024), (1, 64, 64), "f4", path="another type"),
        Shape((2, 1024, 8192), (1, 64, 64), path="wider"),
        Shape((2, 0, 1024), (1, 64, 64), path="empty"),
    ],
    ids=lambda level: level.path,
)
def test_array_that_is_no_coarser_level_is_left_out(level: Shape) -> None:
    array = Shape((2, 2048, 2048), (1, 256, 256), path="a")
    assert plan(picture("CYX"), array, [level]).source == "a"


def test_level_of_other_samples_is_left_out() -> None:
    array = Shape((2048, 2048, 3), (256, 256, 3), "u1", path="a")
    for samples, source in ((3, "level"), (4, "a")):
        level = Shape((1024, 1024, samples), (256, 256, samples), "u1", path="level")
        assert plan(picture("YXS"), array, [level]).source == source


def test_middle_of_a_large_plane_is_read_within_64_mib() -> None:
    unit = (1, 512, 512)
    planned = plan(picture("CYX"), Shape((2, 40_000, 20_000), unit))
    assert planned.problem is None
    assert not planned.is_whole
    values = np.broadcast_to(np.arange(20_000, dtype=np.uint16), (2, 40_000, 20_000))
    array = InMemory(values, unit)
    pixels = shown(plan(picture("CYX"), array))
    assert 0.9 * MOST_DECODED <= array.decoded_bytes <= MOST_DECODED
    assert len(set(array.decoded)) == len(array.decoded)
    places = np.array(array.decoded)
    grid = np.array([79, 40])
    middle = (places[:, 1:].min(axis=0) + places[:, 1:].max(axis=0)) / 2
    assert (np.abs(middle - (grid - 1) / 2) <= 1).all()
    assert 1.6 < planned.height / planned.width < 2.4
    assert pixels.shape == (planned.height, planned.width, 3)


def test_deep_chunks_count_as_a_whole() -> None:
    array = Shape((64, 4096, 4096), (16, 1024, 1024))  # 32 MiB each
    planned = plan(picture("ZYX"), array)
    assert (planned.width, planned.height, planned.is_whole) == (1024, 512, False)
    values = np.broadcast_to(np.uint16(1), (64, 4096, 4096))
    array = InMemory(values, (16, 1024, 1024))
    shown(plan(picture("ZYX"), array))
    assert array.decoded_bytes == MOST_DECODED


def test_channels_whose_chunks_are_too_many_are_left_out() -> None:
    values = np.broadcast_to(np.uint16(1), (5, 16, 1024, 1024))
    array = InMemory(values, (1, 16, 1024, 1024))
    shown(plan(picture("CZYX"), array))
    assert array.decoded_bytes == MOST_DECODED
    assert {chunk[0] for chunk in array.decoded} == {0, 1}


def test_colours_of_channels_that_are_left_out_do_not_count() -> None:
    array = InMemory(np.broadcast_to(np.uint16(1), (2, 16, 2048, 1024)), (1, 16, 2048, 1024))
    planned = plan(picture("CZYX", Channel(color=WHITE), Channel(color=RED)), array)
    assert shown(planned).ndim == 2
    assert array.decoded_bytes == MOST_DECODED


def test_samples_in_chunks_of_their_own_count_together() -> None:
    array = InMemory(np.broadcast_to(np.uint8(1), (8192, 8192, 3)), (4096, 4096, 1))
    shown(plan(picture("YXS"), array))
    assert array.decoded_bytes == 3 * 4096 * 4096


def test_chunk_larger_than_64_mib_makes_no_picture() -> None:
    planned = plan(picture("YX"), Shape((100, 100), (8192, 8192)))
    assert planned.size == 0
    assert planned.problem is not None
    assert "134,217,728 bytes is more than" in planned.problem
    with pytest.raises(NotSupported, match="134,217,728"):
        planned.render()
    exact = plan(picture("YX"), Shape((9000, 9000), (8192, 8192), "u1"))
    assert exact.problem is None


def test_small_level_is_shown_rather_than_the_middle_of_a_large_one() -> None:
    array = Shape((50_000, 50_000), (512, 512), path="large")
    small, tiny = (Shape((n, n), (n, n), path=str(n)) for n in (500, 50))
    planned = plan(picture("YX"), array, [tiny, small])
    assert (planned.source, planned.is_whole, planned.width) == ("500", True, 500)
    less = Shape((200, 200), (200, 200), path="200")
    assert plan(picture("YX"), array, [tiny, less]).source == "200"


def test_middle_of_the_coarsest_level_shows_most() -> None:
    array = Shape((200_000, 200_000), (512, 512), path="large")
    level = Shape((50_000, 50_000), (512, 512), path="coarse")
    planned = plan(picture("YX"), array, [level])
    assert (planned.source, planned.is_whole) == ("coarse", False)


@pytest.mark.parametrize(
    ("letters", "shape", "dtype", "why"),
    [
        ("YX", (4, 4), "c8", "complex64 has no brightness"),
        ("YX", (4, 4), "i8", "int64 is for labels"),
        ("YX", (4, 4), "u8", "uint64 is for labels"),
        ("YX", (4, 4), "V3", "has no brightness"),
        ("YX", (4, 4), "U3", "has no brightness"),
        ("YX", (4, 4), "M8[s]", "has no brightness"),
        ("X", (4,), "u1", "needs 2 dimensions, not 1"),
        ("", (), "u1", "needs 2 dimensions, not 0"),
        ("ZYX", (0, 4, 4), "u1", "no elements"),
        ("YX", (4, 0), "u1", "no elements"),
    ],
)
def test_what_has_no_picture_says_why(
    letters: str, shape: tuple[int, ...], dtype: str, why: str
) -> None:
    planned = plan(picture(letters), Shape(shape, [max(1, n) for n in shape], dtype))
    assert planned.size == 0
    assert planned.problem is not None
    assert why in planned.problem


# -- what cannot be decoded


def test_damaged_chunk_is_black_and_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    values = np.full((64, 96), 200, np.uint8)
    array = InMemory(values, (32, 32))
    array.corrupt = {(1, 2)}
    with caplog.at_level(logging.WARNING):
        pixels = shown(plan(picture("YX", window=(0, 200)), array))
    expected = np.full((64, 96), 255)
    expected[32:, 64:] = 0
    assert np.array_equal(pixels, expected)
    (record,) = caplog.records
    assert "a: chunk c/1/2: is damaged" in record.getMessage()


def test_damaged_chunks_do_not_count_for_contrast_and_only_their_channel_is_black() -> None:
    values = np.stack([ramp(8, 8) + 500, ramp(8, 8) + 900])
    array = InMemory(values, (1, 4, 8))
    array.corrupt = {(0, 0, 0)}
    pixels = shown(plan(picture("CYX"), array))
    assert not pixels[:4, :, 0].any()
    low, high = np.percentile(values[0, 4:], [0.1, 99.9])
    assert np.abs(pixels[4:, :, 0] - stretched(values[0, 4:], low, high)).max() <= 1
    assert pixels[0, 1, 1] > 0


def test_damaged_samples_and_parts_of_the_middle_are_black() -> None:
    samples = InMemory(np.full((8, 8, 3), 90, np.uint8), (4, 8, 1))
    samples.corrupt = {(0, 0, 1)}
    pixels = shown(plan(picture("YXS"), samples))
    assert (pixels[:4] == (90, 0, 90)).all()
    assert (pixels[4:] == 90).all()
    plane = InMemory(np.broadcast_to(np.uint8(200), (20_000, 20_000)), (1000, 1000))
    plane.corrupt = {(y, x) for y in range(20) for x in range(20) if x < 10}
    planned = plan(picture("YX", window=(0, 200)), plane)
    pixels = shown(planned)
    left = pixels[:, : planned.width // 2 - 1]
    assert not left.any()
    assert (pixels[:, planned.width // 2 + 1 :] == 255).all()


def test_log_names_few_of_many_damaged_chunks(caplog: pytest.LogCaptureFixture) -> None:
    array = InMemory(np.ones((100, 100), np.uint8), (10, 10))
    array.corrupt = {(y, x) for y in range(10) for x in range(10) if x}
    with caplog.at_level(logging.WARNING):
        shown(plan(picture("YX"), array))
    assert len(caplog.records) == 6
    assert "85 more chunks" in caplog.records[-1].getMessage()


def test_nothing_but_damaged_chunks_is_an_error_that_names_one() -> None:
    array = InMemory(np.ones((64, 96), np.uint8), (32, 32))
    array.corrupt = {(y, x) for y in range(2) for x in range(3)}
    with pytest.raises(Corrupt, match="a: chunk c/0/0: is damaged"):
        plan(picture("YX"), array).render()


def test_array_that_nobody_can_decode_says_so() -> None:
    array = InMemory(np.ones((64, 96), np.uint8), (32, 32))
    array.refused = NotSupported("a: codec foo is not known")
    with pytest.raises(NotSupported, match="codec foo"):
        plan(picture("YX"), array).render()


# -- cost


def test_picture_of_a_decoded_plane_of_4096_by_4096_takes_little_memory() -> None:
    values = np.random.default_rng(0).integers(0, 2**16, (4096, 4096), np.uint16)
    array = InMemory(values, (512, 512))
    planned = plan(picture("YX"), array)
    tracemalloc.start()
    planned.render()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20


def test_pictures_that_hang_do_not_hold_up_others_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "_turns", Budget(2, patience_s=0.05))
    let_go, hanging = threading.Event(), threading.Semaphore(0)

    def hang() -> None:
        hanging.release()
        assert let_go.wait(30)

    threads = []
    for _ in range(2):
        array = InMemory(np.ones((8, 8), np.uint8))
        array.on_read = hang
        threads.append(threading.Thread(target=plan(picture("YX"), array).render))
    try:
        for thread in threads:
            thread.start()
        for _ in threads:
            assert hanging.acquire(timeout=30)
        shown(plan(picture("YX"), InMemory(np.ones((8, 8), np.uint8))))
    finally:
        let_go.set()
        for thread in threads:
            thread.join()
    assert not render._turns.taken_bytes


# -- arrays in a store


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Callable[..., tuple[Picture, DecodedArray]]]:
    """`stored(values, ...)` writes an array with zarr-python; what it is, and how it is read."""
    store = LocalStore(str(tmp_path))
    view = ChunksView(store, 1.0)
    decoder = Decoder(view, ByteCache(1 << 20))

    def make(name: str, values: np.ndarray, **options: Any) -> tuple[Picture, DecodedArray]:
        made = zarr.create_array(
            str(tmp_path / name), shape=values.shape, dtype=values.dtype, **options
        )
        made[...] = values
        folder = view.root.child(name)
        loaded = folder.loaded()
        assert loaded is not None
        return picture_of(loaded.node), decoder.array(ArrayFiles(view, folder, loaded))

    yield make
    decoder.close()
    store.close()


def test_stored_arrays_are_shown(stored: Callable[..., tuple[Picture, DecodedArray]]) -> None:
    values = np.random.default_rng(0).integers(0, 4000, (2, 3, 300, 400)).astype("u2")
    names = ["c", "z", "y", "x"]
    chunks, shards = (1, 1, 64, 64), (1, 1, 128, 256)
    pictures = []
    for name, options in {"chunks": {}, "shards": {"shards": shards}}.items():
        described, array = stored(name, values, chunks=chunks, dimension_names=names, **options)
        pictures.append(shown(plan(described, array)))
        assert pictures[-1].shape == (300, 400, 3)
        for channel in (0, 1):
            low, high = np.percentile(values[channel, 1], [0.1, 99.9])
            expected = stretched(values[channel, 1], low, high)
            assert np.abs(pictures[-1][..., channel] - expected).max() <= 1
    assert np.array_equal(*pictures)


def test_damaged_chunk_of_a_stored_array_is_black(
    tmp_path: Path,
    stored: Callable[..., tuple[Picture, DecodedArray]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    described, array = stored("a", np.full((64, 64), 9, "u2"), chunks=(32, 32))
    (tmp_path / "a/c/1/0").write_bytes(b"damaged")
    with caplog.at_level(logging.WARNING):
        pixels = shown(plan(described, array))
    assert not pixels[32:, :32].any()
    assert (pixels[:32] == 128).all()
    assert (pixels[32:, 32:] == 128).all()
    assert any("c/1/0" in record.getMessage() for record in caplog.records)
    for chunk in ("0/0", "0/1", "1/1"):
        (tmp_path / "a/c" / chunk).write_bytes(b"damaged")
    time.sleep(1.1)  # until the chunks that were read are looked at again
    with pytest.raises(Corrupt, match="a: chunk c/0/0"):
        plan(described, array).render()
