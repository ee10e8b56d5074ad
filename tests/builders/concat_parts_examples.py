"""The two `zarr.json` examples of the `concat-parts` document as datasets with real chunks.

Written with numpy, numcodecs and google-crc32c alone, so that no Zarr library that reads them had a
hand in them. The documents stand here as they are published but for what a reader needs and they
lack: a `fill_value`, the `bytes` codec of the first, and the configuration of `zstd`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt
from numcodecs.zstd import Zstd

Pixels = npt.NDArray[np.uint8]

FILL_VALUE = 7
"""Not 0, so that a chunk that is missing and one that was read wrong can be told apart."""

HEADER = b"not pixels, 64 bytes of them".ljust(64, b".")
MISSING = 2**64 - 1
"""What a shard index has in place of the offset and the length of an inner chunk that is absent."""

CRC32C_EXAMPLE: Mapping[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [1000, 1000],
    "data_type": "uint8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [500, 500]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": FILL_VALUE,
    "codecs": [
        {"name": "bytes"},
        {"name": "zstd", "configuration": {"level": 1, "checksum": False}},
        {"name": "crc32c"},
    ],
    "storage_transformers": [
        {
            "name": "concat-parts",
            "configuration": {
                "parts": [{"key_suffix": ""}, {"key_suffix": ".crc32c", "size": 4}],
            },
        }
    ],
}

HEADER_EXAMPLE: Mapping[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [10000, 10000],
    "data_type": "uint8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [5000, 5000]}},
    "chunk_key_encoding": {"name": "default"},
    "fill_value": FILL_VALUE,
    "storage_transformers": [
        {
            "name": "concat-parts",
            "configuration": {
                "parts": [
                    {"key_suffix": ".header", "size": 64},
                    {"key_suffix": ""},
                    {"key_suffix": ".index", "size": 1604},
                ]
            },
        }
    ],
    "codecs": [
        {
            "name": "sharding_indexed",
            "configuration": {
                "chunk_shape": [500, 500],
                "index_location": "end",
                "index_codecs": [
                    {"name": "bytes", "configuration": {"endian": "little"}},
                    {"name": "crc32c"},
                ],
                "codecs": [{"name": "packbits"}],
            },
        }
    ],
}

HEADER_SHARDS: Mapping[tuple[int, int], tuple[tuple[int, int], ...]] = {
    (0, 0): ((3, 4), (0, 0), (9, 9), (0, 9)),
    (1, 1): tuple((5, column) for column in range(10)),
}
"""The shards that are stored, and the inner chunks that each holds, in the order they lie in it.

The shards at 0, 1 and 1, 0 are absent.
"""


def write_crc32c_example(folder: Path) -> Pixels:
    """Write the example with zstd and crc32c into `folder`; its 1000 x 1000 pixels.

    The chunk at 1, 1 is absent: its pixels are the fill value.
    """
    _write_document(folder, CRC32C_EXAMPLE)
    pixels = _pixels(1000)
    pixels[500:, 500:] = FILL_VALUE
    for row, column in ((0, 0), (0, 1), (1, 0)):
        chunk = pixels[row * 500 :, column * 500 :][:500, :500]
        body = Zstd(level=1).encode(np.ascontiguousarray(chunk))
        key = folder / "c" / str(row) / str(column)
        key.parent.mkdir(parents=True, exist_ok=True)
        key.write_bytes(body)
        key.with_name(f"{column}.crc32c").write_bytes(_crc32c(body))
    return pixels


def write_header_example(folder: Path, codec: str = "packbits") -> Pixels:
    """Write the example with header and index into `folder`; its 10000 x 10000 pixels.

    `codec`: what the inner chunks are encoded with, `packbits` as published or `bytes`. Of `uint8`
    both make the same bytes (packbits codec, Supported data types, Note).
    """
    document = json.loads(json.dumps(HEADER_EXAMPLE))
    document["codecs"][0]["configuration"]["codecs"] = [{"name": codec}]
    _write_document(folder, document)
    random = _pixels(500)
    pixels = np.full((10000, 10000), FILL_VALUE, np.uint8)
    for (row, column), chunks in HEADER_SHARDS.items():
        body = bytearray()
        index = np.full((10, 10, 2), MISSING, "<u8")
        for at, (inner_row, inner_column) in enumerate(chunks):
            chunk = random + np.uint8(16 * row + at)
            top, left = row * 5000 + inner_row * 500, column * 5000 + inner_column * 500
            pixels[top : top + 500, left : left + 500] = chunk
            # Offsets count from the start of the merged shard, the header included.
            index[inner_row, inner_column] = len(HEADER) + len(body), chunk.nbytes
            body += chunk.tobytes()
        key = folder / "c" / str(row) / str(column)
        key.parent.mkdir(parents=True, exist_ok=True)
        key.write_bytes(body)
        key.with_name(f"{column}.header").write_bytes(HEADER)
        key.with_name(f"{column}.index").write_bytes(index.tobytes() + _crc32c(index.tobytes()))
    return pixels


def _pixels(side: int) -> Pixels:
    return np.random.default_rng(9).integers(0, 256, (side, side), np.uint8)


def _crc32c(data: bytes) -> bytes:
    return int(google_crc32c.value(data)).to_bytes(4, "little")


def _write_document(folder: Path, document: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "zarr.json").write_text(json.dumps(document, indent=4))
