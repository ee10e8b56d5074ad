"""Turns numbers into brightness, and channels in colours into 8-bit pixels.

Owns contrast windows, percentiles and the sum of colours. Used by `render`. It must not know arrays in a
store.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Window = tuple[float, float]
"""The values that are shown black and at full brightness: finite, the first below the second."""

_PERCENTILES = (0.1, 99.9)
_SAME = 1e-12  # relative: what the means of equal numbers may differ by


def brightness(values: NDArray[np.float64], window: Window | None) -> NDArray[np.float32]:
    """From 0, black, to 1; NaN is black.

    Without a window, the range is that from the 0.1 to the 99.9 percentile of the values, or from the least
    to the largest if these percentiles are equal. If all values are equal, zero is black and any other
    value is 0.5.
    """
    if window is None:
        window = _window(values[~np.isnan(values)])
    low, high = window
    if high - low <= _SAME * max(abs(low), abs(high)):
        return np.where(np.isnan(values) | (values == 0), 0, 0.5).astype(np.float32)
    # Halves, because the difference of two floats may be none.
    bright = ((values / 2 - low / 2) / (high / 2 - low / 2)).clip(0, 1).astype(np.float32)
    bright[np.isnan(bright)] = 0
    return bright


def _window(values: NDArray[np.float64]) -> Window:
    if not values.size:
        return 0.0, 0.0
    low, high = (float(value) for value in np.percentile(values, _PERCENTILES))
    if high - low <= _SAME * max(abs(low), abs(high)):
        low, high = float(values.min()), float(values.max())
    return low, high


def to_bytes(bright: NDArray[Any]) -> NDArray[np.uint8]:
    """Brightness as 0 to 255; values above 1 are 255."""
    pixels: NDArray[np.uint8] = np.rint(np.minimum(bright, 1) * 255).astype(np.uint8)
    return pixels


def is_grey(colors: Sequence[int]) -> bool:
    """Whether a picture of channels in these colours, 0xRRGGBB, is grey."""
    return all(color >> 16 & 255 == color >> 8 & 255 == color & 255 for color in colors)


class Mixture:
    """Channels in their colours, 0xRRGGBB, added up; grey if all of `colors` are."""

    def __init__(self, size: tuple[int, int], colors: Sequence[int]) -> None:
        self._shifts = (0,) if is_grey(colors) else (16, 8, 0)
        self._planes = np.zeros((len(self._shifts), *size), np.float32)

    def add(self, color: int, bright: NDArray[np.float32]) -> None:
        """Add a channel."""
        for number, shift in enumerate(self._shifts):
            if part := color >> shift & 255:
                self._planes[number] += bright * np.float32(part / 255)

    def pixels(self) -> NDArray[np.uint8]:
        """(height, width), or (height, width, 3) if there are colours."""
        pixels = to_bytes(np.moveaxis(self._planes, 0, -1))
        return pixels[..., 0] if len(self._shifts) == 1 else pixels
