"""The `concat-parts` storage transformer: a chunk is stored as parts under several keys.

Owns the arithmetic between a merged chunk and its parts: keys, sizes, the pieces of a read, and the check
that the parts of one chunk cannot be taken for another chunk. Used by the parsers of nodes, and by views.
It must not know stores or bytes.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Any, ClassVar, Self

from zarrfuse.errors import MetadataError, PartsDoNotFit
from zarrfuse.spec.chunk_keys import ChunkKeyEncoding, key_problem, sample_keys, suffix_problem
from zarrfuse.spec.members import (
    refuse_unknown,
    shown,
    take_array,
    take_integer,
    take_object,
    take_string,
)

# Limits, so that hostile metadata are refused in seconds: stacked transformers multiply their parts (ten
# with ten parts each make 10^10), and suffixes that end in others have to be compared.
_MAX_PARTS = 100_000
_MAX_STACKED = 32
_MAX_CHARACTERS = 4_000_000
_MAX_ENDINGS = 500_000
# No store takes a longer key: S3 1,024 bytes, file systems 255 per segment.
_MAX_SUFFIX_CHARACTERS = 1024


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a chunk: the suffix of its key, and its size in bytes, if the metadata give it."""

    key_suffix: str
    size: int | None

    @classmethod
    def from_json(cls, value: object, member: str) -> Self:
        """Parse a part. Raises `MetadataError` that starts with `member`."""
        part = take_object(value, member)
        refuse_unknown(part, {"key_suffix", "size"}, member)
        if "key_suffix" not in part:
            raise MetadataError(f"{member}: key_suffix: is missing")
        key_suffix = take_string(part["key_suffix"], f"{member}: key_suffix")
        if len(key_suffix) > _MAX_SUFFIX_CHARACTERS:
            raise MetadataError(
                f"{member}: key_suffix: has {len(key_suffix)} characters, "
                f"more than the {_MAX_SUFFIX_CHARACTERS} that stores take"
            )
        if problem := suffix_problem(key_suffix):
            raise MetadataError(f"{member}: key_suffix: {shown(key_suffix)} {problem}")
        if "size" not in part:
            return cls(key_suffix, None)
        return cls(key_suffix, take_integer(part["size"], f"{member}: size", minimum=0))

    @property
    def title(self) -> str:
        """The part as a message names it."""
        return f"part `{self.key_suffix}`" if self.key_suffix else "the main part"

    def to_json(self) -> dict[str, Any]:
        """The object for this part in a `zarr.json`."""
        sized = {} if self.size is None else {"size": self.size}
        return {"key_suffix": self.key_suffix, **sized}


@dataclass(frozen=True)
class ConcatParts:
    """One `concat-parts` transformer: the parts of a chunk, in the order of its bytes.

    Source: Concatenate Parts Storage Transformer 0.1, Configuration.
    """

    name: ClassVar[str] = "concat-parts"
    aliases: ClassVar[tuple[str, ...]] = ()
    parts: tuple[Part, ...]

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> Self:
        """The transformer with this configuration.

        Raises `MetadataError` for an empty list, two parts with the same key, a negative size, a suffix
        that makes keys which cannot be stored, or a wrong JSON type.
        """
        refuse_unknown(configuration, {"parts"})
        if "parts" not in configuration:
            raise MetadataError("parts: is missing")
        values = take_array(configuration["parts"], "parts")
        if not values:
            raise MetadataError("parts: must list one or more parts")
        parts = tuple(Part.from_json(value, f"parts[{i}]") for i, value in enumerate(values))
        _refuse_one_key_twice(parts)
        return cls(parts)


@dataclass(frozen=True)
class StoredParts:
    """The stored parts of a chunk after all transformers of an array; made by `stack`.

    `leaves`: the stored parts in the order of the bytes of the merged chunk, each with its whole key
    suffix, and with its size if the metadata give it or it follows from them. `sums`: the sizes of several
    leaves together, some of them of open size: (first leaf, last leaf + 1, bytes).
    """

    leaves: tuple[Part, ...]
    sums: tuple[tuple[int, int, int], ...] = ()

    @cached_property
    def writable(self) -> bool:
        """Whether a chunk can be split: at most one leaf is of open size.

        A transformer may have two parts of open size, if the next one gives the sizes of both.
        """
        return sum(leaf.size is None for leaf in self.leaves) <= 1

    @cached_property
    def nested(self) -> tuple[str, ...]:
        """The key suffixes of the leaves that are stored in another folder than the chunk's key."""
        return tuple(leaf.key_suffix for leaf in self.leaves if "/" in leaf.key_suffix)

    @cached_property
    def _by_suffix(self) -> tuple[dict[str, int], tuple[int, ...]]:
        """The leaves by key suffix, and the distinct lengths of these suffixes, ascending."""
        by_suffix = {leaf.key_suffix: index for index, leaf in enumerate(self.leaves)}
        return by_suffix, tuple(sorted({len(suffix) for suffix in by_suffix}))

    def candidates(self, key: str) -> Iterator[tuple[str, int]]:
        """(the chunk's key, leaf index) for each leaf whose suffix a stored `key` ends in.

        The chunk's key has to be checked with the key encoding. Costs one lookup for each distinct length
        of a suffix, not for each leaf.
        """
        by_suffix, lengths = self._by_suffix
        for length in lengths:
            stem = len(key) - length
            if stem <= 0:
                return
            index = by_suffix.get(key[stem:])
            if index is not None:
                yield key[:stem], index

    def split(self, nbytes: int) -> list[tuple[int, int]]:
        """[start, stop) of each leaf in a merged chunk of `nbytes` bytes; one of open size gets the rest.

        Raises `PartsDoNotFit` (Concatenate Parts Storage Transformer, Description, write).
        """
        open_ones = sum(leaf.size is None for leaf in self.leaves)
        if open_ones > 1:
            raise PartsDoNotFit(f"{open_ones} parts are of open size, so a chunk cannot be split")
        rest = nbytes - sum(leaf.size or 0 for leaf in self.leaves)
        if rest < 0 or (rest > 0 and not open_ones):
            bound = f"{'at least' if open_ones else 'exactly'} {nbytes - rest}"
            raise PartsDoNotFit(
                f"a chunk of {nbytes} bytes does not fit its parts, which take {bound}"
            )
        stops = list(accumulate(rest if leaf.size is None else leaf.size for leaf in self.leaves))
        return list(zip([0, *stops], stops, strict=False))

    def problem(self, sizes: Sequence[int | None]) -> str | None:
        """What is wrong with a chunk whose leaves have these stored sizes, as a clause, or None.

        `sizes`: one for each leaf, in bytes, None for a missing leaf. A chunk without any leaf is absent,
        not broken; the caller has to exclude it.
        """
        stored = []
        for leaf, size in zip(self.leaves, sizes, strict=True):
            if size is None:
                return f"{leaf.title} is missing"
            if leaf.size is not None and size != leaf.size:
                return f"{leaf.title} has {size} bytes, its declared size is {leaf.size}"
            stored.append(size)
        for start, stop, size in self.sums:
            found = sum(stored[start:stop])
            if found != size:
                return (
                    f"{self.leaves[start].title} to {self.leaves[stop - 1].title} have {found} "
                    f"bytes together, their declared size is {size}"
                )
        return None


def stack(transformers: Sequence[ConcatParts]) -> StoredParts:
    """The stored parts of a chunk after all `transformers`.

    The first is next to the codecs: it splits the chunk, and each following one splits every part of the
    one before. So a stored key is the chunk's key, the suffix of the first, that of the second and so on.
    Raises `MetadataError` if two stored parts have the same key, if sizes contradict each other, or if
    there are more than 100,000 parts.
    """
    if len(transformers) > _MAX_STACKED:
        raise MetadataError(f"more than {_MAX_STACKED} transformers are stacked")
    if prod(len(transformer.parts) for transformer in transformers) > _MAX_PARTS:
        raise MetadataError(f"parts: a chunk has more than {_MAX_PARTS} stored parts")

    # `levels[k]` are the parts after transformer k, suffixes joined, in the order of the bytes. Each
    # part of a level is split into as many parts of the next level as transformer k + 1 has.
    levels = [[Part("", None)]]
    for transformer in transformers:
        levels.append(
            [
                Part(before.key_suffix + part.key_suffix, part.size)
                for before in levels[-1]
                for part in transformer.parts
            ]
        )
        if sum(len(part.key_suffix) for part in levels[-1]) > _MAX_CHARACTERS:
            raise MetadataError(f"parts: key suffixes have more than {_MAX_CHARACTERS} characters")
    counts = [len(transformer.parts) for transformer in transformers]
    _infer_sums(levels, counts)
    sums = _infer_rests(levels, counts)
    leaves = tuple(levels[-1])
    _refuse_one_key_twice(leaves)
    return StoredParts(leaves, sums)


def _infer_sums(levels: list[list[Part]], counts: list[int]) -> None:
    """Set the size of each part to the sum of its own parts, if all of these have a size.

    Raises `MetadataError` if that sum contradicts a declared size.
    """
    for level in reversed(range(len(counts))):
        count = counts[level]
        for index, part in enumerate(levels[level]):
            inner = levels[level + 1][index * count : (index + 1) * count]
            total = 0
            for piece in inner:
                if piece.size is None:
                    break
                total += piece.size
            else:
                if part.size is None:
                    levels[level][index] = Part(part.key_suffix, total)
                elif part.size != total:
                    raise MetadataError(
                        f"parts: {part.title} has the size {part.size}, "
                        f"but its own parts have {total} bytes"
                    )


def _infer_rests(levels: list[list[Part]], counts: list[int]) -> tuple[tuple[int, int, int], ...]:
    """Set the size of the one part of open size within a part of known size to the rest of that.

    With several of open size only the sum is known, which is returned as (first leaf, last leaf + 1,
    bytes). Raises `MetadataError` for a negative rest.
    """
    sums = []
    leaves = len(levels[-1])
    for level, count in enumerate(counts):
        width = leaves // len(levels[level])
        for index, part in enumerate(levels[level]):
            if part.size is None:
                continue
            inner = range(index * count, (index + 1) * count)
            pieces = levels[level + 1]
            open_ones = [i for i in inner if pieces[i].size is None]
            if not open_ones:
                continue
            left = part.size - sum(pieces[i].size or 0 for i in inner)
            if left < 0:
                raise MetadataError(
                    f"parts: {part.title} has the size {part.size}, "
                    f"but its own parts have at least {part.size - left} bytes"
                )
            if len(open_ones) == 1:
                pieces[open_ones[0]] = Part(pieces[open_ones[0]].key_suffix, left)
            else:
                sums.append((index * width, (index + 1) * width, part.size))
    return tuple(sums)


def _refuse_one_key_twice(parts: Sequence[Part]) -> None:
    seen = set()
    for part in parts:
        if part.key_suffix in seen:
            raise MetadataError(f"parts: key_suffix: {shown(part.key_suffix)} is listed twice")
        seen.add(part.key_suffix)


class Layout:
    """The offsets of the parts in a merged chunk, for many reads of it.

    `sizes`: the stored sizes in bytes, in order. `size`: the size of the merged chunk.
    """

    __slots__ = ("_parts", "_starts", "size")

    def __init__(self, sizes: Sequence[int]) -> None:
        # Empty parts are left out, so that no read has to skip them.
        self._parts = [index for index, size in enumerate(sizes) if size]
        self._starts = [0, *accumulate(sizes[index] for index in self._parts)]
        self.size = self._starts[-1]

    def pieces(self, offset: int, size: int) -> list[tuple[int, int, int]]:
        """(part index, offset in the part, bytes) for each part that a range of the chunk touches.

        The range is clipped at the end of the merged chunk; `offset` is not negative. No piece is empty.
        Costs a binary search, and one step for each piece.
        """
        stop = min(offset + size, self.size)
        if offset >= stop:
            return []
        starts = self._starts
        at = bisect_right(starts, offset) - 1
        found = []
        while offset < stop:
            end = min(stop, starts[at + 1])
            found.append((self._parts[at], offset - starts[at], end - offset))
            offset = end
            at += 1
        return found


def check_part_keys(parts: StoredParts, encoding: ChunkKeyEncoding, ndim: int) -> None:
    """Raises `MetadataError` if the key of a part could be that of another chunk, its part, or metadata.

    That is: if for two chunks a and b the key of a part of a is the key of b or of a part of b, or if the
    key of a part cannot be stored, or ends in a metadata name.
    """
    # key(a) + s = key(b) + t for two different chunks needs suffixes of different lengths; say s is
    # the longer. Then s = x + t with x not empty, and key(a) + x = key(b). (t = "" stands for the
    # key of b itself, whether or not there is a main part.)
    #
    # So for each x: is there a key that, followed by x, is the key of another chunk? In an encoding made
    # of decimal numbers, every key has the same number of separators. So x can only add digits to the
    # last number, in front of the suffix of the encoding; and if such digits turn any number into another
    # canonical number, they do so with 1. Hence it is enough to try the chunk 1, 1, .... The chunks
    # 0, 0, ... and 10, 10, ... are tried for encodings of plug-ins.
    keys = dict.fromkeys(sample_keys(encoding, ndim))
    first = next(iter(keys))
    suffixes = {leaf.key_suffix for leaf in parts.leaves} | {""}
    lengths = sorted({len(suffix) for suffix in suffixes})
    cleared = set()
    for leaf in parts.leaves:
        suffix = leaf.key_suffix
        if problem := key_problem(first + suffix):
            raise MetadataError(f"parts: key_suffix: {shown(suffix)} {problem}")
        for length in lengths:
            if length >= len(suffix):
                break
            added, other = suffix[: len(suffix) - length], suffix[len(suffix) - length :]
            if added in cleared or other not in suffixes:
                continue
            for key in keys:
                coords = encoding.decode(key + added, ndim)
                if coords is not None:
                    raise MetadataError(
                        f"parts: key_suffix: {shown(suffix)} behind the key {shown(key)} "
                        f"is a key of the chunk at {list(coords)}"
                    )
            cleared.add(added)
            if len(cleared) > _MAX_ENDINGS:
                raise MetadataError(
                    f"parts: more than {_MAX_ENDINGS} pairs of key suffixes end in each other"
                )
