"""Finds every fault of a document with a parser that stops at the first.

It parses, keeps the error, replaces the member that it names by a harmless value, and parses again. Used by
`documents` and `documents_v2`, which pass a harmless value for each member. It must not know the members.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

import msgspec

from zarrfuse.check.findings import split_message
from zarrfuse.errors import MetadataError
from zarrfuse.spec.members import Document, encode_raw, is_object, shown, take_member
from zarrfuse.spec.node import Node, NodeError

_MAX_FAULTS = 200
"""The most faults of one document: each costs parsing it again."""
_MOST_BYTES = 32 << 20
"""The most bytes that are parsed for that, without attributes and consolidated metadata."""
_OPAQUE = ("attributes", "consolidated_metadata")
PLACEHOLDER = "zarrfuse.check.placeholder"
"""The name of an extension that replaces a wrong one."""


class Instead(Enum):
    """The replacement of a wrong member that is not a value."""

    NOTHING = "the member is deleted"


Harmless: TypeAlias = Callable[[Document], Any]
"""Returns a harmless value of a member for a document, or an `Instead`."""


@dataclass
class Mended:
    """The result of repairing and parsing a document.

    `refusals`: (path of the member, clause) of each error. `doubtful`: the replaced members of the
    document: nothing is known of what follows from them. `node`: None if the document could not be
    repaired.
    """

    node: Node | None = None
    refusals: list[tuple[str, str]] = field(default_factory=list)
    doubtful: set[str] = field(default_factory=set)


def mended(
    members: Document,
    read: Callable[[bytes], Node],
    harmless: Mapping[str, Harmless],
    items: Mapping[str, Any],
) -> Mended:
    """Every error of the parser `read`, and the node that is left; changes `members`.

    `harmless`: a function for each known member; others are deleted. `items`: harmless items of lists.
    """
    found = Mended()
    whole: set[str] = set()
    for opaque in _OPAQUE:
        if opaque in members and is_object(members[opaque]):
            put(members, opaque, {})
    bytes_read = 0
    while len(found.refusals) < _MAX_FAULTS and bytes_read < _MOST_BYTES:
        document = msgspec.json.encode(members)
        bytes_read += len(document)
        try:
            found.node = read(document)
            break
        except NodeError as error:
            # The message starts with the name of the document.
            member, clause = split_message(str(error).partition(": ")[2])
        is_new = (member, clause) not in found.refusals
        if is_new:
            found.refusals.append((member, clause))
        name, segments = _top(member, members)
        if name is None or name in whole:
            break
        found.doubtful.add(name)
        if is_new and _mend_finely(members, name, segments, clause, items):
            continue
        whole.add(name)
        value = harmless[name](members) if name in harmless else Instead.NOTHING
        if value is Instead.NOTHING and name not in members:
            break
        if value is Instead.NOTHING:
            del members[name]
        else:
            put(members, name, value)
    return found


def take(members: Document, name: str) -> Any:
    """The value of a member; None if it is missing or cannot be represented."""
    try:
        return take_member(members, name, None)
    except MetadataError:
        return None


def put(members: Document, name: str, value: object) -> None:
    """Set a member."""
    members[name] = encode_raw(value)


_INDEXED = re.compile(r"(.*?)((?:\[\d+\])*)")


def segments_of(member: str) -> list[str]:
    """The segments of the path of a member."""
    segments = []
    while member:
        head, member = _head(member)
        segments.append(head)
    return segments


def _head(member: str) -> tuple[str, str]:
    quoted = re.match(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?:: |$)""", member)
    if quoted:
        return quoted[1], member[quoted.end() :]
    head, _, rest = member.partition(": ")
    return head, rest


def _top(member: str, members: Document) -> tuple[str | None, list[str]]:
    """(the member of the document that a path begins with, the segments of the path)."""
    segments = segments_of(member)
    if not segments:
        return None, []
    for name in members:
        if segments[0] == shown(name):
            return name, segments
    name = _name_and_indices(segments[0])[0]
    return name or None, segments


def _name_and_indices(segment: str) -> tuple[str, list[int]]:
    split = _INDEXED.fullmatch(segment)
    assert split is not None
    return split[1], [int(number) for number in re.findall(r"\d+", split[2])]


def _mend_finely(
    members: Document, name: str, segments: list[str], clause: str, items: Mapping[str, Any]
) -> bool:
    """Replace only the wrong item of a list, or the wrong member of a configuration."""
    value = take(members, name)
    indices = _name_and_indices(segments[0])[1]
    if clause == "unknown member" and len(segments) > 1:
        owner = _at(value, indices)
        for segment in segments[1:-1]:
            owner = _inner(owner, segment)
        if not _delete(owner, segments[-1]):
            return False
    elif indices and name in items:
        if not isinstance(value, list) or indices[0] >= len(value):
            return False
        value[indices[0]] = items[name]
    else:
        owner = _at(value, indices)
        for segment in segments[1:-1]:
            owner = _inner(owner, segment)
        last, indices = _name_and_indices(segments[-1])
        lengths = owner.get(last) if isinstance(owner, dict) else None
        if last not in items or len(indices) != 1 or not isinstance(lengths, list):
            return False
        lengths[indices[0]] = items[last]
    try:
        put(members, name, value)
    except RecursionError:  # as deep as Python's limit
        return False
    return True


def _at(value: Any, indices: list[int]) -> Any:
    """The value at these indices, or None."""
    for index in indices:
        value = value[index] if isinstance(value, list) and index < len(value) else None
    return value


def _inner(owner: Any, segment: str) -> Any:
    """The value at a segment of a path; `owner` itself if the segment is the name of an extension.

    Some paths leave out `configuration` after that name.
    """
    name, indices = _name_and_indices(segment)
    for holder in _holders(owner):
        if name in holder:
            return _at(holder[name], indices)
    return owner


def _delete(owner: Any, segment: str) -> bool:
    for holder in _holders(owner):
        for name in holder:
            if shown(name) == segment:
                del holder[name]
                return True
    return False


def _holders(owner: Any) -> list[dict[str, Any]]:
    """An object and its `configuration`, if they are objects."""
    if not isinstance(owner, dict):
        return []
    configuration = owner.get("configuration")
    return [owner, configuration] if isinstance(configuration, dict) else [owner]
