"""Takes usable values out of attributes, and None for broken ones, where `spec.members` raises.

All kinds of programs write attributes, and data can be read without them. Used by `coordinates`,
`dimensions` and `ome`. It must not know what the values mean.
"""

import math

import msgspec

from zarrfuse.errors import MetadataError
from zarrfuse.spec.members import Document, decode_as_written

_MOST_CHARACTERS = 1000


def members(raw: msgspec.Raw | None) -> Document:
    """The members of an object, each undecoded, as some may be large; no members for another type."""
    if raw is None:
        return {}
    try:
        return decode_as_written(bytes(memoryview(raw)))
    except MetadataError:
        return {}


def number(value: object) -> float | None:
    """`value` as a float; None if it is not a number, not finite, or too large."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def value_range(low: object, high: object) -> tuple[float, float] | None:
    """(low, high) if both are numbers, and low is less than high."""
    start, end = number(low), number(high)
    return (start, end) if start is not None and end is not None and start < end else None


def text(value: object) -> str | None:
    """The printable text of a string, at most 1000 characters; None if there is none.

    Other characters become spaces, so that the text can be used in XML and on a terminal.
    """
    if not isinstance(value, str):
        return None
    cut = value[:_MOST_CHARACTERS]
    printable = "".join(c if c.isprintable() else " " for c in cut).strip()
    return printable or None
