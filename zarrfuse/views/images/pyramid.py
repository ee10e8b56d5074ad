"""`G.ome.tiff`: a pyramid as one file, whose tiles are cut out of decoded arrays when they are read.

Owns the way from a byte range of that file to boxes of the levels' arrays. Used by `groups`.
`formats.ome_tiff` has the positions of tiles and the header, `decode` decodes.
"""

import math
import threading
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from zarrfuse.formats.ome_tiff import Layout, pyramid_header, pyramid_layout
from zarrfuse.formats.ome_tiff import pyramid_problem as problem_of_levels
from zarrfuse.formats.tiles import Piece
from zarrfuse.spec.ome import Picture
from zarrfuse.stores.base import Reader
from zarrfuse.views.images.decode import DecodedArray
from zarrfuse.views.images.lazy_bytes import LazyBytes

_TILES_IN_ORDER, _BYTES_IN_ORDER = 3, 3 << 20
"""How many bytes are read in order before the next ones are prefetched."""
_OUT_OF_ORDER_BYTES = 1 << 20
"""The kernel sends several requests of 128 KiB at a time, and they overtake each other."""
_AHEAD_BYTES = 12 << 20
_AHEAD_SHARE = 3
"""How much of the cache may be prefetched, as a fraction."""


def pyramid_problem(picture: Picture, arrays: Sequence[DecodedArray]) -> str | None:
    """Why there is no OME-TIFF of these levels, finest first, as a clause; None if there is one.

    `picture` is that of the finest level. Nothing is decoded.
    """
    return problem_of_levels(
        [array.shape for array in arrays], [array.dtype for array in arrays], picture
    )


def pyramid_size(picture: Picture, arrays: Sequence[DecodedArray], name: str) -> int:
    """Bytes of the file that `pyramid_file` opens. Arithmetic only, and cached.

    Raises `ValueError` if there is a `pyramid_problem`.
    """
    return _layout(picture, arrays, name).size


def pyramid_file(
    picture: Picture, arrays: Sequence[DecodedArray], name: str, mtime_ns: int, *, ahead: bool
) -> Reader:
    """Open the file; `name`: that of the image in its OME-XML.

    With `ahead`, chunks are prefetched when the file is read in order. Raises `ValueError` if there is a
    `pyramid_problem`.
    """
    return PyramidFile(_layout(picture, arrays, name), arrays, mtime_ns, ahead=ahead)


class PyramidFile(Reader):
    """An open `G.ome.tiff`; a `stores.base.Reader`."""

    __slots__ = ("_ahead", "_arrays", "_header", "_layout", "mtime_ns", "size")

    def __init__(
        self, layout: Layout, arrays: Sequence[DecodedArray], mtime_ns: int, *, ahead: bool
    ) -> None:
        self._layout = layout
        self._arrays = [arrays[level.index] for level in layout.tiles.levels]
        self._header = LazyBytes(layout.tiles.start, mtime_ns, self._padded_header, key=layout)
        self._ahead = _Ahead(layout, self._arrays) if ahead else None
        self.size = layout.size
        self.mtime_ns = mtime_ns

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `stores.base.Reader`. Raises what `DecodedArray.readinto` does."""
        tiles = self._layout.tiles
        stop = offset + len(buffer)
        if self._ahead is not None and wait:  # others may begin while this one waits
            self._ahead.was_read(offset, stop)
        filled = max(min(tiles.start, stop) - offset, 0)
        if filled:
            self._header.readinto(buffer[:filled], offset, wait=wait)
        for piece in tiles.pieces(offset + filled, stop):
            count = piece.stop - piece.start
            self._cut(buffer[filled : filled + count], piece, wait=wait)
            filled += count
        if self._ahead is not None and not wait:
            self._ahead.was_read(offset, stop)

    def close(self) -> None:
        """Cancel prefetching."""
        if self._ahead is not None:
            self._ahead.end()

    def _padded_header(self) -> bytes:
        return pyramid_header(self._layout).ljust(self._layout.tiles.start, b"\0")

    def _cut(self, buffer: memoryview, piece: Piece, *, wait: bool) -> None:
        """Fill `buffer` with these bytes of a tile."""
        row_bytes = self._layout.tiles.row_bytes
        first, last = piece.start // row_bytes, -(-piece.stop // row_bytes)
        skipped = piece.start - first * row_bytes
        count = (last - first) * row_bytes
        if count == len(buffer):
            self._fill_rows(buffer, piece, first, last, wait=wait)
        else:
            rows = memoryview(bytearray(count))
            self._fill_rows(rows, piece, first, last, wait=wait)
            buffer[:] = rows[skipped : skipped + len(buffer)]

    def _fill_rows(
        self, rows: memoryview, piece: Piece, first: int, last: int, *, wait: bool
    ) -> None:
        """Fill `rows` with the rows `first` to `last` of a tile, and with 0 outside of the image."""
        tiles = self._layout.tiles
        level, array = tiles.levels[piece.level], self._arrays[piece.level]
        samples = array.shape[len(level.lengths) + 2 :]
        top, bottom = piece.y + first, min(piece.y + last, level.height)
        left, right = piece.x, min(piece.x + tiles.shape[1], level.width)
        height, width = max(bottom - top, 0), right - left
        pixels = np.frombuffer(rows, array.dtype)
        pixels = pixels.reshape(last - first, tiles.shape[1], *samples)
        pixels[height:] = 0
        pixels[:, width:] = 0
        if height:
            box = (
                *(slice(at, at + 1) for at in piece.leading),
                slice(top, bottom),
                slice(left, right),
                *(slice(0, count) for count in samples),
            )
            inside = pixels[:height, :width][(np.newaxis,) * len(piece.leading)]
            array.readinto(inside, box, wait=wait)


class _Ahead:
    """Prefetches the chunks of the next tiles, once a file has been read in order for several tiles.

    A viewer reads single tiles, each in several reads, and the next one lies elsewhere.
    """

    def __init__(self, layout: Layout, arrays: Sequence[DecodedArray]) -> None:
        self._tiles = layout.tiles
        self._arrays = arrays
        self._patience = max(_TILES_IN_ORDER * self._tiles.tile_bytes, _BYTES_IN_ORDER)
        self._lock = threading.Lock()
        self._run = object()  # another one for each run: what an old one asked for is not wanted
        self._began = self._frontier = self._asked = 0

    def was_read(self, start: int, stop: int) -> None:
        """Note a read; if reads are in order, prefetch. Never waits."""
        if start < self._tiles.start:
            return
        with self._lock:
            if not -_OUT_OF_ORDER_BYTES <= start - self._frontier <= _OUT_OF_ORDER_BYTES:
                self._run = object()
                self._began = self._frontier = self._asked = start
            self._frontier = max(self._frontier, stop)
            if self._frontier - self._began < self._patience:
                return
            ahead_bytes = self._reach()
            begin = max(self._asked, self._frontier)
            end = min(self._frontier + ahead_bytes, self._tiles.stop)
            # Not for each read: again when half of what was asked for has been read.
            if end - begin < ahead_bytes // 2 and not (begin < end == self._tiles.stop):
                return
            self._asked = end
            run = self._run
        self._ask(begin, end, run)

    def end(self) -> None:
        """Cancel what has not begun."""
        self._run = object()

    def _reach(self) -> int:
        """How many bytes to prefetch, so that their chunks fit into a part of the cache."""
        piece = next(self._tiles.pieces(self._frontier - 1, self._frontier))
        array = self._arrays[piece.level]
        deep = math.prod(array.unit_shape[: len(piece.leading)])
        return min(_AHEAD_BYTES, array.capacity_bytes // (_AHEAD_SHARE * max(deep, 1)))

    def _ask(self, start: int, stop: int, run: object) -> None:
        tiles = self._tiles
        height, width = tiles.shape
        for (level, leading, y), row in groupby(tiles.pieces(start, stop), _row_of):
            xs = [piece.x for piece in row]
            planes, array = tiles.levels[level], self._arrays[level]
            bottom, right = min(y + height, planes.height), min(xs[-1] + width, planes.width)
            low, high = [*leading, y, xs[0]], [*(at + 1 for at in leading), bottom, right]
            if len(array.shape) > len(low):
                low, high = [*low, 0], [*high, array.shape[-1]]
            low[-1] *= array.dtype.itemsize
            high[-1] *= array.dtype.itemsize
            array.decode_ahead(tuple(low), tuple(high), lambda: self._run is run)


def _row_of(piece: Piece) -> tuple[int, tuple[int, ...], int]:
    """Which row of tiles a tile is in."""
    return piece.level, piece.leading, piece.y


def _layout(picture: Picture, arrays: Sequence[DecodedArray], name: str) -> Layout:
    problem = pyramid_problem(picture, arrays)
    if problem is not None:
        raise ValueError(problem)
    row, column = arrays[0].unit_shape[len(arrays[0].shape) - picture.samples - 2 :][:2]
    return pyramid_layout(
        tuple(array.shape for array in arrays),
        tuple(array.dtype for array in arrays),
        picture,
        (row, column),
        name,
    )
