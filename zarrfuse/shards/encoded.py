"""What codecs say of the bytes of a chunk: exact sizes, checksums at the end, a shard's index.

Used by `check` to check sizes and verify bytes, and by `exporting` to find inner chunks. It must not know
stores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from zarrfuse.spec.codecs import encoded_size, index_bytes
from zarrfuse.spec.data_types import DataType
from zarrfuse.spec.names import Extension, parse_extension

CHECKSUM_BYTES = 4
"""The bytes of a crc32c."""
_CRC32C = frozenset({"crc32c", "numcodecs.crc32c"})


@dataclass(frozen=True)
class Shard:
    """The layout of a shard (sharding_indexed codec, Binary shard format).

    `grid`: the number of inner chunks along each dimension. `index_bytes`: the size of the index with its
    `index_checksums` checksums of 4 bytes each. `inner`: see `Encoded`, for inner chunks.
    """

    grid: tuple[int, ...]
    index_bytes: int
    index_checksums: int
    big_endian: bool
    at_start: bool
    inner: "Encoded"

    @property
    def count(self) -> int:
        """The number of inner chunks."""
        return prod(self.grid)


@dataclass(frozen=True)
class Encoded:
    """What codecs say of the bytes of an encoded chunk.

    `exact`: their number, if it follows from the metadata. `checksums`: how many crc32c checksums of 4
    bytes are at the end, each of all bytes before it. `shard`: the layout of the rest, if it is a shard.
    """

    exact: int | None = None
    checksums: int = 0
    shard: Shard | None = None

    @property
    def least(self) -> int:
        """The least size in bytes: checksums and index."""
        index = self.shard.index_bytes if self.shard is not None else 0
        return max(1, self.checksums * CHECKSUM_BYTES + index)

    @property
    def verifiable(self) -> bool:
        """Whether the bytes have a checksum or an index to verify."""
        return self.checksums > 0 or self.shard is not None


def encoded(
    codecs: Sequence[Extension], data_type: DataType, chunk_shape: Sequence[int]
) -> Encoded:
    """What `codecs`, which have no faults, say of encoded chunks of `chunk_shape`."""
    exact = encoded_size(codecs, data_type, chunk_shape)
    last = len(codecs)
    while last and codecs[last - 1].name in _CRC32C and _at_the_end(codecs[last - 1]):
        last -= 1
    shard = None
    if last and codecs[last - 1].name == "sharding_indexed":
        shape = _encoded_shape(codecs[: last - 1], chunk_shape)
        if shape is not None:
            shard = _shard(codecs[last - 1], data_type, shape)
    return Encoded(exact, len(codecs) - last, shard)


def _at_the_end(codec: Extension) -> bool:
    return bool(codec.configuration.get("location", "end") == "end")


def _encoded_shape(codecs: Sequence[Extension], shape: Sequence[int]) -> tuple[int, ...] | None:
    """The shape after array->array codecs; None if one is not `transpose`."""
    for codec in codecs:
        if codec.name != "transpose":
            return None
        shape = [shape[dimension] for dimension in codec.configuration["order"]]
    return tuple(shape)


def _shard(codec: Extension, data_type: DataType, shape: tuple[int, ...]) -> Shard | None:
    size = index_bytes(codec, shape)
    if size is None:
        return None
    configuration = codec.configuration
    inner_shape = configuration["chunk_shape"]
    index_codecs = [
        parse_extension(value, "index_codecs") for value in configuration["index_codecs"]
    ]
    inner = [parse_extension(value, "codecs") for value in configuration["codecs"]]
    return Shard(
        grid=tuple(n // c for n, c in zip(shape, inner_shape, strict=True)),
        index_bytes=size,
        index_checksums=len(index_codecs) - 1,
        big_endian=index_codecs[0].configuration.get("endian") == "big",
        at_start=configuration.get("index_location", "end") == "start",
        inner=encoded(inner, data_type, inner_shape),
    )
