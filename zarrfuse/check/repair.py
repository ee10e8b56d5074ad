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
"""No more are looked for in one document: each costs another reading of it."""
_MOST_BYTES = 32 << 20
"""No more bytes are read again for that; attributes and copies, which nobody decodes, are not."""
_OPAQUE = ("attributes", "consolidated_metadata")
PLACEHOLDER = "zarrfuse.check.placeholder"
"""The name of an extension that stands where there was none that could be read."""


class Instead(Enum):
    """What a member that is wrong is replaced by, where that is no value."""

    NOTHING = "it is taken out"


Harmless: TypeAlias = Callable[[Document], Any]
"""Given a document, what a member of it can be so that nothing is wrong with it, or an `Instead`."""


@dataclass
class Mended:
    """What could be read of a document.

    `refusals` are (path of the member, clause), `doubtful` the members of the document itself that
    had to be mended: nothing that follows from them is known. `node` is None if mending failed.
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
    """Every refusal of `read`, and the node that is left; `members` are changed.

    `harmless` has the known members (others are taken out), `items` what the item of a list among
    them can be.
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
            # The name of the document stands in front.
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
    """The value of a member, or None where there is none or it cannot be represented."""
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
    """(the name of the document's own member that a path begins with, its segments)."""
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
    """Mend just the item of a list, or the member of a configuration, that is wrong."""
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
    except RecursionError:  # decoding it went as deep as Python does
        return False
    return True


def _at(value: Any, indices: list[int]) -> Any:
    """What is at these indices, or None."""
    for index in indices:
        value = value[index] if isinstance(value, list) and index < len(value) else None
    return value


def _inner(owner: Any, segment: str) -> Any:
    """What a segment of a path leads to; `owner` itself where it is the name of an extension.

    Paths of some members leave `configuration` away behind that name.
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
    """An object and its `configuration`, those of them that are objects."""
    if not isinstance(owner, dict):
        return []
    configuration = owner.get("configuration")
    return [owner, configuration] if isinstance(configuration, dict) else [owner]
