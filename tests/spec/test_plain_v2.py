"""Zarr v2 said in the words of Zarr v3, or the word for which there is none."""

import json
from typing import Any

import pytest

from zarrfuse.errors import MetadataError
from zarrfuse.spec.node import parse_v3
from zarrfuse.spec.node_v2 import parse_v2_array, parse_v2_group
from zarrfuse.spec.plain import document
from zarrfuse.spec.plain_v2 import as_v3


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
        "<M8[ns]",
        "|O",
        "|S5",
        "<U3",
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
def test_what_is_no_core_number_has_no_word(dtype: Any) -> None:
    assert reason(dtype=dtype, fill_value=None).startswith(".zarray: dtype: ")


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
        ({"compressor": {"id": "zstd", "level": 99}}, "level: 99"),
        ({"compressor": {"id": "zstd", "dictionary": "x"}}, "'dictionary'"),
        ({"compressor": {"id": "zstd", "checksum": 1}}, "checksum: "),
        ({"compressor": {"id": "gzip", "level": True}}, "level: true"),
        ({"compressor": {**BLOSC, "cname": "x"}}, "cname: 'x'"),
        ({"compressor": {**BLOSC, "shuffle": 3}}, "shuffle: 3"),
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
    ],
)
def test_other_fill_values_have_no_word(dtype: str, fill_value: Any) -> None:
    assert reason(dtype=dtype, fill_value=fill_value).startswith(".zarray: fill_value: ")


def test_a_missing_fill_value_is_not_made_up() -> None:
    stored = zarray().replace(b'"fill_value": 0, ', b"")
    with pytest.raises(MetadataError, match="fill_value: is missing"):
        as_v3(parse_v2_array(stored))


def test_dimensions_of_xarray_become_dimension_names() -> None:
    said = converted(b'{"a": 1.50, "_ARRAY_DIMENSIONS": ["y", "x"], "b": {}}')
    assert said["dimension_names"] == ["y", "x"]
    assert said["attributes"] == {"a": 1.5, "b": {}}


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
