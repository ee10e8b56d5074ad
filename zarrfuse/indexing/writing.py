"""Writes the chunks of a dataset: each file gets its key, and an index beside it.

Owns the order, so that no moment shows a chunk with the index of another: the old index is deleted, the
file gets its key, the new index is stored. Used by `update`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from zarrfuse.indexing.dataset import Level
from zarrfuse.indexing.files import Files, FoundFile
from zarrfuse.indexing.headers import batches
from zarrfuse.indexing.target import Target, TargetError
from zarrfuse.jobs.base import Jobs
from zarrfuse.shards.arrange import arranged_array, cut_in_rows
from zarrfuse.shards.documents import INDEX_SUFFIX
from zarrfuse.shards.index import shard_index
from zarrfuse.shards.layout import FileArray

_BATCH = 32
"""Files of one job."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A file that is to be a chunk: an array and a key for each level; `in_place`: it has the key."""

    file: FoundFile
    arrays: tuple[FileArray, ...]
    keys: tuple[str, ...]
    in_place: bool


def write_all(
    files: Files,
    target: Target,
    levels: Sequence[Level],
    sources: Sequence[str | None],
    chunks: Iterable[Chunk],
    jobs: Jobs,
) -> Iterator[int]:
    """Write chunks; yields how many were written since."""
    work = partial(_write_batch, files, target, tuple(levels), tuple(sources))
    yield from jobs.map(work, batches(chunks, _BATCH))


def _write_batch(
    files: Files,
    target: Target,
    levels: Sequence[Level],
    sources: Sequence[str | None],
    batch: Sequence[Chunk],
) -> int:
    for chunk in batch:
        _check_unchanged(files, chunk.file)
        for key in chunk.keys:
            target.remove(key + INDEX_SUFFIX)
        if not chunk.in_place:
            target.adopt(files, chunk.file.path, chunk.keys)
        # What was read of it, and what was linked or copied, may be of different moments.
        _check_unchanged(files, chunk.file)
        for level, array, key in zip(levels, chunk.arrays, chunk.keys, strict=False):
            whole = arranged_array(cut_in_rows(array, level.of_file), sources, level.layout)
            index = shard_index(whole, level.grid.chunk_shape)
            target.put(key + INDEX_SUFFIX, index, chunk.file.mtime_ns)
    return len(batch)


def _check_unchanged(files: Files, file: FoundFile) -> None:
    if not files.is_still(file):
        raise TargetError(f"{file.path} was changed meanwhile: run it again")
