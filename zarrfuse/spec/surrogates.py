r"""Lone surrogates in JSON: half a character, such as `"\ud800"`, which a program left that cut a string.

The grammar of JSON has them (RFC 8259, section 8.2), and Python's `json` reads and writes them, so
documents of zarr-python may hold some. msgspec refuses them, escaped or not, where it decodes a string; but
strings that it passes over may hold the three bytes that UTF-8 would have for a surrogate. So inside
zarrfuse undecoded JSON (`msgspec.Raw`) holds these, and documents that are written hold escapes. Used by
`members`, `node_v2`, `plain` and `plain_writing`.
"""

import json
import re
from math import isfinite
from typing import Any

# An escape of a pair, of a lone surrogate (the group), or any other: backslashes stand in strings only.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|u([dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_BYTES = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
_CHARACTER = re.compile("[\ud800-\udfff]")


def unescaped(document: bytes) -> bytes:
    """JSON with each escape of a lone surrogate replaced by the three bytes of it."""

    def replaced(found: re.Match[bytes]) -> bytes:
        digits = found[1]
        return chr(int(digits, 16)).encode("utf-8", "surrogatepass") if digits else found[0]

    return _ESCAPE.sub(replaced, document)


def escaped(document: bytes) -> bytes:
    """The reverse of `unescaped`: JSON that is UTF-8."""
    return _BYTES.sub(
        lambda found: b"\\u%04x" % ord(found[0].decode("utf-8", "surrogatepass")), document
    )


def without(document: bytes) -> bytes:
    """`document`, which is `unescaped`, with U+FFFD in place of each."""
    return _BYTES.sub("\ufffd".encode(), document)


def held_by(text: str) -> bool:
    """Whether a string holds one."""
    return _CHARACTER.search(text) is not None


def held_by_json(document: bytes) -> bool:
    """Whether JSON holds one, escaped or not."""
    return _BYTES.search(unescaped(document)) is not None


def decoded(document: bytes) -> Any:
    """The value of JSON that msgspec refuses for them. Raises `ValueError`, `RecursionError`."""
    text = document.decode("utf-8", "surrogatepass")
    return json.loads(text, parse_constant=_finite, parse_float=_finite)


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise ValueError(f"{digits} is out of range")
    return number
