"""The picture of an array: a PNG whose size follows from metadata.

Owns the choice of pyramid level, plane, channels, contrast and colours. Used by `arrays`. It reads through
`plane`.

The picture of an array (..., Y, X) is the middle plane on every leading axis. Channels are added up, each
with its own contrast and colour. Large planes are shrunk, small ones are not enlarged. Physical sizes of
pixels are ignored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod

import numpy as np
from numpy.typing import NDArray

from zarrfuse.errors import NotSupported
from zarrfuse.formats.png import png, png_size
from zarrfuse.spec.ome import Channel, Picture
from zarrfuse.stores.pool import Budget
from zarrfuse.views.images.contrast import Mixture, Window, brightness, is_grey, to_bytes
from zarrfuse.views.images.decode import DecodedArray
from zarrfuse.views.images.plane import Plane, plane_shape

MOST_PIXELS = 1024
"""The longer side of a picture, in pixels."""
MOST_DECODED = 64 << 20
"""How many bytes of chunks are decoded for a picture."""

# As in ImageJ, which shows no more than these seven together.
_PALETTE = (0xFF0000, 0x00FF00, 0x0000FF, 0xFFFFFF, 0x00FFFF, 0xFF00FF, 0xFFFF00)
_GREY = 0xFFFFFF

# A picture takes up to 200 MiB while it is made, and file managers ask for those of a whole folder.
# Still, one that a store does not answer must not hold up the others for ever: after some seconds it
# no longer counts.
_turns = Budget(2)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A channel that is shown. Without a window, percentiles are its contrast."""

    index: int
    color: int
    window: Window | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The PNG of an array, as far as it follows from metadata. Made by `plan`."""

    size: int = 0
    """Bytes of the file; 0 if there is none."""
    problem: str | None = None
    """Why there is none: a clause such as `complex64 has no brightness`."""
    width: int = 0
    height: int = 0
    _plane: Plane | None = None
    _channels: tuple[_Shown, ...] = ()

    @property
    def source(self) -> str:
        """The path of the array that is read: the array itself, or a coarser level of it."""
        return "" if self._plane is None else self._plane.array.path

    def check(self, *, wait: bool = True) -> None:
        """Raises `NotSupported` if that array cannot be decoded; see `DecodedArray.check`."""
        if self._plane is not None:
            self._plane.array.check(wait=wait)

    @property
    def is_whole(self) -> bool:
        """Whether the whole plane is shown, rather than its middle."""
        return self._plane is not None and self._plane.is_whole

    def render(self) -> bytes:
        """The file, of exactly `size` bytes. Decodes: in a thread.

        Chunks that cannot be decoded are black, and logged. Raises `Corrupt` if none can be decoded,
        `NotSupported` if there is no PNG or the array cannot be decoded, and what reading raises.
        """
        if self._plane is None:
            raise NotSupported(f"there is no PNG: {self.problem}")
        with _turns.taken(1):
            pixels = _pixels(self._plane, self._channels, (self.height, self.width))
        return png(pixels)


def plan(picture: Picture, array: DecodedArray, levels: Sequence[DecodedArray] = ()) -> Plan:
    """Plan the PNG of `array` from metadata: nothing is read.

    `levels`: other levels of its pyramid, in any order. Those with other dimensions, channels or types are
    ignored. The level to read is the coarsest one that is at least as large as the picture, if that decodes
    at most `MOST_DECODED` bytes; else the largest smaller one that does; else the middle of the coarsest.
    """
    samples = 3 if picture.samples and array.shape[-1:] in ((3,), (4,)) else 0
    problem = _problem(array, samples)
    if problem is not None:
        return Plan(problem=problem)
    axis = None if samples else _channel_axis(picture, array)
    shown = _shown(picture, array, axis)
    coarser = (level for level in levels if _is_coarser(level, array, axis, samples))
    planes = [_plane(level, axis, shown, samples) for level in (array, *coarser)]
    size = _fit(planes[0].shape)
    planes.sort(key=lambda plane: prod(plane.shape))
    plane = _best_whole(planes, size) or planes[0].middle(MOST_DECODED)
    if plane is None:
        chunk = f"a chunk of {planes[0].unit_bytes:,} bytes"
        return Plan(problem=f"{chunk} is more than the {MOST_DECODED:,} decoded for a picture")
    if not plane.is_whole or not _is_enough(plane, size):
        size = _fit(plane.shape)
    shown = shown[: len(plane.channels)]
    grey = not samples and is_grey([channel.color for channel in shown])
    height, width = size
    return Plan(png_size(width, height, 1 if grey else 3), None, width, height, plane, shown)


# -- what is shown


def _problem(array: DecodedArray, samples: int) -> str | None:
    """Why there is no picture of an array of this type and shape, or None."""
    dtype, needed = array.dtype, 3 if samples else 2
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        return f"{dtype} has no brightness"
    if dtype.kind in "iu" and dtype.itemsize == 8:
        return f"{dtype} is for labels and counts, which have no brightness"
    if len(array.shape) < needed:
        return f"a picture needs {needed} dimensions, not {len(array.shape)}"
    if not prod(array.shape):
        return "the array has no elements"
    return None


def _channel_axis(picture: Picture, array: DecodedArray) -> int | None:
    leading = picture.axes[: len(array.shape) - 2]
    return next((index for index, axis in enumerate(leading) if axis.letter == "C"), None)


def _shown(picture: Picture, array: DecodedArray, axis: int | None) -> tuple[_Shown, ...]:
    """The active channels; the first ones if there are too many to tell apart."""
    count = 1 if axis is None else array.shape[axis]
    told = picture.channels
    if len(told) != count:
        told = (Channel(None, None, None, True),) * min(count, len(_PALETTE))
    active = [(index, channel) for index, channel in enumerate(told) if channel.active]
    chosen = list(islice(active or enumerate(told), len(_PALETTE)))  # never none at all
    palette = (_GREY,) if len(chosen) == 1 else _PALETTE
    return tuple(
        _Shown(
            index,
            usual if channel.color is None else channel.color,
            (0.0, 1.0) if array.dtype.kind == "b" else picture.display_range or channel.window,
        )
        for (index, channel), usual in zip(chosen, palette, strict=False)
    )


def _plane(array: DecodedArray, axis: int | None, shown: Sequence[_Shown], samples: int) -> Plane:
    """The middle plane of an array, whole."""
    height, width = plane_shape(array, samples)
    leading = array.shape[: -3 if samples else -2]
    at = tuple(length // 2 for length in leading)
    channels = tuple(channel.index for channel in shown)
    return Plane(array, at, axis, channels, samples, slice(0, height), slice(0, width))


def _fit(shape: tuple[int, int]) -> tuple[int, int]:
    """(height, width) of the picture of a plane: at most `MOST_PIXELS`, and no larger than it is."""
    longest = max(shape)
    if longest <= MOST_PIXELS:
        return shape
    height, width = (max(1, (2 * n * MOST_PIXELS + longest) // (2 * longest)) for n in shape)
    return height, width


# -- which level


def _is_coarser(level: DecodedArray, array: DecodedArray, axis: int | None, samples: int) -> bool:
    """Whether `level` can be shown instead of `array`."""
    if len(level.shape) != len(array.shape) or level.dtype != array.dtype or not prod(level.shape):
        return False
    if samples and level.shape[-1] != array.shape[-1]:
        return False
    if axis is not None and level.shape[axis] != array.shape[axis]:
        return False
    here, there = plane_shape(level, samples), plane_shape(array, samples)
    return here != there and here[0] <= there[0] and here[1] <= there[1]


def _is_enough(plane: Plane, size: tuple[int, int]) -> bool:
    return plane.shape[0] >= size[0] and plane.shape[1] >= size[1]


def _best_whole(planes: Sequence[Plane], size: tuple[int, int]) -> Plane | None:
    """The plane to show whole, of `planes` with the smallest first; None if each decodes too much."""
    enough = [plane for plane in planes if _is_enough(plane, size)]
    small = [plane for plane in reversed(planes) if not _is_enough(plane, size)]
    return next((plane for plane in (*enough, *small) if plane.fits(MOST_DECODED)), None)


# -- the pixels


def _pixels(plane: Plane, channels: Sequence[_Shown], size: tuple[int, int]) -> NDArray[np.uint8]:
    """(height, width), or (height, width, 3) if there are colours."""
    if plane.samples:
        samples = np.stack([image for _, image in plane.images(size)], axis=-1)
        window = (0.0, 255.0) if plane.array.dtype == np.uint8 else channels[0].window
        return to_bytes(brightness(samples, window))
    mixture = Mixture(size, [channel.color for channel in channels])
    for place, image in plane.images(size):
        mixture.add(channels[place].color, brightness(image, channels[place].window))
    return mixture.pixels()
