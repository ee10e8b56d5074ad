"""Compares consolidated metadata with the documents that it is a copy of.

Checks the member `consolidated_metadata` of a group of Zarr v3, and the `.zmetadata` of v2. Readers that
find such metadata do not read the documents, so a stale copy shows a stale dataset. No specification has
it: the rule is what zarr-python writes. Used by `walk`, which passes each document. It must not know
stores.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from zarrfuse.check.findings import Fault, Finding, Level
from zarrfuse.check.rules import CONSOLIDATED_METADATA
from zarrfuse.errors import MetadataError
from zarrfuse.spec.chunk_keys import parse_chunk_key_encoding
from zarrfuse.spec.members import Document, decode_document, decode_raw, quote_constants, shown
from zarrfuse.spec.paths import join

_MEMBER = "consolidated_metadata"
_DECODER = msgspec.json.Decoder(Document)


class Consolidated:
    """The consolidated metadata in the document `file` of the node `path`.

    `copies`: the documents, by the path of their node relative to `path`; in Zarr v2 by their key.
    `member`: the path of the member of `file` with the copies.
    """

    def __init__(self, path: str, file: str, member: str, copies: dict[str, msgspec.Raw]) -> None:
        self._path = path
        self._file = file
        self._member = member
        self._copies = copies

    def see(
        self, path: str, name: str, members: Document | None, wrong: Collection[str] = ()
    ) -> Iterator[Finding]:
        """Compare the document `name` of the node `path`; `members`: None if it cannot be read.

        `wrong`: members with faults of their own, which are not compared.
        """
        below = path[len(self._path) :].lstrip("/")
        is_v2 = self._file == ".zmetadata"
        if is_v2:
            key = f"{below}/{name}" if below else name
        elif name != "zarr.json" or not below:
            return
        else:
            key = below
        copy = self._copies.pop(key, None)
        if copy is None:
            yield self._finding("warning", key, "has no copy")
            return
        if members is None:
            return
        try:
            copied = _DECODER.decode(copy)
        except (ValueError, RecursionError):
            yield self._finding("error", key, "must be an object")
            return
        for member in differing(copied, members):
            if member not in wrong:
                problem = f"differs from {join(path, name)}"
                yield self._finding("error", f"{key}: {member}", problem)

    def left_over(self) -> Iterator[Finding]:
        """Report the copies of documents that do not exist."""
        for key, copy in self._copies.items():
            if key.endswith(".zattrs") and bytes(memoryview(copy)) in (b"{}", b"{ }"):
                continue
            yield self._finding("error", key, "is the copy of a document that does not exist")

    def _finding(self, level: Level, member: str, problem: str) -> Finding:
        where = f"{self._member}: {member}"
        return Fault(level, where, problem, CONSOLIDATED_METADATA).at(self._path, self._file)


def of_group(path: str, members: Document) -> tuple[Consolidated | None, list[Fault]]:
    """The copies in a group of Zarr v3, and what is wrong with the member itself."""
    raw = members.get(_MEMBER)
    if raw is None or bytes(memoryview(raw)) == b"null":
        return None, []
    try:
        held = _DECODER.decode(raw)
    except (ValueError, RecursionError):
        return None, [_fault(_MEMBER, "must be an object")]
    kind = bytes(memoryview(held.get("kind", msgspec.Raw(b'"inline"'))))
    if kind != b'"inline"':
        return None, [_fault(f"{_MEMBER}: kind", "must be 'inline'")]
    try:
        copies = _DECODER.decode(held["metadata"])
    except KeyError:
        return None, [_fault(f"{_MEMBER}: metadata", "is missing")]
    except (ValueError, RecursionError):
        return None, [_fault(f"{_MEMBER}: metadata", "must be an object")]
    return Consolidated(path, "zarr.json", f"{_MEMBER}: metadata", copies), []


def of_zmetadata(path: str, document: bytes) -> tuple[Consolidated | None, list[Fault]]:
    """The copies in a `.zmetadata`, and what is wrong with the document itself."""
    try:
        members = decode_document(quote_constants(document))
        copies = _DECODER.decode(members["metadata"])
    except MetadataError as error:
        return None, [_fault("", str(error))]
    except KeyError:
        return None, [_fault("metadata", "is missing")]
    except (ValueError, RecursionError):
        return None, [_fault("metadata", "must be an object")]
    return Consolidated(path, ".zmetadata", "metadata", copies), []


def members_of(text: bytes | None) -> Document | None:
    """The members of a document to compare; None if it cannot be read, which is reported elsewhere."""
    try:
        return None if text is None else decode_document(quote_constants(text))
    except MetadataError:
        return None


def _fault(member: str, problem: str) -> Fault:
    return Fault("error", member, problem, CONSOLIDATED_METADATA)


# -- two documents


def differing(copy: Mapping[str, msgspec.Raw], stored: Mapping[str, msgspec.Raw]) -> list[str]:
    """The names of the members that differ in two documents.

    A missing member equals one with its default value.
    """
    names = dict.fromkeys([*stored, *copy])
    names.pop(_MEMBER, None)
    different = []
    for name in names:
        one, other = copy.get(name), stored.get(name)
        if one is not None and other is not None and bytes(one) == bytes(other):
            continue
        try:
            same = _same(_normal(name, one), _normal(name, other))
        except RecursionError:
            same = _dense(one) == _dense(other)
        if not same:
            different.append(shown(name) if "." in name or " " in name else name)
    return different


def _dense(raw: msgspec.Raw | None) -> bytes:
    """JSON without spaces between values; nothing is decoded."""
    if raw is None:
        return b""
    try:
        return msgspec.json.format(bytes(raw), indent=-1)
    except (ValueError, RecursionError):
        return bytes(raw)


_EMPTY: dict[str, Any] = {
    "attributes": {},
    "storage_transformers": [],
    "extensions": [],
    "dimension_separator": ".",
}
_LISTS = ("codecs", "storage_transformers", "extensions")


def _normal(name: str, raw: msgspec.Raw | None) -> Any:
    """The value of a member with its defaults added."""
    if raw is None:
        value = _EMPTY.get(name)
    else:
        try:
            value = decode_raw(raw, name)
        except MetadataError:  # too large or too deep to decode
            return _dense(raw)
    if (
        name == "dimension_names"
        and isinstance(value, list)
        and not any(item is not None for item in value)
    ):
        return None
    if name == "filters":
        return value or None
    if name == "chunk_key_encoding":
        try:
            return parse_chunk_key_encoding(value).to_json()
        except MetadataError:
            return value
    if name in _LISTS and isinstance(value, list):
        return [_extension(item) for item in value]
    return _extension(value) if name in ("data_type", "chunk_grid") else value


def _extension(value: Any) -> Any:
    """An extension in the object spelling, also those in its configuration."""
    if isinstance(value, str):
        return {"name": value, "configuration": {}}
    if not isinstance(value, dict):
        return value
    configuration = value.get("configuration") or {}
    if isinstance(configuration, dict):
        configuration = {
            name: [_extension(item) for item in inner]
            if name in ("codecs", "index_codecs") and isinstance(inner, list)
            else inner
            for name, inner in configuration.items()
        }
    return {"name": value.get("name"), "configuration": configuration}


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal; configurations, whether they are in the members that both have."""
    if isinstance(one, dict) and isinstance(other, dict) and "configuration" in one:
        if one.get("name") != other.get("name"):
            return False
        mine, others = one["configuration"], other.get("configuration")
        if not isinstance(mine, dict) or not isinstance(others, dict):
            return bool(mine == others)
        return all(_same(mine[name], others[name]) for name in mine.keys() & others.keys())
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return all(map(_same, one, other))
    return bool(one == other)
