"""Makes a dataset of files, or makes one that is there what they are now.

Owns the order of work: read the headers of what has changed, refuse what does not fit, and only then write:
chunks, then documents, and at last delete files that were moved. Used by `run`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from zarrfuse.errors import ZarrfuseError
from zarrfuse.indexing.comparison import Comparison
from zarrfuse.indexing.dataset import DOCUMENT, Dataset, dataset_of, stays_valid
from zarrfuse.indexing.earlier import ChunkKeys, Earlier, Plan, file_shape, kept_chunks
from zarrfuse.indexing.files import Files, FoundFile
from zarrfuse.indexing.grid import Grid, GridError, common_layout, grid_of_files
from zarrfuse.indexing.headers import Header, Headers, ReadFile, read_all
from zarrfuse.indexing.moving import delete_moved
from zarrfuse.indexing.options import Options, Summary
from zarrfuse.indexing.progress import Progress
from zarrfuse.indexing.target import Target, Way
from zarrfuse.indexing.trial import try_decoding
from zarrfuse.indexing.wanted import Wanted
from zarrfuse.indexing.writing import Chunk, write_all
from zarrfuse.jobs.base import Jobs
from zarrfuse.progress import counted
from zarrfuse.shards.arrange import arranged, arranged_shape
from zarrfuse.shards.documents import INDEX_SUFFIX, document_bytes
from zarrfuse.shards.layout import Layout, type_name
from zarrfuse.spec.paths import join
from zarrfuse.stores.opening import printable_source

_SHOWN_PROBLEMS = 20


class IndexingError(ZarrfuseError):
    """Files that cannot be indexed."""


@dataclass(frozen=True, slots=True)
class Update:
    """What is known once the first file is read, and the rest of the work."""

    options: Options
    files: Files
    target: Target
    out: str
    wanted: Wanted
    earlier: Earlier

    def carry_out(self, jobs: Jobs, headers: Headers, progress: Progress) -> Summary:
        """Read headers, make the dataset of them, and write it."""
        if self._comparison.is_as_stored():
            if self._moves and not self.options.dry_run:
                keys = {
                    self.wanted.chunk_keys(coords, 1)[0]: file
                    for file, coords in self.wanted.coordinates()
                }
                with self._begun([], self.earlier.written):
                    self._delete_moved(keys, [])
                    self.target.end()
            return stored_summary(
                self.out, self.earlier, self.wanted.places.files, self.wanted.first
            )
        header_bytes = self.wanted.first.bytes_read
        unchanged = self._comparison.unchanged()
        changed = [file for file in self.wanted.places.files if file.path not in unchanged]
        header_bytes += self._read(changed, headers, jobs, progress)
        dataset = self._dataset(headers, unchanged, progress)
        if unchanged and not self._stays_valid(dataset):
            # The same files, but other chunks: then the indexes of all are others.
            header_bytes += self._read(
                [header.file for header in unchanged.values()], headers, jobs, progress
            )
            dataset = self._dataset(headers, {}, progress)
        try_decoding(self.files, dataset.levels, headers)
        written = self.earlier.written | ChunkKeys.of_documents(dict(dataset.documents))
        keys = {
            dataset.chunk_key(level, coords): file
            for level in range(len(dataset.levels))
            for file, coords in self.wanted.coordinates()
        }
        if not self.options.delete:
            self._check_lost(keys, written)
        if not self.options.dry_run:
            adopted = [] if self.wanted.in_place else [header.file for header in headers.all]
            with self._begun(adopted, written):
                kept = self._retract(dataset, keys, written)
                self._write(dataset, headers, kept, jobs, progress)
                if self._moves:
                    self._delete_moved(keys, adopted)
                self.target.end()
        level = dataset.levels[0]
        return Summary(
            self.out,
            self.wanted.dimensions.names,
            level.grid.shape,
            type_name(level.layout.data_type),
            len(self.wanted.places.files),
            len(headers.all),
            header_bytes,
            sum(file.size for file in self.wanted.places.files),
        )

    @property
    def _comparison(self) -> Comparison:
        return Comparison(self.files, self.wanted, self.earlier, self.target)

    @property
    def _moves(self) -> bool:
        return self.options.way is Way.MOVE and not self.wanted.in_place

    # -- reading

    def _read(
        self, changed: Sequence[FoundFile], headers: Headers, jobs: Jobs, progress: Progress
    ) -> int:
        """Read the headers of files; the number of bytes read. Raises `IndexingError`."""
        problems: list[str] = []
        bytes_read = 0
        with progress.counting("reading headers", len(changed)) as count:
            for read in read_all(self.files, self.options.dataset, changed, jobs):
                bytes_read += read.bytes_read
                if read.problem is None:
                    headers.add(read)
                else:
                    problems.append(read.problem)
                count(1)
        if problems:
            problems.sort()
            more = len(problems) - _SHOWN_PROBLEMS
            shown = [*problems[:_SHOWN_PROBLEMS], *([f"and {more:,} more"] if more > 0 else [])]
            raise IndexingError("nothing was written. " + "\n".join(shown))
        return bytes_read

    # -- the dataset

    def _stays_valid(self, dataset: Dataset) -> bool:
        """Whether chunks that are stored stay what they are."""
        new = dict(dataset.documents)
        return all(
            key in new and stays_valid(document, new[key])
            for key, document in self.earlier.documents.items()
        )

    def _dataset(
        self, headers: Headers, unchanged: Mapping[str, Header], progress: Progress
    ) -> Dataset:
        by_path = {header.file.path: header for header in headers.all} | dict(unchanged)
        all_headers = [by_path[file.path] for file in self.wanted.places.files]
        grids: list[tuple[Layout, Grid]] = []
        least = min(all_headers, key=lambda header: len(header.levels))
        if any(len(header.levels) > len(least.levels) for header in all_headers):
            progress.say(
                f"levels from {len(least.levels)} on are left out: {least.file.path} has none"
            )
        for level in range(len(least.levels)):
            try:
                grids.append(self._level(level, all_headers))
            except GridError as error:
                if level == 0:
                    raise
                progress.say(f"level {level} of the pyramids is left out: {error}")
                break
        dataset = dataset_of(
            self.out.rstrip("/").rpartition("/")[2].removesuffix(".zarr").removesuffix(".ome"),
            self.wanted.first.arrays,
            grids,
            self.wanted.dimensions,
            self.wanted.record,
            suffix=self.wanted.places.ending,
            base_encoding=self.wanted.places.encoding.to_json(),
            as_group=self.wanted.as_group,
        )
        old = self.earlier.record
        if old is not None and old.moved and not self._stays_valid(dataset):
            raise self._unlike_moved()
        return dataset.with_attributes_of(self.earlier.documents)

    def _unlike_moved(self) -> GridError:
        return GridError(
            f"the files that were moved to {self.out} are not like these: give another --out"
        )

    def _level(self, level: int, all_headers: Sequence[Header]) -> tuple[Layout, Grid]:
        """(layout of the files, grid) of a level."""
        layouts: dict[Layout, str] = {}
        heights = set()
        for header in all_headers:
            layout, shape = header.levels[level]
            layouts.setdefault(layout, header.file.path)
            if "y" in layout.axes:
                heights.add(shape[layout.axes.index("y")])
        of_file = common_layout(layouts, heights)
        sources, names = self.wanted.dimensions.sources, self.wanted.dimensions.names
        placed = [
            (header.file.path, coords, arranged_shape(header.levels[level][1], of_file, sources))
            for header, (_, coords) in zip(all_headers, self.wanted.coordinates(), strict=True)
        ]
        layout = arranged(of_file, sources, names)
        placed += self._moved_before(level, layout, {coords for _, coords, _ in placed})
        return of_file, grid_of_files(placed, layout.inner_shape, names)

    def _moved_before(
        self, level: int, layout: Layout, new: set[tuple[int, ...]]
    ) -> Iterator[tuple[str, tuple[int, ...], tuple[int, ...]]]:
        """What `grid_of_files` takes of files that an earlier run moved into the dataset."""
        record = self.earlier.record
        if record is None or not record.moved:
            return
        path = self.wanted.paths(level + 1)[level]
        grid = self.earlier.grid(path, layout, self.wanted.record, self.wanted.places.ending)
        if grid is None:
            raise self._unlike_moved()
        for key, coords in kept_chunks(self.earlier, path, self.wanted.keys, grid):
            if coords not in new:
                yield key, coords, file_shape(grid, coords)

    # -- writing

    def _begun(
        self, adopted: Sequence[FoundFile], written: ChunkKeys
    ) -> AbstractContextManager[None]:
        """The block in which it is written. `adopted`: the files that get keys; `written`: see `Plan`."""
        plan = Plan(written, self.wanted.record).to_bytes()
        return self.target.begun(self.files, adopted, self.earlier.stored, plan)

    def _write(
        self,
        dataset: Dataset,
        headers: Headers,
        kept: Mapping[str, Any],
        jobs: Jobs,
        progress: Progress,
    ) -> None:
        """Write chunks, then documents. `kept`: the documents that are stored."""
        target = self.target
        chunks = self._chunks(dataset, headers)
        with progress.counting("writing indexes", len(headers.all)) as count:
            for done in write_all(
                self.files, target, dataset.levels, self.wanted.dimensions.sources, chunks, jobs
            ):
                count(done)
        target.sync()
        for key, document in dataset.documents:
            if kept.get(key) != document:
                target.put(key, document_bytes(document))
        target.sync()

    def _delete_moved(self, keys: Mapping[str, FoundFile], adopted: Sequence[FoundFile]) -> None:
        """`keys`: the file for each key; `adopted`: those that this run has stored."""
        moved = {file.path: key for key, file in keys.items()}
        delete_moved(self.files, self.target, moved, {file.path: file for file in adopted})

    def _check_lost(self, keys: Mapping[str, FoundFile], written: ChunkKeys) -> None:
        lost = self._comparison.lost(keys, written)
        if lost:
            raise IndexingError(
                f"nothing was written: {counted(len(lost), 'chunk')} of {printable_source(self.out)} would "
                f"be deleted or replaced, such as {lost[0]}, and may be the only copy of its pixels. Give "
                "another --out, or --delete"
            )

    def _retract(
        self, dataset: Dataset, keys: Mapping[str, FoundFile], written: ChunkKeys
    ) -> Mapping[str, Any]:
        """Delete what an earlier run stored and what is no longer true: documents first.

        `keys`: those of the chunks of this run. Returns the documents that stay.
        """
        kept = self.earlier.documents if self._stays_valid(dataset) else {}
        if not kept:
            for key in sorted(self.earlier.documents, key=lambda key: key.count("/")):
                self.target.remove(key)
        if self.earlier.record is not None and self.earlier.record.moved:
            return kept
        # The index first: a chunk without it cannot be read.
        for key in sorted(
            self._comparison.stale(keys.keys(), written),
            key=lambda key: not key.endswith(INDEX_SUFFIX),
        ):
            self.target.remove(key)
        return kept

    def _chunks(self, dataset: Dataset, headers: Headers) -> Iterator[Chunk]:
        coords = {file.path: coords for file, coords in self.wanted.coordinates()}
        for header in headers.all:
            arrays = tuple(headers.arrays(header))[: len(dataset.levels)]
            keys = tuple(
                dataset.chunk_key(level, coords[header.file.path]) for level in range(len(arrays))
            )
            yield Chunk(header.file, arrays, keys, self.wanted.in_place)


def stored_summary(
    out: str,
    earlier: Earlier,
    files: Sequence[FoundFile] = (),
    first: ReadFile | None = None,
) -> Summary:
    """What is said of a dataset that stays as it is."""
    document = earlier.documents[join(earlier.levels[0], DOCUMENT)]
    return Summary(
        out,
        tuple(document["dimension_names"]),
        tuple(document["shape"]),
        type_name(document["data_type"]),
        len(files),
        0,
        first.bytes_read if first is not None else 0,
        sum(file.size for file in files),
    )
