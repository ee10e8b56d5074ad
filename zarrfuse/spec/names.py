"""The names and spellings of Zarr v3 extensions (ZEP 9).

Owns the two kinds of names, raw and URI-based, and the two spellings of an extension, short-hand and
object. Used for every extension point. It must not know which extensions exist.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zarrfuse.errors import MetadataError
from zarrfuse.spec.members import refuse_unknown, shown, take_object, take_string

# The regular expressions of ZEP 9, Extension naming, without `^` and `$`, for `fullmatch`: in Python,
# `$` also matches before a newline at the end.
_RAW_NAME = re.compile(r"[a-z0-9\-_.]+")
# Possessive (`++`): without, a wrong name of 100,000 characters would take minutes.
_URI_NAME = re.compile(r"https?://[^/?#]++[^?#]*+")

# Names are part of messages.
_MAX_CHARACTERS = 1024

_EXTENSION_MEMBERS = frozenset({"name", "configuration", "must_understand"})


def is_raw_name(name: str) -> bool:
    """Whether `name` is a raw name, such as `zstd`: assigned by a registry (ZEP 9, Phase 1)."""
    return _RAW_NAME.fullmatch(name) is not None


def is_uri_name(name: str) -> bool:
    """Whether `name` is a URI-based name, which anybody may use (ZEP 9, Phase 1)."""
    return _URI_NAME.fullmatch(name) is not None


def is_name(name: str) -> bool:
    """Whether `name` is a raw name or a URI-based name."""
    return is_raw_name(name) or is_uri_name(name)


@dataclass(frozen=True, slots=True)
class Extension:
    """An extension as a document lists it; a short-hand name has an empty configuration."""

    name: str
    configuration: Mapping[str, Any]
    must_understand: bool = True

    def to_json(self) -> dict[str, Any]:
        """The object spelling, without members that have their default value."""
        document: dict[str, Any] = {"name": self.name}
        if self.configuration:
            document["configuration"] = dict(self.configuration)
        if not self.must_understand:
            document["must_understand"] = False
        return document


def parse_extension(value: object, member: str) -> Extension:
    """Parse an extension, spelled as a short-hand name or as an object.

    `member`: the path of `value` for messages. Raises `MetadataError` for another JSON type, a name that
    breaks the rules, or an unknown member (ZEP 9, Extension definitions).
    """
    if isinstance(value, str):
        return Extension(_checked_name(value, member), {})
    if not isinstance(value, Mapping):
        raise MetadataError(f"{member}: must be a name or an object, not {shown(value)}")
    if "name" not in value:
        raise MetadataError(f"{member}: name: is missing")
    name = _checked_name(take_string(value["name"], f"{member}: name"), f"{member}: name")
    where = f"{member}: {name}"
    refuse_unknown(value, _EXTENSION_MEMBERS, where)
    must_understand = value.get("must_understand", True)
    if not isinstance(must_understand, bool):
        raise MetadataError(
            f"{where}: must_understand: must be true or false, not {shown(must_understand)}"
        )
    configuration = take_object(value.get("configuration", {}), f"{where}: configuration")
    return Extension(name, configuration, must_understand)


def _checked_name(name: str, member: str) -> str:
    if len(name) > _MAX_CHARACTERS:
        raise MetadataError(
            f"{member}: has {len(name)} characters, more than the {_MAX_CHARACTERS} of a name"
        )
    if not is_name(name):
        raise MetadataError(f"{member}: {shown(name)} is neither a raw name nor a URI-based name")
    return name
