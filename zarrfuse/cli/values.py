"""Times, sizes and names of formats, as options have them. Used by `mount`.

What is not one raises `typer.BadParameter`; `option` is the name of the option, for the message.
"""

import grp
import math
import pwd
import re
from collections.abc import Callable

import typer

from zarrfuse.config import FORMATS

_SIZE = re.compile(r"([0-9]{1,18})(?:([KMGT])(?:iB)?)?", re.IGNORECASE)
_NOBODY_IN_PARTICULAR = 2**32 - 1  # -1 in calls that take a user
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def parse_seconds(text: str, option: str) -> float:
    """Seconds, at least 0; `inf` too."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise typer.BadParameter(
            f"{text} is neither a number of seconds nor inf", param_hint=option
        )
    return seconds


def parse_bytes(text: str, option: str) -> int:
    """Bytes; a unit is a power of 1024."""
    size = _SIZE.fullmatch(text)
    if size is None:
        raise typer.BadParameter(
            f"{text or 'an empty text'} is not a size such as 268435456, 256M or 1GiB",
            param_hint=option,
        )
    return int(size[1]) << _UNITS[(size[2] or "").upper()]


def parse_user(text: str, option: str) -> int:
    """The number of a user, given by number or name."""
    return _number(text, option, lambda name: pwd.getpwnam(name).pw_uid)


def parse_group(text: str, option: str) -> int:
    """The number of a group, given by number or name."""
    return _number(text, option, lambda name: grp.getgrnam(name).gr_gid)


def _number(text: str, option: str, by_name: Callable[[str], int]) -> int:
    if text.isascii() and text.isdigit() and int(text) < _NOBODY_IN_PARTICULAR:
        return int(text)
    try:
        return by_name(text)
    except (KeyError, ValueError):
        raise typer.BadParameter(f"there is no {text or 'empty name'}", param_hint=option) from None


def parse_mask(text: str, option: str) -> int:
    """Permission bits that are taken away, in octal."""
    if not re.fullmatch("0{0,2}[0-7]{1,3}", text):
        raise typer.BadParameter(f"{text} is no octal number such as 022", param_hint=option)
    return int(text, 8)


def parse_formats(text: str, option: str) -> tuple[str, ...]:
    """The renderings of `--formats`, in the order of `FORMATS`."""
    chosen = text.split(",")
    for name in chosen:
        if name not in FORMATS:
            raise typer.BadParameter(
                f"{name or 'an empty name'} is not one of {', '.join(FORMATS)}", param_hint=option
            )
    return tuple(name for name in FORMATS if name in chosen)
