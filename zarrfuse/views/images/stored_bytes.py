"""The stored bytes of arrays, read for a worker that decodes them.

Owns which file of an array a key of zarr-python stands for, and reading several of them at one time
where the store is slow. Used by `zarr_array`.
"""

import errno
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from zarrfuse.decoding.messages import Bytes, Wanted
from zarrfuse.errors import NotAFolder, NotFound, Stale
from zarrfuse.formats.segments import Literal
from zarrfuse.spec.chunk_keys import METADATA_NAMES
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.plain import CHUNK_KEYS, document
from zarrfuse.stores.base import Reader
from zarrfuse.stores.pool import Threads
from zarrfuse.views.chunks.view import ChunksFolder, ChunksView
from zarrfuse.views.nodes import LARGEST_DOCUMENT, Loaded
from zarrfuse.views.plain.chunks import PlainChunks
from zarrfuse.views.plain.nodes import DOCUMENT, stored_document

_MOST_READS = 400
"""How many reads may be in threads at one time; those of a store that hangs stay there."""
_AT_ONCE = 16
"""How many of them for one job."""


class TooLarge(Exception):
    """A chunk has far more stored bytes than decoded ones."""


class ArrayFiles:
    """The files of one array by the keys of zarr-python, parts merged. For any thread.

    An array of Zarr v3 has the `zarr.json` and the chunk keys of the `plain` view, one of Zarr v2 those
    that are stored.
    """

    def __init__(self, view: ChunksView, folder: ChunksFolder, loaded: Loaded) -> None:
        assert isinstance(loaded.node, ArrayNode)
        self.loaded = loaded
        self.node = loaded.node
        self.chunks = PlainChunks(view, folder, self.node)
        self._folder = folder
        self._keys = self.node.chunk_keys if loaded.is_v2 else CHUNK_KEYS

    @property
    def name(self) -> str:
        """The name of the array in messages."""
        return self.loaded.path or "the root array"

    def chunk_key(self, coords: Sequence[int]) -> str:
        """The key of the chunk at these grid coordinates."""
        return self._keys.encode(coords)

    def open(self, key: str, *, wait: bool = True) -> Reader:
        """Open a chunk or a document. Raises `NotFound`; `BlockingIOError` as for stores."""
        if key == DOCUMENT and not self.loaded.is_v2:
            if not wait:
                raise BlockingIOError(errno.EAGAIN, "a document has to be written")
            stored = stored_document(self._folder, self.loaded)
            if stored is None:
                raise Stale(f"{self.name} changed while it was open")
            return Literal(document(self.node, stored))
        if key in METADATA_NAMES:
            return self._folder.open(key, wait=wait)
        coords = self._keys.decode(key, self.node.ndim)
        if coords is None:
            raise NotFound(f"{key} is no chunk of {self.name}")
        return self.chunks.open_chunk(coords, wait=wait)


class StoredBytes:
    """Reads the files of arrays. For any thread."""

    def __init__(self) -> None:
        self._threads = Threads(_MOST_READS, "zarrfuse-bytes")

    def bring(
        self, files: ArrayFiles, wanted: Iterable[Wanted], most_bytes: int
    ) -> dict[Wanted, Bytes | None]:
        """The bytes of each range; None for what is not stored.

        Raises `TooLarge` if those of one chunk are more than `most_bytes`, and what the store raises.
        """
        by_key: dict[str, list[Wanted]] = {}
        for each in wanted:
            by_key.setdefault(each.key, []).append(each)
        found: dict[Wanted, Bytes | None] = {}
        slow: list[str] = []
        for key, ranges in by_key.items():
            if len(by_key) == 1:
                found.update(self._read(files, key, ranges, most_bytes, wait=True))
                continue
            try:
                found.update(self._read(files, key, ranges, most_bytes, wait=False))
            except BlockingIOError:
                slow.append(key)

        def read_some(keys: Iterator[str]) -> None:
            for key in keys:
                found.update(self._read(files, key, by_key[key], most_bytes, wait=True))

        keys = iter(slow)
        # This thread reads, too: a store that hangs may hold all threads of the pool.
        more = 0 if self._threads.waiting else min(_AT_ONCE, len(slow)) - 1
        futures = [self._threads.submit(read_some, keys) for _ in range(more)]
        read_some(keys)
        for future in futures:
            if not future.cancel():
                future.result()
        return found

    def _read(
        self, files: ArrayFiles, key: str, ranges: list[Wanted], most_bytes: int, *, wait: bool
    ) -> dict[Wanted, Bytes | None]:
        try:
            reader = files.open(key, wait=wait)
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
        """End the threads after their current read."""
        self._threads.shutdown()
