"""Makes a dataset of files, or makes one that is there what they are now.

Owns the order of work: read the headers of what has changed, refuse what does not fit, and only then write:
chunks, then documents, and at last delete files that were moved. Used by `run`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from zarrfuse.errors import ZarrfuseError
from zarrfuse.indexing.dataset import DOCUMENT, Dataset, Record, dataset_of, stays_valid
from zarrfuse.indexing.earlier import ChunkKeys, Earlier, file_shape, kept_chunks
from zarrfuse.indexing.files import Files, FoundFile
from zarrfuse.indexing.grid import Dimensions, Grid, GridError, common_layout, grid_of_files
from zarrfuse.indexing.headers import Header, Headers, ReadFile, read_all
from zarrfuse.indexing.options import Options, Summary
from zarrfuse.indexing.places import Places
from zarrfuse.indexing.progress import Progress
from zarrfuse.indexing.target import Target, Way
from zarrfuse.indexing.writing import Chunk, write_all
from zarrfuse.jobs.base import Jobs
from zarrfuse.shards.arrange import arranged, arranged_shape
from zarrfuse.shards.documents import INDEX_SUFFIX, document_bytes
from zarrfuse.shards.layout import Layout
from zarrfuse.spec.chunk_keys import SuffixEncoding
from zarrfuse.spec.paths import join

_SHOWN_PROBLEMS = 20


class IndexingError(ZarrfuseError):
    """Files that cannot be indexed; nothing was written."""


@dataclass(frozen=True, slots=True)
class Update:
    """What is known once the first file is read, and the rest of the work."""

    options: Options
    files: Files
    target: Target
    out: str
    places: Places
    dimensions: Dimensions
    earlier: Earlier
    first: ReadFile
    as_group: bool
    in_place: bool

    def carry_out(self, jobs: Jobs, headers: Headers, progress: Progress) -> Summary:
        """Read headers, make the dataset of them, and write it."""
        if self._is_as_stored():
            if self._moves and not self.options.dry_run:
                self._delete_sources()
            return stored_summary(self.out, self.earlier, self.places.files, self.first)
        header_bytes = self.first.bytes_read
        unchanged = self._unchanged()
        changed = [file for file in self.places.files if file.path not in unchanged]
        header_bytes += self._read(changed, headers, jobs, progress)
        dataset = self._dataset(headers, unchanged, progress)
        if unchanged and not self._stays_valid(dataset):
            # The same files, but other chunks: then the indexes of all are others.
            header_bytes += self._read(
                [header.file for header in unchanged.values()], headers, jobs, progress
            )
            dataset = self._dataset(headers, {}, progress)
        if not self.options.dry_run:
            self._write(dataset, headers, jobs, progress)
        level = dataset.levels[0]
        return Summary(
            self.out,
            self.dimensions.names,
            level.grid.shape,
            level.layout.data_type,
            len(self.places.files),
            len(headers.all),
            header_bytes,
            sum(file.size for file in self.places.files),
        )

    # -- reading

    @property
    def _record(self) -> Record:
        naming, old = self.places.naming, self.earlier.record
        moved = self.options.way is Way.MOVE or (old is not None and old.moved)
        return Record(
            naming.title,
            naming.fields,
            naming.origin,
            self.dimensions.sources,
            self.options.dataset,
            moved and not self.in_place,
        )

    @property
    def _moves(self) -> bool:
        return self.options.way is Way.MOVE and not self.in_place

    def _coords(self) -> Iterator[tuple[FoundFile, tuple[int, ...]]]:
        for file, of_fields in zip(self.places.files, self.places.of_fields, strict=True):
            yield file, self.dimensions.coordinates(of_fields)

    @property
    def _keys(self) -> SuffixEncoding:
        return SuffixEncoding(self.places.ending, self.places.encoding)

    def _paths(self, count: int) -> list[str]:
        """The paths of the arrays of so many levels."""
        return [str(level) for level in range(count)] if self.as_group else [""]

    def _old_grids(self) -> list[Grid] | None:
        """The grids of all levels that are stored, if they hold files like the first one; else None."""
        grids = []
        if len(self.earlier.levels) != len(self.first.arrays):
            return None
        for path, array in zip(
            self._paths(len(self.first.arrays)), self.first.arrays, strict=False
        ):
            layout = arranged(array.layout, self.dimensions.sources, self.dimensions.names)
            grid = self.earlier.grid(path, layout, self._record, self.places.ending)
            if grid is None:
                return None
            grids.append(grid)
        return grids

    def _unchanged(self) -> dict[str, Header]:
        """The headers of files that are stored as they are, by their paths. They are not read."""
        grids = self._old_grids()
        if grids is None:
            return {}
        layouts = [array.layout for array in self.first.arrays]
        paths = self._paths(len(layouts))
        found = {}
        for file, coords in self._coords():
            key = self._keys.encode(coords)
            if self._is_unchanged(file, [join(path, key) for path in paths]):
                levels = tuple(
                    (layout, self._own_shape(layout, file_shape(grid, coords)))
                    for layout, grid in zip(layouts, grids, strict=False)
                )
                found[file.path] = Header(file, levels, -1)
        return found

    def _is_unchanged(self, file: FoundFile, keys: Sequence[str]) -> bool:
        return self.earlier.is_unchanged(self.target, file, keys, in_place=self.in_place)

    def _is_as_stored(self) -> bool:
        """Whether the dataset was made of these files, as they are, by the same options."""
        earlier = self.earlier
        if earlier.is_begun or earlier.record != self._record:
            return False
        paths = earlier.levels
        document = earlier.documents[join(paths[0], DOCUMENT)]
        if (
            (paths != [""]) != self.as_group
            or tuple(document["dimension_names"]) != self.dimensions.names
            or earlier.suffix != self.places.ending
        ):
            return False
        wanted = set()
        for file, coords in self._coords():
            keys = [join(path, self._keys.encode(coords)) for path in paths]
            if not self._is_unchanged(file, keys):
                return False
            wanted.update(keys)
        return self._record.moved or not any(self._stale(wanted, earlier.written))

    def _stale(self, wanted: set[str], written: ChunkKeys) -> Iterator[str]:
        """What is stored of chunks that are no longer wanted."""
        for key in written.among(self.earlier.stored):
            is_index = key.endswith(INDEX_SUFFIX)
            if key.removesuffix(INDEX_SUFFIX) not in wanted and (is_index or not self.in_place):
                yield key

    def _own_shape(self, layout: Layout, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of a file along its own axes."""
        sources = self.dimensions.sources
        return tuple(shape[sources.index(axis)] for axis in layout.axes)

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
        all_headers = [by_path[file.path] for file in self.places.files]
        grids: list[tuple[Layout, Grid]] = []
        for level in range(min(len(header.levels) for header in all_headers)):
            try:
                grids.append(self._level(level, all_headers))
            except GridError as error:
                if level == 0:
                    raise
                progress.say(f"level {level} of the pyramids is left out: {error}")
                break
        dataset = dataset_of(
            self.out.rstrip("/").rpartition("/")[2].removesuffix(".zarr").removesuffix(".ome"),
            self.first.arrays,
            grids,
            self.dimensions,
            self._record,
            suffix=self.places.ending,
            base_encoding=self.places.encoding.to_json(),
            as_group=self.as_group,
        )
        old = self.earlier.record
        if old is not None and old.moved and not self._stays_valid(dataset):
            raise self._unlike_moved()
        return dataset

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
        sources, names = self.dimensions.sources, self.dimensions.names
        placed = [
            (header.file.path, coords, arranged_shape(header.levels[level][1], of_file, sources))
            for header, (_, coords) in zip(all_headers, self._coords(), strict=True)
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
        path = self._paths(level + 1)[level]
        grid = self.earlier.grid(path, layout, self._record, self.places.ending)
        if grid is None:
            raise self._unlike_moved()
        for key, coords in kept_chunks(self.earlier, path, self._keys, grid):
            if coords not in new:
                yield key, coords, file_shape(grid, coords)

    # -- writing

    def _write(self, dataset: Dataset, headers: Headers, jobs: Jobs, progress: Progress) -> None:
        target = self.target
        written = self.earlier.written | ChunkKeys.of_documents(dict(dataset.documents))
        adopted = [] if self.in_place else [header.file for header in headers.all]
        target.begin(self.files, adopted, written.to_plan())
        self._retract(dataset, written)
        chunks = self._chunks(dataset, headers)
        with progress.counting("writing indexes", len(headers.all)) as count:
            for done in write_all(
                self.files, target, dataset.levels, self.dimensions.sources, chunks, jobs
            ):
                count(done)
        target.sync()
        for key, document in dataset.documents:
            if self.earlier.documents.get(key) != document:
                target.put(key, document_bytes(document))
        target.sync()
        if self._moves:
            self._delete_sources()
        target.end()

    def _delete_sources(self) -> None:
        for file in self.places.files:
            if not self.files.is_still(file):
                raise IndexingError(f"{file.path} was changed meanwhile: run it again")
            self.target.delete_source(self.files, file.path)

    def _retract(self, dataset: Dataset, written: ChunkKeys) -> None:
        """Delete what an earlier run stored and what is no longer true: documents first."""
        if not self._stays_valid(dataset):
            for key in sorted(self.earlier.documents, key=lambda key: key.count("/")):
                self.target.remove(key)
        if self._record.moved and self.earlier.record is not None:
            return
        wanted = {
            dataset.chunk_key(level, coords)
            for _, coords in self._coords()
            for level in range(len(dataset.levels))
        }
        # The index first: a chunk without it cannot be read.
        for key in sorted(
            self._stale(wanted, written), key=lambda key: not key.endswith(INDEX_SUFFIX)
        ):
            self.target.remove(key)

    def _chunks(self, dataset: Dataset, headers: Headers) -> Iterator[Chunk]:
        coords = {file.path: coords for file, coords in self._coords()}
        for header in headers.all:
            arrays = tuple(headers.arrays(header))[: len(dataset.levels)]
            keys = tuple(
                dataset.chunk_key(level, coords[header.file.path]) for level in range(len(arrays))
            )
            yield Chunk(header.file, arrays, keys, self.in_place)


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
        document["data_type"],
        len(files),
        0,
        first.bytes_read if first is not None else 0,
        sum(file.size for file in files),
    )
