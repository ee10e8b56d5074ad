"""Arrays in memory, their pictures, and what is read for them."""

from collections.abc import Callable, Sequence

import imagecodecs
import numpy as np

from zarrfuse.errors import Corrupt, NotSupported
from zarrfuse.spec.axes import Axis
from zarrfuse.spec.ome import Channel, Picture
from zarrfuse.views.images.render import Plan

RED, GREEN, BLUE, WHITE = 0xFF0000, 0x00FF00, 0x0000FF, 0xFFFFFF
KINDS = {"T": "time", "C": "channel", "S": "sample", "": "other"}


class InMemory:
    """An array in memory that is read by the chunk, as `DecodedArray` is, and counts what that costs."""

    def __init__(
        self, values: np.ndarray, unit: Sequence[int] | None = None, path: str = "a"
    ) -> None:
        self.values = values
        self.shape, self.dtype, self.path = values.shape, values.dtype, path
        self.unit_shape = tuple(unit or values.shape)
        self.corrupt: set[tuple[int, ...]] = set()
        self.refused: NotSupported | None = None
        self.decoded: list[tuple[int, ...]] = []
        self.on_read: Callable[[], object] = lambda: None

    @property
    def decoded_bytes(self) -> int:
        return len(self.decoded) * int(np.prod(self.unit_shape)) * self.dtype.itemsize

    def read(self, box: tuple[slice, ...], *, wait: bool = True) -> np.ndarray:
        self.on_read()
        if self.refused is not None:
            raise self.refused
        first = [along.start // unit for along, unit in zip(box, self.unit_shape, strict=True)]
        count = [
            -(-along.stop // unit) - start
            for along, unit, start in zip(box, self.unit_shape, first, strict=True)
        ]
        for place in np.ndindex(*count):
            chunk = tuple(a + b for a, b in zip(first, place, strict=True))
            if chunk in self.corrupt:
                raise Corrupt(f"{self.path}: chunk c/{'/'.join(map(str, chunk))}: is damaged")
            self.decoded.append(chunk)
        return np.array(self.values[box], order="C")


def picture(letters: str, *channels: Channel, window: tuple[float, float] | None = None) -> Picture:
    """Of an array whose axes have these letters; `.` is one without a letter."""
    axes = [
        Axis("", KINDS.get(letter.strip("."), "space"), letter.strip("."))  # type: ignore[arg-type]
        for letter in letters
    ]
    return Picture(tuple(axes), channels, window, letters.endswith("S"))


def shown(planned: Plan) -> np.ndarray:
    """The pixels of a picture, which is exactly as large as it was said to be."""
    assert planned.problem is None
    file = planned.render()
    assert len(file) == planned.size
    pixels = imagecodecs.png_decode(file)
    assert pixels.dtype == np.uint8
    assert pixels.shape[:2] == (planned.height, planned.width)
    return pixels


def stretched(values: np.ndarray, low: float, high: float) -> np.ndarray:
    return np.rint(np.clip((values.astype(float) - low) / (high - low), 0, 1) * 255)


def ramp(*shape: int, dtype: str = "u2") -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)
