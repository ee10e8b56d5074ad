"""Resolves the names of a document with a `@context` (ZEP 9, Phase 3; experimental).

Owns the known contexts, and the way from a written name to its meaning. Used by `node_v3` before anything
else is parsed, so that no other module knows contexts. Nothing is fetched.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zarrfuse.errors import MetadataError
from zarrfuse.spec.members import LARGEST_MEMBER, Document, encode_raw, shown, take_member
from zarrfuse.spec.names import is_raw_name, is_uri_name

CONTEXT = "@context"
"""The member that names a context, or is one."""

BUILT_IN_URL = "https://zarr.dev/context/v3.1"
"""The context of ZEP 9's example, in which every raw name also has a URI."""

_ZARR = "https://zarr.dev/v3/"

# The extension points, and how a URI spells each. The example has `chunk_key_encodings` with an s
# and `chunk_grid` without, so both are read everywhere.
_POINTS = {
    "data_type": ("data_types", "data_type"),
    "chunk_grid": ("chunk_grids", "chunk_grid"),
    "chunk_key_encoding": ("chunk_key_encodings", "chunk_key_encoding"),
    "codecs": ("codecs", "codec"),
    "storage_transformers": ("storage_transformers", "storage_transformer"),
    "extensions": ("extensions", "extension"),
}
# Members of a configuration that are an extension point themselves.
_NESTED = {
    "codecs": "codecs",
    "index_codecs": "codecs",
    "data_type": "data_type",
    "base_encoding": "chunk_key_encoding",
    "base-encoding": "chunk_key_encoding",
}
# Only at these: what the configuration of a generic extension means is for that to say.
_WITH_NESTED = frozenset({"data_type", "codecs", "chunk_key_encoding"})


@dataclass(slots=True)
class _Context:
    """`prefixes` stand before a colon, `short_names` for a whole name; the values are URIs.

    `room` is how many characters more they may stand for in one document.
    """

    prefixes: Mapping[str, str] = field(default_factory=dict)
    short_names: Mapping[str, str] = field(default_factory=dict)
    room: int = LARGEST_MEMBER

    def expanded(self, name: str) -> str:
        """The URI that a name stands for, or the name itself.

        Raises `MetadataError` where a few characters stand for so many that they take all memory.
        """
        if name in self.short_names:
            return self._counted(self.short_names[name])
        prefix, colon, rest = name.partition(":")
        if colon and not rest.startswith("//") and prefix in self.prefixes:
            return self._counted(self.prefixes[prefix] + rest)
        return name

    def _counted(self, uri: str) -> str:
        self.room -= len(uri)
        if self.room < 0:
            raise MetadataError(
                f"{CONTEXT}: the names it stands for have more than {LARGEST_MEMBER} characters"
            )
        return uri

    def name_at(self, point: str, name: str) -> str:
        """The name that is meant by one at an extension point."""
        uri = self.expanded(name)
        for segment in _POINTS[point]:
            raw = uri.removeprefix(f"{_ZARR}{segment}/")
            if raw != uri and is_raw_name(raw):
                return raw
        return uri

    def member(self, name: str) -> str:
        """The member that is meant by one of the document."""
        uri = self.expanded(name)
        raw = uri.removeprefix(_ZARR).removeprefix("array/")
        return raw if uri.startswith(_ZARR) and is_raw_name(raw) else uri

    def meant(self, point: str, value: Any) -> Any:
        """What stands at an extension point, or a list of it, with the names that are meant."""
        if isinstance(value, str):
            return self.name_at(point, value)
        if isinstance(value, list):
            return [self.meant(point, item) for item in value]
        if not isinstance(value, dict):
            return value
        found = dict(value)
        if isinstance(found.get("name"), str):
            found["name"] = self.name_at(point, found["name"])
        if point in _WITH_NESTED and "configuration" in found:
            found["configuration"] = self._nested(found["configuration"])
        return found

    def _nested(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._nested(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            name: self.meant(_NESTED[name], item) if name in _NESTED else self._nested(item)
            for name, item in value.items()
        }


def resolve_context(members: Document, known: frozenset[str]) -> Document:
    """The same document without its context: names and members are those that are meant.

    `known` are the members that no context gives another meaning. A context is the URL of the
    built-in one, or an object of prefixes (their URIs end in `/`) and short names; in all of them
    `https://zarr.dev/v3/codecs/zstd` is the codec `zstd`, and `https://zarr.dev/v3/array/codecs` the
    member `codecs` (ZEP 9, URIs everywhere; Explicit Naming Context; Prefixes and aliases). Raises
    `MetadataError` for any other context, and for two spellings of one member.
    """
    context = _take_context(take_member(members, CONTEXT))
    found: Document = {}
    for written, raw in members.items():
        if written == CONTEXT:
            continue
        name = written if written in known else context.member(written)
        if name in found or (name != written and name in members):
            raise MetadataError(f"{shown(written)}: is {name}, which is there twice")
        found[name] = raw
    for point in _POINTS.keys() & found.keys():
        try:
            meant = context.meant(point, take_member(found, point))
            found[point] = encode_raw(meant)
        except RecursionError as error:
            raise MetadataError(f"{point}: is nested too deeply") from error
    return found


def _take_context(value: object) -> _Context:
    if value == BUILT_IN_URL:
        return _Context()
    if isinstance(value, str):
        raise MetadataError(f"{CONTEXT}: {shown(value)} is not known here, and none is fetched")
    if not isinstance(value, Mapping):
        raise MetadataError(f"{CONTEXT}: must be a URL or an object, not {shown(value)}")
    prefixes: dict[str, str] = {}
    short_names: dict[str, str] = {}
    for name, uri in value.items():
        if name.startswith("@"):
            raise MetadataError(f"{CONTEXT}: {shown(name)}: keywords are not understood here")
        if not is_raw_name(name):
            raise MetadataError(f"{CONTEXT}: {shown(name)} cannot be a prefix or a short name")
        if not isinstance(uri, str) or not is_uri_name(uri):
            raise MetadataError(f"{CONTEXT}: {name}: must be a URI as names are, not {shown(uri)}")
        (prefixes if uri.endswith("/") else short_names)[name] = uri
    return _Context(prefixes, short_names)
