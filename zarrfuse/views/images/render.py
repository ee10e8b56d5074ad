"""The picture of an array: a PNG whose size follows from metadata.

Owns the choice of pyramid level, plane, channels, contrast and colours. Used by the `images` view.
It reads through `images.plane`.

Of an array (..., Y, X) the picture is the middle plane of every leading axis. Its channels are shown
together, each stretched and in its colour. Large planes are shrunk, small ones stay as they are.
What counts is pixels, not how large these are in the world.
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
"""Of the longer side of a picture."""
MOST_DECODED = 64 << 20
"""Bytes of whole chunks that are decoded for a picture."""

# As in ImageJ, which shows no more than these seven together.
_PALETTE = (0xFF0000, 0x00FF00, 0x0000FF, 0xFFFFFF, 0x00FFFF, 0xFF00FF, 0xFFFF00)
_GREY = 0xFFFFFF

# A picture takes up to 200 MiB while it is made, and file managers ask for those of a whole folder.
# Still, one that a store does not answer must not hold up the others for ever: after some seconds it
# no longer counts.
_turns = Budget(2)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A channel that is shown. Without a window, it is stretched by percentiles."""

    index: int
    color: int
    window: Window | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The PNG of an array, as far as metadata tell. Made by `plan`."""

    size: int = 0
    """Bytes of the file; 0 where there is none."""
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
        """Raises `NotSupported` where nobody can decode that array; see `DecodedArray.check`."""
        if self._plane is not None:
            self._plane.array.check(wait=wait)

    @property
    def is_whole(self) -> bool:
        """Whether the whole plane is shown, rather than its middle."""
        return self._plane is not None and self._plane.is_whole

    def render(self) -> bytes:
        """The file, of exactly `size` bytes. Decodes: in a thread.

        Chunks that cannot be decoded are black, and named in the log. Raises `Corrupt` if that is
        all of them, `NotSupported` where there is no PNG or nobody can decode the array, and
        whatever else reading raises.
        """
        if self._plane is None:
            raise NotSupported(f"there is no PNG: {self.problem}")
        with _turns.taken(1):
            pixels = _pixels(self._plane, self._channels, (self.height, self.width))
        return png(pixels)


def plan(picture: Picture, array: DecodedArray, levels: Sequence[DecodedArray] = ()) -> Plan:
    """The PNG of `array`, from metadata alone: nothing is read.

    `levels` are other levels of its pyramid, in any order; what is no coarser level with the same
    dimensions, channels and type is left out. Read is the coarsest one that is as large as the
    picture, if that decodes at most `MOST_DECODED`; else the largest of those that are smaller and
    do; else the middle of the coarsest, of as many chunks as may be decoded.
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
    """Why there is no picture of an array of such a type and shape."""
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
    """The channels that are active; the first ones where these are too many to tell apart."""
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
    """Whether `level` can be shown in the place of `array`."""
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
    """Of planes, the smallest first, the one to show whole; None if that decodes too much."""
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
