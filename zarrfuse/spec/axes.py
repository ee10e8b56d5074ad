"""The axes of an array as a picture: time, channel, depth, height, width, samples.

Owns the axes, the names of axes that programs use, and the units. Used by `ome`, which finds their
descriptions. It must not know attributes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["space", "time", "channel", "sample", "other"]


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension of an array.

    `name`: as written, `""` if there is none. `letter`: its role in a picture, T, Z, C, Y, X or S, each at
    most once, or `""` if it has none. `unit`: as OME-NGFF spells it, None if it is not known. `scale`: the
    step from one element to the next, `origin`: the position of the first element, both in that unit.
    """

    name: str
    kind: Kind
    letter: str
    unit: str | None = None
    scale: float | None = None
    origin: float | None = None


class Description(NamedTuple):
    """The description of an axis in metadata; `name`: `""` if it has none."""

    name: str = ""
    type: str | None = None
    unit: str | None = None


KINDS: Final[Mapping[str, Kind]] = {
    "t": "time",
    "c": "channel",
    "z": "space",
    "y": "space",
    "x": "space",
}
"""The axes of OME-NGFF in their order, by name, and their kinds."""

OF_FIVE_DIMENSIONS: Final = tuple(Description(name, kind) for name, kind in KINDS.items())
"""The axes of all pictures of OME-NGFF 0.1 and 0.2, which have no metadata for axes."""

_TYPES: Final[Mapping[str, tuple[Kind, str]]] = {
    "time": ("time", "T"),
    "channel": ("channel", "C"),
    "space": ("space", "Z"),
}
_NAMES: Final[Mapping[str, tuple[Kind, str]]] = {
    **dict.fromkeys(
        ("t", "time", "times", "timepoint", "timepoints", "frame", "frames"), _TYPES["time"]
    ),
    **dict.fromkeys(
        ("c", "ch", "channel", "channels", "band", "bands", "wavelength", "wavelengths"),
        _TYPES["channel"],
    ),
    **dict.fromkeys(
        ("z", "depth", "plane", "planes", "slice", "slices", "section", "sections"),
        _TYPES["space"],
    ),
    # Their letters follow from their position.
    **dict.fromkeys(("y", "x"), ("space", "")),
}
_SAMPLES: Final = frozenset(
    {
        *("c", "ch", "channel", "channels", "s", "sample", "samples", "rgb", "rgba"),
        *("band", "bands", "color", "colors", "colour", "colours"),
    }
)
# Names of xarray and others for dimensions without a name.
_NUMBERED = re.compile(r"(?:dim|axis)_?[0-9]{1,5}")


def short_name(word: str) -> str:
    """The name of an axis by a word that programs use: "t" for "Frames"; the word, if it is not known."""
    lower = word.lower()
    _, letter = _NAMES.get(lower, ("other", ""))
    return letter.lower() or lower


def axes_of(
    shape: Sequence[int], described: Sequence[Description], *, may_be_rgb: bool
) -> tuple[Axis, ...]:
    """The axes of an array with this shape, without scale and origin.

    `described`: a description for each dimension. `may_be_rgb`: whether the elements have a type of colour
    pictures; only used if no axis has a name.
    """
    letters = _letters(shape, described, may_be_rgb=may_be_rgb)
    axes = []
    for axis, letter in zip(described, letters, strict=True):
        kind = _kind(axis, letter)
        axes.append(Axis(axis.name, kind, letter, unit_of(axis.unit, kind)))
    return tuple(axes)


def _letters(
    shape: Sequence[int], described: Sequence[Description], *, may_be_rgb: bool
) -> list[str]:
    """A letter for each dimension, or `""`.

    The last two are Y and X, whatever their names, and 3 or 4 samples may follow. Those before get the
    letter of their type in OME-NGFF, or else of their name; of two with the same letter the inner one gets
    it. Those without type and name get the free letters, first Z, then T, then C, in the order of OME-NGFF:
    Z; T, Z; T, C, Z.
    """
    letters = [""] * len(shape)
    plane = len(shape)
    if _has_samples(shape, described, may_be_rgb=may_be_rgb):
        plane -= 1
        letters[plane] = "S"
    leading = range(plane - 2)
    for index, letter in zip(reversed(range(plane)), "XY", strict=False):
        letters[index] = letter
    taken = set()
    for index in reversed(leading):
        _, letter = _kind_and_letter(described[index])
        if letter and letter not in taken:
            taken.add(letter)
            letters[index] = letter
    nameless = [index for index in reversed(leading) if _is_nameless(described[index])]
    free = [letter for letter in "ZTC" if letter not in taken][: len(nameless)]
    for index, letter in zip(nameless, sorted(free, key="ZCT".index), strict=False):
        letters[index] = letter
    return letters


def _has_samples(
    shape: Sequence[int], described: Sequence[Description], *, may_be_rgb: bool
) -> bool:
    """Whether the last axis has the samples of each pixel: red, green, blue, perhaps alpha.

    Its name or type decides. If no axis has a name, it does if the element type is one of colour pictures
    and height and width are larger: (4, 4, 4) is a stack.
    """
    if len(shape) < 3 or shape[-1] not in (3, 4):
        return False
    if all(map(_is_nameless, described)):
        return may_be_rgb and min(shape[-3:-1]) > shape[-1]
    last = described[-1]
    if last.type in _TYPES:
        return last.type == "channel"
    return last.name.strip().lower() in _SAMPLES


def _kind_and_letter(axis: Description) -> tuple[Kind, str]:
    """Kind and letter of an axis by its type, or else by its name; `""` if these have no letter."""
    if axis.type is not None and axis.type in _TYPES:
        return _TYPES[axis.type]
    return _NAMES.get(axis.name.strip().lower(), ("other", ""))


def _is_nameless(axis: Description) -> bool:
    name = axis.name.strip().lower()
    return axis.type is None and (not name or _NUMBERED.fullmatch(name) is not None)


def _kind(axis: Description, letter: str) -> Kind:
    if letter == "S":
        return "sample"
    kind, _ = _kind_and_letter(axis)
    if kind == "other" and axis.type is None and letter:
        return KINDS[letter.lower()]
    return kind


# -- units

_PREFIXES = (
    *("yocto", "zepto", "atto", "femto", "pico", "nano", "micro", "milli", "centi", "deci", ""),
    *("hecto", "kilo", "mega", "giga", "tera", "peta", "exa", "zetta", "yotta"),
)
_LENGTHS = frozenset(
    {f"{prefix}meter" for prefix in _PREFIXES}
    | {"angstrom", "foot", "inch", "mile", "parsec", "yard"}
)
_TIMES = frozenset({f"{prefix}second" for prefix in _PREFIXES} | {"minute", "hour", "day"})
# Both a Greek mu and the micro sign of Unicode, which look alike.
_SMALL = {
    **{"f": "femto", "p": "pico", "n": "nano", "m": "milli"},
    **dict.fromkeys(("u", "\u00b5", "\u03bc"), "micro"),
}
_SYMBOLS: Final[Mapping[str, str]] = {
    **{f"{symbol}m": f"{prefix}meter" for symbol, prefix in _SMALL.items()},
    **{f"{symbol}s": f"{prefix}second" for symbol, prefix in _SMALL.items()},
    **{"m": "meter", "cm": "centimeter", "km": "kilometer", "in": "inch"},
    **dict.fromkeys(("\u00c5", "\u212b"), "angstrom"),
    **{"s": "second", "sec": "second", "min": "minute", "h": "hour", "d": "day"},
}
_UNITS: Final[Mapping[Kind, frozenset[str]]] = {
    "space": _LENGTHS,
    "time": _TIMES,
    "channel": frozenset(),
    "sample": frozenset(),
    "other": _LENGTHS | _TIMES,
}


def unit_of(text: str | None, kind: Kind = "other") -> str | None:
    """The unit of an axis of this kind as OME-NGFF spells it; None for any other text.

    Symbols, plurals and British spelling are known too (OME-NGFF 0.4 and 0.5, "axes" metadata). An axis of
    the kind `other` may have units of length and of time.
    """
    if text is None:
        return None
    symbol = text.strip()
    word = symbol.lower().replace("metre", "meter").replace("micron", "micrometer")
    for spelling in (_SYMBOLS.get(symbol), word, word.removesuffix("s")):
        if spelling in _UNITS[kind]:
            return spelling
    return None
