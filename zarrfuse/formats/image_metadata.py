"""The metadata of a picture for OME-XML.

Owns how the axes of any array become those of a stack of images (T, C, Z, Y, X and samples), and its names,
colours, sizes, units and positions in OME-XML. Used by `tiff`, `imagej` and `ome_tiff`. It must not know
files or pixels, or import tifffile.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from math import isfinite, prod
from typing import Any, Final
from uuid import UUID

import numpy as np

from zarrfuse.spec.axes import Axis
from zarrfuse.spec.ome import Channel, Picture

CREATOR: Final = "zarrfuse"

_CENTIMETERS: Final = {
    **{"nm": 1e-7, "\u00b5m": 1e-4, "mm": 0.1, "cm": 1.0, "m": 100.0},
    **{"\u00c5": 1e-8, "in": 2.54},
}

_NO_UNIT = "reference frame"
"""The default unit of positions in OME-XML (schema 2016-06, Plane)."""
_MOST_POSITIONS = 4096
"""The position of each plane takes 100 bytes: with more planes, positions are left out."""

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SPACES = re.compile(r"\s+")

_PREFIXES: Final[Mapping[str, str]] = {
    **{"yocto": "y", "zepto": "z", "atto": "a", "femto": "f", "pico": "p", "nano": "n"},
    **{"micro": "\u00b5", "milli": "m", "centi": "c", "deci": "d", "": "", "deca": "da"},
    **{"hecto": "h", "kilo": "k", "mega": "M", "giga": "G", "tera": "T", "peta": "P"},
    **{"exa": "E", "zetta": "Z", "yotta": "Y"},
}
LENGTHS: Final[Mapping[str, str]] = {
    **{f"{prefix}meter": f"{symbol}m" for prefix, symbol in _PREFIXES.items()},
    **{
        "angstrom": "\u00c5",
        "foot": "ft",
        "inch": "in",
        "mile": "mi",
        "parsec": "pc",
        "yard": "yd",
    },
}
"""The symbol in OME-XML (schema 2016-06, UnitsLength) of each unit as OME-NGFF spells it."""

TIMES: Final[Mapping[str, str]] = {
    **{f"{prefix}second": f"{symbol}s" for prefix, symbol in _PREFIXES.items()},
    **{"minute": "min", "hour": "h", "day": "d"},
}
"""As above, UnitsTime."""


def stacked(shape: tuple[int, ...], picture: Picture) -> tuple[tuple[int, ...], Picture]:
    """The same elements in the same order as a stack of images: the shape of that, and its picture.

    Each axis has its own letter: T, Z, C in any order, then Y, X, and S for samples. Adjacent axes without
    a letter are merged into one. It becomes T, or Z if T is taken, else it is merged into the axis before
    it, which has no scale then. A picture with fewer than two axes becomes one row.
    """
    image = "YXS" if picture.samples else "YX"
    axes = list(zip(picture.axes, shape, strict=True))
    missing = len(image) - len(axes)
    if missing > 0:
        axes[:0] = [(Axis("", "space", letter), 1) for letter in image[:missing]]
    split = len(axes) - len(image)
    leading = _lettered(axes[:split])
    taken = {axis.letter for axis, _ in leading}
    whole = leading + [
        (replace(axis, letter=letter), length)
        for letter, (axis, length) in zip(image, axes[split:], strict=True)
    ]
    length = prod(length for axis, length in leading if axis.letter == "C")
    fits = "C" in taken and len(picture.channels) == length
    alone = "C" not in taken and len(picture.channels) == 1
    channels = picture.channels if fits or alone else ()
    axes_alone = tuple(axis for axis, _ in whole)
    return tuple(length for _, length in whole), replace(
        picture, axes=axes_alone, channels=channels
    )


def _lettered(axes: list[tuple[Axis, int]]) -> list[tuple[Axis, int]]:
    """The axes, each with its own letter T, Z or C; some are merged, see `stacked`."""
    free = [letter for letter in "TZ" if all(axis.letter != letter for axis, _ in axes)]
    result: list[tuple[Axis, int]] = []
    is_open = False  # whether the last one had no letter, so that the next is merged into it
    pending = 1  # elements of axes before the first one with a letter, if no letter is free
    for axis, length in axes:
        if axis.letter:
            result.append(_merged(axis, length, pending))
            pending = 1
            is_open = False
        elif length == 1:
            continue
        elif is_open or (result and not free):
            result[-1] = _merged(*result[-1], length)
        elif free:
            result.append((replace(axis, letter=free.pop(0)), length))
            is_open = True
        else:
            pending *= length
    return result


def _merged(axis: Axis, length: int, times: int) -> tuple[Axis, int]:
    """An axis with another one merged into it: it has no constant step any more."""
    if times == 1:
        return axis, length
    return replace(axis, unit=None, scale=None, origin=None), length * times


def ome_metadata(
    shape: tuple[int, ...], dtype: np.dtype[Any], picture: Picture, name: str
) -> dict[str, Any]:
    """The argument `metadata` of tifffile for an OME-TIFF: the same for the same arguments.

    Each axis of `picture` must have a letter (see `stacked`). Members: `axes`, `Name`, `Creator`, `UUID`,
    and those that are known of `PhysicalSizeX`, `-Y`, `-Z` and `TimeIncrement` with their units, `Channel`
    (`Name`, `Color`), and `Plane` (`PositionX`, `-Y`, `-Z`). A value whose unit OME-XML does not have is
    left out, as are characters that XML does not have.

    Source: OME-XML schema 2016-06.
    """
    lengths = {axis.letter: length for axis, length in zip(picture.axes, shape, strict=True)}
    axes = {axis.letter: axis for axis in picture.axes}
    result: dict[str, Any] = {
        "axes": "".join(lengths),
        "Name": text(name) or "image",
        "Creator": CREATOR,
    }
    for letter in "XYZ":
        measure = _measure(axes.get(letter), LENGTHS)
        if measure is not None:
            result[f"PhysicalSize{letter}"], result[f"PhysicalSize{letter}Unit"] = measure
    measure = _measure(axes.get("T"), TIMES)
    if measure is not None:
        result["TimeIncrement"], result["TimeIncrementUnit"] = measure
    channels = _channels(picture.channels, lengths.get("C", 1))
    if channels:
        result["Channel"] = channels
    planes = _positions(picture, lengths)
    if planes:
        result["Plane"] = planes
    content = repr((shape, dtype.str, picture, result)).encode("utf-8", "surrogatepass")
    result["UUID"] = str(UUID(bytes=sha256(content).digest()[:16], version=4))
    return result


def plane_resolution(metadata: Mapping[str, Any]) -> tuple[float, float] | None:
    """Pixels for each centimeter along X and Y, for programs that read no OME-XML; None if not known.

    `metadata`: see `ome_metadata`.
    """
    sizes = []
    for axis in "XY":
        unit = metadata.get(f"PhysicalSize{axis}Unit")
        if unit not in _CENTIMETERS:
            return None
        sizes.append(metadata[f"PhysicalSize{axis}"] * _CENTIMETERS[unit])
    # They are written as fractions of 32-bit numbers; within these limits they keep six digits.
    return (1 / sizes[0], 1 / sizes[1]) if all(1e-9 < size < 1e3 for size in sizes) else None


def text(value: str) -> str:
    """`value` in one line, without characters that XML does not have (XML 1.0, "Characters")."""
    return _SPACES.sub(" ", _NOT_IN_XML.sub("", value)).strip()


def step(axis: Axis | None) -> float | None:
    """The size of a step along an axis in its unit, positive and finite; None if there is none.

    An axis that runs backwards has a negative scale, which image formats do not have.
    """
    if axis is None or axis.scale is None or not isfinite(axis.scale) or axis.scale == 0:
        return None
    return abs(axis.scale)


def _measure(axis: Axis | None, units: Mapping[str, str]) -> tuple[float, str] | None:
    size = step(axis)
    if axis is None or size is None or axis.unit is None or axis.unit not in units:
        return None
    return size, units[axis.unit]


def _channels(channels: tuple[Channel, ...], length: int) -> list[dict[str, Any]]:
    """Name and colour of each channel. Empty if they do not fit, or are not known."""
    if len(channels) != length:
        return []
    result: list[dict[str, Any]] = []
    for channel in channels:
        members: dict[str, Any] = {}
        label = text(channel.label or "")
        if label:
            members["Name"] = label
        if channel.color is not None:
            members["Color"] = _signed(channel.color << 8 | 0xFF)
        result.append(members)
    return result if any(result) else []


def _signed(rgba: int) -> int:
    """A colour as a signed 32-bit number (OME-XML schema 2016-06, Color)."""
    return rgba - (1 << 32) if rgba >= 1 << 31 else rgba


def _positions(picture: Picture, lengths: Mapping[str, int]) -> dict[str, Any]:
    """The position of each plane. Empty if it is not known, or there are too many planes."""
    leading = [axis for axis in picture.axes if axis.letter in ("T", "Z", "C")]
    counts = [lengths[axis.letter] for axis in leading]
    planes = prod(counts)
    if planes > _MOST_POSITIONS:
        return {}
    result: dict[str, Any] = {}
    for axis in picture.axes:
        letter = axis.letter
        unit = _NO_UNIT if axis.unit is None else LENGTHS.get(axis.unit)
        if letter not in ("X", "Y", "Z") or unit is None:
            continue
        if axis.origin is None or not isfinite(axis.origin):
            continue
        positions = [axis.origin] * planes
        if letter == "Z":
            scale = 1.0 if axis.scale is None and axis.unit is None else axis.scale
            if scale is None or not isfinite(scale):
                continue
            place = [other.letter for other in leading].index("Z")
            inner = prod(counts[place + 1 :])
            indices = (plane // inner % counts[place] for plane in range(planes))
            positions = [axis.origin + index * scale for index in indices]
        result[f"Position{letter}"] = positions
        result[f"Position{letter}Unit"] = [unit] * planes
    return result
