r"""Lone surrogates in JSON: half a UTF-16 pair, such as `"\ud800"`, of a string that was cut.

The grammar of JSON permits them (RFC 8259, section 8.2), and Python's `json` reads and writes them, so
documents of zarr-python may have them. msgspec refuses them in strings that it decodes, but skips them in
others, if they are the three bytes of a surrogate in UTF-8. So undecoded JSON (`msgspec.Raw`) has these
bytes inside zarrfuse, and written documents have escapes. Used by `members`, `node_v2`, `plain` and
`plain_writing`.
"""

import json
import re
from math import isfinite
from typing import Any

# An escape of a pair, of a lone surrogate (the group), or any other; only strings have backslashes.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|u([dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_BYTES = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
_CHARACTER = re.compile("[\ud800-\udfff]")


def unescaped(document: bytes) -> bytes:
    """JSON with each escape of a lone surrogate replaced by its three bytes."""

    def replaced(found: re.Match[bytes]) -> bytes:
        digits = found[1]
        return chr(int(digits, 16)).encode("utf-8", "surrogatepass") if digits else found[0]

    return _ESCAPE.sub(replaced, document)


def escaped(document: bytes) -> bytes:
    """The inverse of `unescaped`: JSON that is UTF-8."""
    return _BYTES.sub(
        lambda found: b"\\u%04x" % ord(found[0].decode("utf-8", "surrogatepass")), document
    )


def without(document: bytes) -> bytes:
    """An `unescaped` document with U+FFFD in place of each lone surrogate."""
    return _BYTES.sub("\ufffd".encode(), document)


def held_by(text: str) -> bool:
    """Whether a string has a lone surrogate."""
    return _CHARACTER.search(text) is not None


def held_by_json(document: bytes) -> bool:
    """Whether JSON has a lone surrogate, escaped or not."""
    return _BYTES.search(unescaped(document)) is not None


def decoded(document: bytes) -> Any:
    """The value of JSON with lone surrogates. Raises `ValueError`, `RecursionError`."""
    text = document.decode("utf-8", "surrogatepass")
    return json.loads(text, parse_constant=_finite, parse_float=_finite)


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise ValueError(f"{digits} is out of range")
    return number
