"""What an earlier run has stored: which files need not be read and written again.

Used by `run`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zarrfuse.indexing.dataset import DOCUMENT, Record, parsed, record_of
from zarrfuse.indexing.files import FoundFile
from zarrfuse.indexing.grid import Grid
from zarrfuse.indexing.target import Target
from zarrfuse.shards.documents import INDEX_SUFFIX
from zarrfuse.shards.layout import Layout
from zarrfuse.spec.chunk_keys import SuffixEncoding
from zarrfuse.spec.paths import join
from zarrfuse.stores.base import Entry


@dataclass(frozen=True, slots=True)
class Earlier:
    """The files and documents that are stored; empty for a new dataset.

    `documents`: those that can be of a dataset of `zarrfuse index`, by their keys.
    """

    stored: Mapping[str, Entry]
    documents: Mapping[str, dict[str, Any]]

    @property
    def record(self) -> Record | None:
        """How the array was indexed; None if there is none."""
        found = (record_of(document) for document in self.documents.values())
        return next((record for record in found if record is not None), None)

    def grid(self, path: str, layout: Layout, record: Record, suffix: str) -> Grid | None:
        """The grid of a level, if it holds files of this layout in the same places; else None."""
        document = self.documents.get(join(path, DOCUMENT))
        if document is None or record_of(document) is None:
            return None
        old = record_of(document)
        assert old is not None
        sharding = document["codecs"][0]["configuration"]
        same = (
            (old.pattern, old.fields, old.origin) == (record.pattern, record.fields, record.origin)
            and document["chunk_key_encoding"]["configuration"]["suffix"] == suffix
            and tuple(document["dimension_names"]) == layout.axes
            and document["data_type"] == layout.data_type
            and document["fill_value"] == layout.fill_json()
            and tuple(sharding["chunk_shape"]) == layout.inner_shape
            and sharding["codecs"] == layout.codec_list()
        )
        if not same:
            return None
        chunk_shape = document["chunk_grid"]["configuration"]["chunk_shape"]
        return Grid(tuple(document["shape"]), tuple(chunk_shape))

    def is_unchanged(self, target: Target, file: FoundFile, keys: Sequence[str]) -> bool:
        """Whether a file is stored under these keys as it is now, each with its index."""
        for key in keys:
            main, index = self.stored.get(key), self.stored.get(key + INDEX_SUFFIX)
            if main is None or index is None:
                return False
            if not (target.is_same(main, file) and target.is_current(index, main)):
                return False
        return True


def earlier_of(target: Target) -> Earlier:
    """What is stored at a target."""
    stored = target.stored()
    found = {
        key: document
        for key in stored
        if key == DOCUMENT or (key.endswith(f"/{DOCUMENT}") and key.partition("/")[0].isdigit())
        if (document := parsed(target.get(key))) is not None
    }
    return Earlier(stored, found)


def file_shape(grid: Grid, coords: Sequence[int]) -> tuple[int, ...]:
    """The shape of the file that is a chunk: the chunk's, or less at the end of the array."""
    return tuple(
        min(chunk, n - at * chunk)
        for n, chunk, at in zip(grid.shape, grid.chunk_shape, coords, strict=True)
    )


def kept_chunks(
    earlier: Earlier, path: str, keys: SuffixEncoding, ndim: int
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """(key, coordinates) of the stored chunks of a level that have an index."""
    start = f"{path}/" if path else ""
    for key in earlier.stored:
        if key.startswith(start) and key + INDEX_SUFFIX in earlier.stored:
            coords = keys.decode(key.removeprefix(start), ndim)
            if coords is not None:
                yield key, coords
