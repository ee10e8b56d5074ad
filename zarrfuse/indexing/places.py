"""Which files are indexed, and the place of each in the grid of chunks, by their names.

Used by `run`. It must not know what is in a file, nor where the dataset is written.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from zarrfuse.indexing.files import FoundFile
from zarrfuse.indexing.grid import Dimensions, GridError, Origin, dimensions_of, origin_of
from zarrfuse.indexing.names import (
    NamesError,
    Pattern,
    chunk_keys,
    guess_pattern,
    parse_pattern,
)
from zarrfuse.shards.reading import HDF5_ENDINGS, TIFF_ENDINGS, ending_of
from zarrfuse.spec.chunk_keys import ChunkKeyEncoding, DefaultEncoding

FILE_ENDINGS = (*TIFF_ENDINGS, *HDF5_ENDINGS)
_NO_ENDING = ".shard"
"""The ending of the names of chunks if files have none, since an index needs a name beside it."""
_SHOWN_WORDS = 6
_UNDECODED = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True, slots=True)
class Naming:
    """How names become places.

    Attributes:
        pattern: Of the names; None if they are the keys of chunks.
        fields: The names of the fields.
        words: Of each field, the words that it may stand for; empty for numbers.
        origin: How a number becomes a coordinate.
        encoding: The encoding of chunk keys that the names are; None if they are none.
        guessed: Whether the pattern was found out from the names.
    """

    pattern: str | None
    fields: tuple[str, ...]
    words: tuple[tuple[str, ...], ...]
    origin: Origin
    encoding: ChunkKeyEncoding | None = None
    guessed: bool = False

    @property
    def title(self) -> str:
        """For messages."""
        return "of chunks" if self.pattern is None else self.pattern


@dataclass(frozen=True, slots=True)
class Places:
    """Files and their places.

    Attributes:
        naming: How names became places.
        files: The files, in the order of their places.
        of_fields: For each file, a coordinate for each field.
        ending: Of the names of chunks: ".tif".
        ignored: Paths of files that do not belong to it.
        may_stay: Whether the files have the keys of chunks already.
    """

    naming: Naming
    files: tuple[FoundFile, ...]
    of_fields: tuple[tuple[int, ...], ...]
    ending: str
    ignored: tuple[str, ...]
    may_stay: bool

    @property
    def encoding(self) -> ChunkKeyEncoding:
        """The encoding of chunk keys of the dataset, without the ending."""
        return self.naming.encoding or DefaultEncoding("/")

    def dimensions(
        self, axes: Sequence[str], given: Sequence[str] | None, *, as_ngff: bool
    ) -> Dimensions:
        """The dimensions of the array of files with these axes; see `grid.dimensions_of`."""
        if self.naming.encoding is None:
            return dimensions_of(self.naming.fields, axes, given, as_ngff=as_ngff)
        ndim, own = len(self.naming.fields), len(axes)
        if ndim < own:
            raise GridError(
                f"{self.files[0].path} is the key of a chunk with {ndim} dimensions, and the file has "
                f"{own}: say with --pattern what its name means"
            )
        names = given or (*(f"dim_{n}" for n in range(ndim - own)), *axes)
        if len(names) != ndim or len(set(names)) < ndim or not all(names):
            raise GridError(
                f"--dims {','.join(names)} must name the {ndim} dimensions of the chunk keys"
            )
        sources = (*(None for _ in range(ndim - own)), *axes)
        return Dimensions(tuple(names), tuple(range(ndim)), sources)

    def described(self) -> Iterator[str]:
        """A line for each field, with what it stands for."""
        for number, (name, words) in enumerate(
            zip(self.naming.fields, self.naming.words, strict=True)
        ):
            found = sorted({coords[number] for coords in self.of_fields})
            first, step = self.naming.origin.first[number], self.naming.origin.step[number]
            values = [words[first + n * step] if words else str(first + n * step) for n in found]
            if len(values) > _SHOWN_WORDS:
                values = [*values[:3], "...", values[-1]]
            yield f"{name}: {', '.join(values)} ({len(found)})"
            if unused := [word for n, word in enumerate(words) if n not in found]:
                yield f"{name}: no file has {', '.join(unused)}"
        all_places = prod(
            max(column) - min(column) + 1 for column in zip(*self.of_fields, strict=True)
        )
        if all_places > len(self.files):
            yield f"places without a file: {all_places - len(self.files):,} of {all_places:,}"


def places_of(
    folder: str,
    found: Sequence[FoundFile],
    *,
    pattern: str | None,
    earlier: tuple[str | None, Origin] | None,
) -> Places:
    """The places of the files found in a folder.

    `pattern`: of their names; without one, all TIFF files, or all HDF5 files, belong to it. `earlier`: the
    pattern and origin of files that were moved away, which stay as they are. Raises `NamesError`.
    """
    files, ignored = _chosen(folder, found, pattern)
    naming, values = _named(files, pattern, earlier)
    belonging, of_fields = [], []
    for file, value in zip(files, values, strict=True):
        if value is None:
            ignored.append(file.path)
            continue
        coords = naming.origin.coordinates(value)
        if coords is None:
            raise NamesError(
                f"{file.path}: its numbers do not continue those of the files that were moved: "
                f"{naming.title} with the first numbers {naming.origin.first}"
            )
        belonging.append(file)
        of_fields.append(coords)
    _check_different(belonging, of_fields)
    for file in belonging:
        if _UNDECODED.search(ending_of(file.path)):
            raise NamesError(f"{file.path}: its ending is not UTF-8, and that of a key has to be")
    order = sorted(range(len(belonging)), key=of_fields.__getitem__)
    endings = {ending_of(file.path) for file in belonging}
    return Places(
        naming,
        tuple(belonging[n] for n in order),
        tuple(of_fields[n] for n in order),
        ending_of(belonging[order[0]].path) or _NO_ENDING,
        tuple(ignored),
        may_stay=naming.encoding is not None and len(endings) == 1,
    )


def _chosen(
    folder: str, found: Sequence[FoundFile], pattern: str | None
) -> tuple[list[FoundFile], list[str]]:
    if pattern is not None:
        return list(found), []
    for endings in (TIFF_ENDINGS, HDF5_ENDINGS):
        files = [file for file in found if file.path.lower().endswith(endings)]
        if files:
            chosen = {file.path for file in files}
            return files, [
                file.path
                for file in found
                if file.path not in chosen and file.path.lower().endswith(FILE_ENDINGS)
            ]
    raise NamesError(
        f"there are no TIFF files in {folder} ({', '.join(TIFF_ENDINGS)}), and no HDF5 files "
        f"({', '.join(HDF5_ENDINGS)}): for other names give a --pattern"
    )


def _named(
    files: Sequence[FoundFile], text: str | None, earlier: tuple[str | None, Origin] | None
) -> tuple[Naming, list[tuple[int, ...] | None]]:
    paths = [file.path for file in files]
    given = text if text is not None or earlier is None else earlier[0]
    if given is None:
        ending = ending_of(paths[0])
        keys = chunk_keys(paths, ending)
        if keys is not None and all(path.endswith(ending) for path in paths):
            encoding, ndim = keys
            return _as_keys(paths, ending, encoding, ndim)
        if earlier is not None:
            raise NamesError(
                f"{paths[0]}: the files that were moved had the names of chunks, and this one has not"
            )
        pattern = _guessed(paths)
    else:
        pattern = parse_pattern(given)
    values = [pattern.values(path) for path in paths]
    known = [value for value in values if value is not None]
    if not known:
        raise NamesError(
            f"no file has a name like {pattern.text}; "
            + (f"there is {paths[0]}" if paths else "there are none")
        )
    origin = earlier[1] if earlier is not None and earlier[0] == pattern.text else origin_of(known)
    origin = _of_words(origin, pattern)
    naming = Naming(pattern.text, pattern.fields, pattern.words, origin, guessed=text is None)
    return naming, values


def _guessed(paths: Sequence[str]) -> Pattern:
    """The pattern of files that may have different endings."""
    endings = [ending_of(path) for path in paths]
    if len(set(endings)) < 2:
        return guess_pattern(paths)
    stems = [path.removesuffix(ending) for path, ending in zip(paths, endings, strict=True)]
    return parse_pattern(guess_pattern(stems).text + ".*")


def _of_words(origin: Origin, pattern: Pattern) -> Origin:
    """The same, but words are counted from the first one of the pattern."""
    first = (0 if words else n for n, words in zip(origin.first, pattern.words, strict=True))
    step = (1 if words else n for n, words in zip(origin.step, pattern.words, strict=True))
    return Origin(tuple(first), tuple(step))


def _as_keys(
    paths: Sequence[str], ending: str, encoding: ChunkKeyEncoding, ndim: int
) -> tuple[Naming, list[tuple[int, ...] | None]]:
    values = [encoding.decode(path.removesuffix(ending), ndim) for path in paths]
    fields = tuple(f"dim_{n}" for n in range(ndim))
    naming = Naming(
        None,
        fields,
        ((),) * ndim,
        Origin((0,) * ndim, (1,) * ndim),
        encoding,
    )
    return naming, values


def _check_different(files: Sequence[FoundFile], of_fields: Sequence[tuple[int, ...]]) -> None:
    seen: dict[tuple[int, ...], str] = {}
    for file, coords in zip(files, of_fields, strict=True):
        other = seen.setdefault(coords, file.path)
        if other != file.path:
            raise NamesError(f"{other} and {file.path} have the same numbers, so the same place")
