"""Translates a `zarr.json` that is written to the `plain` view to the document to store.

Owns which members of the stored document stay (chunk key encoding, storage transformers, extensions and
others that the view leaves out), which are replaced by written ones, and which written members contradict
those that stay. Used by the `plain` view. It must not know stores.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from zarrfuse.errors import Contradiction, MetadataError
from zarrfuse.spec.chunk_keys import parse_chunk_key_encoding
from zarrfuse.spec.context import CONTEXT, resolve_context
from zarrfuse.spec.members import Document, decode_as_written, quote_constants, take_member
from zarrfuse.spec.node import ArrayNode, Node, NodeError
from zarrfuse.spec.node_v3 import KNOWN_MEMBERS, parse_v3
from zarrfuse.spec.plain import CHUNK_KEYS, document, problem
from zarrfuse.spec.surrogates import escaped

Below: TypeAlias = Callable[[str], bytes | None]
"""Returns the stored `zarr.json` of the node at a path below a group, or None."""

_CONSOLIDATED = "consolidated_metadata"
_KEPT = frozenset({"chunk_key_encoding", "storage_transformers", "extensions", CONTEXT})
"""Members that stay as stored."""
_CORE = KNOWN_MEMBERS - _KEPT
_INDENT = re.compile(rb"\s*\{\r?\n( *)")


def stored_document(written: bytes, stored: bytes | None, below: Below | None = None) -> bytes:
    """The document to store when `written` replaces the document that `plain` shows for `stored`.

    Without a stored document, or with one that must not be loaded, it is `written`, even if that is broken.
    If nothing changes, it is `stored`. Else chunk key encoding, storage transformers, extensions, context
    and members that may be ignored stay as stored, and the other members are those of `written`.
    Consolidated metadata are translated in the same way, for each node that `below` returns.

    Raises `Contradiction`, a sentence that starts with `zarr.json:` and the member, for a document that
    does not describe a node, another node type, a chunk key encoding or transformers that are neither the
    shown nor the stored ones, and, if parts have declared sizes, another chunk shape, data type or other
    codecs.
    """
    if stored is None:
        return written
    try:
        before = parse_v3(stored)
    except NodeError:
        return written
    after = _loadable(written)
    if after.node_type != before.node_type:
        raise _refused("node_type", f"is {before.node_type} and cannot be changed")
    return _Merge(written, after, stored, before, below).text()


class _Merge:
    """A written and a stored document, each also as `plain` shows it."""

    def __init__(
        self, written: bytes, after: Node, stored: bytes, before: Node, below: Below | None
    ) -> None:
        self._written, self._stored, self._below = written, stored, below
        self._after, self._before = after, before
        self._mark = _mark(written, stored)
        self._given_members = _decoded(written, self._mark)
        self._own_members = _decoded(stored, self._mark)
        self._given = _resolved(self._given_members)
        self._own = _resolved(self._own_members)
        self._shown_after = decode_as_written(document(after, written))
        self._shown_before: Document = {}  # empty if the view could not show it
        if problem(before) is None:
            self._shown_before = decode_as_written(document(before, stored))

    def text(self) -> bytes:
        """The document to store. Raises `Contradiction`."""
        self._check_kept()
        changes = self._changes()
        if all(self._own.get(name) == value for name, value in changes.items()):
            return self._stored
        as_given = all(self._given.get(name) == value for name, value in changes.items())
        if as_given and not self._keeps_something(changes):
            return self._written
        members = self._own_members
        if CONTEXT in members:
            text = self._laid_out(_changed(members, changes, _meant_names(members)))
            # The stored context may change the meaning of a written name.
            if self._is_as_written(text):
                return text
        text = self._laid_out(_changed(self._own, changes, {}))
        try:
            parse_v3(text)
        except NodeError as error:
            message = f"{error}, together with the stored members that stay"
            raise Contradiction(message) from error
        return text

    # -- contradictions ----------------------------------------------------------------------

    def _check_kept(self) -> None:
        before, after = self._before, self._after
        for member in ("storage_transformers", "extensions"):
            given = take_member(self._given, member, None)
            own = take_member(self._own, member, None)
            is_new = member == "extensions" and not own
            if given and not is_new and not _same(given, own):
                raise _refused(member, "cannot be changed in this view")
        if isinstance(before, ArrayNode) and isinstance(after, ArrayNode):
            given, own = (
                take_member(members, "chunk_key_encoding") for members in (self._given, self._own)
            )
            keys = parse_chunk_key_encoding(given)
            if keys not in (CHUNK_KEYS, before.chunk_keys) and not _same(given, own):
                raise _refused(
                    "chunk_key_encoding",
                    'must be the default one with "/", which this view shows, or the stored one',
                )
            if _has_sized_parts(before) and self._shown_before:
                self._check_parts(before, after)

    def _check_parts(self, before: ArrayNode, after: ArrayNode) -> None:
        changed = None
        if before.chunk_shape != after.chunk_shape:
            changed = "chunk_grid"
        for member in ("data_type", "codecs"):
            shown = (
                take_member(found, member) for found in (self._shown_before, self._shown_after)
            )
            if not _agree(*shown):
                changed = changed or member
        if changed is not None:
            raise _refused(
                changed, "cannot be changed, because chunks are stored in parts of declared sizes"
            )

    # -- changes -----------------------------------------------------------------------------

    def _changes(self) -> dict[str, msgspec.Raw | None]:
        """The members to store in place of the stored ones; None for one to delete."""
        changes: dict[str, msgspec.Raw | None] = {}
        for name in (*self._given, *(self._shown_before.keys() - self._given.keys())):
            if name in _KEPT:
                continue
            is_compared = name in self._shown_before if name == _CONSOLIDATED else name in _CORE
            before, after = self._shown_before.get(name), self._shown_after.get(name)
            if not is_compared or before != after:
                changes[name] = self._given.get(name)
        own, given = (take_member(m, "extensions", None) for m in (self._own, self._given))
        if given and not own:
            changes["extensions"] = self._given["extensions"]
        if changes.get(_CONSOLIDATED) is not None and self._below is not None:
            changes[_CONSOLIDATED] = _consolidated(self._given[_CONSOLIDATED], self._below)
        return changes

    def _keeps_something(self, changes: Mapping[str, msgspec.Raw | None]) -> bool:
        """Whether storing the written document as it is would lose anything that is stored."""
        if not self._own.keys() <= KNOWN_MEMBERS or CONTEXT in self._own_members:
            return True
        # The shown document has less of these.
        kept = self._own.keys() - changes.keys()
        if _CONSOLIDATED in kept or any(
            self._mark in memoryview(self._own[n]).tobytes() for n in kept
        ):
            return True
        if isinstance(self._before, ArrayNode) and self._before.chunk_keys != CHUNK_KEYS:
            return True
        listed = ("storage_transformers", "extensions")
        return any(take_member(self._own, member, None) for member in listed)

    def _laid_out(self, members: Document) -> bytes:
        """The document of these members, indented as the stored one is."""
        text = msgspec.json.encode(members)
        indented = _INDENT.match(self._stored)
        with suppress(RecursionError):  # it is stored without indents
            text = msgspec.json.format(text, indent=len(indented[1]) if indented else 0)
        return escaped(re.sub(b'"' + re.escape(self._mark) + b'([^"]*)"', rb"\1", text))

    def _is_as_written(self, text: bytes) -> bool:
        try:
            node = parse_v3(text)
        except NodeError:
            return False
        if not isinstance(node, ArrayNode):
            return True
        return problem(node) is None and document(node, text) == document(
            self._after, self._written
        )


def _loadable(written: bytes) -> Node:
    try:
        node = parse_v3(written)
    except NodeError as error:
        raise Contradiction(str(error)) from error
    clause = problem(node)
    if clause is not None:
        raise Contradiction(f"zarr.json: {clause}")
    return node


def _refused(member: str, clause: str) -> Contradiction:
    return Contradiction(f"zarr.json: {member}: {clause}")


def _has_sized_parts(node: ArrayNode) -> bool:
    leaves = () if node.parts is None else node.parts.leaves
    return len(leaves) > 1 or any(leaf.size is not None for leaf in leaves)


# -- members


def _mark(*documents: bytes) -> bytes:
    """A string that is in none of these documents."""
    mark = b"constant:"
    while any(mark in text for text in documents):
        mark += b":"
    return mark


def _decoded(document: bytes, mark: bytes) -> Document:
    """The members of a document; NaN and Infinity, which are not JSON, become strings with `mark`."""
    return decode_as_written(quote_constants(document, mark))


def _resolved(members: Document) -> Document:
    return resolve_context(members, KNOWN_MEMBERS) if CONTEXT in members else members


def _meant_names(members: Document) -> Mapping[str, str]:
    """The meaning of each member of a document with a context, if it is not its name."""
    context = {CONTEXT: members[CONTEXT]}
    meant = {}
    for name in members.keys() - KNOWN_MEMBERS - {CONTEXT}:
        meant[name] = next(iter(resolve_context({**context, name: members[name]}, KNOWN_MEMBERS)))
    return meant


def _changed(
    members: Document, changes: Mapping[str, msgspec.Raw | None], meant: Mapping[str, str]
) -> Document:
    """`members` with these changes, in the same order; new members are appended."""
    left = dict(changes)
    merged: Document = {}
    for name, raw in members.items():
        value = left.pop(meant.get(name, name), raw)
        if value is not None:
            merged[name] = value
    merged |= {name: value for name, value in left.items() if value is not None}
    return merged


def _same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; 1, 1.0 and true are not."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and bool(one == other)


def _agree(one: Any, other: Any) -> bool:
    """Whether two values are equal, except for members that only one of them has.

    Some writers write the defaults of a codec.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return all(_agree(one[name], other[name]) for name in one.keys() & other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_agree, one, other))
    return type(one) is type(other) and bool(one == other)


# -- consolidated metadata


def _consolidated(given: msgspec.Raw, below: Below) -> msgspec.Raw:
    """Consolidated metadata with each document translated to the one to store; unchanged if broken.

    A document that contradicts the stored one of its node, which may have changed, stays as written.
    """
    try:
        members = decode_as_written(bytes(memoryview(given)))
        documents = decode_as_written(bytes(memoryview(members["metadata"])))
    except (MetadataError, KeyError):
        return given
    changed = False
    for path, raw in documents.items():
        written = bytes(memoryview(raw))
        text = quote_constants(_as_stored(path, written, below))
        if text != written:
            documents[path] = msgspec.Raw(text)
            changed = True
    if not changed:
        return given
    members["metadata"] = msgspec.Raw(msgspec.json.encode(documents))
    return msgspec.Raw(msgspec.json.encode(members))


def _as_stored(path: str, written: bytes, below: Below) -> bytes:
    if any(name in ("", ".", "..") for name in path.split("/")):
        return written
    try:
        return stored_document(written, below(path), lambda under: below(f"{path}/{under}"))
    except Contradiction:
        return written
