"""Zarr v2 said in the words of Zarr v3, or the word for which there is none."""

import base64
import json
import math
import struct
from typing import Any

import numpy as np
import pytest

from zarrfuse.errors import MetadataError
from zarrfuse.spec.node_v2 import parse_v2_array, parse_v2_group
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.spec.plain import document
from zarrfuse.spec.plain_v2 import as_v3


def of_double(value: float) -> str:
    """A number as xarray spells it: the bytes of a double."""
    return base64.b64encode(struct.pack("<d", value)).decode()


def zarray(**members: Any) -> bytes:
    """A `.zarray` of 16-bit integers that are not compressed."""
    whole = {
        "zarr_format": 2,
        "shape": [4, 6],
        "chunks": [2, 3],
        "dtype": "<u2",
        "compressor": None,
        "fill_value": 0,
        "order": "C",
        "filters": None,
        **members,
    }
    return json.dumps(whole).encode()


def converted(attributes: bytes | None = None, **members: Any) -> dict[str, Any]:
    """The `zarr.json` shown for a `.zarray`; it can be read again."""
    shown = document(as_v3(parse_v2_array(zarray(**members), attributes)))
    parse_v3(shown)
    return dict(json.loads(shown))


def reason(attributes: bytes | None = None, **members: Any) -> str:
    """Why a `.zarray` stays as it is."""
    with pytest.raises(MetadataError) as refused:
        as_v3(parse_v2_array(zarray(**members), attributes))
    return str(refused.value)


def test_an_array_of_zarr_v2_is_said_in_zarr_v3() -> None:
    assert converted(b'{"unit": "s"}') == {
        "shape": [4, 6],
        "data_type": "uint16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {"unit": "s"},
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def test_a_group_of_zarr_v2_is_said_in_zarr_v3() -> None:
    node = as_v3(parse_v2_group(b'{"zarr_format": 2}', b'{"a": NaN}'))
    shown = json.loads(document(node))
    assert shown == {"attributes": {"a": "NaN"}, "zarr_format": 3, "node_type": "group"}


@pytest.mark.parametrize(
    "dtype, name, endian",
    [
        ("|b1", "bool", None),
        ("|i1", "int8", None),
        ("|u1", "uint8", None),
        ("<i1", "int8", None),
        *((f"<i{n}", f"int{8 * n}", "little") for n in (2, 4, 8)),
        *((f">u{n}", f"uint{8 * n}", "big") for n in (2, 4, 8)),
        *((f">f{n}", f"float{8 * n}", "big") for n in (2, 4, 8)),
        *((f"<c{n}", f"complex{8 * n}", "little") for n in (8, 16)),
    ],
)
def test_numbers_keep_their_byte_order(dtype: str, name: str, endian: str | None) -> None:
    said = converted(dtype=dtype, fill_value=None)
    configuration = {} if endian is None else {"configuration": {"endian": endian}}
    assert said["data_type"] == name
    assert said["codecs"] == [{"name": "bytes", **configuration}]


@pytest.mark.parametrize(
    "dtype",
    [
        "|O",
        "|S0",
        "<S5x",
        "|U3",
        "<U0",
        "<M4",
        "|M8[ns]",
        "<M8[lightyear]",
        "<M8[0s]",
        "<M8[4294967296s]",
        "|V3",
        "<f16",
        "|u2",
        "=i4",
        "i4",
        [["a", "<i4"]],
        "<b1x",
        "<f3",
    ],
)
def test_other_data_types_have_no_word(dtype: Any) -> None:
    assert reason(dtype=dtype, fill_value=None).startswith(".zarray: dtype: ")


@pytest.mark.parametrize(
    "dtype, data_type, endian",
    [
        ("|S5", {"name": "null_terminated_bytes", "configuration": {"length_bytes": 5}}, None),
        ("<U3", {"name": "fixed_length_utf32", "configuration": {"length_bytes": 12}}, "little"),
        (">U1", {"name": "fixed_length_utf32", "configuration": {"length_bytes": 4}}, "big"),
        (
            "<M8[ns]",
            {"name": "numpy.datetime64", "configuration": {"unit": "ns", "scale_factor": 1}},
            "little",
        ),
        (
            ">m8[10us]",
            {"name": "numpy.timedelta64", "configuration": {"unit": "us", "scale_factor": 10}},
            "big",
        ),
        (
            "<m8",
            {"name": "numpy.timedelta64", "configuration": {"unit": "generic", "scale_factor": 1}},
            "little",
        ),
    ],
)
def test_texts_and_times_are_what_zarr_python_writes(
    dtype: str, data_type: dict[str, Any], endian: str | None
) -> None:
    said = converted(dtype=dtype, fill_value=None, order="F")
    configuration = {} if endian is None else {"configuration": {"endian": endian}}
    assert said["data_type"] == data_type
    assert said["codecs"][1:] == [{"name": "bytes", **configuration}]


@pytest.mark.parametrize(
    "codec, data_type",
    [("vlen-utf8", "string"), ("vlen-bytes", "variable_length_bytes")],
)
def test_objects_of_any_length_are_stored_by_their_filter(codec: str, data_type: str) -> None:
    filters, compressor = [{"id": codec}], {"id": "gzip", "level": 1}
    said = converted(dtype="|O", fill_value=None, filters=filters, compressor=compressor)
    assert (said["data_type"], said["fill_value"]) == (data_type, "")
    assert said["codecs"] == [{"name": codec}, {"name": "gzip", "configuration": {"level": 1}}]


@pytest.mark.parametrize(
    "members, clause",
    [
        ({"filters": None}, "dtype: objects"),
        ({"filters": [{"id": "json2"}]}, "dtype: objects"),
        ({"filters": [{"id": "vlen-array", "dtype": "<i4"}]}, "dtype: objects"),
        ({"filters": [{"id": "vlen-utf8", "level": 1}]}, "the codec 'vlen-utf8': "),
        ({"filters": [{"id": "vlen-utf8"}, {"id": "shuffle"}, {"id": "zstd"}]}, "the codec 'shu"),
        ({"filters": [{"id": "vlen-utf8"}], "order": "F"}, "order: "),
    ],
)
def test_objects_that_are_stored_otherwise_have_no_word(
    members: dict[str, Any], clause: str
) -> None:
    assert reason(dtype="|O", fill_value="", **members).startswith(f".zarray: {clause}")


def test_fortran_order_is_a_transposition() -> None:
    said = converted(order="F", shape=[2, 3, 4], chunks=[1, 2, 3])
    assert said["codecs"][0] == {"name": "transpose", "configuration": {"order": [2, 1, 0]}}
    assert len(converted(order="F", shape=[2], chunks=[1])["codecs"]) == 1
    assert len(converted(order="F", shape=[], chunks=[])["codecs"]) == 1


BLOSC = {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 1, "blocksize": 0}


@pytest.mark.parametrize(
    "compressor, codec",
    [
        ({"id": "gzip", "level": 5}, {"name": "gzip", "configuration": {"level": 5}}),
        (
            {"id": "zstd", "level": 1},
            {"name": "zstd", "configuration": {"level": 1, "checksum": False}},
        ),
        (
            {"id": "zstd", "level": -3, "checksum": True},
            {"name": "zstd", "configuration": {"level": -3, "checksum": True}},
        ),
        (
            BLOSC,
            {
                "name": "blosc",
                "configuration": {
                    "typesize": 2,
                    "cname": "zstd",
                    "clevel": 3,
                    "shuffle": "shuffle",
                    "blocksize": 0,
                },
            },
        ),
    ],
)
def test_compressors_with_a_core_codec_are_that(compressor: Any, codec: Any) -> None:
    assert converted(compressor=compressor)["codecs"][1:] == [codec]


@pytest.mark.parametrize(
    "dtype, shuffle, name, typesize",
    [
        ("<u2", 0, "noshuffle", 2),
        ("<u2", 2, "bitshuffle", 2),
        ("|u1", -1, "bitshuffle", 1),
        ("<c16", -1, "shuffle", 16),
    ],
)
def test_blosc_shuffles_by_name(dtype: str, shuffle: int, name: str, typesize: int) -> None:
    said = converted(dtype=dtype, compressor={**BLOSC, "shuffle": shuffle, "typesize": None})
    configuration = said["codecs"][1]["configuration"]
    assert (configuration["shuffle"], configuration["typesize"]) == (name, typesize)


@pytest.mark.parametrize(
    "members, word",
    [
        ({"compressor": {"id": "zlib", "level": 1}}, "'zlib'"),
        ({"compressor": {"id": "lz4"}}, "'lz4'"),
        ({"filters": [{"id": "delta", "dtype": "<u2"}]}, "'delta'"),
        ({"filters": [{"id": "delta"}], "compressor": {"id": "zstd"}}, "'delta'"),
        (
            {"compressor": {"id": "zstd", "level": 99}},
            "level: must be an integer from -131072 to 22, not 99",
        ),
        ({"compressor": {"id": "zstd", "dictionary": "x"}}, "'dictionary'"),
        ({"compressor": {"id": "zstd", "checksum": 1}}, "checksum: "),
        (
            {"compressor": {"id": "gzip", "level": True}},
            "level: must be an integer from 0 to 9, not true",
        ),
        ({"compressor": {**BLOSC, "cname": "x"}}, "cname: 'x'"),
        (
            {"compressor": {**BLOSC, "shuffle": 3}},
            "shuffle: must be an integer from -1 to 2, not 3",
        ),
    ],
)
def test_other_codecs_have_no_word(members: dict[str, Any], word: str) -> None:
    assert reason(**members).startswith(".zarray: the codec ")
    assert word in reason(**members)


def test_no_filters_are_none() -> None:
    assert converted(filters=[])["codecs"] == converted()["codecs"]


@pytest.mark.parametrize(
    "dtype, fill_value, shown",
    [
        ("|b1", None, False),
        ("|b1", 1, True),
        ("|b1", False, False),
        ("<i4", None, 0),
        ("<i4", -5.0, -5),
        ("<u8", 2**64 - 1, 2**64 - 1),
        ("<f4", None, 0.0),
        ("<f4", 1, 1),
        ("<f4", "NaN", "NaN"),
        ("<f8", "-Infinity", "-Infinity"),
        ("<f8", "Infinity", "Infinity"),
        ("<c8", None, [0.0, 0.0]),
        ("<c8", 0, [0, 0.0]),
        ("<c16", ["NaN", 1.5], ["NaN", 1.5]),
        ("|S2", None, ""),
        ("|S2", "YWI=", "YWI="),
        ("<U2", None, ""),
        ("<U2", "ab", "ab"),
        ("<M8[s]", None, "NaT"),
        ("<M8[s]", "NaT", "NaT"),
        ("<m8[s]", -(2**63), -(2**63)),
    ],
)
def test_fill_values_are_spelled_as_in_zarr_v3(dtype: str, fill_value: Any, shown: Any) -> None:
    said = converted(dtype=dtype, fill_value=fill_value)["fill_value"]
    assert (said, type(said)) == (shown, type(shown))


def test_a_bare_nan_is_a_fill_value_too() -> None:
    stored = zarray(dtype="<f4").replace(b'"fill_value": 0', b'"fill_value": NaN')
    assert json.loads(document(as_v3(parse_v2_array(stored))))["fill_value"] == "NaN"


@pytest.mark.parametrize(
    "dtype, fill_value",
    [
        ("|b1", 2),
        ("|b1", "x"),
        ("|u1", 256),
        ("|u1", -1),
        ("<i4", 0.5),
        ("<i4", ""),
        ("<i4", True),
        ("<f4", "nan"),
        ("<f4", [1]),
        ("<c8", [1, 2, 3]),
        ("<c8", {}),
        ("|S2", "ab"),
        ("|S2", "YWJj"),
        ("<U2", "abc"),
        ("<U2", 0),
        ("<M8[s]", "2020"),
    ],
)
def test_other_fill_values_have_no_word(dtype: str, fill_value: Any) -> None:
    assert reason(dtype=dtype, fill_value=fill_value).startswith(".zarray: fill_value: ")


@pytest.mark.parametrize("fill_value, shown", [(None, ""), (0, "0"), (1.5, "1.5"), ("x", "x")])
def test_a_number_fills_strings_with_its_digits(fill_value: Any, shown: str) -> None:
    said = converted(dtype="|O", fill_value=fill_value, filters=[{"id": "vlen-utf8"}])
    assert said["fill_value"] == shown


def test_a_missing_fill_value_is_not_made_up() -> None:
    stored = zarray().replace(b'"fill_value": 0, ', b"")
    with pytest.raises(MetadataError, match="fill_value: is missing"):
        as_v3(parse_v2_array(stored))


def test_dimensions_of_xarray_become_dimension_names() -> None:
    said = converted(b'{"a": 1.50, "_ARRAY_DIMENSIONS": ["y", "x"], "b": {}}', fill_value=None)
    assert said["dimension_names"] == ["y", "x"]
    assert said["attributes"] == {"a": 1.5, "b": {}}


def test_a_dimension_named_twice_has_its_name_once_and_the_attribute_stays() -> None:
    names = ["x", "y", "x", "x"]
    attributes = json.dumps({"_ARRAY_DIMENSIONS": names}).encode()
    said = converted(attributes, shape=[2] * 4, chunks=[1] * 4, fill_value=None)
    assert said["dimension_names"] == ["x", "y", None, None]
    assert said["attributes"] == {"_ARRAY_DIMENSIONS": names}


@pytest.mark.parametrize("dimensions", ['["y"]', '"y"', '["y", 1]', "null", '["y", null]'])
def test_what_does_not_name_every_dimension_stays_an_attribute(dimensions: str) -> None:
    said = converted(f'{{"_ARRAY_DIMENSIONS": {dimensions}}}'.encode())
    assert "dimension_names" not in said
    assert said["attributes"] == {"_ARRAY_DIMENSIONS": json.loads(dimensions)}


@pytest.mark.parametrize("attributes", [b"[]", b"{", b'"x"', b"\xff"])
def test_attributes_that_are_no_object_are_the_reason(attributes: bytes) -> None:
    assert reason(attributes).startswith(".zattrs: ")
    with pytest.raises(MetadataError, match=r"^\.zattrs: "):
        as_v3(parse_v2_group(b'{"zarr_format": 2}', attributes))


def of_xarray(fill_value: Any, dtype: str = "<i2", **attributes: Any) -> dict[str, Any]:
    """The attributes shown for an array that xarray wrote."""
    names = json.dumps({"_ARRAY_DIMENSIONS": ["y", "x"], **attributes}).encode()
    return dict(converted(names, dtype=dtype, fill_value=fill_value)["attributes"])


@pytest.mark.parametrize(
    "dtype, fill_value, shown",
    [
        ("<i2", -9999, -9999),
        ("<u2", 0, 0),
        ("|b1", 1, True),
        ("<f4", "NaN", "AAAAAAAA+H8="),
        ("<f8", -1, "AAAAAAAA8L8="),
        ("<c8", ["Infinity", 0], ["AAAAAAAA8H8=", "AAAAAAAAAAA="]),
        ("<c8", 0, ["AAAAAAAAAAA="] * 2),
        ("<f4", 0.1, of_double(np.float32(0.1))),
        ("<f4", 1e20, of_double(np.float32(1e20))),
        ("<f4", 1e39, of_double(math.inf)),
        (">f2", 0.1, of_double(np.float16(0.1))),
        ("<c8", [0.1, 0], [of_double(np.float32(0.1)), "AAAAAAAAAAA="]),
    ],
)
def test_what_xarray_takes_for_missing_stays_so(dtype: str, fill_value: Any, shown: Any) -> None:
    assert of_xarray(fill_value, dtype) == {"_FillValue": shown}


def test_an_attribute_says_what_is_missing_where_no_fill_value_does() -> None:
    assert of_xarray(None, "<f8", _FillValue=-1.0) == {"_FillValue": "AAAAAAAA8L8="}
    assert of_xarray(7, "<i2", _FillValue=-1) == {"_FillValue": 7}


@pytest.mark.parametrize(
    "dtype, fill_value, attributes",
    [
        ("<U2", "", {}),
        ("|S2", "YWI=", {}),
        ("<f4", None, {"_FillValue": None}),
        ("<f4", None, {"_FillValue": "x"}),
        ("<f4", "0x7fc00000", {}),
        ("<i4", None, {"_FillValue": 1.5}),
        ("<i4", None, {"_FillValue": "2"}),
        ("|b1", None, {"_FillValue": 5}),
    ],
)
def test_what_xarray_cannot_say_in_zarr_v3_is_the_reason(
    dtype: str, fill_value: Any, attributes: dict[str, Any]
) -> None:
    names = json.dumps({"_ARRAY_DIMENSIONS": ["y", "x"], **attributes}).encode()
    assert reason(names, dtype=dtype, fill_value=fill_value).startswith(".zattrs: _FillValue: ")
