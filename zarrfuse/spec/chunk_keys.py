"""Chunk key encodings: the way between the coordinates and the key of a chunk.

Owns `default`, `v2` and `suffix`, the registry for others, and the rules for stored keys. Used by the
parsers of nodes, and by views for every name of folders with 100,000 chunks. It must not know grids, parts
or stores.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Protocol, Self

from zarrfuse.errors import MetadataError
from zarrfuse.spec.members import refuse_unknown, shown, take_string
from zarrfuse.spec.names import parse_extension
from zarrfuse.spec.registry import PlugInError, Registry, foreign

ENTRY_POINTS = "zarrfuse.chunk_key_encodings"
"""The entry-point group: the name of an encoding, and the class that implements it."""

METADATA_NAMES = frozenset({"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"})
"""The last segments of keys with metadata, in Zarr v3 and v2."""

_MAX_NESTING = 32
# A coordinate as `str(int)` spells it. Python may refuse to convert more than 640 digits
# (the lowest `sys.set_int_max_str_digits`), and no grid has so many chunks.
_NUMBER = "(?:0|[1-9][0-9]{0,639})"


class ChunkKeyEncoding(Protocol):
    """A chunk key encoding (Zarr v3 core specification, Chunk key encoding).

    Keys are relative to the array. Implementations are immutable and thread-safe. They may have `aliases`,
    a tuple of other names.
    """

    name: ClassVar[str]
    """The extension name, which is also the name of the entry point."""

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> Self:
        """The encoding with this configuration, which is empty if the metadata have none.

        Raises `MetadataError` that starts with the wrong member of the configuration.
        """

    def encode(self, coords: Sequence[int]) -> str:
        """The key of the chunk at the grid coordinates `coords`, one non-negative number each."""

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """The coordinates of the chunk under `key`, or None if `key` is not the key of a chunk.

        Exact: only `encode(coords)` decodes to `coords`. Never raises.
        """

    def to_json(self) -> dict[str, Any]:
        """The object for this encoding in a `zarr.json`."""


@cache
def _decimal_keys(prefix: str, separator: str, ndim: int) -> re.Pattern[str]:
    """Matches `prefix`, then `ndim` numbers with `separator` between them, and after a prefix."""
    separator = re.escape(separator)
    if prefix:
        return re.compile(f"{prefix}(?:{separator}{_NUMBER}){{{ndim}}}")
    return re.compile(f"{_NUMBER}(?:{separator}{_NUMBER}){{{ndim - 1}}}")


def _parse_separator(configuration: Mapping[str, Any], default: str) -> str:
    refuse_unknown(configuration, {"separator"})
    return take_string(configuration.get("separator", default), "separator")


def _check_separator(separator: str) -> None:
    if separator not in ("/", "."):
        raise MetadataError(f"separator: must be '/' or '.', not {shown(separator)}")


@dataclass(frozen=True, slots=True)
class DefaultEncoding:
    """`c`, then a separator and a number per dimension: `c/1/23/45`; a scalar's key is `c`.

    Source: Default chunk key encoding 1.0, Description. Raises `MetadataError` for a separator
    other than `/` and `.`.
    """

    name: ClassVar[str] = "default"
    separator: str = "/"

    def __post_init__(self) -> None:
        _check_separator(self.separator)

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> Self:
        """See `ChunkKeyEncoding`."""
        return cls(_parse_separator(configuration, "/"))

    def encode(self, coords: Sequence[int]) -> str:
        """See `ChunkKeyEncoding`."""
        return self.separator.join(("c", *map(str, coords)))

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """See `ChunkKeyEncoding`."""
        if _decimal_keys("c", self.separator, ndim).fullmatch(key) is None:
            return None
        return tuple(map(int, key.split(self.separator)[1:]))

    def to_json(self) -> dict[str, Any]:
        """See `ChunkKeyEncoding`."""
        return {"name": self.name, "configuration": {"separator": self.separator}}


@dataclass(frozen=True, slots=True)
class V2Encoding:
    """The numbers with a separator between: `1.23.45`; a scalar's key is `0`.

    Source: Zarr v3 core specification, Chunk key encoding; Zarr v2 specification, Chunks. Raises
    `MetadataError` for a separator other than `/` and `.`.
    """

    name: ClassVar[str] = "v2"
    separator: str = "."

    def __post_init__(self) -> None:
        _check_separator(self.separator)

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> Self:
        """See `ChunkKeyEncoding`."""
        return cls(_parse_separator(configuration, "."))

    def encode(self, coords: Sequence[int]) -> str:
        """See `ChunkKeyEncoding`."""
        return self.separator.join(map(str, coords)) if coords else "0"

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """See `ChunkKeyEncoding`."""
        if ndim == 0:
            return () if key == "0" else None
        if _decimal_keys("", self.separator, ndim).fullmatch(key) is None:
            return None
        return tuple(map(int, key.split(self.separator)))

    def to_json(self) -> dict[str, Any]:
        """See `ChunkKeyEncoding`."""
        return {"name": self.name, "configuration": {"separator": self.separator}}


@dataclass(frozen=True, slots=True)
class SuffixEncoding:
    """Appends a suffix to the keys of another encoding: `c/1/2.tiff`.

    Source: ZEP `suffix` chunk key encoding, Specification. The base is `default` with `/` unless given.
    `base-encoding`, the spelling of the examples there, is read, and `base_encoding` is written. Raises
    `MetadataError` for a suffix that is empty, or makes keys that cannot be stored or are metadata.
    """

    name: ClassVar[str] = "suffix"
    suffix: str
    base: ChunkKeyEncoding = field(default_factory=DefaultEncoding)

    def __post_init__(self) -> None:
        if not self.suffix:
            raise MetadataError("suffix: must not be empty")
        # The suffixes of nested encodings are checked together: `.json` is allowed after `c/0`, but
        # not after a base with the suffix `/zarr`.
        whole, base = self.suffix, self.base
        while isinstance(base, SuffixEncoding):
            whole, base = base.suffix + whole, base.base
        if problem := suffix_problem(whole):
            raise MetadataError(f"suffix: {shown(self.suffix)} {problem}")

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> Self:
        """See `ChunkKeyEncoding`."""
        refuse_unknown(configuration, {"suffix", "base_encoding", "base-encoding"})
        if "suffix" not in configuration:
            raise MetadataError("suffix: is missing")
        suffix = take_string(configuration["suffix"], "suffix")
        spellings = [name for name in ("base_encoding", "base-encoding") if name in configuration]
        if len(spellings) > 1:
            raise MetadataError("base_encoding: must not be given together with base-encoding")
        if not spellings:
            return cls(suffix)
        [spelling] = spellings
        return cls(suffix, parse_chunk_key_encoding(configuration[spelling], spelling))

    def encode(self, coords: Sequence[int]) -> str:
        """See `ChunkKeyEncoding`."""
        return self.base.encode(coords) + self.suffix

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        """See `ChunkKeyEncoding`."""
        if not key.endswith(self.suffix):
            return None
        return self.base.decode(key[: -len(self.suffix)], ndim)

    def to_json(self) -> dict[str, Any]:
        """See `ChunkKeyEncoding`."""
        configuration = {"suffix": self.suffix, "base_encoding": self.base.to_json()}
        return {"name": self.name, "configuration": configuration}


def suffix_problem(suffix: str) -> str | None:
    """What is wrong with keys that end in `suffix`, as a clause, or None.

    The part of `suffix` before its first `/` extends a segment that is not empty, so only the segments
    after it are checked.
    """
    if "\0" in suffix:
        return "holds a NUL"
    if "\\" in suffix:
        return "holds a backslash"
    segments = suffix.split("/")[1:]
    for segment in segments:
        if segment in ("", ".", ".."):
            return f"makes keys with the path segment {segment!r}"
    if segments and segments[-1] in METADATA_NAMES:
        return f"makes keys that end in {segments[-1]}, which are metadata"
    return None


def key_problem(key: str) -> str | None:
    """What is wrong with `key` as the key of a chunk or a part, as a clause, or None.

    Source: Zarr v3 core specification, Abstract store interface and Storage. A key is also a path in a file
    system here, hence no NUL and no `.`, `..` or empty segments.
    """
    return suffix_problem("/" + key)


def sample_keys(encoding: ChunkKeyEncoding, ndim: int) -> tuple[str, ...]:
    """The keys of the chunks at 0, 0, ..., at 1, 1, ... and at 10, 10, ....

    Raises `MetadataError` if the encoding has no key for them, or one that cannot be stored, which only an
    encoding of a plug-in can do.
    """
    keys = []
    for number in (0, 1, 10):
        try:
            key = encoding.encode((number,) * ndim)
        except Exception as error:
            raise MetadataError(
                f"chunk_key_encoding: {encoding.name} has no key for {ndim} dimensions: {error}"
            ) from error
        if problem := key_problem(key):
            raise MetadataError(f"chunk_key_encoding: the chunk key {shown(key)} {problem}")
        keys.append(key)
    return tuple(keys)


_BUILT_IN: tuple[type[ChunkKeyEncoding], ...] = (DefaultEncoding, V2Encoding, SuffixEncoding)
ENCODINGS: Registry[ChunkKeyEncoding] = Registry(ENTRY_POINTS, _BUILT_IN)
"""The chunk key encodings that are understood here."""


def parse_chunk_key_encoding(value: object, member: str = "chunk_key_encoding") -> ChunkKeyEncoding:
    """Parse a chunk key encoding, spelled as a short-hand name or as an object.

    `member`: the path of `value` for messages. Raises `MetadataError` for an encoding that is not known or
    fails to load, a wrong configuration, and `must_understand` false (Zarr v3 core specification, Chunk key
    encoding; ZEP 9, Extension definitions).
    """
    if _nesting(value) > _MAX_NESTING:
        raise MetadataError(f"{member}: is nested more than {_MAX_NESTING} deep")
    extension = parse_extension(value, member)
    if not extension.must_understand:
        raise MetadataError(f"{member}: must_understand: cannot be false here")
    name = extension.name
    try:
        found = ENCODINGS.find(name)
    except MetadataError as error:
        raise MetadataError(f"{member}: name: {error}") from error
    if found is None:
        raise MetadataError(f"{member}: name: {ENCODINGS.unknown(name)}")
    try:
        return foreign(name, lambda: found.from_configuration(extension.configuration))
    except PlugInError as error:
        raise MetadataError(f"{member}: name: {error}") from error
    except MetadataError as error:
        raise MetadataError(f"{member}: configuration: {error}") from error


def _nesting(value: object) -> int:
    """How deep encodings are nested in `value`, counted up to one more than is allowed."""
    depth = 1
    while depth <= _MAX_NESTING and isinstance(value, Mapping):
        configuration = value.get("configuration")
        if not isinstance(configuration, Mapping):
            break
        value = configuration.get("base_encoding", configuration.get("base-encoding"))
        depth += value is not None
    return depth
