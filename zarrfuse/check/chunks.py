"""Finds the chunks among the files of an array, and checks their names and sizes.

It judges one folder of an array after the other, from listings, and opens nothing. Used by `walk`, which
passes the entries of each folder. It must not know stores.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import TypeAlias

from zarrfuse.check.documents import Judged
from zarrfuse.check.findings import Fault, Rule
from zarrfuse.check.rules import (
    CHUNK_KEYS,
    ENCODING,
    GRID,
    PARTS_CONFIGURATION,
    PARTS_DESCRIPTION,
    SHARD_FORMAT,
    STORED,
    SUFFIX_DECODING,
    SYMLINKS,
    V2_CHUNKS,
)
from zarrfuse.shards.encoded import Encoded, encoded
from zarrfuse.spec.chunk_keys import METADATA_NAMES, DefaultEncoding, SuffixEncoding, V2Encoding
from zarrfuse.spec.concat_parts import StoredParts
from zarrfuse.spec.members import shown
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.paths import folder_of
from zarrfuse.stores.base import Entry, Kind

_NUMBERS = re.compile(r"[0-9]{1,18}")
_MOST_TRIED = 100  # dimensions; each costs a key with a number for all of them
_REPORTED = -1
"""The size of a part whose fault is reported already."""
_LIKE_CHUNKS = re.compile(r"c|[0-9]+")


class Role(Enum):
    """The role of a folder of an array for its chunks."""

    CHUNKS = "chunks of the grid can be in it"
    OUTSIDE = "chunks of a larger grid could be in it"
    BESIDE = "no chunk key begins with it"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stored chunk whose names and sizes are right.

    `key`, and the keys `files` of its parts in order, are relative to the array.
    """

    key: str
    files: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        """The bytes of the merged chunk."""
        return sum(self.sizes)


Found: TypeAlias = Chunk | tuple[str, Fault]
"""A chunk, or a fault and the file that has it, relative to the array."""


class ChunkFiles:
    """The chunks of one array, as files.

    `size_of`: returns the size of a file by its key relative to the array, or None; called for parts in
    folders of their own.
    """

    def __init__(
        self, node: ArrayNode, judged: Judged, size_of: Callable[[str], int | None]
    ) -> None:
        self._node = node
        self._parts: StoredParts | None = node.parts
        self._size_of = size_of
        self.encoded = _encoded(node, judged)
        self._key_rule = _key_rule(node)
        nested = node.parts.nested if node.parts is not None else ()
        self._suffixes = ("", *nested)
        # Folders of parts are chunk keys with one of these suffixes.
        self._folder_suffixes = {
            suffix[: slash.start()] for suffix in nested for slash in re.finditer("/", suffix)
        }

    def role(self, folder: str) -> Role:
        """The role of a folder, by its path relative to the array."""
        node = self._node
        if not folder:
            return Role.CHUNKS if self._flat() else Role.BESIDE
        for end in self._folder_suffixes:
            stem = folder[: len(folder) - len(end)]
            if folder.endswith(end) and node.chunk_keys.decode(stem, node.ndim) is not None:
                return Role.CHUNKS if node.chunk_at(stem) is not None else Role.OUTSIDE
        numbers = [int(digits) for digits in _NUMBERS.findall(folder)][: node.ndim]
        for known in range(len(numbers), max(-1, len(numbers) - _MOST_TRIED), -1):
            key = node.chunk_key([*numbers[:known], *[0] * (node.ndim - known)])
            if any((key + suffix).startswith(f"{folder}/") for suffix in self._suffixes):
                # A later number may be cut off: the folder `c/1` of three dimensions.
                inside = all(
                    n < count for n, count in zip(numbers[:known], node.grid_shape, strict=False)
                )
                return Role.CHUNKS if inside else Role.OUTSIDE
        return Role.BESIDE

    def is_stray(self, folder: str, role: Role, above: Role | None) -> bool:
        """Whether files in a folder with this role could be taken for chunks.

        `above`: the role of the folder above; None for the array's own folder.
        """
        if role is Role.BESIDE:
            return above is Role.CHUNKS or (
                above is None and _LIKE_CHUNKS.fullmatch(folder) is not None
            )
        return role is Role.OUTSIDE

    def _flat(self) -> bool:
        """Whether files of chunks are in the array's own folder."""
        key = self._node.chunk_key([0] * self._node.ndim)
        parts = self._parts
        suffixes = [""] if parts is None else [leaf.key_suffix for leaf in parts.leaves]
        return any("/" not in key + suffix for suffix in suffixes)

    def judge(self, prefix: str, entries: Iterable[Entry]) -> Iterator[Found]:
        """The chunks and faults among the `entries` of a folder.

        `prefix`: the path from the array to the folder with a slash at the end; empty for the array's own
        folder. Chunks in parts are yielded after all entries.
        """
        is_chunk_folder = self.role(prefix[:-1]) is Role.CHUNKS
        merged: dict[str, dict[int, int]] = {}
        for entry in entries:
            key = prefix + entry.name
            if entry.kind is Kind.FILE and entry.name not in METADATA_NAMES:
                if is_chunk_folder or self._resembles_chunk(key):
                    yield from self._judge_file(prefix, key, entry, merged)
            elif entry.kind is Kind.FOLDER and self._parts is not None and self._parts.nested:
                self._note_parts_below(key, merged)
            if entry.kind is not Kind.FILE and self.is_chunk_or_part(key):
                yield from self._judge_no_file(key, entry.kind, merged)
        for chunk in sorted(merged):
            yield from self._judge_parts(chunk, merged[chunk])

    # -- files

    def _judge_file(
        self, prefix: str, key: str, entry: Entry, merged: dict[str, dict[int, int]]
    ) -> Iterator[Found]:
        if self._parts is not None:
            for chunk, leaf in self._parts.candidates(key):
                if self._node.chunk_at(chunk) is None:
                    continue
                if entry.denied:
                    yield key, _denied()
                if folder_of(chunk) == prefix[:-1]:  # else it is reported with its own folder
                    merged.setdefault(chunk, {})[leaf] = _REPORTED if entry.denied else entry.size
                return
        elif self._node.chunk_at(key) is not None:
            if entry.denied:
                yield key, _denied()
            elif fault := self._size_fault(entry.size):
                yield key, fault
            else:
                yield Chunk(key, (key,), (entry.size,))
            return
        yield key, self._stray(key)

    def _judge_no_file(
        self, key: str, kind: Kind, merged: dict[str, dict[int, int]]
    ) -> Iterator[Found]:
        """Report a folder or a link under the key of a chunk or part."""
        if kind is Kind.FOLDER and self.role(key) is Role.CHUNKS:
            return
        if kind is Kind.LINK:
            yield key, _error("is a link to a folder or to nothing, not a chunk", SYMLINKS)
        else:
            yield key, _error("is a folder where a chunk should be", STORED)
        if self._parts is not None:
            for chunk, leaf in self._parts.candidates(key):
                if self._node.chunk_at(chunk) is not None:
                    merged.setdefault(chunk, {})[leaf] = _REPORTED

    def is_chunk_or_part(self, key: str) -> bool:
        """Whether a key, relative to the array, is that of a chunk in the grid or of a part of one."""
        if self._parts is None:
            return self._node.chunk_at(key) is not None
        return any(
            self._node.chunk_at(chunk) is not None for chunk, _ in self._parts.candidates(key)
        )

    def _resembles_chunk(self, key: str) -> bool:
        """Whether a file in the array's own folder has the name of a chunk in a flat encoding."""
        ndim = self._node.ndim
        return "/" not in key and any(
            encoding.decode(key, ndim) is not None
            for encoding in (DefaultEncoding("."), V2Encoding("."))
        )

    def _stray(self, key: str) -> Fault:
        """A warning for a file that is not a chunk: readers ignore it."""
        keys, ndim = self._node.chunk_keys, self._node.ndim
        outside = keys.decode(key, ndim) is not None and self._node.chunk_at(key) is None
        if self._parts is not None:
            if self._node.chunk_at(key) is not None:
                problem = "has the key of a chunk, but is not one of its parts"
                return Fault("warning", "", problem, PARTS_CONFIGURATION)
            outside = outside or any(
                keys.decode(chunk, ndim) is not None for chunk, _ in self._parts.candidates(key)
            )
        if outside:
            return Fault("warning", "", self.outside, GRID if self._is_v3 else V2_CHUNKS)
        return Fault("warning", "", self.no_chunk, self._key_rule)

    @property
    def _is_v3(self) -> bool:
        return self._node.zarr_format == 3

    @property
    def outside(self) -> str:
        """The problem of files and folders outside the grid."""
        grid = "x".join(map(str, self._node.grid_shape)) or "1"
        return f"lies outside the grid of {grid} chunks"

    @property
    def no_chunk(self) -> str:
        """The problem of files without the name of a chunk."""
        what = "a chunk" if self._parts is None else "a part of a chunk"
        first = self._node.chunk_key([0] * self._node.ndim)
        return f"is not {what}: the key of the first chunk is {first!r}"

    def stray_folder(self, role: Role) -> Fault:
        """A warning for a folder with files that are not chunks."""
        if role is Role.OUTSIDE:
            return Fault("warning", "", self.outside, GRID if self._is_v3 else V2_CHUNKS)
        return Fault("warning", "", "holds no chunks", self._key_rule)

    # -- sizes

    def _size_fault(self, size: int) -> Fault | None:
        known = self.encoded
        rule = ENCODING if self._is_v3 else V2_CHUNKS
        if known.exact is not None:
            if size == known.exact:
                return None
            return _error(f"has {size} bytes, and its codecs make {shown(known.exact)}", rule)
        if not size:
            return _error("has no bytes", rule)
        if size >= known.least:
            return None
        if known.shard is not None:
            problem = (
                f"has {size} bytes, and the index of the shard alone takes {shown(known.least)}"
            )
            return _error(problem, SHARD_FORMAT)
        return _error(f"has {size} bytes, and its checksum alone takes {known.least}", rule)

    # -- parts

    def _note_parts_below(self, folder: str, merged: dict[str, dict[int, int]]) -> None:
        """Add the chunk with parts in `folder` to `merged`, as all its parts may be there."""
        assert self._parts is not None
        for suffix in self._parts.nested:
            head = suffix.partition("/")[0]
            if folder.endswith(head):
                chunk = folder[: len(folder) - len(head)]
                if self._node.chunk_at(chunk) is None or chunk in merged:
                    continue
                if self._size_of(chunk + suffix) is not None:
                    merged[chunk] = {}

    def _judge_parts(self, chunk: str, stored: dict[int, int]) -> Iterator[Found]:
        assert self._parts is not None
        leaves = self._parts.leaves
        sizes: list[int] = []
        whole = True
        for index, leaf in enumerate(leaves):
            size = stored.get(index)
            if size is None and "/" in leaf.key_suffix:
                size = self._size_of(chunk + leaf.key_suffix)
            if size is None:
                whole = False
                yield chunk, _error("is missing", PARTS_DESCRIPTION, leaf.title)
            elif size == _REPORTED:
                whole = False
            elif leaf.size is not None and size != leaf.size:
                whole = False
                problem = f"has {size} bytes, its declared size is {leaf.size}"
                yield chunk, _error(problem, PARTS_CONFIGURATION, leaf.title)
            else:
                sizes.append(size)
        if not whole:
            return
        if together := self._parts.problem(sizes):
            yield chunk, _error(together, PARTS_CONFIGURATION)
        elif fault := self._size_fault(sum(sizes)):
            yield chunk, fault
        else:
            yield Chunk(chunk, tuple(chunk + leaf.key_suffix for leaf in leaves), tuple(sizes))


def _error(problem: str, rule: Rule, member: str = "") -> Fault:
    return Fault("error", member, problem, rule)


def _denied() -> Fault:
    return _error("leads out of the store and may not be read", SYMLINKS)


def _encoded(node: ArrayNode, judged: Judged) -> Encoded:
    if node.zarr_format == 3:
        if not judged.sizes or judged.data_type is None:
            return Encoded()
        return encoded(node.codecs, judged.data_type, node.chunk_shape)
    if node.codecs:
        last = node.codecs[-1]
        at_end = last.configuration.get("location", "end") == "end"
        return Encoded(checksums=int(last.name == "crc32c" and at_end))
    if not judged.sizes or judged.data_type is None or judged.data_type.itemsize is None:
        return Encoded()
    return Encoded(prod(node.chunk_shape) * judged.data_type.itemsize)


def _key_rule(node: ArrayNode) -> Rule:
    if node.zarr_format == 2:
        return V2_CHUNKS
    return SUFFIX_DECODING if isinstance(node.chunk_keys, SuffixEncoding) else CHUNK_KEYS
