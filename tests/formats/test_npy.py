"""`numpy.load` opens a header of ours with the elements behind it."""

import io
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import whole

from zarrfuse.formats.npy import npy

TYPES = [
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
    *("V3", "V16", "U5", "S4", "M8[ns]", "m8[10s]"),
    [("a", "u1"), ("b", "<f4", (2,))],
    [("\u00e9", "u1")],
    [("\u4e2d", "u1"), ("b", "i8")],
    [(f"field{index:05}" + "x" * 20, "u1") for index in range(180)],
]


def filled(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    content = bytes(index % 50 for index in range(prod(shape) * dtype.itemsize))
    if dtype.kind == "U":
        return np.full(shape, "\u00e4bc", dtype)
    return np.frombuffer(content, dtype).reshape(shape)


@given(st.lists(st.integers(0, 4), max_size=6).map(tuple), st.sampled_from(TYPES))
def test_numpy_loads_the_array(shape: tuple[int, ...], type_: object) -> None:
    array = filled(shape, np.dtype(type_))

    loaded = np.load(io.BytesIO(whole(array, npy(shape, array.dtype))))

    assert loaded.dtype == array.dtype
    assert loaded.shape == shape
    assert loaded.tobytes() == array.tobytes()


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3, 4)])
@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_numpy_maps_the_array_into_memory(
    shape: tuple[int, ...], type_: object, tmp_path: Path
) -> None:
    array = filled(shape, np.dtype(type_))
    file = tmp_path / "a.npy"
    file.write_bytes(whole(array, npy(shape, array.dtype)))

    mapped = np.load(file, mmap_mode="r")

    assert isinstance(mapped, np.memmap)
    assert (mapped.dtype, mapped.shape) == (array.dtype, shape)
    assert mapped.tobytes() == array.tobytes()


@pytest.mark.parametrize("type_", ["?", "<u2", "<c16", "|V3", "<U4", [("a", "u1"), ("b", "<f8")]])
def test_elements_begin_at_a_page(type_: object) -> None:
    assert len(npy((2, 3), np.dtype(type_)).head) == 4096


def test_long_header_ends_where_processors_like_it() -> None:
    array = np.zeros(3, [(f"field{number}", "u1") for number in range(400)])
    around = npy(array.shape, array.dtype)
    assert 4096 < len(around.head) < 10_000
    assert not len(around.head) % 64
    assert np.load(io.BytesIO(whole(array, around))).dtype == array.dtype


def test_header_says_what_numpy_itself_writes() -> None:
    array = np.zeros((2, 3), "<u2")
    saved = io.BytesIO()
    np.save(saved, array)

    head = npy(array.shape, array.dtype).head
    written = saved.getvalue()[: -array.nbytes]
    assert head[:8] == written[:8]
    assert head[10:].rstrip() == written[10:].rstrip()


def test_python_objects_cannot_be_stored() -> None:
    with pytest.raises(ValueError, match="NPY cannot store"):
        npy((3,), np.dtype(object))
