"""The size of an encoded chunk, and of the index of a shard."""

import json

import pytest
from codec_documents import (
    CRC32C,
    GZIP,
    LITTLE,
    Json,
    packbits,
    parsed,
    sharding,
    transpose,
    without,
)

from zarrfuse.spec.codecs import encoded_size, index_bytes
from zarrfuse.spec.data_types import parse_data_type
from zarrfuse.spec.names import parse_extension

SIZES: list[tuple[list[Json], Json, int | None]] = [
    ([LITTLE], "uint16", 48),
    ([transpose(1, 0), LITTLE, CRC32C, CRC32C], "float64", 200),
    (["bytes"], "r24", 72),
    (["bytes"], "int4", 24),
    (["bytes"], {"name": "raw_bytes", "configuration": {"length_bytes": 5}}, 120),
    (["packbits"], "bool", 3),
    ([packbits(padding_encoding="first_byte")], "bool", 4),
    ([packbits(padding_encoding="last_byte"), CRC32C], "int4", 17),
    ([packbits(first_bit=2, last_bit=4)], "uint16", 9),
    ([packbits(first_bit=None, last_bit=0)], "complex64", 6),
    ([packbits(first_bit=15)], "uint16", 3),
    ([LITTLE, "numcodecs.adler32", "numcodecs.shuffle"], "uint16", 52),
    (["bitround", LITTLE], "float32", 96),
    ([LITTLE, GZIP], "uint16", None),
    ([sharding([2, 3])], "uint16", None),
    (["lz77", LITTLE], "uint16", None),
    ([LITTLE, "lz77"], "uint16", None),
    (["cast_value", LITTLE], "uint16", None),
    (["vlen-utf8"], "string", None),
    (["bytes"], "uint9", None),
    (["bytes"], "string", None),
    (["packbits"], "uint9", None),
    (["packbits"], "r16", None),
    ([packbits(first_bit=16)], "uint16", None),
    ([packbits(first_bit=3, last_bit=1)], "uint16", None),
    ([], "uint16", None),
    ([CRC32C], "uint16", None),
    ([LITTLE, LITTLE], "uint16", None),
    ([LITTLE, transpose(1, 0)], "uint16", None),
]


@pytest.mark.parametrize(("codecs", "data_type", "size"), SIZES, ids=lambda v: json.dumps(v)[:70])
def test_the_size_of_an_encoded_chunk(
    codecs: list[Json], data_type: Json, size: int | None
) -> None:
    assert encoded_size(parsed(codecs), parse_data_type(data_type), (4, 6)) == size


@pytest.mark.parametrize(
    ("codec", "size"),
    [
        (sharding([2, 3]), 4 * 16 + 4),
        (sharding([2, 3], index_codecs=[LITTLE]), 64),
        (sharding([2, 3], index_codecs=["bytes", CRC32C]), 68),
        (sharding([4, 6], index_codecs=[transpose(2, 1, 0), LITTLE, CRC32C, CRC32C]), 24),
        (sharding([1, 1], index_codecs=[packbits()]), 24 * 16),
        (sharding([2, 3], index_codecs=[LITTLE, GZIP]), None),
        (sharding([2, 3], index_codecs=[]), None),
        (sharding([2, 3], index_codecs=[3]), None),
        (sharding([2, 3], index_codecs=3), None),
        (sharding([2, 4]), None),
        (sharding([2]), None),
        (sharding([0, 3]), None),
        (sharding([True, 3]), None),
        (without(sharding([2, 3]), "chunk_shape"), None),
        (without(sharding([2, 3]), "index_codecs"), None),
        (LITTLE, None),
    ],
    ids=lambda value: json.dumps(value)[:70],
)
def test_the_size_of_a_shard_index(codec: Json, size: int | None) -> None:
    assert index_bytes(parse_extension(codec, "codec"), (4, 6)) == size


def test_the_index_of_the_concat_parts_document_has_1604_bytes() -> None:
    codec = sharding([500, 500], codecs=["packbits"])
    assert index_bytes(parse_extension(codec, "codec"), (5000, 5000)) == 1604
