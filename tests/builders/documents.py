"""Documents of arrays and groups: `zarr.json` and `.zarray`, as dictionaries and as bytes."""

import json
from collections.abc import Mapping, Sequence
from typing import Any


def extension(name: str, **configuration: Any) -> dict[str, Any]:
    """An extension with its configuration."""
    return {"name": name, "configuration": configuration}


def default_keys(separator: str = "/") -> dict[str, Any]:
    """The `default` chunk key encoding."""
    return {"name": "default", "configuration": {"separator": separator}}


def v2_keys(separator: str = ".") -> dict[str, Any]:
    """The `v2` chunk key encoding."""
    return {"name": "v2", "configuration": {"separator": separator}}


def suffix_keys(suffix: str, base: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The `suffix` chunk key encoding."""
    base = default_keys() if base is None else base
    return {"name": "suffix", "configuration": {"suffix": suffix, "base_encoding": base}}


def concat_parts(*parts: str | tuple[str, int]) -> dict[str, Any]:
    """A `concat-parts` transformer; a part is its key suffix, or that and its size in bytes."""
    written = [
        {"key_suffix": part} if isinstance(part, str) else {"key_suffix": part[0], "size": part[1]}
        for part in parts
    ]
    return {"name": "concat-parts", "configuration": {"parts": written}}


def document(
    shape: Sequence[int] = (4, 4),
    chunk_shape: Sequence[int] | None = None,
    *,
    keys: Mapping[str, Any] | None = None,
    transformers: Sequence[Mapping[str, Any]] = (),
    **members: Any,
) -> dict[str, Any]:
    """Metadata of an array of bytes; chunks have two elements a side unless given."""
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": "uint8",
        "chunk_grid": {
            "name": "regular",
            "configuration": {
                "chunk_shape": [2] * len(shape) if chunk_shape is None else list(chunk_shape)
            },
        },
        "chunk_key_encoding": dict(default_keys() if keys is None else keys),
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
        "storage_transformers": [dict(transformer) for transformer in transformers],
        "dimension_names": [f"d{index}" for index in range(len(shape))],
        **members,
    }


def array(shape: Sequence[int] = (4, 4), *arguments: Any, **members: Any) -> bytes:
    """A `zarr.json` of the `document` of these arguments."""
    return json.dumps(document(shape, *arguments, **members)).encode()


def group(**members: Any) -> bytes:
    """A `zarr.json` of a group."""
    return json.dumps({"zarr_format": 3, "node_type": "group", **members}).encode()


def v2_array(
    shape: Sequence[int] = (4, 4), chunks: Sequence[int] = (2, 2), separator: str = "."
) -> bytes:
    """A `.zarray` of an array of bytes."""
    document = {
        "zarr_format": 2,
        "shape": list(shape),
        "chunks": list(chunks),
        "dtype": "|u1",
        "compressor": {"id": "zstd", "level": 1},
        "fill_value": 0,
        "order": "C",
        "filters": None,
        "dimension_separator": separator,
    }
    return json.dumps(document).encode()
