"""An open remote object. Used by `store`.

Bytes are fetched in blocks of 1 MiB (`blocks`). Of an object that is read in order, blocks are fetched
ahead, up to 32 of them. Of one that is read here and there, and that fits into the cache, neighbours are
fetched with each block: more and more, as long as they arrive in the time that a request takes for its way.
"""

import errno
import itertools
from collections.abc import Callable

from zarrfuse.errors import Stale
from zarrfuse.stores.base import Reader
from zarrfuse.stores.remote.ahead import Streams
from zarrfuse.stores.remote.blocks import Blocks, Remote
from zarrfuse.stores.remote.disk import BLOCK_BYTES
from zarrfuse.stores.remote.loop import LOOP
from zarrfuse.stores.remote.requests import Found

_STREAMS = 4
_WINDOW_BLOCKS = 32
_NEAR = 2  # blocks: the kernel has some MiB under way, in any order
_JUMPS_FOR_TWICE = 4

_openings = itertools.count(1)


class RemoteReader(Reader):
    """See `base.Reader`. `on_stale`: called when it turns out that there is another object now."""

    is_remote = True

    def __init__(
        self,
        blocks: Blocks,
        path: str,
        found: Found,
        *,
        timeout_s: float,
        permanent: bool,
        on_stale: Callable[[], None],
    ) -> None:
        self.size = found.size
        self.mtime_ns = found.mtime_ns
        is_kept = found.is_certain or permanent
        self.remote = Remote(path, found, 0 if is_kept else next(_openings))
        self._blocks = blocks
        self._timeout_s = timeout_s
        self._on_stale = on_stale
        self._streams = Streams(_STREAMS, _WINDOW_BLOCKS, _NEAR)
        self._jumps = 0
        self._fits = found.size <= blocks.cache.capacity_bytes
        self._closed = False

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `base.Reader`. Without `wait`, only from blocks that are in memory."""
        if self._closed:
            raise OSError(errno.EBADF, f"{self.remote.path} is closed")
        if not buffer:
            return
        if offset + len(buffer) > self.size:
            raise Stale(f"{self.remote.path} ends before the bytes that were asked for")
        first, last = offset // BLOCK_BYTES, (offset + len(buffer) - 1) // BLOCK_BYTES
        missing: list[tuple[int, memoryview, int]] = []
        for index in range(first, last + 1):
            begin = max(offset, index * BLOCK_BYTES)
            end = min(offset + len(buffer), (index + 1) * BLOCK_BYTES)
            piece, start = buffer[begin - offset : end - offset], begin - index * BLOCK_BYTES
            block = self._blocks.at_hand(self.remote, index)
            if block is not None:
                piece[:] = block[start : start + len(piece)]
            elif not self._blocks.read_from_disk(self.remote, index, piece, start, wait=wait):
                if not wait:
                    raise BlockingIOError(errno.EAGAIN, "the bytes have to be fetched")
                missing.append((index, piece, start))
        if missing:
            blocks = self._fetched(missing[0][0], missing[-1][0])
            for index, piece, start in missing:
                piece[:] = blocks[index][start : start + len(piece)]
        self._fetch_ahead(self._streams.used(first, last, self.remote.blocks))

    def prefetch(self, start: int, stop: int) -> None:
        """See `base.Reader`."""
        wanted = range(start // BLOCK_BYTES, -(-min(stop, self.size) // BLOCK_BYTES))
        if any(self._blocks.at_hand(self.remote, index) is None for index in wanted):
            self._fetch_ahead(wanted)

    def close(self) -> None:
        """See `base.Reader`. Blocks of an object that cannot be told from others are dropped."""
        if not self._closed:
            self._closed = True
            if self.remote.opening:
                self._blocks.forget(self.remote)

    def _fetched(self, first: int, last: int) -> dict[int, memoryview]:
        wanted = range(first, last + 1)
        around = range(0)
        if self._fits and self._streams.is_new(first):
            self._jumps += 1
            count = min(1 << self._jumps // _JUMPS_FOR_TWICE, self._blocks.for_nothing)
            if count > len(wanted):
                begin = first // count * count
                around = range(begin, min(begin + count, self.remote.blocks))
        try:
            return LOOP.run(
                self._blocks.fetch(self.remote, wanted, around),
                timeout_s=self._timeout_s,
                what=self.remote.path,
            )
        except Stale:
            self._on_stale()
            raise

    def _fetch_ahead(self, wanted: range) -> None:
        if wanted:
            LOOP.submit(self._blocks.fetch_ahead(self.remote, wanted))
