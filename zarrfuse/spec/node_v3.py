"""Parses `zarr.json`.

Owns the rules for which nodes of Zarr v3 may be loaded (core specification, ZEP 9, ZEP 10). Used by views
and `check`. `node_v2` parses the documents of Zarr v2.
"""

from collections.abc import Sequence

import msgspec

from zarrfuse.errors import MetadataError
from zarrfuse.spec.active import NOTHING_LISTED, Judged, judge_extensions
from zarrfuse.spec.chunk_keys import parse_chunk_key_encoding, sample_keys
from zarrfuse.spec.context import CONTEXT, resolve_context
from zarrfuse.spec.extensions import NodeType
from zarrfuse.spec.members import (
    Document,
    decode_as_written,
    decode_raw,
    is_object,
    may_be_ignored,
    refuse_unknown,
    shown,
    take_array,
    take_label,
    take_member,
)
from zarrfuse.spec.names import Extension, parse_extension
from zarrfuse.spec.node import (
    MISSING,
    NO_ATTRIBUTES,
    ArrayNode,
    GroupNode,
    Node,
    NodeError,
    check_format,
    interpret,
    take_chunk_shape,
    take_shape,
)
from zarrfuse.spec.transformers import judge_transformers

_COMMON_MEMBERS = frozenset({"zarr_format", "node_type", "attributes", "extensions"})
_ARRAY_MEMBERS = _COMMON_MEMBERS | {
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "storage_transformers",
    "dimension_names",
}
# `consolidated_metadata` is in no specification, but in many groups: with `must_understand` false, or
# from some writers null or without `must_understand`.
_GROUP_MEMBERS = _COMMON_MEMBERS | {"consolidated_metadata"}
KNOWN_MEMBERS = _ARRAY_MEMBERS | _GROUP_MEMBERS
"""All members of a `zarr.json` that are understood here, of arrays or groups."""


def parse_v3(document: bytes) -> Node:
    """Parse a `zarr.json`.

    Raises `NodeError` that starts with `zarr.json:` and the member if the node must not be loaded (core
    specification, Array metadata, Group metadata, Extension points; ZEP 9; ZEP 10). References to other
    nodes are resolved later (`references.resolve`). Two errors that only matter for decoding pass: a
    missing `fill_value`, and codecs without an array->bytes codec.
    """
    node_type: NodeType | None = None
    try:
        members = decode_as_written(document)
        node_type = _peek_node_type(members)
        if CONTEXT in members:
            members = resolve_context(members, KNOWN_MEMBERS)
            node_type = _peek_node_type(members)
        check_format(members, 3)
        if node_type is None:
            value = take_member(members, "node_type")
            raise MetadataError(f"node_type: must be 'array' or 'group', not {shown(value)}")
        node = _parse_array(members) if node_type == "array" else _parse_group(members)
        return interpret(node, node.active) if node.active else node
    except MetadataError as error:
        raise NodeError(f"zarr.json: {error}", node_type) from error


def _peek_node_type(members: Document) -> NodeType | None:
    """The node type, for the message of a later error; None if it is missing or not known."""
    try:
        value = take_member(members, "node_type")
    except MetadataError:
        return None
    if value == "array":
        return "array"
    return "group" if value == "group" else None


def _parse_group(members: Document) -> GroupNode:
    ignored = _ignore_unknown(members, _GROUP_MEMBERS)
    judged = _take_extensions(members, None)
    return GroupNode(
        zarr_format=3,
        extensions=judged.extensions,
        ignored=ignored + judged.ignored,
        active=judged.active,
        references=judged.references,
        raw_attributes=_take_attributes(members),
    )


def _parse_array(members: Document) -> ArrayNode:
    ignored = _ignore_unknown(members, _ARRAY_MEMBERS)
    shape = take_shape(members)
    ndim = len(shape)
    data_type = take_member(members, "data_type")
    _parse_required(data_type, "data_type")
    chunk_shape = _take_regular_grid(take_member(members, "chunk_grid"), shape)
    chunk_keys = parse_chunk_key_encoding(take_member(members, "chunk_key_encoding"))
    sample_keys(chunk_keys, ndim)
    codecs = take_array(take_member(members, "codecs"), "codecs")
    transformers = take_member(members, "storage_transformers", ())
    parts, ignored_transformers = judge_transformers(transformers, chunk_keys, ndim)
    judged = _take_extensions(members, shape)
    return ArrayNode(
        zarr_format=3,
        shape=shape,
        data_type=data_type,
        chunk_shape=chunk_shape,
        chunk_keys=chunk_keys,
        codecs=tuple(parse_extension(codec, f"codecs[{i}]") for i, codec in enumerate(codecs)),
        parts=parts,
        dimension_names=_take_dimension_names(members, ndim),
        fill_value=take_member(members, "fill_value", MISSING),
        extensions=judged.extensions,
        ignored=ignored + ignored_transformers + judged.ignored,
        active=judged.active,
        references=judged.references,
        raw_attributes=_take_attributes(members),
    )


def _ignore_unknown(members: Document, known: frozenset[str]) -> tuple[str, ...]:
    """The names of unknown members that may be ignored (core specification, Extension points).

    Raises `MetadataError` for one that is not an object with `must_understand` false.
    """
    ignored = []
    for name, raw in members.items():
        if name in known:
            continue
        if not may_be_ignored(raw):
            raise MetadataError(f"{shown(name)}: unknown member, and it must be understood")
        ignored.append(name)
    return tuple(ignored)


def _parse_required(value: object, member: str) -> Extension:
    """The extension at an extension point that must be understood."""
    extension = parse_extension(value, member)
    if not extension.must_understand:
        raise MetadataError(f"{member}: must_understand: cannot be false here")
    return extension


def _take_regular_grid(value: object, shape: Sequence[int]) -> tuple[int, ...]:
    """The chunk shape (core specification, Regular grids)."""
    grid = _parse_required(value, "chunk_grid")
    if grid.name != "regular":
        raise MetadataError(f"chunk_grid: name: {shown(grid.name)} is not known here")
    where = "chunk_grid: configuration"
    refuse_unknown(grid.configuration, {"chunk_shape"}, where)
    if "chunk_shape" not in grid.configuration:
        raise MetadataError(f"{where}: chunk_shape: is missing")
    return take_chunk_shape(grid.configuration["chunk_shape"], f"{where}: chunk_shape", shape)


def _take_dimension_names(members: Document, ndim: int) -> tuple[str | None, ...] | None:
    value = take_member(members, "dimension_names", None)
    if value is None:  # some writers write null
        return None
    names = take_array(value, "dimension_names")
    if len(names) != ndim:
        raise MetadataError(f"dimension_names: has {len(names)} names, shape has {ndim} dimensions")
    return tuple(
        None if name is None else take_label(name, f"dimension_names[{index}]")
        for index, name in enumerate(names)
    )


def _take_extensions(members: Document, shape: tuple[int, ...] | None) -> Judged:
    if "extensions" not in members:
        return NOTHING_LISTED
    return judge_extensions(take_member(members, "extensions"), shape)


def _take_attributes(members: Document) -> msgspec.Raw:
    raw = members.get("attributes", NO_ATTRIBUTES)
    if not is_object(raw):
        value = decode_raw(raw, "attributes")
        raise MetadataError(f"attributes: must be an object, not {shown(value)}")
    return raw.copy()  # a slice would keep the whole document, which may be large
