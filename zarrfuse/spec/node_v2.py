"""Parses the documents of Zarr v2, `.zarray`, `.zgroup` and `.zattrs`, into the same nodes as `node_v3`.

Used by views and `check`. Nothing writes v2.
"""

import msgspec

from zarrfuse.errors import MetadataError
from zarrfuse.spec.chunk_keys import V2Encoding
from zarrfuse.spec.members import (
    Document,
    decode_as_written,
    quote_constants,
    shown,
    take_array,
    take_member,
    take_object,
    take_string,
)
from zarrfuse.spec.names import Extension
from zarrfuse.spec.node import (
    MISSING,
    NO_ATTRIBUTES,
    ArrayNode,
    GroupNode,
    NodeError,
    check_format,
    take_chunk_shape,
    take_shape,
)
from zarrfuse.spec.surrogates import unescaped


def parse_v2_array(document: bytes, attributes: bytes | None = None) -> ArrayNode:
    """Parse a `.zarray` and, if there is one, the `.zattrs` beside it.

    Raises `NodeError` that starts with `.zarray:` and the member. Unknown members are ignored, and NaN and
    Infinity without quotes, which old writers wrote, become strings (Zarr v2 specification, Metadata).
    """
    try:
        return _parse_v2_array(decode_as_written(document), _raw(attributes))
    except MetadataError as error:
        raise NodeError(f".zarray: {error}", "array") from error


def parse_v2_group(document: bytes, attributes: bytes | None = None) -> GroupNode:
    """Parse a `.zgroup` and, if there is one, the `.zattrs` beside it (Zarr v2 specification, Groups).

    Raises `NodeError` that starts with `.zgroup:` and the member.
    """
    try:
        check_format(decode_as_written(document), 2)
        return GroupNode(zarr_format=2, raw_attributes=_raw(attributes))
    except MetadataError as error:
        raise NodeError(f".zgroup: {error}", "group") from error


def _parse_v2_array(members: Document, attributes: msgspec.Raw) -> ArrayNode:
    check_format(members, 2)
    shape = take_shape(members)
    data_type = take_member(members, "dtype")
    if not isinstance(data_type, str) and not take_array(data_type, "dtype"):
        raise MetadataError("dtype: must not be empty")
    separator = take_member(members, "dimension_separator", ".")
    try:
        chunk_keys = V2Encoding.from_configuration({"separator": separator})
    except MetadataError as error:
        raise MetadataError(f"dimension_{error}") from error
    order = take_member(members, "order", "C")
    if order not in ("C", "F"):
        raise MetadataError(f"order: must be 'C' or 'F', not {shown(order)}")
    return ArrayNode(
        zarr_format=2,
        shape=shape,
        data_type=data_type,
        chunk_shape=take_chunk_shape(take_member(members, "chunks"), "chunks", shape),
        chunk_keys=chunk_keys,
        codecs=_take_v2_codecs(members),
        fill_value=take_member(members, "fill_value", MISSING),
        order=order,
        raw_attributes=attributes,
    )


def _raw(attributes: bytes | None) -> msgspec.Raw:
    """The attributes, undecoded: an error in them is raised when they are decoded."""
    return (
        NO_ATTRIBUTES if attributes is None else msgspec.Raw(unescaped(quote_constants(attributes)))
    )


def _take_v2_codecs(members: Document) -> tuple[Extension, ...]:
    """The filters and the compressor, each with its numcodecs id as name; both may be null."""
    filters = take_member(members, "filters", None)
    found = [] if filters is None else list(enumerate(take_array(filters, "filters")))
    codecs = [(f"filters[{index}]", value) for index, value in found]
    compressor = take_member(members, "compressor", None)
    if compressor is not None:
        codecs.append(("compressor", compressor))
    return tuple(
        Extension(take_string(take_object(value, member).get("id"), f"{member}: id"), value)
        for member, value in codecs
    )
