"""What tensorstore writes has no problems: it leaves out what zarr-python spells out."""

import json
from typing import Any

import pytest
import tensorstore

from zarrfuse.spec.codecs import encoded_size, problems, unknown
from zarrfuse.spec.data_types import fill_value_problem, parse_data_type
from zarrfuse.spec.names import parse_extension

DATA_TYPES = [
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("int2", "int4", "float16", "float32", "float64", "bfloat16", "complex64", "complex128"),
    *("float4_e2m1fn", "float8_e3m4", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"),
]
CHAINS: list[list[Any]] = [
    ["gzip", "zstd", "crc32c"],
    ["blosc"],
    [{"name": "blosc", "configuration": {"shuffle": "noshuffle"}}],
    [{"name": "transpose", "configuration": {"order": "F"}}],
    [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 3]}}],
    [
        {"name": "transpose", "configuration": {"order": [1, 0]}},
        {
            "name": "sharding_indexed",
            "configuration": {"chunk_shape": [3, 2], "index_location": "start", "codecs": ["gzip"]},
        },
    ],
]


def create(data_type: str, **metadata: Any) -> tuple[Any, dict[str, Any]]:
    """An array of 8 by 12 in chunks of 4 by 6, and its document."""
    grid = {"name": "regular", "configuration": {"chunk_shape": [4, 6]}}
    members = {"shape": [8, 12], "data_type": data_type, "chunk_grid": grid, **metadata}
    spec = {"driver": "zarr3", "kvstore": {"driver": "memory"}, "metadata": members}
    array = tensorstore.open(spec, create=True).result()
    return array, json.loads(array.kvstore.read("zarr.json").result().value)


def check(document: dict[str, Any]) -> None:
    data_type = parse_data_type(document["data_type"])
    codecs = [parse_extension(codec, "codecs") for codec in document["codecs"]]
    assert data_type.known
    assert fill_value_problem(data_type, document["fill_value"]) is None
    assert list(problems(codecs, data_type, (4, 6))) == []
    assert list(unknown(codecs)) == []


@pytest.mark.parametrize("data_type", DATA_TYPES)
def test_every_data_type_of_tensorstore_is_right_and_of_the_size_it_writes(data_type: str) -> None:
    array, document = create(data_type)
    check(document)
    array[0, 0] = 1
    codecs = [parse_extension(codec, "codecs") for codec in document["codecs"]]
    size = encoded_size(codecs, parse_data_type(data_type), (4, 6))
    assert len(array.kvstore.read("c/0/0").result().value) == size


@pytest.mark.parametrize("codecs", CHAINS, ids=json.dumps)
def test_every_chain_of_tensorstore_is_right(codecs: list[Any]) -> None:
    check(create("uint16", codecs=codecs)[1])


@pytest.mark.parametrize(
    ("data_type", "fill"),
    [
        ("float16", "0x7e01"),
        ("float32", "0x7fc00001"),
        ("bfloat16", "0x7fc1"),
        ("float64", "-Infinity"),
        ("complex64", ["NaN", 1.5]),
        ("int4", -8),
    ],
)
def test_every_fill_value_of_tensorstore_is_right(data_type: str, fill: Any) -> None:
    check(create(data_type, fill_value=fill)[1])
