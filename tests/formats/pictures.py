"""Pictures and whole files for the tests of what stands around the pixels."""

from math import prod
from typing import Any

import numpy as np

from zarrfuse.formats.envelope import Envelope
from zarrfuse.spec.axes import Axis, Kind
from zarrfuse.spec.ome import Picture

_KINDS: dict[str, Kind] = {"T": "time", "C": "channel", "S": "sample"}


def picture(letters: str, *, scaled: bool = False, **members: Any) -> Picture:
    """A picture of axes with those letters, `-` for one that has none.

    `scaled`: steps of 0.25 um (X), 0.5 um (Y), 2 um (Z) and 3 ms (T), from 10 on.
    """
    steps = {"X": 0.25, "Y": 0.5, "Z": 2.0, "T": 3.0}
    axes = []
    for letter in letters:
        step = steps.get(letter) if scaled else None
        unit = ("millisecond" if letter == "T" else "micrometer") if step else None
        axes.append(
            Axis(
                letter.lower(),
                _KINDS.get(letter, "space"),
                letter.strip("-"),
                unit,
                step,
                10.0 if step else None,
            )
        )
    return Picture(tuple(axes), samples=letters.endswith("S"), **members)


def counting(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array of different values, as far as the type has so many."""
    values = np.arange(prod(shape)).reshape(shape)
    return values % 2 == 0 if np.dtype(dtype) == np.bool_ else (values % 251 - 100).astype(dtype)


def whole(array: np.ndarray, around: Envelope) -> bytes:
    """The file that `Envelope` makes of an array."""
    pixels = array.tobytes()
    again = pixels[len(pixels) - around.again :]
    content = around.head + pixels + around.tail + again
    assert len(content) == around.size(array.nbytes)
    return content
