"""Facts as extended attributes, the way `getfattr -d` prints them as text. Used by `fuse`."""

import json

from zarrfuse.views.base import Facts

LARGEST = 65536  # the kernel takes no longer value (XATTR_SIZE_MAX)

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
    "view": b"user.zarrfuse.view",
    "error": b"user.zarrfuse.error",
}


def attributes(facts: Facts) -> dict[bytes, bytes]:
    """The attributes of a name: strings as they are, everything else as JSON in one line."""
    return {_NAMES[key]: _text(value) for key, value in facts.items() if key in _NAMES}


def _text(value: object) -> bytes:
    words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = words.encode("utf-8", "backslashreplace")
    if len(text) > LARGEST:
        return b"too long for an attribute: .zarrfuse/info has it"
    return text
