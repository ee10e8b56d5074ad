"""Nodes of Zarr v2 said in the words of Zarr v3, where the core of Zarr v3 has words for all of it.

Owns the translation of data types, compressors, fill values, memory order and dimension names. Used
by the `plain` view. It must not know how a document is written down, or where chunks lie.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from zarrfuse.errors import MetadataError
from zarrfuse.spec.data_types import (
    DataType,
    default_fill_value,
    fill_value_problem,
    parse_data_type,
)
from zarrfuse.spec.members import Document, decode_as_written, decode_raw, refuse_unknown, shown
from zarrfuse.spec.names import Extension
from zarrfuse.spec.node import MISSING, NO_ATTRIBUTES, ArrayNode, Node

_DIMENSIONS = "_ARRAY_DIMENSIONS"
"""The attribute in which xarray keeps the names of dimensions in Zarr v2."""

_TYPE_STRING = re.compile("([<>|])([biufc])([0-9]{1,2})")
_TYPE_NAMES = {
    "b1": "bool",
    **{f"i{bits // 8}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits // 8}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"f{bits // 8}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"c{bits // 8}": f"complex{bits}" for bits in (64, 128)},
}


def as_v3(node: Node) -> Node:
    """The node of Zarr v3 with the same chunks, elements and attributes as one of Zarr v2.

    Raises `MetadataError` that names the document and the member for which the core of Zarr v3 has
    no word, or for `.zattrs` that are no JSON object. Sources: Zarr v2 specification, Metadata and
    Data type encoding; Zarr v3 core specification, Data types and Fill value; the codecs `bytes`,
    `transpose`, `gzip`, `zstd` and `blosc` 1.0.
    """
    attributes = _attributes(node)
    if not isinstance(node, ArrayNode):
        return replace(node, zarr_format=3)
    names = _dimension_names(attributes, node.ndim)
    if names is not None:
        del attributes[_DIMENSIONS]
        node = replace(node, raw_attributes=msgspec.Raw(msgspec.json.encode(attributes)))
    try:
        data_type, endian = _data_type(node.data_type)
        codecs = []
        if node.order == "F" and node.ndim > 1:
            order = list(reversed(range(node.ndim)))
            codecs.append(Extension("transpose", {"order": order}))
        codecs.append(Extension("bytes", {} if endian is None else {"endian": endian}))
        codecs += _compressor(node.codecs, data_type)
        fill_value = _fill_value(node.fill_value, data_type)
    except MetadataError as error:
        raise MetadataError(f".zarray: {error}") from error
    return replace(
        node,
        zarr_format=3,
        data_type=data_type.name,
        codecs=tuple(codecs),
        fill_value=fill_value,
        dimension_names=names,
        order="C",
    )


def _attributes(node: Node) -> Document:
    if node.raw_attributes is NO_ATTRIBUTES:
        return {}
    try:
        return decode_as_written(bytes(memoryview(node.raw_attributes)))
    except MetadataError as error:
        raise MetadataError(f".zattrs: {error}") from error


def _dimension_names(attributes: Document, ndim: int) -> tuple[str | None, ...] | None:
    """What xarray says of the dimensions; None for anything that is not as many names."""
    if _DIMENSIONS not in attributes:
        return None
    try:
        names = decode_raw(attributes[_DIMENSIONS], _DIMENSIONS)
    except MetadataError:
        return None
    is_usable = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return tuple(names) if is_usable and len(names) == ndim else None


def _data_type(value: object) -> tuple[DataType, str | None]:
    """(data type, byte order where an element has several bytes)."""
    match = _TYPE_STRING.fullmatch(value) if isinstance(value, str) else None
    name = _TYPE_NAMES.get(match[2] + match[3]) if match is not None else None
    if match is None or name is None:
        raise MetadataError(f"dtype: {shown(value)} is no data type of the core of Zarr v3")
    data_type = parse_data_type(name)
    if not data_type.byte_order:
        return data_type, None
    if match[1] == "|":
        raise MetadataError(f"dtype: {shown(value)} does not say its byte order")
    return data_type, "little" if match[1] == "<" else "big"


def _compressor(codecs: tuple[Extension, ...], data_type: DataType) -> list[Extension]:
    """The compressor as a codec of Zarr v3, if there is one and it is the only codec.

    `ArrayNode` keeps the filters in front of the compressor, and both under their numcodecs ids.
    """
    if not codecs:
        return []
    *filters, last = codecs
    if filters or last.name not in _COMPRESSORS:
        name = filters[0].name if filters else last.name
        raise MetadataError(f"the codec {shown(name)} is none of the core of Zarr v3")
    try:
        return [_COMPRESSORS[last.name](last.configuration, data_type.itemsize or 1)]
    except MetadataError as error:
        raise MetadataError(f"the codec {shown(last.name)}: {error}") from error


def _gzip(compressor: Mapping[str, Any], _itemsize: int) -> Extension:
    refuse_unknown(compressor, {"id", "level"})
    return Extension("gzip", {"level": _integer(compressor, "level", 1, 0, 9)})


def _zstd(compressor: Mapping[str, Any], _itemsize: int) -> Extension:
    refuse_unknown(compressor, {"id", "level", "checksum"})
    checksum = compressor.get("checksum", False)
    if not isinstance(checksum, bool):
        raise MetadataError(f"checksum: must be true or false, not {shown(checksum)}")
    level = _integer(compressor, "level", 0, -131072, 22)
    return Extension("zstd", {"level": level, "checksum": checksum})


def _blosc(compressor: Mapping[str, Any], itemsize: int) -> Extension:
    refuse_unknown(compressor, {"id", "cname", "clevel", "shuffle", "blocksize", "typesize"})
    cname = compressor.get("cname", "lz4")
    if cname not in ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"):
        raise MetadataError(f"cname: {shown(cname)} is not known")
    shuffle = _integer(compressor, "shuffle", 1, -1, 2)
    if shuffle == -1:  # numcodecs.blosc.AUTOSHUFFLE
        shuffle = 2 if itemsize == 1 else 1
    if compressor.get("typesize") is not None:  # null: that of the data type
        itemsize = _integer(compressor, "typesize", itemsize, 1, 255)
    configuration = {
        "typesize": itemsize,
        "cname": cname,
        "clevel": _integer(compressor, "clevel", 5, 0, 9),
        "shuffle": ("noshuffle", "shuffle", "bitshuffle")[shuffle],
        "blocksize": _integer(compressor, "blocksize", 0, 0, 2**31 - 1),
    }
    return Extension("blosc", configuration)


_COMPRESSORS: dict[str, Callable[[Mapping[str, Any], int], Extension]] = {
    "gzip": _gzip,
    "zstd": _zstd,
    "blosc": _blosc,
}


def _integer(members: Mapping[str, Any], name: str, default: int, lowest: int, highest: int) -> int:
    """A member of a compressor; where it is left out, the default that numcodecs gives it."""
    value = members.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise MetadataError(f"{name}: {shown(value)} is no integer from {lowest} to {highest}")
    return value


def _fill_value(value: object, data_type: DataType) -> Any:
    """A fill value as Zarr v3 spells it; where Zarr v2 leaves it open (null), that of the type.

    Lenient where a writer of Zarr v2 left the conversion to numpy: 0 for false, 0.0 for 0.
    """
    if value is MISSING:
        raise MetadataError("fill_value: is missing")
    if value is None:
        return default_fill_value(data_type)
    kind = data_type.kind
    if kind == "bool" and value in (0, 1):
        value = bool(value)
    elif kind in ("int", "uint") and isinstance(value, float) and value.is_integer():
        value = int(value)
    elif kind == "complex" and not isinstance(value, list):
        value = [value, 0.0]
    clause = fill_value_problem(data_type, value)
    if clause is not None:
        raise MetadataError(f"fill_value: {clause}")
    return value
