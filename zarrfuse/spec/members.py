"""Takes values out of JSON documents, or raises an error that names the wrong member.

Used by every parser of metadata in `zarrfuse.spec`, so that all messages have one form: the path of the
member, a colon, one clause. It must not know any particular document.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, Final, TypeAlias

import msgspec

from zarrfuse.errors import MetadataError
from zarrfuse.spec import surrogates

Document: TypeAlias = dict[str, msgspec.Raw]
"""The members of a JSON object, each undecoded: some are large, and most of these are not needed."""

_SHOWN_CHARACTERS = 80
# An integer of more bits is not shown: Python may refuse to convert more than 640 digits.
_SHOWN_BITS = 2000
# The largest list of parts, 100,000, takes about as much.
LARGEST_MEMBER = 4 << 20
"""A member with more bytes of JSON is not decoded."""


def shown(value: object) -> str:
    """`value` for a message: scalars as JSON spells them, objects and arrays by kind, long strings cut."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "an array"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def take_object(value: object, member: str) -> Mapping[str, Any]:
    """`value` if it is an object. Raises `MetadataError` naming `member`."""
    if not isinstance(value, Mapping):
        raise MetadataError(f"{member}: must be an object, not {shown(value)}")
    return value


def take_array(value: object, member: str) -> Sequence[Any]:
    """`value` if it is an array. Raises `MetadataError` naming `member`."""
    if not isinstance(value, list | tuple):
        raise MetadataError(f"{member}: must be an array, not {shown(value)}")
    return value


def take_string(value: object, member: str) -> str:
    """`value` if it is a string without lone surrogates, which no file name can hold.

    Raises `MetadataError` naming `member`.
    """
    text = take_label(value, member)
    if surrogates.held_by(text):
        raise MetadataError(f"{member}: {shown(text)} holds a lone surrogate")
    return text


def take_label(value: object, member: str) -> str:
    """`value` if it is a string. Raises `MetadataError` naming `member`."""
    if not isinstance(value, str):
        raise MetadataError(f"{member}: must be a string, not {shown(value)}")
    return value


def take_integer(value: object, member: str, *, minimum: int | None) -> int:
    """`value` if it is an integer of at least `minimum` (None: no limit).

    `true` and `4.0` are not integers. Raises `MetadataError` naming `member`.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise MetadataError(f"{member}: must be an integer, not {shown(value)}")
    if minimum is not None and value < minimum:
        raise MetadataError(f"{member}: must be at least {minimum}, not {shown(value)}")
    return value


def take_integers(value: object, member: str, *, minimum: int | None) -> tuple[int, ...]:
    """`value` if it is an array of integers of at least `minimum` (None: no limit).

    Raises `MetadataError` naming `member` and the index of the first wrong one.
    """
    return tuple(
        take_integer(item, f"{member}[{index}]", minimum=minimum)
        for index, item in enumerate(take_array(value, member))
    )


def refuse_unknown(members: Mapping[str, Any], known: Collection[str], member: str = "") -> None:
    """Raises `MetadataError` for the first of `members` that is not `known`.

    A later version of an extension may add a member that changes the meaning of the others, so readers
    of this version have to stop (ZEP 9, Versioning and spec evolution).
    """
    for name in members:
        if name not in known:
            where = f"{member}: " if member else ""
            raise MetadataError(f"{where}{shown(name)}: unknown member")


_DECODER = msgspec.json.Decoder(Document)
_CONSTANT = re.compile(rb"[:\[,]\s*-?(?:NaN|Infinity)\b")
# A string, whole or cut off, or a constant. Possessive, so that each byte is matched once.
_STRING_OR_CONSTANT = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|-?\b(?:NaN|Infinity)\b', re.DOTALL)


class _Required(Enum):
    REQUIRED = "required"


_REQUIRED: Final = _Required.REQUIRED


def decode_document(document: bytes) -> Document:
    """The members of the JSON object `document`; of two with the same name the last.

    Raises `MetadataError` for anything else.
    """
    try:
        document.decode()  # members that are never decoded must be UTF-8, too
    except UnicodeDecodeError as error:
        raise MetadataError(f"is not UTF-8 at byte {error.start}") from error
    return _members(document)


def _members(document: bytes) -> Document:
    try:
        return _with_surrogates(document)
    except msgspec.ValidationError as error:
        raise MetadataError(f"is not a JSON object: {error}") from error
    except msgspec.DecodeError as error:
        hint = "; NaN and Infinity need quotes" if _CONSTANT.search(document) else ""
        raise MetadataError(f"is not JSON: {error}{hint}") from error
    except RecursionError as error:
        raise MetadataError("is nested too deeply") from error


def _with_surrogates(document: bytes) -> Document:
    """The members, also of a document with lone surrogates, which msgspec refuses; see `surrogates`."""
    try:
        return _DECODER.decode(document)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        unescaped = surrogates.unescaped(document)
        try:
            return _DECODER.decode(unescaped)
        except UnicodeDecodeError:  # in the name of a member, which is unknown then
            return _DECODER.decode(surrogates.without(unescaped))


def decode_as_written(document: bytes) -> Document:
    """Like `decode_document`, for every document that Python's `json`, and so zarr-python, reads.

    NaN and Infinity without quotes become strings: zarr-python writes such attributes, and Zarr v2
    permits them. Lone surrogates may be bytes, as in undecoded members (`surrogates`).
    """
    try:
        document.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise MetadataError(f"is not UTF-8 at byte {error.start}") from error
    try:
        return _members(document)
    except MetadataError:
        quoted = quote_constants(document)
        if quoted is document:
            raise
        return _members(quoted)


def quote_constants(document: bytes, mark: bytes = b"") -> bytes:
    """`document` with quotes around NaN, Infinity and -Infinity, which are not JSON.

    All other bytes stay, and nothing is decoded: attributes may be large. `mark`, which has no quotes or
    backslashes, is put in front of each, so that the caller can find and unquote them again.
    """
    if _CONSTANT.search(document) is None:
        return document

    def quoted(found: re.Match[bytes]) -> bytes:
        text = found[0]
        return text if text.startswith(b'"') else b'"' + mark + text + b'"'

    return _STRING_OR_CONSTANT.sub(quoted, document)


def decode_raw(raw: msgspec.Raw, member: str) -> Any:
    """The value of `raw`.

    Raises `MetadataError` naming `member` if it cannot be represented, or has more than `LARGEST_MEMBER`
    bytes: as a value it takes up to 24 times the memory (an empty object 72 bytes instead of 3).
    """
    size = memoryview(raw).nbytes
    if size > LARGEST_MEMBER:
        raise MetadataError(f"{member}: has {size} bytes of JSON, more than {LARGEST_MEMBER}")
    try:
        return msgspec.json.decode(raw)
    except (ValueError, RecursionError) as error:  # those of msgspec are ValueErrors
        text = bytes(memoryview(raw))
        if surrogates.held_by_json(text):
            with suppress(ValueError, RecursionError):
                return surrogates.decoded(text)
        raise MetadataError(f"{member}: {error}") from error


def encode_raw(value: object) -> msgspec.Raw:
    """The inverse of `decode_raw`. Raises `RecursionError`."""
    try:
        return msgspec.Raw(msgspec.json.encode(value))
    except UnicodeEncodeError:  # a lone surrogate
        return msgspec.Raw(json.dumps(value).encode())


def take_member(document: Document, name: str, default: Any = _REQUIRED) -> Any:
    """The value of the member `name`, or `default`; without a default, raises `MetadataError`."""
    if name in document:
        return decode_raw(document[name], name)
    if default is _REQUIRED:
        raise MetadataError(f"{name}: is missing")
    return default


def is_object(raw: msgspec.Raw) -> bool:
    """Whether `raw` is an object, without decoding it."""
    return bytes(memoryview(raw)[:1]) == b"{"


def may_be_ignored(raw: msgspec.Raw) -> bool:
    """Whether `raw` is an object with `must_understand` false; its other members are not decoded."""
    if not is_object(raw):
        return False
    try:
        return bytes(_DECODER.decode(raw).get("must_understand", b"")) == b"false"
    except (ValueError, RecursionError):
        return False
