"""Compares files with what is stored: which need not be read and written, what is left over, what is lost.

Used by `update`.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from zarrfuse.indexing.dataset import DOCUMENT
from zarrfuse.indexing.earlier import ChunkKeys, Earlier, file_shape
from zarrfuse.indexing.files import Files, FoundFile
from zarrfuse.indexing.grid import Grid
from zarrfuse.indexing.headers import Header
from zarrfuse.indexing.target import Target, Way
from zarrfuse.indexing.wanted import Wanted
from zarrfuse.shards.arrange import arranged
from zarrfuse.shards.documents import INDEX_SUFFIX
from zarrfuse.shards.layout import Layout
from zarrfuse.spec.paths import join


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is wanted beside what an earlier run has stored."""

    files: Files
    wanted: Wanted
    earlier: Earlier
    target: Target

    def is_as_stored(self) -> bool:
        """Whether the dataset was made of these files, as they are, by the same options."""
        earlier, wanted = self.earlier, self.wanted
        if earlier.is_begun or earlier.record != wanted.record:
            return False
        paths = earlier.levels
        document = earlier.documents[join(paths[0], DOCUMENT)]
        if (
            (paths != [""]) != wanted.as_group
            or tuple(document["dimension_names"]) != wanted.dimensions.names
            or earlier.suffix != wanted.places.ending
        ):
            return False
        all_keys = set()
        for file, coords in wanted.coordinates():
            keys = wanted.chunk_keys(coords, len(paths))
            if not self._is_unchanged(file, keys):
                return False
            all_keys.update(keys)
        return wanted.record.moved or not any(self.stale(all_keys, earlier.written))

    def unchanged(self) -> dict[str, Header]:
        """The headers of files that are stored as they are, by their paths. They are not read."""
        grids = None if self.earlier.is_begun else self._old_grids()
        if grids is None:
            return {}
        layouts = [array.layout for array in self.wanted.first.arrays]
        found = {}
        for file, coords in self.wanted.coordinates():
            if self._is_unchanged(file, self.wanted.chunk_keys(coords, len(layouts))):
                levels = tuple(
                    (layout, self._own_shape(layout, file_shape(grid, coords)))
                    for layout, grid in zip(layouts, grids, strict=False)
                )
                found[file.path] = Header(file, levels, -1)
        return found

    def stale(self, wanted: Set[str], written: ChunkKeys) -> Iterator[str]:
        """What is stored under keys of chunks, `written`, that are not among those `wanted`."""
        for key in written.among(self.earlier.stored):
            is_index = key.endswith(INDEX_SUFFIX)
            if key.removesuffix(INDEX_SUFFIX) not in wanted and (
                is_index or not self.wanted.in_place
            ):
                yield key

    def lost(self, wanted: Mapping[str, FoundFile], written: ChunkKeys) -> list[str]:
        """The chunks that a run would delete, or give to other files, and whose file is not in the folder.

        `wanted`: the file for each key; `written`: see `stale`. A file that has changed replaces itself:
        that is no loss, unless files were moved, since the one in the folder is another one then.
        """
        if self.wanted.in_place:
            return []
        moved = self.earlier.record is not None and self.earlier.record.moved
        last = self.earlier.last_record
        may_replace = not moved and last is not None and last.has_places_of(self.wanted.record)
        found = []
        for key in written.among(self.earlier.stored):
            file = wanted.get(key)
            if key.endswith(INDEX_SUFFIX) or (moved if file is None else may_replace):
                continue
            if file is None or not self.target.may_be_same(self.earlier.stored[key], file):
                found.append(key)
        return found and self.target.not_in(self.files, found)

    def _old_grids(self) -> list[Grid] | None:
        """The grids of all levels that are stored, if they hold files like the first one; else None."""
        wanted, grids = self.wanted, []
        arrays = wanted.first.arrays
        if len(self.earlier.levels) != len(arrays):
            return None
        for path, array in zip(wanted.paths(len(arrays)), arrays, strict=False):
            layout = arranged(array.layout, wanted.dimensions.sources, wanted.dimensions.names)
            grid = self.earlier.grid(path, layout, wanted.record, wanted.places.ending)
            if grid is None:
                return None
            grids.append(grid)
        return grids

    def _is_unchanged(self, file: FoundFile, keys: Sequence[str]) -> bool:
        old, new = self.earlier.record, self.wanted.record
        if old is not None and (old.way, new.way) == (Way.LINK.value, Way.COPY.value):
            return False  # copies are asked for
        return self.earlier.is_unchanged(self.target, file, keys, in_place=self.wanted.in_place)

    def _own_shape(self, layout: Layout, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of a file along its own axes."""
        sources = self.wanted.dimensions.sources
        return tuple(shape[sources.index(axis)] for axis in layout.axes)
