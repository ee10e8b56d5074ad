"""`zarrfuse index`: from a folder of files to a dataset.

Owns the order of work: find the files and their places, read all headers, refuse what does not fit, and
only then write: chunks, then documents. Used by `cli` and `zarrfuse.index`.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from zarrfuse.config import RemoteConfig
from zarrfuse.errors import ZarrfuseError
from zarrfuse.indexing.dataset import Dataset, Record, dataset_of, stays_valid
from zarrfuse.indexing.earlier import Earlier, earlier_of, file_shape, kept_chunks
from zarrfuse.indexing.files import Files, FoundFile
from zarrfuse.indexing.grid import Dimensions, Grid, GridError, common_layout, grid_of_files
from zarrfuse.indexing.headers import Header, Headers, ReadFile, read_all, read_file
from zarrfuse.indexing.ngff import check_dimensions
from zarrfuse.indexing.places import Places, places_of
from zarrfuse.indexing.progress import Progress
from zarrfuse.indexing.target import Target, Way, target_of
from zarrfuse.indexing.writing import Chunk, write_all
from zarrfuse.jobs.base import Jobs
from zarrfuse.jobs.opening import open_jobs
from zarrfuse.shards.arrange import arranged, arranged_shape
from zarrfuse.shards.documents import INDEX_SUFFIX, document_bytes
from zarrfuse.shards.layout import Layout
from zarrfuse.spec.chunk_keys import SuffixEncoding
from zarrfuse.spec.paths import join
from zarrfuse.stores.opening import is_url, printable_source

_SHOWN_PROBLEMS = 20
_MOST_PROCESSES = 8


class IndexingError(ZarrfuseError):
    """Files that cannot be indexed; nothing was written."""


@dataclass(frozen=True, slots=True)
class Options:
    """What is to be indexed, and how. Paths are absolute.

    Attributes:
        folder: The folder of the files: a path or a URL.
        out: The dataset; None: beside the folder, or in it if the files have the names of chunks.
        pattern: Of the names of the files; None: found out.
        dims: The names of all dimensions; None: by pattern and files.
        way: How files get the keys of chunks.
        ngff: Whether the dataset is a group with OME-NGFF metadata.
        dataset: The dataset in each HDF5 file.
        dry_run: Whether nothing is to be written.
        processes: How many processes of this machine work.
        scheduler: The Dask scheduler that works instead.
        remote: How URLs are read and written.
    """

    folder: str
    out: str | None = None
    pattern: str | None = None
    dims: tuple[str, ...] | None = None
    way: Way = Way.LINK
    ngff: bool = False
    dataset: str | None = None
    dry_run: bool = False
    processes: int = 1
    scheduler: str | None = None
    remote: RemoteConfig = field(default_factory=RemoteConfig, repr=False)


def options_of(
    folder: str,
    out: str | None,
    *,
    pattern: str | None,
    dims: Sequence[str] | None,
    way: str,
    ngff: bool,
    dataset: str | None,
    dry_run: bool,
    jobs: int | None,
    scheduler: str | None,
    remote: RemoteConfig,
) -> Options:
    """The options for arguments as users give them: relative paths, and all cores by default."""
    return Options(
        _absolute(folder),
        None if out is None else _absolute(out),
        pattern,
        None if dims is None else tuple(dims),
        Way(way),
        ngff,
        dataset,
        dry_run,
        jobs or min(_MOST_PROCESSES, os.cpu_count() or 1),
        scheduler,
        remote,
    )


def _absolute(path: str) -> str:
    return path.rstrip("/") if is_url(path) else os.path.realpath(path)


@dataclass(frozen=True, slots=True)
class Summary:
    """What was indexed: where, as what, and how many files and bytes were read."""

    out: str
    names: tuple[str, ...]
    shape: tuple[int, ...]
    data_type: str
    files: int
    read: int
    header_bytes: int
    file_bytes: int


def index(options: Options, progress: Progress) -> Summary | None:
    """Index a folder; None if the user did not agree to how it was to be done.

    Raises an exception of `errors`; before anything is written, unless a store fails.
    """
    files = Files(options.folder, options.remote)
    beside = options.folder.rstrip("/") + ".zarr"
    found = list(files.found(_below(options.folder, options.out or beside)))
    earlier = earlier_of(target_of(options.out or beside, options.remote, options.way))
    moved = earlier.record if earlier.record is not None and earlier.record.moved else None
    places = places_of(
        options.folder,
        found,
        pattern=options.pattern,
        earlier=None if moved is None else (moved.pattern, moved.origin),
    )
    in_place = places.may_stay and options.out in (None, options.folder)
    out = options.out or (options.folder if in_place else beside)
    target = target_of(out, options.remote, options.way)
    if in_place:
        earlier = earlier_of(target)
    _check_target(out, target, earlier, {file.path for file in found} if in_place else set())
    first = read_file(files, options.dataset, places.files[0])
    if first.problem is not None:
        raise IndexingError(first.problem)
    as_group = options.ngff or len(first.arrays) > 1
    if as_group and in_place:
        raise IndexingError(
            f"{options.folder} has the names of chunks of one array, and an image with levels is a group: "
            "say with --out where to write it"
        )
    axes = first.arrays[0].layout.axes
    dimensions = places.dimensions(axes, options.dims, as_ngff=as_group)
    _show(places, dimensions, out, progress)
    left_out = first.arrays[0].attributes.get("tiff", {}).get("left_out")
    if left_out:
        progress.say(f"left out, of each file: {', '.join(left_out)}")
    if as_group:
        check_dimensions(dimensions.names)
    if (
        places.naming.guessed
        and not options.dry_run
        and not progress.agrees("Is this what the names mean?")
    ):
        return None
    with open_jobs(options.processes, options.scheduler) as jobs, closing(Headers()) as headers:
        run = _Run(
            options, files, target, out, places, dimensions, earlier, first, as_group, in_place
        )
        return run.carry_out(jobs, headers, progress)


def _below(folder: str, out: str) -> str:
    """The path of the dataset below the folder of the files; "" if it is not there."""
    above = folder.rstrip("/") + "/"
    return out.removeprefix(above).strip("/") if out.startswith(above) else ""


def _check_target(out: str, target: Target, earlier: Earlier, own: set[str]) -> None:
    """Raises `IndexingError` if something else is stored there."""
    others = [key for key in earlier.stored if key not in own]
    if earlier.record is None and others and not target.is_begun():
        raise IndexingError(
            f"{printable_source(out)} exists, with {others[0]}, and was not made by `zarrfuse index`: give "
            "another --out"
        )


def _show(places: Places, dimensions: Dimensions, out: str, progress: Progress) -> None:
    progress.say(f"{len(places.files):,} files with the names {places.naming.title}")
    for line in places.described():
        progress.say(f"  {line}")
    if places.ignored:
        example = places.ignored[0]
        progress.say(f"left out: {len(places.ignored):,} with other names, such as {example}")
    names = ",".join(dimensions.names)
    progress.say(f"dimensions: {names}; to be written to {printable_source(out)}")


@dataclass(frozen=True, slots=True)
class _Run:
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
        unchanged = self._unchanged()
        changed = [file for file in self.places.files if file.path not in unchanged]
        header_bytes = self._read(changed, headers, jobs, progress)
        by_path = {header.file.path: header for header in headers.all} | unchanged
        dataset = self._dataset([by_path[file.path] for file in self.places.files], progress)
        if not self.options.dry_run:
            self._write(dataset, headers, jobs, progress)
        level = dataset.levels[0]
        return Summary(
            self.out,
            self.dimensions.names,
            level.grid.shape,
            level.layout.data_type,
            len(self.places.files),
            len(changed),
            header_bytes,
            sum(file.size for file in self.places.files),
        )

    # -- reading

    @property
    def _record(self) -> Record:
        naming, old = self.places.naming, self.earlier.record
        moved = self.options.way is Way.MOVE or (old is not None and old.moved)
        return Record(naming.title, naming.fields, naming.origin, moved and not self.in_place)

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
            if self.earlier.is_unchanged(self.target, file, [join(path, key) for path in paths]):
                levels = tuple(
                    (layout, self._own_shape(layout, file_shape(grid, coords)))
                    for layout, grid in zip(layouts, grids, strict=False)
                )
                found[file.path] = Header(file, levels, -1)
        return found

    def _own_shape(self, layout: Layout, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of a file along its own axes."""
        sources = self.dimensions.sources
        return tuple(shape[sources.index(axis)] for axis in layout.axes)

    def _read(
        self, changed: Sequence[FoundFile], headers: Headers, jobs: Jobs, progress: Progress
    ) -> int:
        """Read the headers of files; the number of bytes read. Raises `IndexingError`."""
        problems: list[str] = []
        bytes_read = self.first.bytes_read
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

    def _dataset(self, all_headers: Sequence[Header], progress: Progress) -> Dataset:
        grids: list[tuple[Layout, Grid]] = []
        for level in range(min(len(header.levels) for header in all_headers)):
            try:
                grids.append(self._level(level, all_headers))
            except GridError as error:
                if level == 0:
                    raise
                progress.say(f"level {level} of the pyramids is left out: {error}")
                break
        return dataset_of(
            self.out.rstrip("/").rpartition("/")[2].removesuffix(".zarr").removesuffix(".ome"),
            self.first.arrays,
            grids,
            self.dimensions,
            self._record,
            suffix=self.places.ending,
            base_encoding=self.places.encoding.to_json(),
            as_group=self.as_group,
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
            raise GridError(
                f"the files that were moved to {self.out} are not like these: give another --out"
            )
        for key, coords in kept_chunks(self.earlier, path, self._keys, len(layout.axes)):
            if coords not in new:
                yield key, coords, file_shape(grid, coords)

    # -- writing

    def _write(self, dataset: Dataset, headers: Headers, jobs: Jobs, progress: Progress) -> None:
        target = self.target
        example = headers.all[0].file.path if headers.all and not self.in_place else None
        target.begin(self.files, example)
        self._retract(dataset)
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
        if self.options.way is Way.MOVE and not self.in_place:
            target.sync()
            for file in self.places.files:
                self.target.delete_source(self.files, file.path)
        target.end()

    def _retract(self, dataset: Dataset) -> None:
        """Delete what an earlier run stored and what is no longer true: documents first."""
        new = dict(dataset.documents)
        valid = all(
            key in new and stays_valid(document, new[key])
            for key, document in self.earlier.documents.items()
        )
        if not valid:
            for key in sorted(self.earlier.documents, key=lambda key: key.count("/")):
                self.target.remove(key)
        if self._record.moved:
            return
        wanted = {
            dataset.chunk_key(level, coords)
            for _, coords in self._coords()
            for level in range(len(dataset.levels))
        }
        stale = [
            key
            for key in self.earlier.stored
            if key.removesuffix(INDEX_SUFFIX) not in wanted and dataset.is_chunk(key)
        ]
        # The index first: a chunk without it cannot be read.
        for key in sorted(stale, key=lambda key: not key.endswith(INDEX_SUFFIX)):
            self.target.remove(key)

    def _chunks(self, dataset: Dataset, headers: Headers) -> Iterator[Chunk]:
        coords = {file.path: coords for file, coords in self._coords()}
        for header in headers.all:
            arrays = tuple(headers.arrays(header))[: len(dataset.levels)]
            keys = tuple(
                dataset.chunk_key(level, coords[header.file.path]) for level in range(len(arrays))
            )
            yield Chunk(header.file, arrays, keys, self.in_place)
