r"""The metadata of a TIFF file for ImageJ 1.x, so that it shows the pages as a hyperstack.

Owns which arrays plain ImageJ opens correctly, and the two places that it reads: the text in the tag
ImageDescription of the first page, and its own tag 50839 (colours and display ranges of channels).
Used by `tiff`. It must not know pages and offsets.

Facts, all tried with ImageJ 1.53t (`tests/apps` tests some of them):

- The order of planes is T, Z, C, the last changing fastest. `order=zct` means T, C, Z (Micro-Manager writes
  it too), but is ignored unless all pages are read: with `images=`, and if the pages are contiguous in the
  file, they are read as one run of T, Z, C. Bio-Formats ignores it.
- With `images=` only the first page is read, and the pixels must be contiguous.
- Channels get colours only in these two ways.
- 32768 is added to display ranges of int16.
- 16-bit elements with samples are not shown as a hyperstack with `images=`, and in several pages only with
  three samples. Alpha is ignored. uint32 is read as int32. int8 is shown as uint8; float16 and float64 are
  refused.
"""

from dataclasses import dataclass
from math import isfinite, prod
from typing import Any, Final

import numpy as np

from zarrfuse.formats.image_metadata import LENGTHS, step
from zarrfuse.spec.axes import Axis
from zarrfuse.spec.ome import Picture

_TYPES: Final = frozenset(["uint8", "uint16", "int16", "uint32", "int32", "float32"])
_MOST_COMPOSITE = 7  # channels that ImageJ shows at once
_MOST_COLOURED = 64  # channels with a lookup table, 768 bytes each
_SECONDS: Final = {"second": 1.0, "millisecond": 1e-3, "microsecond": 1e-6, "minute": 60.0} | {
    "nanosecond": 1e-9,
    "hour": 3600.0,
    "day": 86400.0,
}


@dataclass(frozen=True, slots=True)
class Hyperstack:
    """The numbers of channels, slices and frames in ImageJ for the planes of an array.

    `slice_axis`, `frame_axis`: the axes of slices and frames, None if there is not exactly one. `is_zct`:
    slices change faster than channels.
    """

    frames: int = 1
    slices: int = 1
    channels: int = 1
    is_zct: bool = False
    slice_axis: Axis | None = None
    frame_axis: Axis | None = None

    @property
    def planes(self) -> int:
        """The number of planes."""
        return self.frames * self.slices * self.channels


def hyperstack(shape: tuple[int, ...], dtype: np.dtype[Any], picture: Picture) -> Hyperstack | None:
    """The hyperstack of an array; None for types that ImageJ does not show correctly.

    Shape and picture are those of `image_metadata.stacked`. If ImageJ has no order for the other axes,
    those before the channels become frames and those after them slices; without channels all become frames.
    """
    samples = shape[-1] if picture.samples else 1
    leading = [
        (axis, length)
        for axis, length in zip(picture.axes, shape, strict=True)
        if axis.letter in ("T", "Z", "C") and length > 1
    ]
    if dtype.name not in _TYPES:
        return None
    if samples > 1 and not _shows_samples(samples, dtype, leading):
        return None
    letters = "".join(axis.letter for axis, _ in leading)
    if letters in ("", "T", "Z", "C", "TZ", "TC", "ZC", "TZC"):
        return _counted(leading, is_zct=False)
    if letters in ("CZ", "TCZ"):
        return _counted(leading, is_zct=True)
    if "C" not in letters:
        return Hyperstack(frames=prod(length for _, length in leading))
    place = letters.index("C")
    frames = [length for _, length in leading[:place]]
    slices = [length for _, length in leading[place + 1 :]]
    return Hyperstack(prod(frames), prod(slices), leading[place][1], is_zct=bool(slices))


def _counted(leading: list[tuple[Axis, int]], *, is_zct: bool) -> Hyperstack:
    axes = {axis.letter: axis for axis, _ in leading}
    lengths = {axis.letter: length for axis, length in leading}
    frames, slices, channels = (lengths.get(letter, 1) for letter in "TZC")
    return Hyperstack(frames, slices, channels, is_zct, axes.get("Z"), axes.get("T"))


def _shows_samples(samples: int, dtype: np.dtype[Any], leading: list[tuple[Axis, int]]) -> bool:
    if any(axis.letter == "C" for axis, _ in leading):
        return False
    return dtype.name == "uint8" or (dtype.name == "uint16" and (samples == 3 or not leading))


def description(stack: Hyperstack, dtype: np.dtype[Any], picture: Picture) -> str:
    """The text of ImageDescription, in ASCII: lines of a Java properties file.

    Of pixel sizes it has only `unit=`, see `resolution`.
    """
    lines = ["ImageJ=1.11a"]
    counts = {"channels": stack.channels, "slices": stack.slices, "frames": stack.frames}
    if stack.planes > 1:
        if not stack.is_zct and not (picture.samples and dtype.itemsize > 1):
            lines.append(f"images={stack.planes}")
        lines += [f"{name}={count}" for name, count in counts.items() if count > 1]
        lines.append("hyperstack=true")
    if stack.channels > 1:
        lines.append(f"mode={_mode(stack, picture)}")
    if stack.is_zct:
        lines.append("order=zct")
    lines += _calibration(stack, picture)
    window = _window(picture) if stack.channels == 1 else None
    if window is not None and not picture.samples:
        low, high = (value + _shift(dtype) for value in window)
        lines += [f"min={low}", f"max={high}"]
    lines.append("loop=false")
    return "\n".join(lines) + "\n"


def resolution(picture: Picture) -> tuple[float, float] | None:
    """Pixels along X and Y for each unit of `description`; None if that is not known."""
    axes = {axis.letter: axis for axis in picture.axes}
    steps = step(axes["X"]), step(axes["Y"])
    if steps[0] is None or steps[1] is None or _unit(axes["X"]) is None:
        return None
    pixels = 1 / steps[0], 1 / steps[1]
    # They become fractions of two numbers of 32 bits.
    return pixels if all(1e-8 < value < 4e9 for value in pixels) else None


def tags(stack: Hyperstack, dtype: np.dtype[Any], picture: Picture) -> dict[str, Any]:
    """`Ranges` and `LUTs` of all channels for tifffile; {} if they are not known."""
    result: dict[str, Any] = {}
    if stack.channels == 1 or picture.samples:
        return result
    whole = _usable(picture.display_range)
    windows = [whole or _usable(channel.window) for channel in picture.channels]
    windows = windows or [whole] * stack.channels
    known = [window for window in windows if window is not None]
    if known and len(windows) == stack.channels <= _MOST_COLOURED:
        others = min(low for low, _ in known), max(high for _, high in known)
        result["Ranges"] = [
            value + _shift(dtype) for window in windows for value in window or others
        ]
    if _is_coloured(stack, picture):
        grey = 0xFFFFFF
        colors = [grey if channel.color is None else channel.color for channel in picture.channels]
        result["LUTs"] = [_table(color) for color in colors]
    return result


def _is_coloured(stack: Hyperstack, picture: Picture) -> bool:
    return (
        stack.channels <= _MOST_COLOURED
        and len(picture.channels) == stack.channels
        and any(channel.color is not None for channel in picture.channels)
    )


def _mode(stack: Hyperstack, picture: Picture) -> str:
    if not _is_coloured(stack, picture):
        return "grayscale"
    return "composite" if stack.channels <= _MOST_COMPOSITE else "color"


def _table(color: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The lookup table from black to a colour 0xRRGGBB, (3, 256)."""
    brightest = np.array([color >> 16 & 0xFF, color >> 8 & 0xFF, color & 0xFF])
    return (brightest[:, None] * np.arange(256) // 255).astype(np.uint8)


def _window(picture: Picture) -> tuple[float, float] | None:
    """The display range of a picture with one channel."""
    windows = [_usable(channel.window) for channel in picture.channels[:1]]
    return _usable(picture.display_range) or (windows[0] if windows else None)


def _usable(window: tuple[float, float] | None) -> tuple[float, float] | None:
    return window if window and all(map(isfinite, window)) and window[0] < window[1] else None


def _shift(dtype: np.dtype[Any]) -> float:
    """The offset of display ranges: ImageJ keeps int16 as uint16 with a calibration."""
    return 32768.0 if dtype.name == "int16" else 0.0


def _calibration(stack: Hyperstack, picture: Picture) -> list[str]:
    axes = {axis.letter: axis for axis in picture.axes}
    lines: list[str] = []
    plane = resolution(picture)
    if plane is not None:
        units = {letter: _unit(axes[letter]) for letter in "XY"}
        lines.append(f"unit={units['X']}")
        if units["Y"] not in (None, units["X"]):
            lines.append(f"yunit={units['Y']}")
        for letter in "XY":
            axis = axes[letter]
            # In pixels: where the coordinates are zero.
            zero = -axis.origin / axis.scale if axis.origin and axis.scale else 0.0
            if zero and isfinite(zero):
                lines.append(f"{letter.lower()}origin={zero}")
        depth, unit = step(stack.slice_axis), _unit(stack.slice_axis)
        if depth is not None and unit is not None:
            lines.append(f"spacing={depth}")
            if unit != units["X"]:
                lines.append(f"zunit={unit}")
    interval = step(stack.frame_axis)
    if interval is not None and stack.frame_axis is not None:
        seconds = _SECONDS.get(stack.frame_axis.unit or "second")
        if seconds is not None:
            lines.append(f"finterval={interval * seconds}")
    return lines


def _unit(axis: Axis | None) -> str | None:
    """The symbol of the unit of an axis, escaped as in Java.

    It is "pixel" for an axis without unit, None for a unit that is not a length.
    """
    if axis is None:
        return None
    if axis.unit is None:
        return "pixel"
    symbol = LENGTHS.get(axis.unit)
    return symbol and symbol.encode("ascii", "backslashreplace").decode().replace("\\x", "\\u00")
