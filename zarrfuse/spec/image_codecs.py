"""The codecs of `imagecodecs.zarr` that TIFF and HDF5 need, and the rules for their configurations.

Owns which members their configurations have, and which values. Used by `known_codecs`, by `codecs` for the
size of packed integers, and by `zarr_python`. It must not know how codecs decode.
"""

import binascii
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, Final, Literal, TypeAlias

from zarrfuse.spec.codec_rules import (
    Array,
    Codec,
    Judge,
    configuration_rule,
    integer_from,
    is_integer,
    one_of,
    unknown_members,
)
from zarrfuse.spec.members import shown
from zarrfuse.spec.problems import Problem

MemberType: TypeAlias = Literal["integer", "number", "boolean", "string", "base64", "any"]
"""The JSON type of a member. `base64`: bytes as text. `any`: a name or its number, or numbers."""

_SHARED: Final[Mapping[str, MemberType]] = {"level": "integer", "numthreads": "integer"}

IMAGE_CODEC_MEMBERS: Final[Mapping[str, Mapping[str, MemberType]]] = {
    "imagecodecs_jpeg": {
        "level": "integer",
        "bitspersample": "integer",
        "tables": "base64",
        "header": "base64",
        "colorspace_data": "any",
        "colorspace_jpeg": "any",
        "subsampling": "any",
        "optimize": "boolean",
        "smoothing": "boolean",
        "lossless": "boolean",
        "predictor": "integer",
        "fancyupsampling": "boolean",
    },
    "imagecodecs_jpeg2k": {
        **_SHARED,
        "codecformat": "any",
        "colorspace": "any",
        "planar": "boolean",
        "tile": "any",
        "bitspersample": "integer",
        "resolutions": "integer",
        "reversible": "boolean",
        "mct": "boolean",
        "skipres": "integer",
        "verbose": "integer",
    },
    "imagecodecs_jpegxl": {
        **_SHARED,
        "effort": "integer",
        "distance": "number",
        "lossless": "boolean",
        "decodingspeed": "integer",
        "photometric": "any",
        "bitspersample": "integer",
        "planar": "boolean",
        "primaries": "any",
        "transfer": "any",
        "perceptualheuristics": "boolean",
        "usecontainer": "boolean",
        "index": "integer",
        "keeporientation": "boolean",
    },
    "imagecodecs_jpegxr": {
        "level": "number",
        "photometric": "any",
        "hasalpha": "boolean",
        "resolution": "any",
        "fp2int": "boolean",
    },
    "imagecodecs_webp": {
        **_SHARED,
        "level": "number",
        "lossless": "boolean",
        "method": "integer",
        "index": "integer",
        "hasalpha": "boolean",
        "delay": "integer",
    },
    "imagecodecs_lerc": {
        "level": "number",
        "version": "integer",
        "planar": "boolean",
        "compression": "string",
        "compressionargs": "any",
    },
    "imagecodecs_png": {
        "level": "integer",
        "strategy": "any",
        "filter": "any",
        "primaries": "any",
        "transfer": "any",
        "matrix": "any",
    },
}
"""The members of codecs that encode an array as an image file."""


_BYTES_CODEC_MEMBERS: Final[Mapping[str, Mapping[str, MemberType]]] = {
    "imagecodecs_lzw": {},
    "imagecodecs_packbits": {},
    "imagecodecs_lzf": {"header": "boolean"},
    "imagecodecs_lz4h5": {"level": "integer", "blocksize": "integer"},
    "imagecodecs_szip": {
        "options_mask": "integer",
        "pixels_per_block": "integer",
        "bits_per_pixel": "integer",
        "pixels_per_scanline": "integer",
        "header": "boolean",
    },
}
"""The members of codecs that compress bytes."""


def _judge_members(name: str, members: Mapping[str, MemberType]) -> Judge:
    """The rules of a configuration with members of these types; null means the default."""
    rule = configuration_rule(f"{name} codec")

    def judge(configuration: Mapping[str, Any], _: Array) -> Iterator[Problem]:
        yield from unknown_members(configuration, list(members), rule)
        for member, kind in members.items():
            value = configuration.get(member)
            if value is not None and not _has_type(value, kind):
                clause = f"must be {_TYPE_NAMES[kind]}, not {shown(value)}"
                yield Problem(f"configuration: {member}", clause, rule)

    return judge


_TYPE_NAMES: Final[Mapping[MemberType, str]] = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "string": "a string",
    "base64": "bytes as base64",
}


def _has_type(value: object, kind: MemberType) -> bool:
    match kind:
        case "integer":
            return is_integer(value)
        case "number":
            return is_integer(value) or isinstance(value, float)
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "base64":
            return isinstance(value, str) and _is_base64(value)
        case "any":
            return True


def _is_base64(text: str) -> bool:
    try:
        binascii.a2b_base64(text.encode(), strict_mode=True)
    except ValueError:
        return False
    return True


def _judge_predictor(name: str, kinds: Sequence[str]) -> Judge:
    """The rules of a predictor: `axis` exists, `dist` is at least 1, elements are of these `kinds`."""
    document = f"{name} codec"
    rule = configuration_rule(document)

    def judge(configuration: Mapping[str, Any], array: Array) -> Iterator[Problem]:
        yield from unknown_members(configuration, ["axis", "dist"], rule)
        yield from integer_from(configuration, "dist", 1, None, rule)
        if array.shape:
            ndim = len(array.shape)
            yield from integer_from({"axis": -1, **configuration}, "axis", -ndim, ndim - 1, rule)
        data_type = array.data_type
        if data_type is not None and data_type.known and data_type.kind not in kinds:
            clause = f"takes numbers of the kinds {', '.join(kinds)}, which {data_type.name} is not"
            yield Problem("", clause, (document, "Format and algorithm"))

    return judge


_PACKINTS: Final = configuration_rule("imagecodecs_packints codec")


def judge_packints(configuration: Mapping[str, Any], array: Array) -> Iterator[Problem]:
    """`bitspersample` fits the unsigned elements, `runlen` divides their number, `bitorder` is an order."""
    yield from unknown_members(configuration, ["bitspersample", "bitorder", "runlen"], _PACKINTS)
    if configuration.get("bitorder") is not None:
        yield from one_of(configuration, "bitorder", ["<", ">"], _PACKINTS)
    wrong = list(integer_from(configuration, "runlen", 0, None, _PACKINTS))
    yield from wrong
    runlen = configuration.get("runlen", 0)
    if not wrong and runlen and array.shape is not None and prod(array.shape) % runlen:
        clause = (
            f"must divide {prod(array.shape)}, the elements of a chunk, which {runlen} does not"
        )
        yield Problem("configuration: runlen", clause, _PACKINTS)
    data_type, most = array.data_type, 64
    if data_type is not None and data_type.known:
        if data_type.kind in ("uint", "bool") and data_type.itemsize is not None:
            most = data_type.itemsize * 8
        else:
            clause = f"packs unsigned integers and bool, which {data_type.name} is not"
            document = "imagecodecs_packints codec"
            yield Problem("", clause, (document, "Format and algorithm"))
    yield from integer_from(
        {"bitspersample": 8, **configuration}, "bitspersample", 1, most, _PACKINTS
    )


def packed_integer_bytes(configuration: Mapping[str, Any], shape: tuple[int, ...]) -> int | None:
    """The bytes of a chunk encoded by `imagecodecs_packints`: each run is rounded up to whole bytes."""
    if any(judge_packints(configuration, Array(None, shape))):
        return None
    bits: int = configuration.get("bitspersample", 8)
    runlen: int = configuration.get("runlen", 0) or prod(shape)
    return prod(shape) // runlen * -(-runlen * bits // 8)


IMAGE_CODECS: Final[Mapping[str, Codec]] = {
    "imagecodecs_delta": Codec(
        "array->array",
        _judge_predictor("imagecodecs_delta", ["int", "uint", "float"]),
        "fixed",
        keeps_shape=True,
        keeps_type=True,
    ),
    "imagecodecs_floatpred": Codec(
        "array->bytes", _judge_predictor("imagecodecs_floatpred", ["float"]), "fixed"
    ),
    "imagecodecs_bitshuffle": Codec(
        "array->bytes",
        _judge_members("imagecodecs_bitshuffle", {"blocksize": "integer"}),
        "fixed",
    ),
    "imagecodecs_packints": Codec("array->bytes", judge_packints, "fixed"),
    **{
        name: Codec("bytes->bytes", _judge_members(name, members))
        for name, members in _BYTES_CODEC_MEMBERS.items()
    },
    **{
        name: Codec("array->bytes", _judge_members(name, members))
        for name, members in IMAGE_CODEC_MEMBERS.items()
    },
}
"""Their kinds and rules, by name."""
