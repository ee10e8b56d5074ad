"""What can be used of attributes: members, numbers and text.

Attributes are written by all kinds of programs, and the data can be read without them. So what is
broken is left out, where `members` refuses. Used by `coordinates`, `dimensions` and `ome`. It must
not know what the values mean.
"""

import math

import msgspec

from zarrfuse.errors import MetadataError
from zarrfuse.spec.members import Document, decode_as_written

_MOST_CHARACTERS = 1000


def members(raw: msgspec.Raw | None) -> Document:
    """The members of an object, each undecoded, since some may be large; none of anything else."""
    if raw is None:
        return {}
    try:
        return decode_as_written(bytes(memoryview(raw)))
    except MetadataError:
        return {}


def number(value: object) -> float | None:
    """`value` as a float; None for what is no number, infinite, NaN or beyond a float."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def value_range(low: object, high: object) -> tuple[float, float] | None:
    """(low, high) if both are numbers, and the first is the lower one."""
    start, end = number(low), number(high)
    return (start, end) if start is not None and end is not None and start < end else None


def text(value: object) -> str | None:
    """`value` if it is a string with something in it: printable characters, at most 1000.

    What cannot be printed becomes a space, so that it can stand in XML and on a terminal.
    """
    if not isinstance(value, str):
        return None
    cut = value[:_MOST_CHARACTERS]
    printable = "".join(c if c.isprintable() else " " for c in cut).strip()
    return printable or None
