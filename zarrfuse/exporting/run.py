"""One export, from the path of an array to a finished folder.

Owns the order: file by file, or several small files at a time. Used by `cli` and `zarrfuse.export`.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from itertools import islice, product
from math import prod

from zarrfuse.config import RemoteConfig
from zarrfuse.exporting.file_format import FileFormat
from zarrfuse.exporting.folder import ExportFolder, begun
from zarrfuse.exporting.hdf5 import HDF5, Hdf5Format
from zarrfuse.exporting.plan import Abilities, Options, Plan, plan_of
from zarrfuse.exporting.progress import Progress
from zarrfuse.exporting.source import Coords, SourceArray, opened_array
from zarrfuse.exporting.tiff import TIFF, TiffFormat
from zarrfuse.exporting.tiles import Tile, Tiles, TileSource
from zarrfuse.shards.documents import HEADER_SUFFIX, INDEX_SUFFIX
from zarrfuse.shards.index import index_bytes
from zarrfuse.shards.layout import Refused
from zarrfuse.stores.opening import is_url

FORMATS: Mapping[str, tuple[Abilities, Callable[[Plan, str], FileFormat]]] = {
    "tiff": (TIFF, TiffFormat),
    "hdf5": (HDF5, Hdf5Format),
}
"""What a format can hold, and what makes it for a plan and the title of the array, by its name."""

_THREADS = min(16, 4 + (os.cpu_count() or 1))
_SMALL_BYTES = 16 << 20
"""Files of at most so many bytes of pixels are written several at a time, each by one thread."""


def export_array(
    array: str,
    folder: str,
    options: Options,
    *,
    remote: RemoteConfig | None = None,
    dry_run: bool = False,
    told: Callable[[str], None] = lambda _: None,
    shown: Callable[[Progress], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> None:
    """Export the array at a path to a folder; see `zarrfuse.export`.

    `dry_run`: only say what would be written. `told`: called with lines for people; `shown`: makes the
    block in which files are written.
    """
    if options.format not in FORMATS:
        raise Refused(f"{options.format} is not one of {', '.join(FORMATS)}")
    with opened_array(array, remote) as source:
        abilities, make = FORMATS[options.format]
        plan = plan_of(source.name, source.node, source.dtype, source.picture, options, abilities)
        format_ = make(plan, source.title)
        problem = format_.problem(plan)
        if problem is not None:
            raise Refused(f"{source.name}: {problem}")
        if plan.anew is not None:
            source.open_pixels()
        told(f"{prod(plan.grid):,} {plan.told()}")
        if dry_run:
            return
        document = plan.document(format_.suffix, format_.header_size)
        record = {
            "exported": source.name if is_url(array) else os.path.realpath(array),
            "encoded_anew": plan.anew is not None,
            "zarr.json": document,
        }
        progress = Progress(prod(plan.shape) * plan.dtype.itemsize)
        with begun(folder, record) as target:
            with shown(progress):
                _Export(plan, source, format_, target, progress).write_all()
            target.finish(document)
        told(progress.summary())


class _Export:
    """The files of one export."""

    def __init__(
        self,
        plan: Plan,
        source: SourceArray,
        format_: FileFormat,
        folder: ExportFolder,
        progress: Progress,
    ) -> None:
        self._plan = plan
        self._source = source
        self._format = format_
        self._folder = folder
        self._progress = progress

    def write_all(self) -> None:
        """Write the files that are missing."""
        plan = self._plan
        executor = ThreadPoolExecutor(_THREADS)
        try:
            tiles = TileSource(plan, self._source, executor)
            every = product(*map(range, plan.grid))
            if prod(plan.chunk_shape) * plan.dtype.itemsize > _SMALL_BYTES:
                for coords in every:
                    self._write(coords, tiles, alone=True)
            else:
                self._write_small(every, tiles, executor)
        finally:
            # After an error or Ctrl-C, not one more file is begun.
            executor.shutdown(wait=True, cancel_futures=True)

    def _write_small(
        self, every: Iterator[Coords], tiles: TileSource, executor: ThreadPoolExecutor
    ) -> None:
        pending: deque[Future[None]] = deque()

        def begin(count: int) -> None:
            for coords in islice(every, count):
                pending.append(executor.submit(self._write, coords, tiles, alone=False))

        begin(2 * _THREADS)
        while pending:
            pending.popleft().result()
            begin(1)

    def _write(self, coords: Coords, tiles: TileSource, *, alone: bool) -> None:
        plan, folder = self._plan, self._folder
        key = "/".join(map(str, ("c", *coords))) + self._format.suffix
        suffixes = [""] if self._format.header_size is None else [HEADER_SUFFIX, ""]
        pixel_bytes = prod(plan.file_shape(coords)) * plan.dtype.itemsize
        if folder.is_complete(key, suffixes, plan.inner_grid):
            self._progress.add(kept=1, pixel_bytes=pixel_bytes)
            return
        found = tiles.of(coords, alone=alone)
        if found is None:
            self._progress.add(empty=1, pixel_bytes=pixel_bytes)
            return
        counted = _Counted(found, pixel_bytes, prod(plan.inner_grid), self._progress)
        with ExitStack() as files:
            header = None
            if self._format.header_size is not None:
                header = files.enter_context(folder.new_file(key + HEADER_SUFFIX))
            main = files.enter_context(folder.new_file(key))
            offsets, sizes = self._format.write(main, header, coords, counted.tiles)
            size = main.seek(0, os.SEEK_END)
        with folder.new_file(key + INDEX_SUFFIX) as index:
            index.write(index_bytes(offsets, sizes))
        counted.end()
        self._progress.add(written=1, stored_bytes=size)


class _Counted:
    """The tiles of a file, whose pixels are counted while they are written."""

    def __init__(self, tiles: Tiles, pixel_bytes: int, count: int, progress: Progress) -> None:
        self.tiles = replace(tiles, made=self._made(tiles.made))
        self._each = pixel_bytes // count
        self._left = pixel_bytes
        self._progress = progress

    def _made(self, tiles: Iterator[Tile]) -> Iterator[Tile]:
        for tile in tiles:
            yield tile
            self._add(len(tile.places) * self._each)

    def end(self) -> None:
        """The file is complete."""
        self._add(self._left)

    def _add(self, pixel_bytes: int) -> None:
        self._left -= pixel_bytes
        self._progress.add(pixel_bytes=pixel_bytes)
