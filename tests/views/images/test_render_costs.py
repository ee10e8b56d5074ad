"""What a picture of an array costs: its size is known before, and little of the array is read."""

import threading
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rendered import RED, WHITE, InMemory, picture, ramp, shown, stretched

from zarrfuse.errors import NotSupported
from zarrfuse.spec.ome import Channel
from zarrfuse.stores.pool import Budget
from zarrfuse.views.images import render
from zarrfuse.views.images.render import MOST_DECODED, plan


class Shape(InMemory):
    """An array of any size that nobody reads."""

    def __init__(
        self, shape: Sequence[int], unit: Sequence[int], dtype: str = "u2", path: str = "a"
    ) -> None:
        self.shape, self.unit_shape = tuple(shape), tuple(unit)
        self.dtype, self.path = np.dtype(dtype), path

    def read(self, box: tuple[slice, ...], *, wait: bool = True) -> np.ndarray:
        raise AssertionError("metadata are all there is")


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
