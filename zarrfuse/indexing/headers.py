"""The headers of many files: read by jobs, and kept where they take no memory.

Used by `run` and `update`. It must not know the grid, nor where the dataset is written.
"""

import pickle
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TypeVar

from zarrfuse.errors import ZarrfuseError, text_of
from zarrfuse.indexing.files import Files, FoundFile
from zarrfuse.jobs.base import Jobs
from zarrfuse.shards.layout import FileArray, Layout
from zarrfuse.shards.reading import read_arrays

T = TypeVar("T")

_BATCH = 16
"""Files of one job: sending a job costs as much as reading a header."""


@dataclass(frozen=True, slots=True)
class ReadFile:
    """What was read of a file: the levels of its image, or why it cannot be used, and the bytes read."""

    file: FoundFile
    arrays: list[FileArray]
    problem: str | None
    bytes_read: int


@dataclass(frozen=True, slots=True)
class Header:
    """What is remembered of a file: layout and shape of each level, and where the rest is kept."""

    file: FoundFile
    levels: tuple[tuple[Layout, tuple[int, ...]], ...]
    at: int


def read_file(files: Files, dataset: str | None, file: FoundFile) -> ReadFile:
    """The header of one file. A file that cannot be read has a problem; nothing is raised."""
    counted = None
    try:
        with files.open(file.path) as counted, counted.buffered() as buffered:
            arrays = read_arrays(file.path, buffered, dataset)
    except (ZarrfuseError, OSError) as error:
        sentence = str(error) if isinstance(error, ZarrfuseError) else text_of(error)
        if file.path not in sentence:
            sentence = f"{file.path}: {sentence}"
        return ReadFile(file, [], sentence, counted.bytes_read if counted is not None else 0)
    return ReadFile(file, arrays, None, counted.bytes_read)


def _read_batch(files: Files, dataset: str | None, batch: Sequence[FoundFile]) -> list[ReadFile]:
    """The headers of some files, without what only the first file is asked for."""
    return [_bare(read_file(files, dataset, file)) for file in batch]


def _bare(read: ReadFile) -> ReadFile:
    return replace(read, arrays=[replace(array, attributes={}, scale={}) for array in read.arrays])


def read_all(
    files: Files, dataset: str | None, found: Iterable[FoundFile], jobs: Jobs
) -> Iterator[ReadFile]:
    """The headers of files, as they are read, in any order."""
    for batch in jobs.map(partial(_read_batch, files, dataset), batches(found, _BATCH)):
        yield from batch


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of `size`."""
    left = iter(items)
    while batch := list(islice(left, size)):
        yield batch


class Headers:
    """The headers of all files. All with one layout share one object; offsets are on the disk."""

    def __init__(self) -> None:
        self._spool = tempfile.TemporaryFile(prefix="zarrfuse-index-")  # noqa: SIM115  # closed in `close`
        self._layouts: dict[Layout, Layout] = {}
        self.all: list[Header] = []

    def add(self, read: ReadFile) -> None:
        """Keep what was read of a file."""
        levels = tuple(
            (self._layouts.setdefault(array.layout, array.layout), array.shape)
            for array in read.arrays
        )
        at = self._spool.seek(0, 2)
        pickle.dump(
            [(array.offsets, array.sizes) for array in read.arrays], self._spool, protocol=5
        )
        self.all.append(Header(read.file, levels, at))

    def arrays(self, header: Header) -> list[FileArray]:
        """What was read of the file of a header, without attributes."""
        self._spool.seek(header.at)
        kept = pickle.load(self._spool)
        return [
            FileArray(layout, shape, offsets, sizes)
            for (layout, shape), (offsets, sizes) in zip(header.levels, kept, strict=True)
        ]

    def close(self) -> None:
        """Delete what is on the disk."""
        self._spool.close()
