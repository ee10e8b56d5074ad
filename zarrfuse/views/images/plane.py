"""One plane of an array, or the middle of it, read as small images of its channels.

Owns which box of the array that is, how many chunks it takes, and how these are read: each once, in
bands, so that memory is bounded whatever the array's size. Used by `images.render`. It knows arrays
by `DecodedArray` alone, and nothing of contrast or colours.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from math import isqrt, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zarrfuse.errors import Corrupt
from zarrfuse.views.images.decode import DecodedArray
from zarrfuse.views.images.regions import Slices
from zarrfuse.views.images.shrink import Shrunk

log = logging.getLogger(__name__)


MOST_UNITS = 1 << 14
"""Chunks that are decoded for a picture: of tiny ones each takes as long as a larger one."""
_BAND = 8 << 20  # bytes read at a time, where chunks are smaller
_TOLD = 5  # chunks that cannot be decoded, of one picture, that the log names


def plane_shape(array: DecodedArray, samples: int) -> tuple[int, int]:
    """(height, width) of each plane of an array, behind which may be an axis of samples."""
    height, width = array.shape[-3:-1] if samples else array.shape[-2:]
    return height, width


@dataclass(frozen=True, slots=True)
class Plane:
    """A plane (Y, X) or (Y, X, S) of an array, in some channels, or a part of it."""

    array: DecodedArray
    at: tuple[int, ...]
    """The index on each axis before Y. On that of channels it says nothing."""
    channel_axis: int | None
    channels: tuple[int, ...]
    """Indices on the axis of channels, ascending; one, whatever it is, where there is none."""
    samples: int
    """How many samples are read; 0 where there is no axis of them."""
    rows: slice
    columns: slice

    @property
    def shape(self) -> tuple[int, int]:
        """(height, width) of what is read."""
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    @property
    def is_whole(self) -> bool:
        """Whether this is all of the plane."""
        return self.shape == plane_shape(self.array, self.samples)

    @property
    def unit_bytes(self) -> int:
        """Bytes of what is decoded at once: a chunk, deep ones whole."""
        return prod(self.array.unit_shape) * self.array.dtype.itemsize

    def fits(self, most_bytes: int) -> bool:
        """Whether reading this decodes at most so many bytes."""
        return prod(self._grid()) <= self._most_units(most_bytes)

    def middle(self, most_bytes: int) -> "Plane | None":
        """The middle of this whole plane, of as many chunks as `most_bytes` hold; None: not one.

        It is about as wide for its height as the plane. Where one chunk for each channel is too much
        already, the last channels are left out.
        """
        plane = self
        while not plane._most_units(most_bytes) and len(plane.channels) > 1:
            plane = replace(plane, channels=plane.channels[:-1])
        most = plane._most_units(most_bytes)
        if not most:
            return None
        (down, across), (height, width) = plane._grid(), plane._unit()
        high = max(1, min(down, isqrt(most * down // across)))
        wide = min(across, most // high)
        high = min(down, most // wide)
        rows = _middle(down, high, height, plane.rows.stop)
        columns = _middle(across, wide, width, plane.columns.stop)
        return replace(plane, rows=rows, columns=columns)

    def images(self, size: tuple[int, int]) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Each channel, by its place in `channels`, or each sample, shrunk to (height, width).

        NaN where there is no number. Chunks that cannot be decoded are left out; the log names them.
        Raises `Corrupt`, behind the last image, if not one could be.
        """
        losses = _Losses(self.array.path)
        for places in self._together():
            images = self._shrunk(places, size, losses)
            yield from zip(range(self.samples) if self.samples else places, images, strict=True)
        losses.tell()

    # -- chunks

    def _unit(self) -> tuple[int, int]:
        """(height, width) of what is decoded at once."""
        unit = self.array.unit_shape
        height, width = unit[-3:-1] if self.samples else unit[-2:]
        return height, width

    def _grid(self) -> tuple[int, int]:
        """How many chunks (down, across) this touches, from the first row and column on."""
        (height, width), (down, across) = self.shape, self._unit()
        return -(-height // down), -(-width // across)

    def _most_units(self, most_bytes: int) -> int:
        """How many chunks of each channel `most_bytes` hold, all channels and samples together."""
        each = len(self._together())
        if self.samples:
            each = -(-self.samples // self.array.unit_shape[-1])
        return min(most_bytes // (each * self.unit_bytes), MOST_UNITS // each)

    def _together(self) -> list[tuple[int, ...]]:
        """The places of the channels that are in one chunk."""
        unit = 1 if self.channel_axis is None else self.array.unit_shape[self.channel_axis]
        places = groupby(range(len(self.channels)), lambda place: self.channels[place] // unit)
        return [tuple(group) for _, group in places]

    # -- reading

    def _shrunk(
        self, places: Sequence[int], size: tuple[int, int], losses: "_Losses"
    ) -> NDArray[np.float64]:
        first = self.channels[places[0]]
        channels = slice(first, self.channels[places[-1]] + 1)
        wanted = [self.channels[place] - first for place in places]
        shrunk = Shrunk(self.samples or len(places), self.shape, size)
        for rows in self._bands(channels):
            box = self._box(channels, rows)
            block, missing = self._read(box, losses)
            above = rows.start - self.rows.start
            for image, number in enumerate(range(self.samples) if self.samples else wanted):
                shrunk.add(image, above, self._image(block, number))
                for lost in missing:
                    of, lost_rows, lost_columns = self._where(lost, channels)
                    if of.start <= number < of.stop:
                        shrunk.leave_out(image, lost_rows, lost_columns)
        return shrunk.means()

    def _bands(self, channels: slice) -> Iterator[slice]:
        """Rows of whole chunks that are read at a time."""
        height, (_, width) = self._unit()[0], self.shape
        each = width * (channels.stop - channels.start) * (self.samples or 1)
        step = height * max(1, _BAND // (height * each * self.array.dtype.itemsize))
        for start in range(self.rows.start, self.rows.stop, step):
            yield slice(start, min(start + step, self.rows.stop))

    def _box(self, channels: slice, rows: slice) -> Slices:
        box = [slice(index, index + 1) for index in self.at]
        if self.channel_axis is not None:
            box[self.channel_axis] = channels
        box += [rows, self.columns]
        if self.samples:
            box.append(slice(0, self.samples))
        return tuple(box)

    def _image(self, block: NDArray[Any], number: int) -> NDArray[Any]:
        """A channel, counted from the first that was read, or a sample of a block."""
        if self.samples:
            return block.reshape(block.shape[-3:])[..., number]
        image: NDArray[Any] = block.reshape(-1, *block.shape[-2:])[number]
        return image

    def _where(self, box: Slices, channels: slice) -> tuple[slice, slice, slice]:
        """Which channels or samples, rows and columns of what is read a box is."""
        y = -3 if self.samples else -2
        rows, columns = _from(box[y], self.rows.start), _from(box[y + 1], self.columns.start)
        if self.samples:
            return box[-1], rows, columns
        if self.channel_axis is None:
            return slice(0, 1), rows, columns
        return _from(box[self.channel_axis], channels.start), rows, columns

    def _read(self, box: Slices, losses: "_Losses") -> tuple[NDArray[Any], list[Slices]]:
        """A box, and the boxes in it that could not be decoded, with zeros in their place."""
        try:
            block = self.array.read(box)
        except Corrupt:
            pass
        else:
            losses.any_read = True
            return block, []
        block = np.zeros([along.stop - along.start for along in box], self.array.dtype)
        missing = []
        for unit in _units(box, self.array.unit_shape):
            inside = tuple(
                _from(along, whole.start) for along, whole in zip(unit, box, strict=True)
            )
            try:
                block[inside] = self.array.read(unit)
            except Corrupt as error:
                losses.add(error)
                missing.append(unit)
            else:
                losses.any_read = True
        return block, missing


class _Losses:
    """What could not be decoded of one picture."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._errors: list[Corrupt] = []
        self._more = 0
        self.any_read = False

    def add(self, error: Corrupt) -> None:
        """Another chunk."""
        if len(self._errors) < _TOLD:
            self._errors.append(error)
        else:
            self._more += 1

    def tell(self) -> None:
        """To the log; raises the first error if nothing else was read."""
        if self._errors and not self.any_read:
            raise self._errors[0]
        for error in self._errors:
            log.warning("%s: black in the picture", error)
        if self._more:
            log.warning("%s: %d more chunks are black in the picture", self._path, self._more)


def _middle(count: int, taken: int, unit: int, stop: int) -> slice:
    """The middle `taken` of `count` units in a row, which end at `stop`."""
    first = (count - taken) // 2
    return slice(first * unit, min((first + taken) * unit, stop))


def _from(along: slice, start: int) -> slice:
    return slice(along.start - start, along.stop - start)


def _units(box: Slices, unit_shape: Sequence[int]) -> Iterator[Slices]:
    """The parts of a box that are decoded by themselves."""
    return product(
        *(
            [
                slice(max(along.start, start), min(along.stop, start + unit))
                for start in range(along.start // unit * unit, along.stop, unit)
            ]
            for along, unit in zip(box, unit_shape, strict=True)
        )
    )
