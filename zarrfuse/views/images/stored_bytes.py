"""The stored bytes of arrays, brought for a worker that decodes them.

They are those of the `plain` view, in which nodes of Zarr v2 are as they are stored.

Owns reading several ranges at one time where the store is slow. Used by `zarr_array`.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from zarrfuse.decoding.messages import Bytes, Wanted
from zarrfuse.errors import NotAFolder, NotFound, Stale
from zarrfuse.spec.chunk_keys import METADATA_NAMES
from zarrfuse.stores.pool import Threads
from zarrfuse.views.base import join
from zarrfuse.views.chunks.view import ChunksView
from zarrfuse.views.keys import Keys
from zarrfuse.views.nodes import LARGEST_DOCUMENT
from zarrfuse.views.plain.view import PlainView

_MOST_READS = 400
"""So many reads are in threads at one time; those of a store that hangs stay there."""
_AT_ONCE = 16
"""So many of them for one job."""


class TooLarge(Exception):
    """More bytes are stored than what is decoded from them explains."""


class StoredBytes:
    """The files of the arrays of a view. For any thread."""

    def __init__(self, chunks: ChunksView) -> None:
        self._keys = Keys(PlainView(chunks, v2_as_v3=False).root, chunks.ttl_s)
        self._threads = Threads(_MOST_READS, "zarrfuse-bytes")

    def bring(
        self, path: str, wanted: Iterable[Wanted], most_bytes: int
    ) -> dict[Wanted, Bytes | None]:
        """The bytes of each range of the array at `path`; None for what is not stored.

        Raises `TooLarge` if those of one chunk are more than `most_bytes`, and what the store raises.
        """
        by_key: dict[str, list[Wanted]] = {}
        for each in wanted:
            by_key.setdefault(each.key, []).append(each)
        found: dict[Wanted, Bytes | None] = {}
        slow: list[str] = []
        for key, ranges in by_key.items():
            if len(by_key) == 1:
                found.update(self._read(path, key, ranges, most_bytes, wait=True))
                continue
            try:
                found.update(self._read(path, key, ranges, most_bytes, wait=False))
            except BlockingIOError:
                slow.append(key)

        def read_some(keys: Iterator[str]) -> None:
            for key in keys:
                found.update(self._read(path, key, by_key[key], most_bytes, wait=True))

        keys = iter(slow)
        # This thread reads, too, and others help if any are free: a folder that hangs may hold them all.
        more = 0 if self._threads.waiting else min(_AT_ONCE, len(slow)) - 1
        futures = [self._threads.submit(read_some, keys) for _ in range(more)]
        read_some(keys)
        for future in futures:
            if not future.cancel():
                future.result()
        return found

    def _read(
        self, path: str, key: str, ranges: list[Wanted], most_bytes: int, *, wait: bool
    ) -> dict[Wanted, Bytes | None]:
        try:
            reader = self._keys.open(join(path, key), wait=wait)
        except (NotFound, NotAFolder):
            return dict.fromkeys(ranges)
        found: dict[Wanted, Bytes | None] = {}
        if key in METADATA_NAMES:
            most_bytes = LARGEST_DOCUMENT
        try:
            for wanted in ranges:
                start, stop = wanted.span(reader.size)
                most_bytes -= stop - start
                if most_bytes < 0:
                    raise TooLarge(f"{key} has {reader.size} bytes, too many for its elements")
                data: Bytes = np.empty(stop - start, np.uint8)
                if data.size:
                    reader.readinto(data.data, start, wait=wait)
                found[wanted] = data
        except NotFound as error:  # not an absent chunk: a part of one that was there
            raise Stale(f"{key} changed while it was read: {error}") from error
        finally:
            reader.close()
        return found

    def close(self) -> None:
        """Let go of the threads; those that read end when they have read."""
        self._threads.shutdown()
