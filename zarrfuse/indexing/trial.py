"""Decodes some chunks of files before anything is written: bytes may not be what their header says.

Used by `update`.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from zarrfuse.decoding.one_chunk import Undecodable, decoded_bytes, holds_only_fill_values
from zarrfuse.indexing.dataset import Level
from zarrfuse.indexing.files import Files
from zarrfuse.indexing.headers import Headers
from zarrfuse.shards.arrange import is_raw
from zarrfuse.shards.documents import document_bytes, inner_document
from zarrfuse.shards.layout import MISSING, FileArray, Refused, type_name
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.node_v3 import parse_v3

_MOST_BYTES = 256 << 20
"""Inner chunks with more bytes, stored or decoded, are not tried."""


def try_decoding(files: Files, levels: Sequence[Level], headers: Headers) -> None:
    """Decode the first and the last inner chunk of one file of each kind, by zarr-python.

    Files of a kind have the same layouts and shapes. Chunks that are only `bytes` need no codec; the sizes
    of these are known to be right. Raises `Refused` for what readers could not decode.
    """
    kinds = {header.levels: header for header in reversed(headers.all)}
    for header in kinds.values():
        for level, array in zip(levels, headers.arrays(header), strict=False):
            if not is_raw(level.layout):
                _try_array(files, header.file.path, level, array)


def _try_array(files: Files, path: str, level: Level, array: FileArray) -> None:
    node = parse_v3(document_bytes(inner_document(level.layout)))
    assert isinstance(node, ArrayNode)
    with files.open(path) as file:
        for offset, size in _first_and_last(array):
            if max(size, decoded_bytes(node)) > _MOST_BYTES:
                continue
            chunk = bytearray(size)
            file.seek(offset)
            read = file.readinto(memoryview(chunk))
            try:
                holds_only_fill_values(node, chunk[:read])
            except Undecodable as error:
                shape = "x".join(map(str, node.chunk_shape))
                names = ", ".join(codec.name for codec in node.codecs)
                raise Refused(
                    f"{path}: what it has at byte {offset} cannot be decoded as {shape} elements of the "
                    f"type {type_name(level.layout.data_type)} by {names}: {error}"
                ) from error


def _first_and_last(array: FileArray) -> Iterator[tuple[int, int]]:
    """(offset, size) of the first and of the last inner chunk that is stored."""
    stored = np.flatnonzero(array.offsets.ravel() != MISSING)
    for at in sorted({*stored[:1].tolist(), *stored[-1:].tolist()}):
        yield int(array.offsets.flat[at]), int(array.sizes.flat[at])
