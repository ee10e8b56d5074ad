"""Facts as extended attributes, the way `getfattr -d` prints them as text. Used by `fuse`."""

import json
import re
from collections.abc import Mapping
from typing import Any

LARGEST = 65536  # bytes of a value (XATTR_SIZE_MAX)

# The kernel allows 255 bytes for a name (XATTR_NAME_MAX), and 64 KiB for all names of a file.
_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,100}")
_NAMES = {
    "node_type": b"user.zarr.node_type",
    "shape": b"user.zarr.shape",
    "data_type": b"user.zarr.data_type",
    "chunk_shape": b"user.zarr.chunk_shape",
    "dimension_names": b"user.zarr.dimension_names",
    "fill_value": b"user.zarr.fill_value",
    "codecs": b"user.zarr.codecs",
    "chunk_coords": b"user.zarr.chunk_coords",
    "parts": b"user.zarr.parts",
    "stored_key": b"user.zarr.stored_key",
    "kept_as_v2": b"user.zarrfuse.kept_as_v2",
    "view": b"user.zarrfuse.view",
    "error": b"user.zarrfuse.error",
}


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
