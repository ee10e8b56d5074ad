"""What the picture of an array shows: contrast, planes, channels, and damaged chunks in black."""

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from rendered import BLUE, GREEN, RED, WHITE, InMemory, picture, ramp, shown, stretched

from zarrfuse.errors import Corrupt, NotSupported
from zarrfuse.spec.ome import Channel, Picture, picture_of
from zarrfuse.stores.cache import ByteCache
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.chunks.view import ChunksView
from zarrfuse.views.images.decode import DecodedArray, Decoder
from zarrfuse.views.images.render import plan
from zarrfuse.views.images.stored_bytes import ArrayFiles

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
