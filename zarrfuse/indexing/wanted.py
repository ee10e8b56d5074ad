"""What the files of a folder are to become: known once their places and the header of the first are.

Used by `run`, `comparison` and `update`. It must not know what is stored.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from zarrfuse.indexing.dataset import Record
from zarrfuse.indexing.files import FoundFile
from zarrfuse.indexing.grid import Dimensions
from zarrfuse.indexing.headers import ReadFile
from zarrfuse.indexing.places import Places
from zarrfuse.spec.chunk_keys import SuffixEncoding
from zarrfuse.spec.paths import join


@dataclass(frozen=True, slots=True)
class Wanted:
    """Arrays whose chunks are these files.

    Attributes:
        places: Of the files.
        dimensions: Of the arrays.
        first: What was read of the first file.
        record: What the arrays record of this run.
        as_group: Whether they are the levels of an image, which is a group.
        in_place: Whether the files have the keys of chunks already.
    """

    places: Places
    dimensions: Dimensions
    first: ReadFile
    record: Record
    as_group: bool
    in_place: bool

    def coordinates(self) -> Iterator[tuple[FoundFile, tuple[int, ...]]]:
        """Each file with the coordinates of its chunk."""
        for file, of_fields in zip(self.places.files, self.places.of_fields, strict=True):
            yield file, self.dimensions.coordinates(of_fields)

    @property
    def keys(self) -> SuffixEncoding:
        """How coordinates become keys."""
        return SuffixEncoding(self.places.ending, self.places.encoding)

    def paths(self, count: int) -> list[str]:
        """The paths of the arrays of so many levels."""
        return [str(level) for level in range(count)] if self.as_group else [""]

    def chunk_keys(self, coordinates: tuple[int, ...], count: int) -> list[str]:
        """The keys of a file, one for each level."""
        key = self.keys.encode(coordinates)
        return [join(path, key) for path in self.paths(count)]
