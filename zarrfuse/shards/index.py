"""The index of a shard: where its inner chunks are.

Source: sharding_indexed codec, Binary shard format. Used by `indexing`, `exporting` and `check`.
"""

import struct
from collections.abc import Sequence
from math import prod

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from zarrfuse.shards.encoded import CHECKSUM_BYTES
from zarrfuse.shards.layout import MISSING, Extents, FileArray, grid_of

INDEX_CODECS = (
    {"name": "bytes", "configuration": {"endian": "little"}},
    {"name": "crc32c"},
)
"""The `index_codecs` of all shards that are written here."""

LARGEST_INDEX = 256 << 20
"""Bytes of an index: 16 million inner chunks. Larger ones are neither read whole nor written."""
_PAIR_BYTES = 16


def index_size(grid: Sequence[int]) -> int:
    """The bytes of the index of a shard with `grid` inner chunks."""
    return _PAIR_BYTES * prod(grid) + CHECKSUM_BYTES


def shard_index(array: FileArray, chunk_shape: Sequence[int]) -> bytes:
    """The index of a file as a chunk of `chunk_shape`, which is at least its shape.

    `chunk_shape` is a multiple of the shape of inner chunks. Inner chunks that the file lacks are missing.
    """
    grid = grid_of(chunk_shape, array.layout.inner_shape)
    return index_bytes(_spread(array.offsets, grid), _spread(array.sizes, grid))


def index_bytes(offsets: Extents, sizes: Extents) -> bytes:
    """Pairs of offset and size as little-endian u64, and their crc32c."""
    pairs = np.stack((offsets.ravel(), sizes.ravel()), axis=1).astype("<u8").tobytes()
    return pairs + struct.pack("<I", google_crc32c.value(pairs))


def parse_index(
    encoded: NDArray[np.uint8], *, checksums: int, big_endian: bool
) -> tuple[Extents, Extents] | None:
    """(offsets, sizes) of the inner chunks in C order; None if a checksum does not match.

    `encoded`: the bytes of an index with so many crc32c at its end, each of all bytes before it.
    """
    behind = len(encoded) - checksums * CHECKSUM_BYTES
    for end in range(behind, len(encoded), CHECKSUM_BYTES):
        stored = int.from_bytes(encoded[end : end + CHECKSUM_BYTES].tobytes(), "little")
        if google_crc32c.value(encoded[:end]) != stored:
            return None
    pairs = encoded[:behind].view(">u8" if big_endian else "<u8").astype(np.uint64)
    return pairs[0::2], pairs[1::2]


def _spread(extents: Extents, grid: tuple[int, ...]) -> Extents:
    if extents.shape == grid:
        return extents
    spread: Extents = np.full(grid, MISSING, np.uint64)
    spread[tuple(slice(n) for n in extents.shape)] = extents
    return spread
