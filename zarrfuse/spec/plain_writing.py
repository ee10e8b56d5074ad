"""What is stored when a `zarr.json` is written to the `plain` view, in place of what that shows.

Owns which members of the stored document stay (chunk key encoding, storage transformers, extensions
and what else the view leaves out), which are taken from the one that is written, and what of that
contradicts those that stay. Used by the `plain` view. It must not know stores, or who writes.
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
"""The stored `zarr.json` of the node at a path below a group, or None."""

_CONSOLIDATED = "consolidated_metadata"
_KEPT = frozenset({"chunk_key_encoding", "storage_transformers", "extensions", CONTEXT})
"""Members that stay as they are stored."""
_CORE = KNOWN_MEMBERS - _KEPT
_INDENT = re.compile(rb"\s*\{\r?\n( *)")


def stored_document(written: bytes, stored: bytes | None, below: Below | None = None) -> bytes:
    """The document to store when `written` is given in place of what `plain` shows of `stored`.

    Where there is none, or one that must not be loaded, it is `written`, whatever that is; where
    nothing changes, `stored`. Else its chunk key encoding, storage transformers, extensions, context
    and members that may be ignored stay, and the rest is what is written. Consolidated metadata are
    kept so for each node that `below` knows, too. Raises `Contradiction`, a sentence that starts
    with `zarr.json:` and the member, for a document that nobody could read as a node, one that
    describes another type of node, keys or transformers that are neither those that are shown nor
    those that are stored, and for another chunk shape, data type or other codecs where chunks are
    stored in parts of given sizes.
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
    """One document that is written over another, and what each of them is as it is shown."""

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
        self._shown_before: Document = {}  # nothing, where nobody could have read it
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
            # A context may give a name in what is written another meaning.
            if self._is_as_written(text):
                return text
        text = self._laid_out(_changed(self._own, changes, {}))
        try:
            parse_v3(text)
        except NodeError as error:
            raise Contradiction(f"{error}, with what is stored of the node and stays") from error
        return text

    # -- what contradicts --------------------------------------------------------------------

    def _check_kept(self) -> None:
        before, after = self._before, self._after
        for member in ("storage_transformers", "extensions"):
            given = take_member(self._given, member, None)
            own = take_member(self._own, member, None)
            is_new = member == "extensions" and not own
            if given and not is_new and not _same(given, own):
                raise _refused(member, "is not shown here and stays as it is stored")
        if isinstance(before, ArrayNode) and isinstance(after, ArrayNode):
            given, own = (
                take_member(members, "chunk_key_encoding") for members in (self._given, self._own)
            )
            keys = parse_chunk_key_encoding(given)
            if keys not in (CHUNK_KEYS, before.chunk_keys) and not _same(given, own):
                raise _refused(
                    "chunk_key_encoding",
                    'is neither the default one with "/", which is shown here, nor the stored one, '
                    "which stays",
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
                changed, "cannot be changed, because chunks are stored in parts of given sizes"
            )

    # -- what changes ------------------------------------------------------------------------

    def _changes(self) -> dict[str, msgspec.Raw | None]:
        """The members to store in place of those that are; None for one that is gone."""
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
        """Whether anything of what is stored would be lost with the document as it is written."""
        if not self._own.keys() <= KNOWN_MEMBERS or CONTEXT in self._own_members:
            return True
        # Of these, what is shown says less.
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
        with suppress(RecursionError):  # valid all the same
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
    """What is in none of these documents."""
    mark = b"constant:"
    while any(mark in text for text in documents):
        mark += b":"
    return mark


def _decoded(document: bytes, mark: bytes) -> Document:
    """The members of a document; what is no JSON, such as NaN, is a string that begins with `mark`."""
    return decode_as_written(quote_constants(document, mark))


def _resolved(members: Document) -> Document:
    return resolve_context(members, KNOWN_MEMBERS) if CONTEXT in members else members


def _meant_names(members: Document) -> Mapping[str, str]:
    """What each member of a document with a context is, where that is not its name."""
    context = {CONTEXT: members[CONTEXT]}
    meant = {}
    for name in members.keys() - KNOWN_MEMBERS - {CONTEXT}:
        meant[name] = next(iter(resolve_context({**context, name: members[name]}, KNOWN_MEMBERS)))
    return meant


def _changed(
    members: Document, changes: Mapping[str, msgspec.Raw | None], meant: Mapping[str, str]
) -> Document:
    """`members` with these changes, in their order, what is new behind them."""
    left = dict(changes)
    merged: Document = {}
    for name, raw in members.items():
        value = left.pop(meant.get(name, name), raw)
        if value is not None:
            merged[name] = value
    merged |= {name: value for name, value in left.items() if value is not None}
    return merged


def _same(one: Any, other: Any) -> bool:
    """Whether two JSON values are one; 1, 1.0 and true are not."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and bool(one == other)


def _agree(one: Any, other: Any) -> bool:
    """Whether two values are the same but for members that one of them leaves out.

    Some writers spell out what a codec does by default.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return all(_agree(one[name], other[name]) for name in one.keys() & other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_agree, one, other))
    return type(one) is type(other) and bool(one == other)


# -- consolidated metadata


def _consolidated(given: msgspec.Raw, below: Below) -> msgspec.Raw:
    """Consolidated metadata with each document as its node is stored; as given if they are none.

    A document that contradicts the one of its node, which may have changed since, stays as given.
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
