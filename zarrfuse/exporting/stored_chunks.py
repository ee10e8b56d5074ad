"""The inner chunks that are stored in the chunks of an array: where they are, and their encoded bytes.

Owns that they are where a chunk says and as large as its codecs make them, and how many are read at once.
Used by `tiles`. It must not know the files that are written.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zarrfuse.errors import Corrupt
from zarrfuse.exporting.plan import Plan
from zarrfuse.exporting.source import Coords, SourceArray
from zarrfuse.shards.index import parse_index
from zarrfuse.shards.layout import MISSING, Extents
from zarrfuse.spec.members import shown

READ_BYTES = 4 << 20
"""So many encoded bytes of inner chunks that follow each other are read at once."""


class Stored(NamedTuple):
    """An inner chunk that is stored: where it goes, and where it is in which chunk of the array."""

    place: Coords
    chunk: Coords
    offset: int
    size: int


class StoredChunks:
    """The stored chunks of an array that is exported. For any thread."""

    def __init__(self, plan: Plan, array: SourceArray) -> None:
        self._plan = plan
        self._array = array

    def extents(self, chunk: Coords) -> tuple[Extents, Extents] | None:
        """Where the inner chunks of a chunk of the array are in it; None if it is not stored."""
        plan, shard = self._plan, self._plan.shard
        reader = self._array.chunk(chunk)
        if reader is None:
            return None
        with closing(reader):
            name = f"{self._array.name}: chunk {list(chunk)}"
            if shard is None:
                one = np.ones((1,) * len(chunk), np.uint64)
                offsets, sizes = one * np.uint64(0), one * np.uint64(reader.size)
            else:
                if reader.size < shard.index_bytes:
                    raise Corrupt(f"{name} has {reader.size} bytes, fewer than its index")
                index: NDArray[np.uint8] = np.empty(shard.index_bytes, np.uint8)
                start = 0 if shard.at_start else reader.size - shard.index_bytes
                reader.readinto(index.data, start)
                parsed = parse_index(
                    index, checksums=shard.index_checksums, big_endian=shard.big_endian
                )
                if parsed is None:
                    raise Corrupt(f"{name}: its index is damaged: the crc32c does not match")
                offsets, sizes = (numbers.reshape(shard.grid) for numbers in parsed)
            room = np.uint64(reader.size)
            known = (offsets != MISSING) | (sizes != MISSING)
            wrong = known & ((offsets > room) | (sizes > room - np.minimum(offsets, room)))
            if plan.exact is not None:
                wrong |= known & (sizes != np.uint64(plan.exact))
            for place in np.argwhere(wrong).tolist():
                offset, size = int(offsets[tuple(place)]), int(sizes[tuple(place)])
                raise Corrupt(
                    f"{name}: inner chunk {place} has {shown(size)} bytes from {shown(offset)} on, which "
                    f"the {reader.size} bytes of the chunk do not hold, or its codecs do not make"
                )
            return offsets, sizes

    def read(self, run: Sequence[Stored]) -> list[bytes]:
        """The encoded bytes of inner chunks that follow each other in one chunk."""
        reader = self._array.chunk(run[0].chunk)
        if reader is None:
            raise Corrupt(f"{self._array.name}: chunk {list(run[0].chunk)} was deleted meanwhile")
        with closing(reader):
            start, stop = run[0].offset, max(each.offset + each.size for each in run)
            if stop > reader.size:
                raise Corrupt(
                    f"{self._array.name}: chunk {list(run[0].chunk)} has changed meanwhile"
                )
            data = bytearray(stop - start)
            if data:
                reader.readinto(memoryview(data), start)
        return [bytes(data[each.offset - start : each.offset - start + each.size]) for each in run]


def runs(found: Sequence[Stored]) -> Iterator[list[Stored]]:
    """Inner chunks in their order; those that follow each other in a stored chunk are together."""
    run: list[Stored] = []
    size = 0
    for each in found:
        follows = (
            run
            and each.chunk == run[-1].chunk
            and each.offset == run[-1].offset + run[-1].size
            and size + each.size <= READ_BYTES
        )
        if run and not follows:
            yield run
            run, size = [], 0
        run.append(each)
        size += each.size
    if run:
        yield run
