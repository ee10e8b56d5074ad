"""TIFF files: where the tiles and strips of their images are, read from the headers alone.

tifffile reads the headers and finds out which pages belong together (baseline TIFF, BigTIFF, OME-TIFF,
ImageJ, pyramids in SubIFDs); this module says where each tile is, and refuses what a shard cannot express.
`tiff_codecs` says how tiles are encoded, `tiff_metadata` what a file says beyond pixels. Used by `reading`.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from math import gcd, isfinite, isnan, prod
from typing import Any, BinaryIO

import numpy as np
import tifffile

from zarrfuse.shards.arrange import split_rows
from zarrfuse.shards.layout import MISSING, Extents, FileArray, Layout, Refused, codecs_text
from zarrfuse.shards.tiff_chain import check_pages
from zarrfuse.shards.tiff_codecs import inner_codecs, is_raw
from zarrfuse.shards.tiff_metadata import attributes_of, scale_of

# What tifffile logs of odd but readable files would be printed.
logging.getLogger("tifffile").addHandler(logging.NullHandler())

_LONGEST_REASON = 200
_LEAST_RAW_BYTES = 64 << 10
"""Of uncompressed strips, as many make an inner chunk: libtiff writes strips of 8 KiB, each of which would
cost a reader a request."""


def read_tiff(name: str, file: BinaryIO) -> list[FileArray]:
    """The first image of a TIFF file, and the smaller levels of it, if it is a pyramid.

    Dimensions have the order of the file: first those of pages, then y and x, with samples in front of
    them (`planarconfig` 2) or behind. `name`: for messages. Raises `Refused` for files that no shard
    expresses, and for what is no TIFF.
    """

    def fail(reason: str) -> Refused:
        return Refused(f"{name}: {reason}")

    try:
        with tifffile.TiffFile(file, name=name, _multifile=False) as tiff:
            check_pages(tiff, fail)
            size = tiff.filehandle.size
            levels = _first_series(tiff, fail).levels
            return [_Image(tiff, level, size, fail).read() for level in levels]
    except (Refused, OSError):
        raise
    except Exception as error:  # whatever tifffile raises for what is damaged
        reason = " ".join(str(error).split())[:_LONGEST_REASON] or type(error).__name__
        raise fail(f"is not a TIFF file that can be read: {reason}") from error


def _first_series(tiff: tifffile.TiffFile, fail: Callable[[str], Refused]) -> Any:
    """The first image. Another one of its size is a page of it that is stored in another way."""
    if not tiff.series:
        raise fail("has no image")
    first, *others = tiff.series
    page = first.keyframe
    for other in others:
        found = other.keyframe
        if (found.shape, found.dtype) == (page.shape, page.dtype):
            difference = _difference(page, found)
            if difference is not None:
                raise fail(f"page {found.index} has {difference}, and page {page.index} has not")
    return first


class _Image:
    """One level of an image: its pages, which must be alike."""

    def __init__(
        self, tiff: tifffile.TiffFile, series: Any, size: int, fail: Callable[[str], Refused]
    ) -> None:
        self._tiff = tiff
        self._series = series
        self._size = size
        self._fail = fail
        self._axes, self._shape = str(series.axes), tuple(series.shape)
        # None: a plane of an OME-TIFF that is not stored.
        self._pages = [None if page is None else page.aspage() for page in series.pages]
        self._page = next(page for page in self._pages if page is not None)

    def read(self) -> FileArray:
        page, fail = self._page, self._fail
        for number, other in enumerate(self._pages):
            if other not in (page, None) and (difference := _difference(page, other)):
                raise fail(f"page {number} has {difference}, and page 0 has not")
        codecs = inner_codecs(page, fail)
        if 0 in (*page.shape, *page.chunks) or (not page.is_tiled and not page.rowsperstrip):
            raise fail("has an image without pixels, or tiles without any")
        axes, shape = self._dimensions()
        more = len(shape) - len(page.shape)
        planes = prod(shape[:more])
        offsets, sizes = self._extents(planes)
        inner = _inner_shape(page)
        grid = tuple(-(-n // step) for n, step in zip(page.shape, inner, strict=True))
        if offsets.size != planes * prod(grid):
            expected = planes * prod(grid)
            raise fail(f"has {offsets.size} tiles or strips where its size needs {expected}")
        offsets = offsets.reshape(*shape[:more], *grid)
        sizes = sizes.reshape(offsets.shape)
        inner = (1,) * more + inner
        if not page.is_tiled and is_raw(page):
            offsets, sizes, inner = _raw_strips(page, offsets, sizes, shape, inner, axes.index("y"))
        elif not page.is_tiled and shape[axes.index("y")] % inner[axes.index("y")]:
            rows = shape[axes.index("y")] % inner[axes.index("y")]
            raise fail(
                f"its last strip has {rows} rows and the others {inner[axes.index('y')]}, and a shard "
                "needs equal ones: write it anew in tiles, for example: tiffcp -t"
            )
        self._check_extents(offsets, sizes, prod(inner) * page.dtype.itemsize)
        layout = Layout(page.dtype.name, axes, inner, codecs_text(codecs), _fill_value(page))
        return FileArray(
            layout,
            shape,
            offsets,
            sizes,
            attributes_of(self._tiff, page),
            scale_of(self._tiff, page, axes),
        )

    def _dimensions(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """The names and lengths of all dimensions: those of pages, then those of a page."""
        page = self._page
        own = len(page.shape)
        shape, letters = self._shape, self._axes
        if shape[len(shape) - own :] != tuple(page.shape):  # dimensions of 1 may be left out
            shape, letters = (), ""
        shape, letters = shape[: len(shape) - own], letters[: len(letters) - own]
        planes = prod(shape)
        if planes != len(self._pages) and len(self._pages) != 1:
            shape, letters = (len(self._pages),), "Q"
        if not shape and len(self._pages) > 1:
            shape, letters = (len(self._pages),), "Q"
        return tuple(_names(letters + page.axes)), (*shape, *page.shape)

    def _extents(self, planes: int) -> tuple[Extents, Extents]:
        """(offset, size) of all tiles or strips, in the order of pages."""
        pages = self._pages
        if planes > len(pages):
            return self._behind_each_other(planes)
        none = (0,) * len(self._page.dataoffsets)
        offsets = [at for page in pages for at in (page.dataoffsets if page is not None else none)]
        sizes = [n for page in pages for n in (page.databytecounts if page is not None else none)]
        if len(offsets) != len(sizes):
            raise self._fail("has not as many byte counts as offsets of tiles or strips")
        found = np.array(offsets, np.uint64), np.array(sizes, np.uint64)
        empty = (found[0] == 0) | (found[1] == 0)
        for extents in found:
            extents[empty] = MISSING
        return found

    def _behind_each_other(self, planes: int) -> tuple[Extents, Extents]:
        """Those of a file with one IFD for many planes, as ImageJ writes more than 4 GiB."""
        page, start = self._page, self._series.dataoffset
        if start is None or not is_raw(page) or page.is_tiled:
            raise self._fail(f"has one page for {planes} planes that are not behind each other")
        if start + planes * page.nbytes > self._size:  # before any memory is taken for them
            raise self._fail(f"is cut off: its {planes} planes reach beyond its {self._size} bytes")
        first = np.array(page.dataoffsets, np.uint64) - np.uint64(page.dataoffsets[0])
        step = np.uint64(page.nbytes)
        plane = np.arange(planes, dtype=np.uint64)[:, np.newaxis] * step + np.uint64(start)
        sizes = np.tile(np.array(page.databytecounts, np.uint64), planes)
        return (plane + first).ravel(), sizes

    def _check_extents(self, offsets: Extents, sizes: Extents, inner_bytes: int) -> None:
        stored = offsets != MISSING
        if not stored.any():
            return
        ends = offsets[stored] + sizes[stored]
        if (ends > np.uint64(self._size)).any() or (ends < offsets[stored]).any():
            raise self._fail(f"is cut off: its pixels reach beyond its {self._size} bytes")
        if is_raw(self._page):
            if (sizes[stored] < np.uint64(inner_bytes)).any():
                raise self._fail(f"has a tile or strip of less than {inner_bytes} bytes")
            sizes[stored] = np.uint64(inner_bytes)


def _inner_shape(page: Any) -> tuple[int, ...]:
    """The shape of a tile or strip, with a 1 for separate samples."""
    inner = list(page.chunks)
    if not page.is_tiled:
        inner[page.axes.replace("S", "").index("Y")] = min(page.rowsperstrip, page.imagelength)
    missing = len(page.shape) - len(inner)  # separate samples, and the depth of strips
    return (1,) * missing + tuple(inner)


def _raw_strips(
    page: Any,
    offsets: Extents,
    sizes: Extents,
    shape: tuple[int, ...],
    inner: tuple[int, ...],
    y: int,
) -> tuple[Extents, Extents, tuple[int, ...]]:
    """Uncompressed strips as inner chunks of equal size: the strips, several of them, or parts of them."""
    rows, height = inner[y], shape[y]
    row_bytes = prod(inner[y + 1 :]) * page.dtype.itemsize
    if height % rows == 0 and rows * row_bytes >= _LEAST_RAW_BYTES:
        return offsets, sizes, inner
    first, last = np.take(offsets, [0], y), np.take(offsets, [-1], y)
    strips = offsets.shape[y]
    if strips == 1:
        return offsets, sizes, inner
    steps = np.arange(strips, dtype=np.uint64) * np.uint64(rows * row_bytes)
    along = steps.reshape([-1 if axis == y else 1 for axis in range(offsets.ndim)])
    if (last != MISSING).all() and (offsets == first + along).all():  # behind each other
        new_rows = next(
            n
            for n in count(1)
            if height % n == 0 and (n == height or n * row_bytes >= _LEAST_RAW_BYTES)
        )
    else:
        new_rows = gcd(rows, height)
    return *split_rows(offsets, height, rows, new_rows, row_bytes, y), (
        *inner[:y],
        new_rows,
        *inner[y + 1 :],
    )


_COMPARED: Sequence[str] = (
    "shape",
    "dtype",
    "bitspersample",
    "subsampling",
    "compression",
    "predictor",
    "planarconfig",
    "photometric",
    "fillorder",
    "is_tiled",
    "tilelength",
    "tilewidth",
    "rowsperstrip",
    "jpegtables",
)


def _difference(page: Any, other: Any) -> str | None:
    for name in _COMPARED:
        if getattr(page, name) != getattr(other, name):
            return f"the {name} {getattr(other, name)!r:.80}"
    return None


def _fill_value(page: Any) -> Any:
    """What pixels of tiles that are not stored read as: GDAL's no-data value, or 0."""
    value = page.nodata
    if page.dtype.kind == "f":
        return _float_json(float(value))
    if page.dtype.kind == "c":
        number = complex(value)
        return (_float_json(number.real), _float_json(number.imag))
    if page.dtype.kind == "b":
        return bool(value)
    return int(value)


def _float_json(number: float) -> float | str:
    if isfinite(number):
        return number
    return "NaN" if isnan(number) else "Infinity" if number > 0 else "-Infinity"


# Of tifffile's letters of axes (tifffile.TIFF.AXES_NAMES), those that are the same word in other programs.
_UNNAMED = "QI"


def _names(letters: str) -> Iterator[str]:
    """The names of axes from tifffile's letters; pages of which the file says nothing are "page"."""
    used: set[str] = set()
    for letter in letters:
        name = "page" if letter in _UNNAMED else letter.lower()
        number = next(n for n in count(1) if (name if n == 1 else f"{name}{n}") not in used)
        name = name if number == 1 else f"{name}{number}"
        used.add(name)
        yield name
