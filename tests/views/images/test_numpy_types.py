"""The numpy type and the fill value of an array, from its metadata, are those that zarr-python has."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from builders.documents import array
from builders.nodes import v2_array_of

from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.node_v2 import parse_v2_array
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.views.images.types import array_type, fill_bytes

NUMBERS = ["bool", "complex64", "complex128", "float16", "float32", "float64"]
NUMBERS += [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
OTHERS = ["M8[ns]", "m8[10us]", "S3", "U4", "V5", [("a", "u2"), ("b", ">f4")]]


def _v3(data_type: Any, fill_value: Any = 0) -> ArrayNode:
    node = parse_v3(array(data_type=data_type, fill_value=fill_value))
    assert isinstance(node, ArrayNode)
    return node


def _v2(dtype: Any, fill_value: Any = None) -> ArrayNode:
    return v2_array_of(4, dtype=dtype, fill_value=fill_value)


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.parametrize("dtype", [*NUMBERS, *OTHERS], ids=str)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_type_is_that_of_zarr_python(dtype: Any, zarr_format: int, tmp_path: Path) -> None:
    stored = zarr.create_array(
        tmp_path, shape=(4,), chunks=(2,), dtype=np.dtype(dtype), zarr_format=zarr_format
    )
    if zarr_format == 3:
        node = parse_v3((tmp_path / "zarr.json").read_bytes())
    else:
        node = parse_v2_array((tmp_path / ".zarray").read_bytes())
    assert isinstance(node, ArrayNode)
    assert array_type(node) == stored.dtype.newbyteorder("<")
    expected = np.asarray(stored[...])[:1].astype(array_type(node)).tobytes()
    assert fill_bytes(node) in (None, expected)
    assert (fill_bytes(node) is None) == (stored.dtype.kind in "mMSU" or bool(stored.dtype.names))


def test_big_endian_is_shown_little_endian() -> None:
    assert array_type(_v2(">f8")) == np.dtype("<f8")
    assert array_type(_v2([["a", ">u2"], ["b", ">f4", [2]]])) == np.dtype(
        [("a", "<u2"), ("b", "<f4", (2,))]
    )


@pytest.mark.parametrize(
    "data_type", ["string", "bytes", "bfloat16", "int4", "example.other", "r7"]
)
def test_types_without_a_fixed_size_in_numpy_are_none(data_type: str) -> None:
    assert array_type(_v3(data_type)) is None
    assert fill_bytes(_v3(data_type)) is None


@pytest.mark.parametrize(
    "dtype", ["|O", "object", "int", "U", "<f3", "datetime64", [["a", "|O"]], [1]]
)
def test_types_of_v2_that_have_no_fixed_size_are_none(dtype: Any) -> None:
    assert array_type(_v2(dtype)) is None


def test_raw_bits_are_bytes() -> None:
    assert array_type(_v3("r24", [1, 2, 3])) == np.dtype("V3")
    assert fill_bytes(_v3("r24", [1, 2, 3])) == b"\1\2\3"
    assert fill_bytes(_v3("r24", [1, 2])) is None


@pytest.mark.parametrize(
    ("data_type", "fill_value", "expected"),
    [
        ("uint16", 258, b"\2\1"),
        ("int8", -1, b"\xff"),
        ("bool", True, b"\1"),
        ("float32", "NaN", b"\0\0\xc0\x7f"),
        ("float32", "-Infinity", b"\0\0\x80\xff"),
        ("float32", "0x7fc00001", b"\1\0\xc0\x7f"),
        ("float16", 1e9, b"\0\x7c"),
        ("complex64", [1, "NaN"], b"\0\0\x80?\0\0\xc0\x7f"),
        ("uint8", 300, None),
        ("uint8", "seven", None),
    ],
)
def test_fill_value_in_little_endian_bytes(
    data_type: str, fill_value: Any, expected: bytes | None
) -> None:
    assert fill_bytes(_v3(data_type, fill_value)) == expected


def test_null_in_v2_is_zero() -> None:
    assert fill_bytes(_v2(">u4")) == bytes(4)
