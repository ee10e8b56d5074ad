"""`.zmetadata`, the consolidated metadata of Zarr v2: a copy of all documents at and below a group.

Finds out from it whether a whole hierarchy can be shown as Zarr v3. Used by the `plain` view. It must not
know stores.
"""

from collections.abc import Callable, Mapping

import msgspec

from zarrfuse.errors import MetadataError
from zarrfuse.spec.members import decode_as_written, shown, take_member
from zarrfuse.spec.node import Node, NodeError
from zarrfuse.spec.node_v2 import parse_v2_array, parse_v2_group
from zarrfuse.spec.paths import join, split
from zarrfuse.spec.plain_v2 import as_v3

_MOST_DOCUMENTS = 100_000
_PARSERS: Mapping[str, Callable[[bytes, bytes | None], Node]] = {
    ".zarray": parse_v2_array,
    ".zgroup": parse_v2_group,
}


def reason_to_stay(document: bytes) -> str | None:
    """Why a hierarchy cannot be shown as Zarr v3: the problem of the first such node, or None.

    Nodes that cannot be parsed are skipped. Raises `MetadataError` for a wrong `.zmetadata`.
    """
    members = decode_as_written(document)
    version = take_member(members, "zarr_consolidated_format")
    if version != 1:
        raise MetadataError(f"zarr_consolidated_format: must be 1, not {shown(version)}")
    if "metadata" not in members:
        raise MetadataError("metadata: is missing")
    documents = decode_as_written(_bytes(members["metadata"]))
    if len(documents) > _MOST_DOCUMENTS:
        return f".zmetadata: has more than {_MOST_DOCUMENTS} documents"
    for key, text in documents.items():
        folder, name = split(key)
        if name not in _PARSERS:
            continue
        attributes = documents.get(join(folder, ".zattrs"))
        try:
            node = _PARSERS[name](_bytes(text), None if attributes is None else _bytes(attributes))
        except NodeError:
            continue
        try:
            as_v3(node)
        except MetadataError as error:
            return join(folder, str(error))
    return None


def _bytes(raw: msgspec.Raw) -> bytes:
    return bytes(memoryview(raw))
