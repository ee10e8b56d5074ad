"""Data types: what they are called, how large they are, and which fill values they have."""

import json
import math
from typing import Any

import numpy as np
import pytest
from builders.documents import extension
from hypothesis import given
from hypothesis import strategies as st

from zarrfuse.errors import MetadataError
from zarrfuse.spec.data_types import (
    UINT64,
    default_fill_value,
    fill_value_problem,
    fill_value_rule,
    parse_data_type,
)

CORE = {
    "bool": 1,
    **{f"{sign}int{8 * size}": size for sign in ("", "u") for size in (1, 2, 4, 8)},
    **{f"float{8 * size}": size for size in (2, 4, 8)},
    "complex64": 8,
    "complex128": 16,
}


LENGTH_12 = {"length_bytes": 12}
TIME = extension("numpy.datetime64", unit="ns", scale_factor=1)
STRUCT = extension(
    "struct",
    fields=[
        {"name": "id", "data_type": "int32"},
        {"name": "flags", "data_type": "uint8"},
        {"name": "when", "data_type": TIME},
    ],
)
STRUCTURED = extension(
    "structured", fields=[["at", extension("structured", fields=[["x", "r24"], ["y", "bool"]])]]
)
REGISTERED = [
    ("int2", "int", 1),
    ("uint4", "uint", 1),
    ("bfloat16", "float", 2),
    ("float4_e2m1fn", "float", 1),
    ("float8_e4m3b11fnuz", "float", 1),
    ("complex_float6_e3m2fn", "complex", 2),
    ("complex_bfloat16", "complex", 4),
    ("complex_float64", "complex", 16),
    ("string", "string", None),
    ("bytes", "bytes", None),
    ("variable_length_bytes", "bytes", None),
    (TIME, "time", 8),
    (extension("numpy.timedelta64", unit="generic", scale_factor=2**31 - 1), "time", 8),
    (extension("fixed_length_utf32", **LENGTH_12), "string", 12),
    (extension("null_terminated_bytes", **LENGTH_12), "bytes", 12),
    (extension("raw_bytes", **LENGTH_12), "raw", 12),
    (STRUCT, "struct", 13),
    (STRUCTURED, "struct", 4),
    (extension("struct", fields=[{"name": "a", "data_type": "uint9"}]), "struct", None),
]


@pytest.mark.parametrize(("name", "size"), CORE.items())
def test_core_types_have_the_size_that_numpy_gives_them(name: str, size: int) -> None:
    data_type = parse_data_type(name)
    assert (data_type.name, data_type.core, data_type.known) == (name, True, True)
    assert data_type.itemsize == size == np.dtype(name).itemsize
    assert data_type == parse_data_type({"name": name}) == parse_data_type(extension(name))


@pytest.mark.parametrize(("value", "kind", "itemsize"), REGISTERED, ids=json.dumps)
def test_registered_types_are_known(value: Any, kind: str, itemsize: int | None) -> None:
    data_type = parse_data_type(value)
    assert (data_type.kind, data_type.itemsize) == (kind, itemsize)
    assert data_type.known
    assert not data_type.core


@pytest.mark.parametrize("name", ["uint9", "https://example.com/decimal", "r", "rx8", "int"])
def test_a_type_nobody_knows_is_no_fault_and_has_no_size(name: str) -> None:
    data_type = parse_data_type(extension(name, any="thing"))
    assert (data_type.name, data_type.kind, data_type.itemsize) == (name, "other", None)
    assert not data_type.known
    assert not data_type.core


@pytest.mark.parametrize(("name", "size"), [("r8", 1), ("r24", 3), ("r4096", 512)])
def test_raw_bits_are_whole_bytes(name: str, size: int) -> None:
    data_type = parse_data_type(name)
    assert (data_type.kind, data_type.itemsize, data_type.core) == ("raw", size, True)


def nested(depth: int) -> Any:
    value: Any = "uint8"
    for _ in range(depth):
        value = extension("struct", fields=[{"name": "a", "data_type": value}])
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "must be a name or an object, not 3"),
        ("Uint8", "'Uint8' is neither a raw name nor a URI-based name"),
        ("r7", "'r7' must be r and a number of bits that is a multiple of 8"),
        ("r0", "'r0' must be"),
        ("r08", "'r08' must be"),
        ("r" + "8" * 1000, "must be r and a number"),
        (extension("uint8", endian="little"), "configuration: 'endian': unknown member"),
        (extension("r8", pad=0), "configuration: 'pad': unknown member"),
        (extension("bfloat16", pad=0), "configuration: 'pad': unknown member"),
        ("numpy.datetime64", "configuration: unit: is missing"),
        (extension("numpy.datetime64", unit="s"), "configuration: scale_factor: is missing"),
        (
            extension("numpy.timedelta64", unit="fortnight", scale_factor=1),
            "configuration: unit: 'fortnight' is not a unit of time",
        ),
        (
            extension("numpy.timedelta64", unit="s", scale_factor=0),
            "configuration: scale_factor: must be at least 1, not 0",
        ),
        (
            extension("numpy.timedelta64", unit="s", scale_factor=2**31),
            "configuration: scale_factor: must be below 2**31, not 2147483648",
        ),
        ("fixed_length_utf32", "configuration: length_bytes: is missing"),
        (
            extension("fixed_length_utf32", length_bytes=6),
            "configuration: length_bytes: 6 is not a multiple of 4",
        ),
        (
            extension("raw_bytes", length_bytes="6"),
            "configuration: length_bytes: must be an integer, not '6'",
        ),
        (extension("struct"), "configuration: fields: is missing"),
        (extension("struct", fields=[]), "configuration: fields: must list one or more"),
        (extension("structured", fields=["x"]), "configuration: fields[0]: must be an object"),
        (
            extension("structured", fields=[["x", "uint8"], ["x", "uint8"]]),
            "configuration: fields[1]: name: must be unique and not empty, not 'x'",
        ),
        (
            extension("struct", fields=[{"name": "x", "data_type": "r9"}]),
            "configuration: fields[0]: data_type: 'r9' must be",
        ),
        (
            extension("struct", fields=[{"name": "x", "data_type": "string"}]),
            "configuration: fields[0]: data_type: string has no fixed size",
        ),
        (nested(33), "is nested more than 32 deep"),
    ],
    ids=lambda value: json.dumps(value)[:60],
)
def test_a_malformed_type_is_refused_by_member(value: Any, message: str) -> None:
    with pytest.raises(MetadataError, match=r"^data_type: ") as caught:
        parse_data_type(value)
    assert message in str(caught.value)


def test_records_may_be_nested() -> None:
    assert parse_data_type(nested(31)).itemsize == 1


@pytest.mark.parametrize("unit", ["us", "\u03bcs", "\u00b5s"])
def test_microseconds_may_be_spelled_with_either_greek_mu(unit: str) -> None:
    assert parse_data_type(extension("numpy.datetime64", unit=unit, scale_factor=1)).known


def test_byte_order_is_of_units_larger_than_a_byte() -> None:
    ordered = ["int16", "float64", "complex64", "bfloat16", "complex_float16", TIME]
    ordered += [extension("fixed_length_utf32", **LENGTH_12)]
    plain = ["bool", "int8", "uint4", "float8_e5m2", "complex_float8_e5m2", "r16", "string", STRUCT]
    plain += [extension("null_terminated_bytes", **LENGTH_12)]
    assert all(parse_data_type(value).byte_order for value in ordered)
    assert not any(parse_data_type(value).byte_order for value in plain)


# -- fill values

RAW_16 = "r16"
ALLOWED: list[tuple[Any, list[Any]]] = [
    ("bool", [True, False]),
    ("int8", [-128, 0, 127]),
    ("uint8", [0, 255]),
    ("int64", [-(2**63), 2**63 - 1]),
    ("uint64", [2**64 - 1]),
    ("int4", [-8, 7]),
    ("uint2", [3]),
    ("float16", [0, 1.5, -1e300, 10**30, "NaN", "Infinity", "-Infinity", "0x7e00", "0xFC00"]),
    ("float32", [0.0, "0x7fc00000"]),
    ("float64", ["0x7ff8000000000000"]),
    ("bfloat16", ["0x7fc0"]),
    ("float8_e8m0fnu", ["0xFF", 1]),
    ("float4_e2m1fn", ["0xf", "0x0F", 0.5]),
    ("complex64", [[0, 0], [1.5, "NaN"], ["-Infinity", "0x7fc00000"]]),
    ("complex128", [["0x7ff8000000000000", 0.0]]),
    (RAW_16, [[0, 255]]),
    (TIME, ["NaT", -(2**63), 0]),
    ("string", ["", "any"]),
    ("bytes", ["", "SGk=", [72, 105]]),
    (extension("fixed_length_utf32", **LENGTH_12), ["", "abc"]),
    (extension("null_terminated_bytes", **LENGTH_12), ["", "SGk="]),
    (extension("raw_bytes", length_bytes=2), ["SGk="]),
    ("uint9", [None, "anything", 512]),
    (STRUCT, [{"id": 0, "flags": 0, "when": 0}, "AAAAAAAAAAAAAAAAAA=="]),
]
REFUSED: list[tuple[Any, Any, str]] = [
    ("bool", 0, "must be true or false, not 0"),
    ("bool", None, "must be true or false, not null"),
    ("bool", "true", "must be true or false, not 'true'"),
    ("int8", 128, "must be from -128 to 127, not 128"),
    ("int8", -129, "must be from -128 to 127, not -129"),
    ("uint8", -1, "must be from 0 to 255, not -1"),
    ("int64", 2**63, "must be from -9223372036854775808 to 9223372036854775807"),
    ("uint64", 2**64, "must be from 0 to 18446744073709551615"),
    ("int4", 8, "must be from -8 to 7, not 8"),
    ("int32", 0.0, "must be an integer, not 0.0"),
    ("int32", True, "must be an integer, not true"),
    ("int32", "0", "must be an integer, not '0'"),
    ("int32", None, "must be an integer, not null"),
    ("float32", "nan", "must be a number, 'NaN', 'Infinity', '-Infinity', or '0x' and 8 hex"),
    ("float32", False, "not false"),
    ("float32", None, "not null"),
    ("float32", "1.5", "not '1.5'"),
    ("float32", "0x7fc0", "'0x' and 8 hexadecimal digits, not '0x7fc0'"),
    ("float16", "0x7fc00000", "'0x' and 4 hexadecimal digits"),
    ("float64", "0x7ff800000000000g", "'0x' and 16 hexadecimal digits"),
    ("float64", "0x7ff8000000000000\n", "'0x' and 16 hexadecimal digits"),
    ("float64", [0.0], "not an array"),
    ("float4_e2m1fn", "0x00f", "1 or 2 hexadecimal digits"),
    ("complex64", 0, "must be an array of the real and the imaginary part, not 0"),
    ("complex64", "NaN", "must be an array"),
    ("complex64", [0], "must have two elements, the real and the imaginary part, not 1"),
    ("complex64", [0, None], "the imaginary part must be a number"),
    ("complex64", ["0x7ff8000000000000", 0], "the real part must be a number"),
    (RAW_16, "AAA=", "must be an array of 2 integers from 0 to 255, not 'AAA='"),
    (RAW_16, [0], "must have 2 elements, one for each byte, not 1"),
    (RAW_16, [0, 256], "element 1 must be an integer from 0 to 255, not 256"),
    (RAW_16, [True, 0], "element 0 must be an integer from 0 to 255, not true"),
    (TIME, "NaN", "must be an integer or 'NaT', not 'NaN'"),
    (TIME, 2**63, "must be from -9223372036854775808"),
    (TIME, 0.5, "must be an integer, not 0.5"),
    ("string", 0, "must be a string, not 0"),
    ("bytes", "SGk", "must be in base64, not 'SGk'"),
    ("bytes", "SG k=", "must be in base64, not 'SG k='"),
    ("bytes", "S\u00e4k=", "must be in base64"),
    ("bytes", "\ud800", "must be in base64"),
    ("bytes", [256], "element 0 must be an integer from 0 to 255, not 256"),
    ("bytes", 0, "must be a string in base64, not 0"),
    (extension("fixed_length_utf32", **LENGTH_12), "abcd", "at most 3 characters, not 4"),
    (extension("null_terminated_bytes", length_bytes=1), "SGk=", "at most 1 bytes in base64"),
    (extension("null_terminated_bytes", length_bytes=1), [0], "must be a string in base64"),
    (extension("raw_bytes", length_bytes=3), "SGk=", "must be 3 bytes in base64, not 2"),
]


@pytest.mark.parametrize(("value", "fill_values"), ALLOWED, ids=lambda value: repr(value)[:40])
def test_permitted_fill_values_have_no_problem(value: Any, fill_values: list[Any]) -> None:
    data_type = parse_data_type(value)
    assert [fill_value_problem(data_type, fill) for fill in fill_values] == [None] * len(
        fill_values
    )


@pytest.mark.parametrize(("value", "fill", "clause"), REFUSED, ids=lambda value: repr(value)[:40])
def test_other_fill_values_have_one_that_says_what_is_permitted(
    value: Any, fill: Any, clause: str
) -> None:
    problem = fill_value_problem(parse_data_type(value), fill)
    assert problem is not None
    assert clause in problem


@given(st.sampled_from(["float16", "float32", "float64"]), st.data())
def test_the_bytes_of_any_float_in_hexadecimal_are_a_fill_value(
    name: str, data: st.DataObject
) -> None:
    size = np.dtype(name).itemsize
    value = "0x" + data.draw(st.binary(min_size=size, max_size=size)).hex()
    assert fill_value_problem(parse_data_type(name), value) is None
    assert fill_value_problem(parse_data_type(name), value[:-1]) is not None
    assert fill_value_problem(parse_data_type(name), value + "0") is not None


@given(st.sampled_from(sorted(CORE)), st.integers(-(2**65), 2**65))
def test_an_integer_fills_an_integer_type_exactly_if_numpy_can_hold_it(
    name: str, value: int
) -> None:
    if "int" not in name:
        return
    bounds = np.iinfo(name)
    held = int(bounds.min) <= value <= int(bounds.max)
    assert (fill_value_problem(parse_data_type(name), value) is None) == held


@pytest.mark.parametrize(
    "value",
    [*CORE, "r24", *(value for value, kind, _ in REGISTERED if kind != "struct")],
    ids=lambda value: json.dumps(value)[:60],
)
def test_the_default_fill_value_is_a_permitted_one_and_zero(value: Any) -> None:
    data_type = parse_data_type(value)
    fill = default_fill_value(data_type)
    assert fill_value_problem(data_type, fill) is None
    assert json.loads(json.dumps(fill)) == fill
    if data_type.name in CORE:
        zero = complex(*fill) if isinstance(fill, list) else fill
        assert np.dtype(data_type.name).type(zero) == 0
        assert math.isfinite(abs(zero))


@pytest.mark.parametrize("value", ["uint9", STRUCT, "optional"])
def test_what_has_no_default_fill_value_says_so(value: Any) -> None:
    with pytest.raises(MetadataError, match="has no default fill value"):
        default_fill_value(parse_data_type(value))


def test_the_rule_of_a_fill_value_is_that_of_its_type() -> None:
    core = ("Zarr v3 core specification", "Permitted fill values")
    assert fill_value_rule(UINT64) == core
    assert fill_value_rule(parse_data_type(TIME)) == (
        "numpy.datetime64 data type",
        "Fill value representation",
    )
