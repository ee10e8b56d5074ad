"""Nodes of Zarr v2 said in the words of Zarr v3, where Zarr v3 has words for all of it.

Owns the translation of compressors, memory order, dimension names and what else xarray keeps in
attributes; `v2_data_types` has data types and fill values. Used by the `plain` view. It must not know
how a document is written down, or where chunks lie.
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
from zarrfuse.spec.v2_data_types import SaidType, said_fill_value, said_type

_DIMENSIONS = "_ARRAY_DIMENSIONS"
"""The attribute in which xarray keeps the names of dimensions in Zarr v2."""
_FILL_VALUE = "_FillValue"
"""The attribute in which xarray keeps the value of what is missing, in Zarr v3."""
_LARGEST_TYPESIZE = 255


def as_v3(node: Node) -> Node:
    """The node of Zarr v3 with the same chunks, elements and attributes as one of Zarr v2.

    What xarray makes of an array stays the same too, so its fill value, which xarray takes for the
    value of what is missing in Zarr v2 alone, becomes an attribute. Other codecs of numcodecs, which
    zarr-python calls `numcodecs.zlib` and so on, are not used: tensorstore 0.1.86 reads none of them,
    but zlib and bz2 in Zarr v2, and zarr-python 3.1.6 writes wrong chunks with filters in order F.

    Raises `MetadataError` that names the document and the member for which Zarr v3 has no word, or
    for `.zattrs` that are no JSON object. Sources: Zarr v2 specification, Metadata; the codecs
    `bytes`, `vlen-utf8`, `vlen-bytes`, `transpose`, `gzip`, `zstd` and `blosc` 1.0; xarray, Zarr
    Encoding Specification.
    """
    attributes = _attributes(node)
    if not isinstance(node, ArrayNode):
        return replace(node, zarr_format=3)
    try:
        said = said_type(node.data_type, node.codecs[0].name if node.codecs else None)
        codecs = _codecs(node, said)
        fill_value = said_fill_value(node.fill_value, said.data_type)
    except MetadataError as error:
        raise MetadataError(f".zarray: {error}") from error
    names = _dimension_names(attributes, node.ndim)
    if names is not None:
        node = replace(node, raw_attributes=_of_xarray(attributes, node, said.data_type, names))
    return replace(
        node,
        zarr_format=3,
        data_type=said.value,
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


# -- what xarray says in attributes


def _dimension_names(attributes: Document, ndim: int) -> list[str] | None:
    """What xarray says of the dimensions; None for anything that is not as many names."""
    if _DIMENSIONS not in attributes:
        return None
    try:
        names = decode_raw(attributes[_DIMENSIONS], _DIMENSIONS)
    except MetadataError:
        return None
    is_usable = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return names if is_usable and len(names) == ndim else None


def _each_once(names: list[str]) -> tuple[str | None, ...]:
    """The names, null for one that stands there before: tensorstore refuses a name twice."""
    return tuple(None if name in names[:index] else name for index, name in enumerate(names))


def _of_xarray(
    attributes: Document, node: ArrayNode, data_type: DataType, names: list[str]
) -> msgspec.Raw:
    """The attributes as xarray writes them in Zarr v3; names that are there twice stay in them too."""
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
    """A fill value as an element of the array has it, with which xarray compares elements of Zarr v2."""
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

    Raises `TypeError` for what would become another value.
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


def _codecs(node: ArrayNode, said: SaidType) -> tuple[Extension, ...]:
    """The memory order, the filter that makes bytes of objects, and the compressor.

    `ArrayNode` keeps the filters in front of the compressor, and both under their numcodecs ids.
    """
    is_transposed = node.order == "F" and node.ndim > 1
    if said.data_type.variable:
        first, *others = node.codecs
        refuse_unknown(first.configuration, {"id"}, f"the codec {shown(first.name)}")
        if is_transposed:  # zarr-python would read this, but write it wrong
            raise MetadataError("order: objects are in order C in Zarr v3")
        return (Extension(first.name, {}), *_compressor(others, said.data_type))
    endian = {} if said.endian is None else {"endian": said.endian}
    codecs = (Extension("bytes", endian), *_compressor(node.codecs, said.data_type))
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
        raise MetadataError(f"the codec {shown(name)} is none of Zarr v3")
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
    if itemsize > _LARGEST_TYPESIZE:  # as blosc takes it
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
    """A member of a compressor; where it is left out, the default that numcodecs gives it."""
    value = members.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise MetadataError(f"{name}: {shown(value)} is no integer from {lowest} to {highest}")
    return value
