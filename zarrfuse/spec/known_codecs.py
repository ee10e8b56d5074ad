"""The table of known codecs, and the rules for their configurations.

Owns the rules of the core codecs, and of `zstd`, `packbits`, `vlen-utf8` and `vlen-bytes` of the registry;
`image_codecs` has those of `imagecodecs.zarr`.
Used by `codecs`, which owns chains and shards. It must not know the position of a codec in a chain.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from zarrfuse.spec.codec_rules import (
    Array,
    Codec,
    Judge,
    configuration_rule,
    integer_from,
    is_integer,
    missing_members,
    one_of,
    unknown_members,
)
from zarrfuse.spec.data_types import DataType
from zarrfuse.spec.image_codecs import IMAGE_CODECS
from zarrfuse.spec.members import shown
from zarrfuse.spec.problems import Problem

# -- array->array

_TRANSPOSE: Final = configuration_rule("transpose codec")


def judge_transpose(configuration: Mapping[str, Any], array: Array) -> Iterator[Problem]:
    """`order` is a permutation of the dimensions."""
    yield from unknown_members(configuration, ["order"], _TRANSPOSE)
    yield from missing_members(configuration, ["order"], _TRANSPOSE)
    if "order" not in configuration:
        return
    order, member = configuration["order"], "configuration: order"
    if not isinstance(order, list | tuple):
        clause = f"must be an array of integers, not {shown(order)}"
        yield Problem(member, clause, _TRANSPOSE)
        return
    wrong = [index for index, item in enumerate(order) if not is_integer(item)]
    for index in wrong:
        clause = f"must be an integer, not {shown(order[index])}"
        yield Problem(f"{member}[{index}]", clause, _TRANSPOSE)
    ndim = len(order) if array.shape is None else len(array.shape)
    if len(order) != ndim:
        clause = f"has {len(order)} dimensions, the array has {ndim}"
        yield Problem(member, clause, _TRANSPOSE)
    elif not wrong and sorted(order) != list(range(ndim)):
        clause = f"must hold each number from 0 to {ndim - 1} once"
        yield Problem(member, clause, _TRANSPOSE)


# -- array->bytes

_BYTES: Final = configuration_rule("bytes codec")


def judge_bytes(configuration: Mapping[str, Any], array: Array) -> Iterator[Problem]:
    """`endian` is `little` or `big`; it is required if elements have a byte order.

    Elements must have a fixed size (section Format and algorithm). Records have no byte order here:
    zarr-python leaves `endian` out, and readers take them for little-endian.
    """
    yield from unknown_members(configuration, ["endian"], _BYTES)
    yield from one_of(configuration, "endian", ["little", "big"], _BYTES)
    data_type = array.data_type
    if data_type is None:
        return
    if data_type.byte_order and "endian" not in configuration:
        clause = f"is missing, and {data_type.name} has a byte order"
        yield Problem("configuration: endian", clause, _BYTES)
    if data_type.variable:
        clause = f"takes elements of a fixed size, but those of {data_type.name} vary"
        yield Problem("", clause, ("bytes codec", "Format and algorithm"))


_PACKBITS: Final = configuration_rule("packbits codec")
_PACKED_KINDS = ("bool", "int", "uint", "float", "complex", "time")


def judge_packbits(configuration: Mapping[str, Any], array: Array) -> Iterator[Problem]:
    """`first_bit` and `last_bit` are bits of a number, in this order; elements are numbers.

    The list of types (section Supported data types) lacks float16 and complex64, but has similar ones. So
    all types of numbers are accepted, and times, which zarrs packs too.
    """
    known = ["padding_encoding", "first_bit", "last_bit"]
    yield from unknown_members(configuration, known, _PACKBITS)
    yield from one_of(
        configuration, "padding_encoding", ["none", "first_byte", "last_byte"], _PACKBITS
    )
    data_type = array.data_type
    if data_type is not None and data_type.kind not in (*_PACKED_KINDS, "other"):
        clause = f"packs numbers, which {data_type.name} is not"
        yield Problem("", clause, ("packbits codec", "Supported data types"))
    bits = None if data_type is None else data_type.component_bits
    # Null means the default.
    given = {name: configuration[name] for name in known[1:] if configuration.get(name) is not None}
    wrong = [
        problem
        for name in given
        for problem in integer_from(given, name, 0, None if bits is None else bits - 1, _PACKBITS)
    ]
    yield from wrong
    if not wrong and len(given) == 2 and given["last_bit"] < given["first_bit"]:
        clause = f"must be at least first_bit, which is {given['first_bit']}"
        yield Problem("configuration: last_bit", clause, _PACKBITS)


def packed_bytes(configuration: Mapping[str, Any], data_type: DataType, count: int) -> int | None:
    """The bytes of so many elements encoded by `packbits`; None if it cannot encode them.

    Source: packbits codec, Format and algorithm.
    """
    bits = data_type.component_bits
    if bits is None or any(judge_packbits(configuration, Array(data_type, None))):
        return None
    first: int | None = configuration.get("first_bit")
    last: int | None = configuration.get("last_bit")
    kept = (bits - 1 if last is None else last) - (first or 0) + 1
    packed = -(-count * data_type.components * kept // 8)
    return packed + int(configuration.get("padding_encoding", "none") != "none")


def _judge_vlen(document: str, names: Sequence[str]) -> Judge:
    """The rules of a codec without a configuration for one data type, which may have several `names`."""
    rule = configuration_rule(document)

    def judge(configuration: Mapping[str, Any], array: Array) -> Iterator[Problem]:
        yield from unknown_members(configuration, [], rule)
        data_type = array.data_type
        if data_type is not None and data_type.known and data_type.name not in names:
            clause = f"encodes {names[0]}, not {data_type.name}"
            yield Problem("", clause, (document, "Format and algorithm"))

    return judge


judge_vlen_utf8: Final = _judge_vlen("vlen-utf8 codec", ["string"])
judge_vlen_bytes: Final = _judge_vlen("vlen-bytes codec", ["bytes", "variable_length_bytes"])

# -- bytes->bytes

_GZIP: Final = configuration_rule("gzip codec")
_ZSTD: Final = configuration_rule("zstd codec")
_BLOSC: Final = configuration_rule("blosc codec")
_CRC32C: Final = configuration_rule("crc32c codec")
_COMPRESSORS = ["lz4", "lz4hc", "blosclz", "zstd", "snappy", "zlib"]


def judge_gzip(configuration: Mapping[str, Any], _: Array) -> Iterator[Problem]:
    """`level` is required, and from 0 to 9."""
    yield from unknown_members(configuration, ["level"], _GZIP)
    yield from missing_members(configuration, ["level"], _GZIP)
    yield from integer_from(configuration, "level", 0, 9, _GZIP)


def judge_zstd(configuration: Mapping[str, Any], _: Array) -> Iterator[Problem]:
    """`level` is required, and from -131072 to 22; `checksum` is true or false."""
    yield from unknown_members(configuration, ["level", "checksum"], _ZSTD)
    yield from missing_members(configuration, ["level"], _ZSTD)
    yield from integer_from(configuration, "level", -131072, 22, _ZSTD)
    checksum = configuration.get("checksum", False)
    if not isinstance(checksum, bool):
        clause = f"must be true or false, not {shown(checksum)}"
        yield Problem("configuration: checksum", clause, _ZSTD)


def judge_blosc(configuration: Mapping[str, Any], _: Array) -> Iterator[Problem]:
    """All five members are required, except `typesize` without shuffling."""
    required = ["cname", "clevel", "shuffle", "blocksize"]
    # With a wrong `shuffle`, nothing is known of `typesize`.
    shuffles = configuration.get("shuffle") in ("shuffle", "bitshuffle")
    yield from unknown_members(configuration, [*required, "typesize"], _BLOSC)
    yield from missing_members(configuration, [*required, *(["typesize"] * shuffles)], _BLOSC)
    yield from one_of(configuration, "cname", _COMPRESSORS, _BLOSC)
    yield from integer_from(configuration, "clevel", 0, 9, _BLOSC)
    yield from one_of(configuration, "shuffle", ["noshuffle", "shuffle", "bitshuffle"], _BLOSC)
    yield from integer_from(configuration, "typesize", 1 if shuffles else 0, None, _BLOSC)
    yield from integer_from(configuration, "blocksize", 0, None, _BLOSC)


def judge_crc32c(configuration: Mapping[str, Any], _: Array) -> Iterator[Problem]:
    """It has no configuration, or an empty one, which many write."""
    yield from unknown_members(configuration, [], _CRC32C)


# -- the table


def _filter(*, shape: bool, data_type: bool) -> Codec:
    return Codec("array->array", None, "fixed", shape, data_type)


def _checksum(judge: Judge | None = None) -> Codec:
    return Codec("bytes->bytes", judge, "fixed", added_bytes=4)


# The core codecs, those of the registry (github.com/zarr-developers/zarr-extensions), and others that
# zarr-python, zarrs and imagecodecs write.
KNOWN: Final[Mapping[str, Codec]] = {
    "transpose": Codec("array->array", judge_transpose, "fixed", keeps_type=True),
    "bitround": _filter(shape=True, data_type=True),
    "scale_offset": _filter(shape=True, data_type=True),
    "cast_value": _filter(shape=True, data_type=False),
    "reshape": _filter(shape=False, data_type=True),
    "zarrs.squeeze": _filter(shape=False, data_type=True),
    "numcodecs.bitround": _filter(shape=True, data_type=True),
    "numcodecs.delta": _filter(shape=True, data_type=False),
    "numcodecs.quantize": _filter(shape=True, data_type=False),
    "numcodecs.fixedscaleoffset": _filter(shape=True, data_type=False),
    "numcodecs.astype": _filter(shape=True, data_type=False),
    "numcodecs.packbits": _filter(shape=False, data_type=False),
    "bytes": Codec("array->bytes", judge_bytes, "fixed"),
    "packbits": Codec("array->bytes", judge_packbits, "fixed"),
    "sharding_indexed": Codec("array->bytes"),
    "vlen-utf8": Codec("array->bytes", judge_vlen_utf8),
    "vlen-bytes": Codec("array->bytes", judge_vlen_bytes),
    "vlen-array": Codec("array->bytes"),
    "n5_default": Codec("array->bytes", size="unknown"),
    "zfp": Codec("array->bytes", size="unknown"),
    "zarrs.vlen": Codec("array->bytes"),
    "zarrs.vlen_v2": Codec("array->bytes"),
    "zarrs.optional": Codec("array->bytes"),
    "numcodecs.zfpy": Codec("array->bytes", size="unknown"),
    "numcodecs.pcodec": Codec("array->bytes"),
    "gzip": Codec("bytes->bytes", judge_gzip),
    "zstd": Codec("bytes->bytes", judge_zstd),
    "blosc": Codec("bytes->bytes", judge_blosc),
    "crc32c": _checksum(judge_crc32c),
    "zarrs.gdeflate": Codec("bytes->bytes"),
    "numcodecs.blosc": Codec("bytes->bytes"),
    "numcodecs.bz2": Codec("bytes->bytes"),
    "numcodecs.gzip": Codec("bytes->bytes"),
    "numcodecs.lz4": Codec("bytes->bytes"),
    "numcodecs.lzma": Codec("bytes->bytes"),
    "numcodecs.zlib": Codec("bytes->bytes"),
    "numcodecs.zstd": Codec("bytes->bytes"),
    "numcodecs.shuffle": Codec("bytes->bytes", size="fixed"),
    "numcodecs.adler32": _checksum(),
    "numcodecs.crc32": _checksum(),
    "numcodecs.crc32c": _checksum(),
    "numcodecs.fletcher32": _checksum(),
    "numcodecs.jenkins_lookup3": _checksum(),
    **IMAGE_CODECS,
}
