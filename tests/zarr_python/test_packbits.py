"""Packing of bits, without zarr-python: vectors worked out by hand, and a slow second opinion."""

from typing import Any

import hypothesis.extra.numpy as from_numpy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrfuse.zarr_python.packbits import PADDING_ENCODINGS, Packing

INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
TYPES = ["?", *INTEGERS, "f2", "f4", "f8", "c8", "c16"]


def bits_of(dtype: np.dtype[Any]) -> int:
    """Bits per component (packbits codec, Supported data types)."""
    return 1 if dtype.kind == "b" else dtype.itemsize * 8 // (2 if dtype.kind == "c" else 1)


def second_opinion(array: np.ndarray, first: int, last: int, padding_encoding: str) -> bytes:
    """The specification word by word: one long number, a component's bits at their place in it."""
    width, sequence, at = last - first + 1, 0, 0
    little = array.astype(array.dtype.newbyteorder("<"))
    size = max(1, bits_of(array.dtype) // 8)
    stored = little.tobytes(order="C")
    for start in range(0, len(stored), size):
        component = int.from_bytes(stored[start : start + size], "little")
        sequence |= (component >> first & (1 << width) - 1) << at
        at += width
    padding = -at % 8
    body = sequence.to_bytes((at + padding) // 8, "little")
    if padding_encoding == "first_byte":
        return bytes([padding]) + body
    return body + bytes([padding]) if padding_encoding == "last_byte" else body


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, int, int, str]:
    """An array of any type and shape, the bits to keep, and how the padding is told."""
    dtype = np.dtype(draw(st.sampled_from(TYPES)))
    if dtype.itemsize > 1:
        dtype = dtype.newbyteorder(draw(st.sampled_from("<>")))
    shape = draw(from_numpy.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
    array = draw(from_numpy.arrays(dtype, shape))
    if draw(st.booleans()):
        array = array.T  # C order of what is not contiguous
    last = draw(st.integers(0, bits_of(dtype) - 1))
    first = draw(st.integers(0, last))
    return array, first, last, draw(st.sampled_from(PADDING_ENCODINGS))


@given(cases())
def test_bytes_are_those_that_the_specification_gives(case) -> None:
    array, first, last, padding_encoding = case
    packing = Packing(array.dtype, first, last, padding_encoding)
    packed = packing.encode(array)
    assert packed.tobytes() == second_opinion(array, first, last, padding_encoding)
    assert len(packed) == packing.encoded_size(array.size)


@given(cases())
def test_all_bits_come_back_as_they_were(case) -> None:
    array, _, _, padding_encoding = case
    packing = Packing(array.dtype, padding_encoding=padding_encoding)
    decoded = packing.decode(packing.encode(array), array.size)
    as_little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"))
    assert decoded.dtype == as_little.dtype
    assert decoded.tobytes() == as_little.tobytes()


@given(cases())
def test_what_was_decoded_encodes_to_the_same_bytes(case) -> None:
    array, first, last, padding_encoding = case
    packing = Packing(array.dtype, first, last, padding_encoding)
    packed = packing.encode(array)
    assert np.array_equal(packing.encode(packing.decode(packed, array.size)), packed)


@given(st.sampled_from(INTEGERS), st.data())
def test_integers_that_fit_the_bits_come_back(name: str, data: st.DataObject) -> None:
    dtype = np.dtype(name)
    last = data.draw(st.integers(0, bits_of(dtype) - 1))
    first = data.draw(st.integers(0, last))
    width = last - first + 1
    low, high = (-(2 ** (width - 1)), 2 ** (width - 1)) if dtype.kind == "i" else (0, 2**width)
    values = data.draw(st.lists(st.integers(low, high - 1), max_size=20))
    array = np.array([value << first for value in values], dtype)
    packing = Packing(dtype, first, last)
    assert packing.decode(packing.encode(array), array.size).tolist() == array.tolist()


@pytest.mark.parametrize("width", [3, 4, 12])
def test_blocks_meet_without_a_gap(width: int) -> None:
    array = np.arange(100_001, dtype="u2") & (1 << width) - 1
    packing = Packing(array.dtype, last_bit=width - 1)
    packed = packing.encode(array)
    assert packed.tobytes() == second_opinion(array, 0, width - 1, "none")
    assert np.array_equal(packing.decode(packed, array.size), array)


@pytest.mark.parametrize(
    ("array", "first", "last", "padding_encoding", "encoded"),
    [
        # Worked out by hand from Format and algorithm; the left bit of a byte is its highest.
        (np.array([1, 0, 0, 1, 0, 0, 1, 0, 0, 1], "?"), None, None, "none", "49 02"),
        (np.array([1, 0, 0, 1, 0, 0, 1, 0, 0, 1], "?"), None, None, "first_byte", "06 49 02"),
        (np.array([1, 0, 0, 1, 0, 0, 1, 0, 0, 1], "?"), None, None, "last_byte", "49 02 06"),
        (np.array([0x1, 0x2, 0x3], "u1"), None, 3, "none", "21 03"),
        (np.array([-1, 0, -8, 7], "i1"), 0, 3, "none", "0f 78"),
        (np.array([0xABCD, 0x1234], "u2"), 4, 11, "none", "bc 23"),
        (np.array([0xABCD, 0x1234], "u2"), None, 11, "last_byte", "cd 4b 23 00"),
        (np.array([1.0], "f4"), None, None, "none", "00 00 80 3f"),
        (np.array([1.0], "f4"), 23, 31, "none", "7f 00"),  # sign and exponent
        (np.array([1 - 2j], "c8"), 23, 31, "none", "7f 00 03"),  # real 0x07f, imaginary 0x180
        (np.array([], "u4"), 0, 2, "first_byte", "00"),
    ],
)
def test_published_rules_worked_out_by_hand(
    array: np.ndarray, first: int, last: int, padding_encoding: str, encoded: str
) -> None:
    packed = Packing(array.dtype, first, last, padding_encoding).encode(array)
    assert packed.tobytes() == bytes.fromhex(encoded)


def test_bits_of_padding_may_be_anything_when_decoded() -> None:
    packing = Packing(np.dtype("u1"), last_bit=2)
    assert packing.decode(np.array([0b11111_101], "u1"), 1).tolist() == [5]


def test_elements_of_the_whole_width_are_decoded_without_a_copy() -> None:
    packed = np.arange(800, dtype="u1")
    assert np.shares_memory(Packing(np.dtype("f8")).decode(packed, 100), packed)


@pytest.mark.parametrize("size", [0, 1, 3])
def test_more_or_fewer_bytes_than_elements_become_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"has {size} bytes, not the 2 that 3 elements"):
        Packing(np.dtype("u1"), last_bit=3).decode(np.zeros(size, "u1"), 3)


@pytest.mark.parametrize(("where", "at"), [("first_byte", 0), ("last_byte", -1)])
def test_a_padding_that_is_not_so_is_refused(where: str, at: int) -> None:
    packing = Packing(np.dtype("?"), padding_encoding=where)
    packed = packing.encode(np.ones(3, "?"))
    packed[at] = 6
    with pytest.raises(
        ValueError, match=f"{where.replace('_', ' ')} of a chunk must be 5, .* not 6"
    ):
        packing.decode(packed, 3)


@pytest.mark.parametrize(
    ("configuration", "said"),
    [
        ({"first_bit": 8}, "first_bit: 8 is more than 7, the last bit of uint8"),
        ({"last_bit": 8}, "last_bit: 8 is more than 7"),
        ({"first_bit": 3, "last_bit": 2}, "last_bit: 2 is less than first_bit, 3"),
        ({"first_bit": -1}, "first_bit: must be a bit's number or null, not -1"),
        ({"last_bit": True}, "last_bit: must be a bit's number or null, not True"),
        ({"last_bit": 1.0}, "last_bit: must be"),
        ({"padding_encoding": "start_byte"}, "padding_encoding: must be one of none"),
        ({"padding_encoding": ["none"]}, "padding_encoding: must be one of none"),
    ],
)
def test_a_configuration_that_is_wrong_is_refused_by_its_member(
    configuration: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=f"^packbits: {said}"):
        Packing(np.dtype("u1"), **configuration)


@pytest.mark.parametrize("name", ["U4", "S3", "M8[s]", "m8[s]", "V2", "O"])
def test_types_that_are_no_numbers_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be packed"):
        Packing(np.dtype(name))
