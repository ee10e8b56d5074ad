"""The `zarr.json` of an array whose chunks are files of another format with an index beside them.

Used by `indexing` and `exporting`.
"""

import json
from collections.abc import Sequence
from typing import Any

from zarrfuse.shards.index import INDEX_CODECS, index_size
from zarrfuse.shards.layout import Json, Layout, grid_of

INDEX_SUFFIX = ".index"
"""What the key of the index adds to the key of the file."""
HEADER_SUFFIX = ".header"
INDEX_RECORD = "zarrfuse_index"
"""The attribute with which an array records how its files were indexed."""
DEFAULT_KEYS: Json = {"name": "default", "configuration": {"separator": "/"}}


def array_document(
    layout: Layout,
    *,
    shape: Sequence[int],
    chunk_shape: Sequence[int],
    dimension_names: Sequence[str | None] | None,
    suffix: str,
    attributes: Json,
    base_encoding: Json = DEFAULT_KEYS,
    header_size: int | None = None,
) -> dict[str, Any]:
    """The document of an array of `shape` with one file for each chunk of `chunk_shape`.

    `layout`: of all files; the last dimensions are its axes, the others have chunks of 1. `suffix`: the
    ending of files, ".tiff". `header_size`: the bytes of a part in front of each file, if it has one.
    """
    more = len(shape) - len(layout.inner_shape)
    inner_shape = [1] * more + list(layout.inner_shape)
    grid = grid_of(chunk_shape, inner_shape)
    parts: list[dict[str, Any]] = [
        {"key_suffix": ""},
        {"key_suffix": INDEX_SUFFIX, "size": index_size(grid)},
    ]
    if header_size is not None:
        parts.insert(0, {"key_suffix": HEADER_SUFFIX, "size": header_size})
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": layout.data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk_shape)}},
        "chunk_key_encoding": {
            "name": "suffix",
            "configuration": {"suffix": suffix, "base_encoding": dict(base_encoding)},
        },
        "fill_value": layout.fill_json(),
        "codecs": [
            {
                "name": "sharding_indexed",
                "configuration": {
                    "chunk_shape": inner_shape,
                    "codecs": layout.codec_list(),
                    "index_codecs": list(INDEX_CODECS),
                    "index_location": "end",
                },
            }
        ],
        "storage_transformers": [{"name": "concat-parts", "configuration": {"parts": parts}}],
        **({} if dimension_names is None else {"dimension_names": list(dimension_names)}),
        "attributes": dict(attributes),
    }


def inner_document(layout: Layout) -> dict[str, Any]:
    """The document of an array whose only chunk is an inner chunk of files of `layout`."""
    grid = {"name": "regular", "configuration": {"chunk_shape": list(layout.inner_shape)}}
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(layout.inner_shape),
        "data_type": layout.data_type,
        "chunk_grid": grid,
        "chunk_key_encoding": dict(DEFAULT_KEYS),
        "fill_value": layout.fill_json(),
        "codecs": layout.codec_list(),
    }


def document_bytes(document: Json) -> bytes:
    """A document as it is stored."""
    return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
