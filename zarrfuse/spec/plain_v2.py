"""Translates nodes of Zarr v2 to Zarr v3, if Zarr v3 can describe them.

Owns compressors, memory order, dimension names and other attributes of xarray; `v2_data_types` has data
types and fill values. Used by the `plain` view. It must not know how a document is written, or where chunks
are stored.
"""

import base64
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from zarrfuse.errors import MetadataError
from zarrfuse.spec.data_types import DataType
from zarrfuse.spec.members import Document, decode_as_written, decode_raw, refuse_unknown, shown
from zarrfuse.spec.names import Extension
from zarrfuse.spec.node import NO_ATTRIBUTES, ArrayNode, Node
from zarrfuse.spec.v2_data_types import TranslatedType, translated_fill_value, translated_type

_DIMENSIONS = "_ARRAY_DIMENSIONS"
"""The attribute of xarray with the names of dimensions, in Zarr v2."""
_FILL_VALUE = "_FillValue"
"""The attribute of xarray with the value of missing elements, in Zarr v3."""
_LARGEST_TYPESIZE = 255


def as_v3(node: Node) -> Node:
    """Translate a node of Zarr v2 to one of Zarr v3 with the same chunks, elements and attributes.

    xarray must see the same array too: in Zarr v2, but not in v3, it masks elements that equal the fill
    value, so that becomes an attribute. Other codecs of numcodecs, which zarr-python calls `numcodecs.zlib`
    and so on, are refused: tensorstore 0.1.86 reads zlib and bz2 in Zarr v2, but none of these in v3, and
    zarr-python 3.1.6 writes wrong chunks with filters in order F.

    Raises `MetadataError` that names the document and the member that Zarr v3 cannot describe, or
    `.zattrs` that are not a JSON object. Sources: Zarr v2 specification, Metadata; the codecs `bytes`,
    `vlen-utf8`, `vlen-bytes`, `transpose`, `gzip`, `zstd` and `blosc` 1.0; xarray, Zarr Encoding
    Specification.
    """
    attributes = _attributes(node)
    if not isinstance(node, ArrayNode):
        return replace(node, zarr_format=3)
    try:
        translated = translated_type(node.data_type, node.codecs[0].name if node.codecs else None)
        codecs = _codecs(node, translated)
        fill_value = translated_fill_value(node.fill_value, translated.data_type)
    except MetadataError as error:
        raise MetadataError(f".zarray: {error}") from error
    names = _dimension_names(attributes, node.ndim)
    if names is not None:
        attributes_v3 = _of_xarray(attributes, node, translated.data_type, names)
        node = replace(node, raw_attributes=attributes_v3)
    return replace(
        node,
        zarr_format=3,
        data_type=translated.value,
        codecs=codecs,
        fill_value=fill_value,
        dimension_names=None if names is None else _each_once(names),
        order="C",
    )


def _attributes(node: Node) -> Document:
    if node.raw_attributes is NO_ATTRIBUTES:
        return {}
    try:
        return decode_as_written(bytes(memoryview(node.raw_attributes)))
    except MetadataError as error:
        raise MetadataError(f".zattrs: {error}") from error


# -- attributes of xarray


def _dimension_names(attributes: Document, ndim: int) -> list[str] | None:
    """The names of dimensions by xarray; None if they are not one string for each dimension."""
    if _DIMENSIONS not in attributes:
        return None
    try:
        names = decode_raw(attributes[_DIMENSIONS], _DIMENSIONS)
    except MetadataError:
        return None
    is_usable = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return names if is_usable and len(names) == ndim else None


def _each_once(names: list[str]) -> tuple[str | None, ...]:
    """The names, with None for repeated ones, which tensorstore refuses."""
    return tuple(None if name in names[:index] else name for index, name in enumerate(names))


def _of_xarray(
    attributes: Document, node: ArrayNode, data_type: DataType, names: list[str]
) -> msgspec.Raw:
    """The attributes as xarray writes them in Zarr v3; with repeated names, `_ARRAY_DIMENSIONS` stays."""
    members: dict[str, Any] = dict(attributes)
    if len(set(names)) == len(names):
        del members[_DIMENSIONS]
    if node.fill_value is None and _FILL_VALUE not in attributes:
        return msgspec.Raw(msgspec.json.encode(members))
    try:
        if node.fill_value is None:
            value = msgspec.json.decode(attributes[_FILL_VALUE])
        else:
            value = _rounded(node.fill_value, data_type)
        members[_FILL_VALUE] = _missing_value(value, data_type)
    except (ValueError, TypeError, OverflowError) as error:
        clause = f"xarray has no such value of {data_type.name} in Zarr v3"
        raise MetadataError(f".zattrs: {_FILL_VALUE}: {clause}") from error
    return msgspec.Raw(msgspec.json.encode(members))


def _rounded(value: Any, data_type: DataType) -> Any:
    """A fill value with the precision of the elements, with which xarray compares them in Zarr v2."""
    if isinstance(value, list):
        return [_rounded(part, data_type) for part in value]
    layout = {16: "<e", 32: "<f"}.get(data_type.component_bits or 0)
    if layout is None or data_type.kind not in ("float", "complex"):
        return value
    number = float(value)
    try:
        return struct.unpack(layout, struct.pack(layout, number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)


def _missing_value(value: Any, data_type: DataType) -> Any:
    """`_FillValue` as xarray spells it in Zarr v3. Source: xarray, `FillValueCoder`.

    Raises `TypeError` for a value that would change.
    """
    if data_type.kind in ("bool", "int", "uint"):
        kept = bool(value) if data_type.kind == "bool" else int(value)
        if isinstance(value, str) or kept != value:
            raise TypeError(value)
        return kept
    if data_type.kind == "float":
        return base64.b64encode(struct.pack("<d", float(value))).decode()
    if data_type.kind == "complex":
        parts = value if isinstance(value, list) else [value, 0.0]
        return [base64.b64encode(struct.pack("<d", float(part))).decode() for part in parts]
    raise TypeError(data_type.kind)


# -- codecs


def _codecs(node: ArrayNode, translated: TranslatedType) -> tuple[Extension, ...]:
    """The codecs for the memory order, the filter that encodes objects, and the compressor.

    `node.codecs` are the filters and then the compressor, with their numcodecs ids as names.
    """
    is_transposed = node.order == "F" and node.ndim > 1
    if translated.data_type.variable:
        first, *others = node.codecs
        refuse_unknown(first.configuration, {"id"}, f"the codec {shown(first.name)}")
        if is_transposed:  # zarr-python reads it, but writes wrong chunks
            raise MetadataError("order: must be C for objects in Zarr v3")
        return (Extension(first.name, {}), *_compressor(others, translated.data_type))
    endian = {} if translated.endian is None else {"endian": translated.endian}
    codecs = (Extension("bytes", endian), *_compressor(node.codecs, translated.data_type))
    if is_transposed:
        order = list(reversed(range(node.ndim)))
        return (Extension("transpose", {"order": order}), *codecs)
    return codecs


def _compressor(codecs: Sequence[Extension], data_type: DataType) -> list[Extension]:
    """The compressor as a codec of Zarr v3, if there is one and it is the only codec."""
    if not codecs:
        return []
    *filters, last = codecs
    if filters or last.name not in _COMPRESSORS:
        name = filters[0].name if filters else last.name
        raise MetadataError(f"the codec {shown(name)} has no equivalent in Zarr v3")
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
    if itemsize > _LARGEST_TYPESIZE:  # as blosc does
        itemsize = 1
    if compressor.get("typesize") is not None:  # null: that of the data type
        itemsize = _integer(compressor, "typesize", itemsize, 1, _LARGEST_TYPESIZE)
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
    """A member of a compressor; `default`: that of numcodecs."""
    value = members.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise MetadataError(
            f"{name}: must be an integer from {lowest} to {highest}, not {shown(value)}"
        )
    return value
