"""Finds every extension of a `zarr.json`, also nested ones, and warns of names and ignored extensions.

These are no reason to refuse a node: a name that the narrower rule of the core specification does not
permit, and an extension that is ignored. Used by `documents`. It must not know which extensions exist.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from zarrfuse.check.findings import Fault
from zarrfuse.check.repair import PLACEHOLDER, take
from zarrfuse.check.rules import CORE_NAMES, MUST_UNDERSTAND
from zarrfuse.spec.members import Document, shown
from zarrfuse.spec.names import is_raw_name

_POINTS = ("data_type", "chunk_grid", "chunk_key_encoding")
_LISTS = ("codecs", "storage_transformers", "extensions")
_NESTED_POINTS = ("base_encoding", "base-encoding")
_NESTED_LISTS = ("codecs", "index_codecs")
_MAX_NESTING = 32

# The core specification's regular expression without `^` and `$`, matched in full.
_REGISTERED_NAME = re.compile(r"[a-z][a-z0-9\-_.]+")


def named(members: Document) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(path of the member, name, object) of each extension with a name; a short-hand name has {}."""
    for point in _POINTS:
        yield from _at(take(members, point), point, 0)
    for point in _LISTS:
        yield from _in_list(take(members, point), point, 0)


def _in_list(
    values: object, where: str, depth: int
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    if isinstance(values, list):
        for index, value in enumerate(values):
            yield from _at(value, f"{where}[{index}]", depth)


def _at(value: object, where: str, depth: int) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    if isinstance(value, str):
        yield where, value, {}
    if not isinstance(value, dict) or depth > _MAX_NESTING:
        return
    if isinstance(value.get("name"), str):
        yield where, value["name"], value
    configuration = value.get("configuration")
    if isinstance(configuration, dict):
        for name in _NESTED_POINTS:
            yield from _at(configuration.get(name), f"{where}: configuration: {name}", depth + 1)
        for name in _NESTED_LISTS:
            inner = f"{where}: configuration: {name}"
            yield from _in_list(configuration.get(name), inner, depth + 1)


def faults_of_names(members: Document) -> Iterator[Fault]:
    """A warning for each raw name that ZEP 9 permits and the core specification does not."""
    for where, name, _ in named(members):
        if is_raw_name(name) and _REGISTERED_NAME.fullmatch(name) is None:
            problem = f"{shown(name)} is not a letter a-z followed by a-z, 0-9, -, _ or ."
            yield Fault("warning", where, problem, CORE_NAMES)


def faults_of_ignored(members: Document, ignored: tuple[str, ...]) -> Iterator[Fault]:
    """A warning for each of the `ignored` extensions and members."""
    names = frozenset(ignored)
    for member in members:
        if member in names:
            yield Fault("warning", member, "is not known here and ignored", MUST_UNDERSTAND)
    for where, name, value in named(members):
        top = where.partition("[")[0]
        is_listed = where.endswith("]") and top in ("storage_transformers", "extensions")
        may_be_ignored = is_listed and value.get("must_understand", True) is False
        if may_be_ignored and name in names and name != PLACEHOLDER:
            problem = f"{shown(name)} is not known here and ignored"
            yield Fault("warning", where, problem, MUST_UNDERSTAND)
