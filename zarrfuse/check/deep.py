"""Verifies the bytes of chunks without decoding them: checksums, and shard indexes.

Used by `survey`. `blocks` reads the bytes. It must not know which chunks there are. Both modules import
numpy and google_crc32c, so they are imported when chunks are read.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from zarrfuse.check.blocks import BLOCK_BYTES, Blocks, Bytes, opened
from zarrfuse.check.chunks import Chunk
from zarrfuse.check.findings import Fault, Rule
from zarrfuse.check.rules import CRC32C, LIMITS, SHARD_FORMAT, STORE
from zarrfuse.errors import text_of
from zarrfuse.shards.encoded import CHECKSUM_BYTES, Encoded, Shard
from zarrfuse.shards.index import LARGEST_INDEX, parse_index
from zarrfuse.shards.layout import MISSING, Extents
from zarrfuse.spec.members import shown
from zarrfuse.stores.base import Store


class Verifier:
    """Verifies the chunks of one store, one at a time, with one buffer."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._buffer: Bytes = np.empty(BLOCK_BYTES, np.uint8)

    def faults(
        self, path: str, chunk: Chunk, known: Encoded, count: Callable[[int], None]
    ) -> Iterator[Fault]:
        """Everything that is wrong with the bytes of a chunk of the array at `path`, all of which are read.

        `known`: what its codecs say of the bytes; `count`: called with the number of bytes of each read. A
        read error is the last fault of a chunk.
        """
        try:
            with opened(self._store, path, chunk) as reader:
                blocks = Blocks(reader, self._buffer, count)
                yield from _judge(blocks, known, 0, blocks.size, "")
        except Exception as error:  # whatever a store raises: there are other chunks
            yield Fault("error", "", f"cannot be read: {text_of(error)}", STORE)


def _judge(blocks: Blocks, known: Encoded, start: int, stop: int, where: str) -> Iterator[Fault]:
    """Verify the encoded chunk from `start` to `stop`; `where`: its path for messages."""
    inner_stop = stop - known.checksums * CHECKSUM_BYTES
    for at in range(inner_stop, stop, CHECKSUM_BYTES):
        if blocks.checksum(start, at) != _number(blocks.take(at, at + CHECKSUM_BYTES)):
            yield _error(where, _WRONG_CHECKSUM, CRC32C)
    if known.shard is not None:
        yield from _judge_shard(blocks, known.shard, start, inner_stop, where)
    elif not known.checksums:
        blocks.pass_over(start, stop)


def _judge_shard(
    blocks: Blocks, shard: Shard, start: int, stop: int, where: str
) -> Iterator[Fault]:
    """Verify the shard from `start` to `stop` (sharding_indexed codec, Binary shard format)."""
    if shard.index_bytes > LARGEST_INDEX:
        problem = f"has {shard.index_bytes} bytes, more than the {LARGEST_INDEX} that are read"
        yield Fault("warning", _below(where, "shard index"), problem, LIMITS)
        blocks.pass_over(start, stop)
        return
    at = start if shard.at_start else stop - shard.index_bytes
    encoded = blocks.take(at, at + shard.index_bytes)
    parsed = parse_index(encoded, checksums=shard.index_checksums, big_endian=shard.big_endian)
    if parsed is None:
        yield _error(_below(where, "shard index"), _WRONG_CHECKSUM, CRC32C)
        blocks.pass_over(start, stop)  # a damaged index cannot be used
        return
    offsets, sizes = parsed
    stored, faults = _stored(shard, offsets, sizes, stop - start)
    for number, fault in faults:
        yield _error(_below(where, _title(shard, number)), fault, SHARD_FORMAT)
    order = stored[np.lexsort((sizes[stored], offsets[stored]))]
    yield from _overlaps(shard, order, offsets, sizes, where)
    read = start
    if shard.inner.verifiable:
        for number in order.tolist():
            low = start + int(offsets[number])
            high = low + int(sizes[number])
            if low < read:  # these bytes are verified already, with an inner chunk that shares them
                continue
            blocks.pass_over(read, low)
            yield from _judge(blocks, shard.inner, low, high, _below(where, _title(shard, number)))
            read = high
    blocks.pass_over(read, stop)


def _stored(
    shard: Shard, offsets: Extents, sizes: Extents, shard_bytes: int
) -> tuple[NDArray[np.intp], Iterator[tuple[int, str]]]:
    """(the inner chunks inside the shard, (number, fault) of the others)."""
    no_offset, no_size = offsets == MISSING, sizes == MISSING
    half = no_offset != no_size
    room = np.uint64(shard_bytes)
    outside = (offsets > room) | (sizes > room - np.minimum(offsets, room))
    outside &= ~(no_offset | no_size)
    known = ~(no_offset | no_size | outside)
    index_bytes = np.uint64(shard.index_bytes)
    if shard.at_start:
        inside_index = known & (offsets < index_bytes)
    else:
        # No overflow: offset + size of those that are not outside is at most the shard's size.
        ends = np.where(known, offsets, 0) + np.where(known, sizes, 0)
        inside_index = known & (ends > room - index_bytes)
    exact = shard.inner.exact
    if exact is not None:
        wrong_size = known & (sizes != np.uint64(min(exact, 2**64 - 1)))
    else:
        wrong_size = known & (sizes < np.uint64(shard.inner.least))
    inside_index &= ~wrong_size

    def faults() -> Iterator[tuple[int, str]]:
        for number in np.flatnonzero(half | outside | inside_index | wrong_size).tolist():
            offset, size = int(offsets[number]), int(sizes[number])
            if half[number]:
                yield number, "has only one of offset and size 2^64 - 1; a missing chunk has both"
            elif outside[number]:
                yield number, f"has {size} bytes from {offset}, but the shard has {shard_bytes}"
            elif wrong_size[number]:
                must = (
                    f"its codecs make {shown(exact)}" if exact is not None else _least(shard.inner)
                )
                yield number, f"has {size} bytes, and {must}"
            else:
                yield number, f"has {size} bytes from {offset}, which overlap the shard's index"

    return np.flatnonzero(known & ~inside_index & ~wrong_size), faults()


def _least(inner: Encoded) -> str:
    if inner.least == 1:
        return "no chunk is encoded to 0 bytes"
    return f"its checksum or index alone takes {shown(inner.least)}"


def _overlaps(
    shard: Shard, order: NDArray[np.intp], offsets: Extents, sizes: Extents, where: str
) -> Iterator[Fault]:
    """A warning for each inner chunk that shares some bytes with one before it, but not all.

    Two inner chunks may be the same bytes: readers read both correctly.
    """
    if len(order) < 2:
        return
    low = offsets[order]
    high = low + sizes[order]
    reached = np.maximum.accumulate(high)[:-1]
    same = (low[1:] == low[:-1]) & (high[1:] == high[:-1])
    for place in np.flatnonzero((low[1:] < reached) & ~same).tolist():
        title = _below(where, _title(shard, int(order[place + 1])))
        problem = "shares some bytes with another inner chunk"
        yield Fault("warning", title, problem, SHARD_FORMAT)


_WRONG_CHECKSUM = "is damaged: its crc32c does not match its bytes"


def _number(stored: Bytes) -> int:
    """A stored checksum as a number (crc32c codec: little-endian)."""
    return int.from_bytes(stored.tobytes(), "little")


def _title(shard: Shard, number: int) -> str:
    coords = [int(coord) for coord in np.unravel_index(number, shard.grid)] if shard.grid else []
    return f"inner chunk {coords}"


def _below(where: str, inner: str) -> str:
    return f"{where}: {inner}" if where else inner


def _error(where: str, problem: str, rule: Rule) -> Fault:
    return Fault("error", where, problem, rule)
