"""Chains of codecs: their order and configurations; what is wrong with a chain, and nothing else."""

import json
from typing import Any

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

from zarrfuse.spec.codecs import kind_of, problems, unknown
from zarrfuse.spec.data_types import parse_data_type
from zarrfuse.spec.problems import Problem

ZSTD = {"name": "zstd", "configuration": {"level": 1}}
BLOSC_CONFIGURATION = {
    "cname": "lz4",
    "clevel": 5,
    "shuffle": "shuffle",
    "typesize": 2,
    "blocksize": 0,
}
BLOSC = {"name": "blosc", "configuration": BLOSC_CONFIGURATION}


def changed(codec: dict[str, Json], **members: Any) -> dict[str, Json]:
    return {**codec, "configuration": {**codec["configuration"], **members}}


def found(
    codecs: list[Json], data_type: Json = "uint16", chunk_shape: tuple[int, ...] | None = (4, 6)
) -> list[Problem]:
    return list(problems(parsed(codecs), parse_data_type(data_type), chunk_shape))


# -- kinds


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("array->array", ["transpose", "bitround", "cast_value", "numcodecs.delta"]),
        ("array->array", ["numcodecs.packbits", "scale_offset", "reshape"]),
        ("array->bytes", ["bytes", "packbits", "sharding_indexed", "vlen-utf8", "vlen-bytes"]),
        ("array->bytes", ["zfp", "numcodecs.zfpy", "numcodecs.pcodec", "n5_default"]),
        ("bytes->bytes", ["gzip", "zstd", "blosc", "crc32c", "numcodecs.zlib"]),
        ("bytes->bytes", ["numcodecs.shuffle", "numcodecs.adler32", "zarrs.gdeflate"]),
        (None, ["endian", "lz77", "https://example.com/codec", ""]),
    ],
)
def test_kinds_are_those_of_the_specifications(kind: str | None, names: list[str]) -> None:
    assert {kind_of(name) for name in names} == {kind}


def test_every_codec_of_zarr_python_is_known_by_its_kind() -> None:
    from zarr.abc.codec import ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec
    from zarr.registry import get_codec_class

    names = ["bytes", "transpose", "sharding_indexed", "gzip", "zstd", "blosc", "crc32c"]
    names += ["vlen-utf8", "vlen-bytes"]
    filters = ["delta", "bitround", "fixedscaleoffset", "quantize", "packbits", "astype"]
    compressors = ["blosc", "lz4", "zstd", "zlib", "gzip", "bz2", "lzma", "shuffle"]
    checksums = ["crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"]
    for name in [*filters, *compressors, *checksums, "pcodec", "zfpy"]:
        names.append(f"numcodecs.{name}")
    bases = [
        (ArrayArrayCodec, "array->array"),
        (ArrayBytesCodec, "array->bytes"),
        (BytesBytesCodec, "bytes->bytes"),
    ]
    for name in names:
        codec = get_codec_class(name)
        assert kind_of(name) == next(kind for base, kind in bases if issubclass(codec, base)), name


# -- what is right


RIGHT: list[tuple[list[Json], Json, tuple[int, ...]]] = [
    (["bytes"], "uint8", ()),
    ([{"name": "bytes", "configuration": {}}], "uint8", (2,)),
    ([{"name": "bytes"}], "float8_e5m2", (2,)),
    ([LITTLE], "uint8", (2,)),
    ([{"name": "bytes", "configuration": {"endian": "big"}}], "complex128", (2, 3)),
    ([transpose(), "bytes"], "r16", ()),
    ([transpose(1, 0), transpose(1, 0), LITTLE, GZIP, ZSTD, BLOSC, CRC32C], "int32", (2, 3)),
    ([LITTLE, changed(GZIP, level=0)], "int16", (2,)),
    ([LITTLE, changed(GZIP, level=9)], "int16", (2,)),
    ([LITTLE, changed(ZSTD, level=-131072, checksum=True)], "int16", (2,)),
    ([LITTLE, changed(ZSTD, level=22, checksum=False)], "int16", (2,)),
    ([LITTLE, without(changed(BLOSC, shuffle="noshuffle"), "typesize")], "int16", (2,)),
    ([LITTLE, changed(BLOSC, shuffle="noshuffle", typesize=0)], "int16", (2,)),
    ([LITTLE, changed(BLOSC, typesize=400)], "int16", (2,)),
    (["bytes", "crc32c", {"name": "crc32c", "configuration": {}}], "bool", (2,)),
    (["packbits"], "bool", (3,)),
    ([packbits(padding_encoding="first_byte", first_bit=None, last_bit=None)], "float16", (3,)),
    ([packbits(padding_encoding="last_byte", first_bit=3, last_bit=3)], "int64", (3,)),
    ([packbits(first_bit=1, last_bit=31)], "complex64", (3,)),
    (
        [packbits(last_bit=63)],
        {"name": "numpy.timedelta64", "configuration": {"unit": "s", "scale_factor": 1}},
        (3,),
    ),
    ([packbits(first_bit=1, last_bit=5)], "float6_e2m3fn", (3,)),
    ([packbits(first_bit=90)], "uint9", (3,)),
    ([{"name": "vlen-utf8", "configuration": {}}, ZSTD], "string", (3,)),
    (["vlen-bytes"], "bytes", (3,)),
    (["vlen-bytes"], "variable_length_bytes", (3,)),
    (["vlen-bytes"], "uint9", (3,)),
    ([sharding([2, 3])], "uint16", (4, 6)),
    ([sharding([4, 6], index_location="start")], "uint16", (4, 6)),
    ([without(sharding([2, 3]), "index_location"), CRC32C], "uint16", (4, 6)),
    ([sharding([], codecs=["bytes"])], "uint8", ()),
    ([transpose(1, 0), sharding([3, 2])], "uint16", (4, 6)),
    ([sharding([2, 3], codecs=[sharding([1, 3], codecs=[LITTLE, GZIP])])], "uint16", (4, 6)),
    ([sharding([2, 3], index_codecs=[transpose(2, 0, 1), LITTLE])], "uint16", (4, 6)),
    ([sharding([2, 3], index_codecs=[packbits(), CRC32C])], "uint16", (4, 6)),
    (
        [{"name": "numcodecs.astype", "configuration": {"encode_dtype": "|u1"}}, "bytes"],
        "int32",
        (3,),
    ),
    (["numcodecs.packbits", "bytes", CRC32C], "bool", (3, 8)),
    (["reshape", transpose(0, 1, 2), sharding([1, 1, 7])], "uint16", (4, 6)),
    (["numcodecs.pcodec", "numcodecs.zlib"], "float32", (3,)),
    # Nobody knows of what kind an unknown codec is.
    (["lz77"], "uint16", (3,)),
    (["lz77", "bytes"], "uint16", (3,)),
    ([transpose(0), "lz77", GZIP], "uint16", (3,)),
    ([LITTLE, "lz77", GZIP], "uint16", (3,)),
    (["lz77", transpose(5, 4, 3, 2, 1, 0), "bytes", GZIP], "uint16", (3,)),
    ([sharding([2, 3], codecs=["lz77"], index_codecs=["lz77"])], "uint16", (4, 6)),
    ([{"name": "lz77", "configuration": {"level": "high"}}, GZIP], "uint16", (3,)),
]


@pytest.mark.parametrize(("codecs", "data_type", "shape"), RIGHT, ids=lambda v: json.dumps(v)[:70])
def test_a_right_chain_has_no_problem(
    codecs: list[Json], data_type: Json, shape: tuple[int, ...]
) -> None:
    assert found(codecs, data_type, shape) == []
    assert found(codecs, data_type, None) == []
    assert list(problems(parsed(codecs), None, None)) == []


# -- what is wrong


CHAIN = "Zarr v3 core specification"
WRONG: list[tuple[list[Json], Json, list[tuple[str, str, str]]]] = [
    # order of the chain
    ([], "uint8", [("", "have none that makes bytes of the array", CHAIN)]),
    ([ZSTD, CRC32C], "uint8", [("", "have none that makes bytes of the array", CHAIN)]),
    ([transpose(1, 0)], "uint8", [("", "have none that makes bytes", CHAIN)]),
    (
        [GZIP, "bytes"],
        "uint8",
        [("[0]", "gzip takes bytes, but no codec before it makes bytes", CHAIN)],
    ),
    ([GZIP, "lz77"], "uint8", [("[0]", "gzip takes bytes", CHAIN)]),
    ([GZIP, "lz77", "bytes"], "uint8", [("[0]", "gzip takes bytes", CHAIN)]),
    (
        [LITTLE, "bytes"],
        "uint16",
        [("[1]", "bytes takes an array, and behind [0] bytes there is none", CHAIN)],
    ),
    (
        [LITTLE, GZIP, "packbits", transpose(1, 0)],
        "uint16",
        [
            ("[2]", "packbits takes an array, and behind [0] bytes there is none", CHAIN),
            ("[3]", "transpose takes an array, and behind [0] bytes there is none", CHAIN),
        ],
    ),
    (["lz77", GZIP, "bytes"], "uint16", [("[2]", "behind [1] gzip there is none", CHAIN)]),
    (["lz77", transpose(1, 0), GZIP], "uint16", [("", "have none that makes bytes", CHAIN)]),
    # bytes
    (["bytes"], "uint16", [("[0]: configuration: endian", "is missing, and uint16", "bytes")]),
    (["bytes"], "complex64", [("[0]: configuration: endian", "is missing", "bytes")]),
    (
        ["bytes"],
        {"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}},
        [("[0]: configuration: endian", "is missing", "bytes")],
    ),
    (
        [changed(LITTLE, endian="Little")],
        "uint16",
        [("[0]: configuration: endian", "must be 'little' or 'big', not 'Little'", "bytes")],
    ),
    (
        [changed(LITTLE, endian=None)],
        "uint8",
        [("[0]: configuration: endian", "must be 'little' or 'big', not null", "bytes")],
    ),
    (["bytes"], "string", [("[0]", "takes elements of a fixed size, which string", "bytes")]),
    (
        [changed(LITTLE, order="C")],
        "uint16",
        [("[0]: configuration: 'order'", "unknown member", "bytes")],
    ),
    # transpose
    (
        ["transpose", LITTLE],
        "uint16",
        [("[0]: configuration: order", "is missing", "transpose")],
    ),
    (
        [changed(transpose(), order="F"), LITTLE],
        "uint16",
        [("[0]: configuration: order", "must be an array of integers, not 'F'", "transpose")],
    ),
    (
        [transpose(0), LITTLE],
        "uint16",
        [("[0]: configuration: order", "has 1 dimensions, the array has 2", "transpose")],
    ),
    (
        [transpose(1, 1), LITTLE],
        "uint16",
        [("[0]: configuration: order", "must hold each number from 0 to 1 once", "transpose")],
    ),
    ([transpose(1, 2), LITTLE], "uint16", [("[0]: configuration: order", "each", "transpose")]),
    ([transpose(0, -1), LITTLE], "uint16", [("[0]: configuration: order", "each", "transpose")]),
    (
        [transpose(0, True), LITTLE],
        "uint16",
        [("[0]: configuration: order[1]", "must be an integer, not true", "transpose")],
    ),
    # compressors and checksums
    ([LITTLE, "gzip"], "uint16", [("[1]: configuration: level", "is missing", "gzip")]),
    (
        [LITTLE, changed(GZIP, level=10)],
        "uint16",
        [("[1]: configuration: level", "must be from 0 to 9, not 10", "gzip")],
    ),
    (
        [LITTLE, changed(GZIP, level=5.0)],
        "uint16",
        [("[1]: configuration: level", "must be an integer, not 5.0", "gzip")],
    ),
    (
        [LITTLE, changed(GZIP, level=-1, pad=1)],
        "uint16",
        [
            ("[1]: configuration: 'pad'", "unknown member", "gzip"),
            ("[1]: configuration: level", "must be from 0 to 9, not -1", "gzip"),
        ],
    ),
    (
        [LITTLE, "zstd", changed(ZSTD, level=23, checksum=1), changed(ZSTD, level=-131073)],
        "uint16",
        [
            ("[1]: configuration: level", "is missing", "zstd"),
            ("[2]: configuration: level", "must be from -131072 to 22, not 23", "zstd"),
            ("[2]: configuration: checksum", "must be true or false, not 1", "zstd"),
            ("[3]: configuration: level", "must be from -131072 to 22", "zstd"),
        ],
    ),
    (
        [LITTLE, changed(CRC32C | {"configuration": {}}, seed=0)],
        "uint16",
        [("[1]: configuration: 'seed'", "unknown member", "crc32c")],
    ),
    (
        [LITTLE, "blosc"],
        "uint16",
        [
            (f"[1]: configuration: {name}", "is missing", "blosc")
            for name in ("cname", "clevel", "shuffle", "blocksize")
        ],
    ),
    (
        [LITTLE, without(BLOSC, "typesize")],
        "uint16",
        [("[1]: configuration: typesize", "is missing", "blosc")],
    ),
    (
        [
            LITTLE,
            changed(
                BLOSC, cname="lz5", clevel=10, shuffle=1, typesize="2", blocksize=-1, nthreads=2
            ),
        ],
        "uint16",
        [
            ("[1]: configuration: 'nthreads'", "unknown member", "blosc"),
            ("[1]: configuration: cname", "must be 'lz4', 'lz4hc', 'blosclz', 'zstd'", "blosc"),
            ("[1]: configuration: clevel", "must be from 0 to 9, not 10", "blosc"),
            (
                "[1]: configuration: shuffle",
                "must be 'noshuffle', 'shuffle' or 'bitshuffle', not 1",
                "blosc",
            ),
            ("[1]: configuration: typesize", "must be an integer, not '2'", "blosc"),
            ("[1]: configuration: blocksize", "must be at least 0, not -1", "blosc"),
        ],
    ),
    (
        [LITTLE, changed(BLOSC, typesize=0)],
        "uint16",
        [("[1]: configuration: typesize", "must be at least 1, not 0", "blosc")],
    ),
    # packbits
    (
        [packbits(padding_encoding="start_byte", first_bit=16, last_bit="3", order="lsb")],
        "uint16",
        [
            ("[0]: configuration: 'order'", "unknown member", "packbits"),
            (
                "[0]: configuration: padding_encoding",
                "must be 'none', 'first_byte' or 'last_byte', not 'start_byte'",
                "packbits",
            ),
            ("[0]: configuration: first_bit", "must be from 0 to 15, not 16", "packbits"),
            ("[0]: configuration: last_bit", "must be an integer, not '3'", "packbits"),
        ],
    ),
    (
        [packbits(first_bit=3, last_bit=2)],
        "uint16",
        [("[0]: configuration: last_bit", "must be at least first_bit, which is 3", "packbits")],
    ),
    (
        [packbits(last_bit=32)],
        "complex64",
        [("[0]: configuration: last_bit", "must be from 0 to 31, not 32", "packbits")],
    ),
    ([packbits(last_bit=1)], "bool", [("[0]: configuration: last_bit", "from 0 to 0", "packbits")]),
    ([packbits(first_bit=-1)], "uint9", [("[0]: configuration: first_bit", "least 0", "packbits")]),
    (["packbits"], "r16", [("[0]", "packs numbers, which r16 is not", "packbits")]),
    (["packbits"], "string", [("[0]", "packs numbers, which string is not", "packbits")]),
    # strings
    (["vlen-utf8"], "bytes", [("[0]", "encodes string, not bytes", "vlen-utf8")]),
    (["vlen-bytes"], "uint8", [("[0]", "encodes bytes, not uint8", "vlen-bytes")]),
    (
        [{"name": "vlen-bytes", "configuration": {"width": 4}}],
        "bytes",
        [("[0]: configuration: 'width'", "unknown member", "vlen-bytes")],
    ),
]


@pytest.mark.parametrize(
    ("codecs", "data_type", "expected"), WRONG, ids=lambda v: json.dumps(v)[:70]
)
def test_a_wrong_chain_has_these_problems_and_no_others(
    codecs: list[Json], data_type: Json, expected: list[tuple[str, str, str]]
) -> None:
    compare(found(codecs, data_type), expected)


def compare(actual: list[Problem], expected: list[tuple[str, str, str]]) -> None:
    assert [problem.member for problem in actual] == [member for member, _, _ in expected]
    for problem, (_, clause, document) in zip(actual, expected, strict=True):
        assert clause in problem.clause
        assert problem.rule[0] in (document, f"{document} codec")
        assert problem.rule[1]


SHARD = "sharding-indexed"
HERE = "[0]: configuration"
WRONG_SHARDS: list[tuple[list[Json], list[tuple[str, str, str]]]] = [
    (
        ["sharding_indexed"],
        [
            (f"{HERE}: {name}", "is missing", SHARD)
            for name in ("chunk_shape", "codecs", "index_codecs")
        ],
    ),
    ([sharding([2])], [(f"{HERE}: chunk_shape", "has 1 dimensions, the shard has 2", SHARD)]),
    ([sharding([0, 3])], [(f"{HERE}: chunk_shape[0]", "must be at least 1, not 0", SHARD)]),
    ([sharding([2, "3"])], [(f"{HERE}: chunk_shape[1]", "must be an integer, not '3'", SHARD)]),
    ([sharding(3)], [(f"{HERE}: chunk_shape", "must be an array of integers, not 3", SHARD)]),  # type: ignore[arg-type]
    (
        [sharding([3, 4])],
        [
            (f"{HERE}: chunk_shape[0]", "must divide 4, the length of the shard", SHARD),
            (f"{HERE}: chunk_shape[1]", "must divide 6, the length of the shard", SHARD),
        ],
    ),
    (
        [sharding([8, 6])],
        [(f"{HERE}: chunk_shape[0]", "must divide 4, the length of the shard", SHARD)],
    ),
    (
        [transpose(1, 0), sharding([2, 3])],
        [("[1]: configuration: chunk_shape[1]", "must divide 4", SHARD)],
    ),
    (
        [sharding([2, 3], index_location="middle", index_order=0)],
        [
            (f"{HERE}: 'index_order'", "unknown member", SHARD),
            (f"{HERE}: index_location", "must be 'start' or 'end', not 'middle'", SHARD),
        ],
    ),
    ([sharding([2, 3], codecs=[])], [(f"{HERE}: codecs", "have none that makes bytes", CHAIN)]),
    (
        [sharding([2, 3], codecs=[GZIP, LITTLE])],
        [(f"{HERE}: codecs[0]", "gzip takes bytes", CHAIN)],
    ),
    ([sharding([2, 3], codecs="bytes")], [(f"{HERE}: codecs", "must be an array, not", SHARD)]),
    (
        [sharding([2, 3], codecs=["bytes", changed(GZIP, level="x")])],
        [
            (f"{HERE}: codecs[0]: configuration: endian", "is missing, and uint16", "bytes"),
            (f"{HERE}: codecs[1]: configuration: level", "must be an integer, not 'x'", "gzip"),
        ],
    ),
    (
        [sharding([2, 3], index_codecs=["bytes", CRC32C])],
        [(f"{HERE}: index_codecs[0]: configuration: endian", "is missing, and uint64", "bytes")],
    ),
    (
        [sharding([2, 3], index_codecs=[LITTLE, GZIP])],
        [(f"{HERE}: index_codecs[1]", "gzip makes a varying number of bytes", SHARD)],
    ),
    (
        [sharding([2, 3], index_codecs=["vlen-utf8"])],
        [(f"{HERE}: index_codecs[0]", "vlen-utf8 makes a varying number of bytes", SHARD)],
    ),
    (
        [sharding([2, 3], index_codecs=[CRC32C])],
        [(f"{HERE}: index_codecs", "have none that makes bytes of the array", CHAIN)],
    ),
    (
        [sharding([2, 3], index_codecs=[transpose(1, 0), LITTLE])],
        [
            (
                f"{HERE}: index_codecs[0]: configuration: order",
                "has 2 dimensions, the array has 3",
                "transpose",
            )
        ],
    ),
    (
        [sharding([2, 3], codecs=[sharding([2, 2])])],
        [(f"{HERE}: codecs[0]: configuration: chunk_shape[1]", "must divide 3", SHARD)],
    ),
    (
        [sharding([2, 3], codecs=[transpose(1, 0), sharding([3, 2], codecs=["bytes"])])],
        [(f"{HERE}: codecs[1]: configuration: codecs[0]: configuration: endian", "miss", "bytes")],
    ),
    (
        [
            sharding(
                [2, 3],
                codecs=[
                    3,
                    {"configuration": {}},
                    {"name": "Bytes!"},
                    {"name": "bytes", "configuration": 3},
                    {"name": "bytes", "must_understand": 0},
                    {"name": "bytes", "id": 3},
                    "by tes",
                ],
            )
        ],
        [
            (f"{HERE}: codecs[0]", "must be a name or an object, not 3", CHAIN),
            (f"{HERE}: codecs[1]: name", "is missing", CHAIN),
            (f"{HERE}: codecs[2]: name", "'Bytes!' is neither a raw name nor", CHAIN),
            (f"{HERE}: codecs[3]: configuration", "must be an object, not 3", CHAIN),
            (f"{HERE}: codecs[4]: must_understand", "must be true or false, not 0", CHAIN),
            (f"{HERE}: codecs[5]: 'id'", "unknown member", CHAIN),
            (f"{HERE}: codecs[6]", "'by tes' is neither a raw name nor", CHAIN),
        ],
    ),
]


@pytest.mark.parametrize(("codecs", "expected"), WRONG_SHARDS, ids=lambda v: json.dumps(v)[:70])
def test_a_wrong_shard_has_these_problems_and_no_others(
    codecs: list[Json], expected: list[tuple[str, str, str]]
) -> None:
    compare(found(codecs), expected)


def test_shards_nested_without_end_are_a_problem_and_no_crash() -> None:
    codec = sharding([2, 3])
    for _ in range(100):
        codec = sharding([2, 3], codecs=[codec])
    [problem] = found([codec])
    assert problem.clause == "is nested more than 32 deep"
    assert len(list(unknown(parsed([codec])))) == 0


def test_a_problem_reads_as_its_member_and_what_is_wrong_with_it() -> None:
    assert [str(problem) for problem in found([LITTLE, "gzip", GZIP, transpose(1, 0)])] == [
        "[1]: configuration: level: is missing",
        "[3]: transpose takes an array, and behind [0] bytes there is none",
    ]
    assert str(found([])[0]) == "have none that makes bytes of the array"


def test_unknown_codecs_are_told_wherever_they_stand() -> None:
    inner = sharding([1, 3], codecs=[transpose(1, 0), "https://example.com/codec"])
    chain = [
        "lz77",
        sharding([2, 3], codecs=[inner, 3, "lz78"], index_codecs=[{"name": "lz79"}]),
        "lz80",
    ]
    place = "[1]: configuration"
    assert list(unknown(parsed(chain))) == [
        ("[0]", "lz77"),
        (f"{place}: codecs[0]: configuration: codecs[1]", "https://example.com/codec"),
        (f"{place}: codecs[2]", "lz78"),
        (f"{place}: index_codecs[0]", "lz79"),
        ("[2]", "lz80"),
    ]
    assert list(unknown(parsed(["sharding_indexed", sharding([1], codecs=3)]))) == []
