"""Means of boxes: as numpy computes them one by one, whatever the bands, types and missing pixels."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrfuse.views.images import shrink
from zarrfuse.views.images.shrink import Shrunk

LARGEST_FLOAT = np.finfo(np.float64).max


def _shrink(values: np.ndarray, size: tuple[int, int], step: int) -> np.ndarray:
    shrunk = Shrunk(1, values.shape, size)
    for start in range(0, len(values), step):
        shrunk.add(0, start, values[start : start + step])
    return shrunk.means()[0]


def _one_by_one(values: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    means = np.full(size, np.nan)
    (rows, columns), (height, width) = values.shape, size
    for y in range(height):
        for x in range(width):
            box = values[
                y * rows // height : (y + 1) * rows // height,
                x * columns // width : (x + 1) * columns // width,
            ].astype(np.float64)
            if np.isfinite(box).any():
                means[y, x] = box[np.isfinite(box)].mean()
    return means


@given(st.data())
def test_each_pixel_is_the_mean_of_the_numbers_in_its_box(data: st.DataObject) -> None:
    rows, columns = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 40))
    size = data.draw(st.integers(1, rows)), data.draw(st.integers(1, columns))
    dtype = np.dtype(data.draw(st.sampled_from("?bBhHiIlLefd")))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    values = rng.integers(0, 65_000, (rows, columns)).astype(np.uint16).astype(dtype)
    if dtype.kind == "f" and data.draw(st.booleans()):
        values[rng.random(values.shape) < 0.3] = rng.choice([np.nan, np.inf, -np.inf])
    with pytest.MonkeyPatch.context() as patched:  # as images are that are worked on in pieces
        patched.setattr(shrink, "_AT_ONCE", data.draw(st.sampled_from([1, 20, 100, 1 << 20])))
        means = _shrink(values, size, data.draw(st.integers(1, rows)))
    np.testing.assert_allclose(means, _one_by_one(values, size), rtol=1e-12)


@pytest.mark.parametrize("dtype", "bBhHiI")
def test_sums_of_the_largest_integers_do_not_overflow(dtype: str) -> None:
    limits = np.iinfo(dtype)
    for limit in (limits.min, limits.max):
        values = np.full((30_000, 1), limit, dtype)
        assert np.array_equal(_shrink(values, (1, 1), 30_000), [[limit]])


def test_sums_of_the_largest_floats_do_not_overflow() -> None:
    for limit in (LARGEST_FLOAT, -LARGEST_FLOAT):
        assert np.isfinite(_shrink(np.full((64, 64), limit), (2, 2), 64)).all()


def test_boxes_that_lose_some_pixels_are_means_of_the_others() -> None:
    values = np.arange(48, dtype=np.uint8).reshape(6, 8)
    shrunk = Shrunk(2, (6, 8), (2, 2))
    kept = values.copy()
    kept[0:4, 0:5] = 0
    shrunk.add(0, 0, kept)
    shrunk.add(1, 0, values)
    shrunk.leave_out(0, slice(0, 4), slice(0, 5))
    means = shrunk.means()
    assert np.isnan(means[0, 0, 0])
    assert means[0, 0, 1] == values[0:3, 5:8].mean()
    assert means[0, 1, 0] == np.concatenate([values[4:6, 0:4].ravel()]).mean()
    assert np.array_equal(means[1], _one_by_one(values, (2, 2)))


@pytest.mark.parametrize("shape", [(20_000_000, 1), (1, 20_000_000), (4000, 5000)])
def test_memory_is_bounded_for_images_of_any_shape(shape: tuple[int, int]) -> None:
    size = min(1024, shape[0]), min(1024, shape[1])
    values = np.ones(shape, np.float32)
    values[0, 0] = np.nan
    tracemalloc.start()
    means = _shrink(values, size, shape[0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (means == 1).all()
    assert peak < 64 << 20
