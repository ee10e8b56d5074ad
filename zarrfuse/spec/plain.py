"""Writes the `zarr.json` of the `plain` view: the same array or group in core Zarr v3.

Owns which nodes core Zarr v3 can describe, and the bytes of their documents and consolidated metadata. Used
by the `plain` view. It must not know stores, or where chunks are stored.

The layout is that of zarr-python 3.1 (`ArrayV3Metadata.to_dict`, `GroupMetadata.to_dict`, JSON with an
indent of 2, ASCII), so that a document of zarr-python changes only where it must.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from zarrfuse.errors import MetadataError
from zarrfuse.spec.chunk_keys import DefaultEncoding
from zarrfuse.spec.codecs import kind_of
from zarrfuse.spec.members import Document, decode_as_written, take_array, take_member
from zarrfuse.spec.names import Extension, parse_extension
from zarrfuse.spec.node import MISSING, NO_ATTRIBUTES, ArrayNode, GroupNode, Node
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.spec.surrogates import escaped

CHUNK_KEYS = DefaultEncoding("/")
"""The chunk key encoding of every array in the `plain` view."""

_DEEPEST_GROUPS = 32
"""The largest nesting of groups with consolidated metadata."""
_DEEPEST_VALUE = 100
"""The largest nesting of arrays and objects in a member that is written again."""
_CONSOLIDATED_MEMBERS = frozenset({"kind", "must_understand", "metadata"})
_CODEC_LISTS = {"sharding_indexed": ("codecs", "index_codecs")}
"""Members of a codec's configuration that list codecs."""


def problem(node: Node) -> str | None:
    """Why no reader could decode the chunks of a node of Zarr v3, as a clause, or None.

    Source: Zarr v3 core specification, Array metadata (`fill_value`, `codecs`).
    """
    if not isinstance(node, ArrayNode):
        return None
    if node.fill_value is MISSING:
        return "fill_value: is missing"
    kinds = [kind_of(codec.name) for codec in node.codecs]
    if None not in kinds and "array->bytes" not in kinds:
        return "codecs: must include an array->bytes codec"
    configurations = [codec.configuration for codec in node.codecs]
    written = {"data_type": node.data_type, "fill_value": node.fill_value, "codecs": configurations}
    for member, value in written.items():
        if _is_deeper(value, _DEEPEST_VALUE):
            return f"{member}: is nested more than {_DEEPEST_VALUE} deep"
    return None


def document(node: Node, written: bytes | None = None) -> bytes:
    """The `zarr.json` in core Zarr v3 of a node without a `problem`.

    `written`: the stored document, if it is a `zarr.json`. It has what a node does not keep: consolidated
    metadata, and empty configurations, which some readers require. Extensions and storage transformers are
    left out, as the view has already applied them to the chunks.
    """
    members = {} if written is None else decode_as_written(written)
    return _text(node, members, 0).encode()


def _is_deeper(value: Any, limit: int) -> bool:
    """Whether arrays and objects are nested more than `limit` deep."""
    level = [value]
    for _ in range(limit + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, Mapping):
                below += item.values()
            elif isinstance(item, list | tuple):
                below += item
        if not below:
            return False
        level = below
    return True


def _text(node: Node, written: Document, depth: int) -> str:
    if isinstance(node, ArrayNode):
        return _object(_array(node, written))
    return _object(_group(node, written, depth))


def _array(node: ArrayNode, written: Document) -> Iterable[tuple[str, str]]:
    grid = {"name": "regular", "configuration": {"chunk_shape": node.chunk_shape}}
    yield "shape", _json(node.shape)
    yield "data_type", _json(_data_type(node.data_type))
    yield "chunk_grid", _json(grid)
    yield "chunk_key_encoding", _json(CHUNK_KEYS.to_json())
    yield "fill_value", _json(node.fill_value)
    yield "codecs", _json(_codecs(node.codecs, written))
    yield "attributes", _attributes(node.raw_attributes)
    if node.dimension_names is not None:
        yield "dimension_names", _json(node.dimension_names)
    yield "zarr_format", "3"
    yield "node_type", '"array"'
    yield "storage_transformers", "[]"


def _group(node: GroupNode, written: Document, depth: int) -> Iterable[tuple[str, str]]:
    yield "attributes", _attributes(node.raw_attributes)
    yield "zarr_format", "3"
    if "consolidated_metadata" in written:
        consolidated = _consolidated(written["consolidated_metadata"], depth)
        if consolidated is not None:
            yield "consolidated_metadata", consolidated
    yield "node_type", '"group"'


def _data_type(value: Any) -> Any:
    """A data type without a configuration as its name, which every reader understands."""
    extension = parse_extension(value, "data_type")
    if not extension.configuration:
        return extension.name
    return {"name": extension.name, "configuration": extension.configuration}


# -- codecs


def _codecs(codecs: Sequence[Extension], written: Document) -> list[dict[str, Any]]:
    """The codecs as objects; an empty configuration is kept if it is in the stored document."""
    stored: Sequence[Any] = ()
    if "codecs" in written:
        stored = take_array(take_member(written, "codecs"), "codecs")
    spelled = []
    for index, codec in enumerate(codecs):
        as_stored = stored[index] if index < len(stored) else None
        has_empty = (
            isinstance(as_stored, Mapping)
            and as_stored.get("name") == codec.name
            and "configuration" in as_stored
        )
        spelled.append(_codec(codec, has_empty))
    return spelled


def _codec(codec: Extension, has_configuration: bool) -> dict[str, Any]:
    configuration = dict(codec.configuration)
    for member in _CODEC_LISTS.get(codec.name, ()):
        inner = configuration.get(member)
        if isinstance(inner, list | tuple):
            configuration[member] = [_inner_codec(value) for value in inner]
    spelled: dict[str, Any] = {"name": codec.name}
    # zarr-python reads codecs of numcodecs only with a configuration, even an empty one.
    if configuration or has_configuration or codec.name.startswith("numcodecs."):
        spelled["configuration"] = configuration
    if not codec.must_understand and kind_of(codec.name) is None:
        spelled["must_understand"] = False
    return spelled


def _inner_codec(value: Any) -> Any:
    """A codec in the configuration of another; unchanged if it is wrong, which its reader reports."""
    try:
        codec = parse_extension(value, "codecs")
    except MetadataError:
        return value
    return _codec(codec, isinstance(value, Mapping) and "configuration" in value)


# -- consolidated metadata


def _consolidated(raw: msgspec.Raw, depth: int) -> str | None:
    """Inline consolidated metadata with each document rewritten; None if one cannot be.

    Without it, readers read the documents of the nodes below, which have the same metadata.
    """
    try:
        members = decode_as_written(bytes(memoryview(raw)))
        documents = decode_as_written(bytes(memoryview(members["metadata"])))
        kind = take_member(members, "kind")
        if (
            kind != "inline"
            or not members.keys() <= _CONSOLIDATED_MEMBERS
            or depth > _DEEPEST_GROUPS
        ):
            return None
        entries = [
            (path, _consolidated_entry(bytes(memoryview(entry)), depth))
            for path, entry in documents.items()
        ]
    except (MetadataError, KeyError):
        return None
    shown = [("kind", '"inline"'), ("must_understand", "false"), ("metadata", _object(entries))]
    return _object(shown)


def _consolidated_entry(entry: bytes, depth: int) -> str:
    node = parse_v3(entry)
    if problem(node) is not None or node.references:  # which cannot be resolved without the store
        raise MetadataError("cannot be rewritten")
    return _text(node, decode_as_written(entry), depth + 1)


# -- JSON


def _attributes(raw: msgspec.Raw) -> str:
    """Attributes with the layout of the document; they are not decoded, so that numbers stay as written."""
    if raw is NO_ATTRIBUTES:
        return "{}"
    text = bytes(memoryview(raw))
    with suppress(RecursionError):  # it stays as it is written
        text = msgspec.json.format(text, indent=2)
    return escaped(text).decode()


def _json(value: Any) -> str:
    return json.dumps(value, indent=2)


def _object(members: Iterable[tuple[str, str]]) -> str:
    """A JSON object of members whose values are JSON text."""
    lines = [f"  {json.dumps(name)}: " + text.replace("\n", "\n  ") for name, text in members]
    return "{\n" + ",\n".join(lines) + "\n}" if lines else "{}"
