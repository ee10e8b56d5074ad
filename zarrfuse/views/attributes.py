"""Facts as extended attributes, the way `getfattr -d` prints them as text. Used by `fuse`."""

import json
import re
from collections.abc import Mapping
from typing import Any

LARGEST = 65536  # bytes of a value (XATTR_SIZE_MAX)

# The kernel allows 255 bytes for a name (XATTR_NAME_MAX), and 64 KiB for all names of a file.
_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,100}")
MEANINGS = {
    "user.zarr.node_type": "`array` or `group`",
    "user.zarr.shape": "the shape of the array, in elements",
    "user.zarr.data_type": "its data type",
    "user.zarr.chunk_shape": "the shape of a chunk, in elements",
    "user.zarr.dimension_names": "the names of the dimensions",
    "user.zarr.fill_value": "the value of what is not stored",
    "user.zarr.codecs": "the codecs of a chunk",
    "user.zarr.chunk_coords": "of a chunk: its place in the grid",
    "user.zarr.parts": "of a chunk: its stored parts, with their keys and sizes in bytes",
    "user.zarr.stored_key": "of a chunk: its key in the store",
    "user.zarrfuse.kept_as_v2": "why `plain` shows Zarr v2 as it is",
    "user.zarrfuse.view": "the view of the mount",
    "user.zarrfuse.error": "what is wrong with the node or the chunk",
}
"""The attributes and what they say; each has the name of its fact."""

_NAMES = {name.rpartition(".")[2]: name.encode() for name in MEANINGS}


def attributes(told: Mapping[str, Any]) -> dict[bytes, bytes]:
    """The extended attributes of a name, made from its `Facts.to_json`.

    A string is shown as it is, every other value as JSON in one line. Facts of extensions are named as
    in control files: `user.zarr.origin`.
    """
    names = {
        key: b"user.zarr." + key.encode() for key in told.get("told_by", ()) if _NAME.fullmatch(key)
    }
    names |= _NAMES
    return {names[key]: _text(value) for key, value in told.items() if key in names}


def _text(value: object) -> bytes:
    words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = words.encode("utf-8", "backslashreplace")
    if len(text) > LARGEST:
        return b"too long for an attribute: .zarrfuse/info has it"
    return text
