"""The bytes of the headers of a TIFF file: the file header and the IFDs, all in front of the pixels.

Used by `tiff`. It must not know shards or arrays. tifffile is not used for these: it refuses inner chunks
that are longer than the last strip, and encoded ones whose encoder is not installed.

Sources: TIFF 6.0; BigTIFF (libtiff); TIFF Technical Note 3 for predictors.
"""

import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from zarrfuse import __version__
from zarrfuse.exporting.encodings import Compression
from zarrfuse.shards.layout import Extents

_COMPRESSIONS: Final[dict[Compression, int]] = {
    **{"none": 1, "lzw": 5, "deflate": 8, "packbits": 32773, "lzma": 34925, "zstd": 50000}
}
_SAMPLE_FORMATS: Final = {"u": 1, "i": 2, "f": 3, "c": 6}
_ASCII, _SHORT, _LONG, _RATIONAL, _LONG8 = 2, 3, 4, 5, 16
_SIZES: Final = {_ASCII: 1, _SHORT: 2, _LONG: 4, _RATIONAL: 8, _LONG8: 8}
_LETTERS: Final = {_SHORT: "H", _LONG: "I", _LONG8: "Q"}
_OFFSETS, _COUNTS = {True: 324, False: 273}, {True: 325, False: 279}
_UNASSOCIATED_ALPHA = 2
_CENTIMETER = 3
_ALIGN = 16
_SOFTWARE = f"zarrfuse {__version__}"


@dataclass(frozen=True)
class Page:
    """The properties of all pages of a file; either `tile` (height, width) or `rows_per_strip` is set."""

    height: int
    width: int
    samples: int
    dtype: np.dtype[Any]
    big_endian: bool
    compression: Compression
    has_predictor: bool
    tile: tuple[int, int] | None
    rows_per_strip: int | None

    @property
    def count(self) -> int:
        """The number of tiles or strips of a page."""
        if self.tile is not None:
            return -(-self.height // self.tile[0]) * -(-self.width // self.tile[1])
        assert self.rows_per_strip is not None
        return -(-self.height // self.rows_per_strip)


@dataclass(frozen=True)
class Described:
    """What the first page says: a description (UTF-8), and pixels for each centimeter along X and Y."""

    description: bytes | None = None
    per_cm: tuple[float, float] | None = None


_Tag = tuple[int, int, int, bytes]
"""Code, type, count, value."""


class Ifds:
    """The headers of a file with so many pages; `big`: as BigTIFF. `size`: their bytes."""

    def __init__(self, page: Page, pages: int, told: Described, *, big: bool) -> None:
        self._page = page
        self._pages = pages
        self._told = told
        self._big = big
        self._order = ">" if page.big_endian else "<"
        nothing = np.zeros((page.count,), np.uint64)
        self._first_size = len(self._ifd(0, 0, nothing, nothing, is_first=True))
        self._next_size = len(self._ifd(0, 0, nothing, nothing, is_first=False))
        self._start = 16 if big else 8
        end = self._start + self._first_size + (pages - 1) * self._next_size
        self.size = -(-end // _ALIGN) * _ALIGN

    def encoded(self, offsets: Extents, sizes: Extents) -> bytes:
        """Their bytes, for tiles or strips at `offsets`, both (pages, tiles of a page)."""
        head = b"MM" if self._page.big_endian else b"II"
        if self._big:
            parts = [head + struct.pack(f"{self._order}HHHQ", 43, 8, 0, self._start)]
        else:
            parts = [head + struct.pack(f"{self._order}HI", 42, self._start)]
        at = self._start
        for number in range(self._pages):
            after = at + (self._first_size if number == 0 else self._next_size)
            following = after if number + 1 < self._pages else 0
            parts.append(
                self._ifd(at, following, offsets[number], sizes[number], is_first=number == 0)
            )
            at = after
        return b"".join(parts).ljust(self.size, b"\0")

    def _ifd(
        self, at: int, following: int, offsets: Extents, sizes: Extents, *, is_first: bool
    ) -> bytes:
        """The IFD at a position of the file, and the values that do not fit into it."""
        tags = sorted(self._tags(offsets, sizes, is_first))
        number, position, word = ("Q", "Q", 8) if self._big else ("H", "I", 4)
        entries = b""
        values = b""
        beside = at + struct.calcsize(f"<{number}") + len(tags) * (4 + 2 * word) + word
        for code, type_, count, value in tags:
            entries += struct.pack(f"{self._order}HH{position}", code, type_, count)
            if len(value) <= word:
                entries += value.ljust(word, b"\0")
            else:
                entries += struct.pack(f"{self._order}{position}", beside + len(values))
                values += value + b"\0" * (-len(value) % 8)  # values begin at words
        ifd = struct.pack(f"{self._order}{number}", len(tags)) + entries
        ifd += struct.pack(f"{self._order}{position}", following) + values
        return ifd + b"\0" * (len(ifd) % 2)

    def _tags(self, offsets: Extents, sizes: Extents, is_first: bool) -> list[_Tag]:
        page = self._page
        sample_format = _SAMPLE_FORMATS[page.dtype.kind]
        tags = [
            self._tag(256, _LONG, page.width),
            self._tag(257, _LONG, page.height),
            self._tag(258, _SHORT, *[page.dtype.itemsize * 8] * page.samples),
            self._tag(259, _SHORT, _COMPRESSIONS[page.compression]),
            self._tag(262, _SHORT, 2 if page.samples > 1 else 1),
            self._tag(277, _SHORT, page.samples),
            self._tag(284, _SHORT, 1),
            self._tag(339, _SHORT, *[sample_format] * page.samples),
            self._table(_OFFSETS[page.tile is not None], offsets),
            self._table(_COUNTS[page.tile is not None], sizes),
        ]
        if page.tile is not None:
            tags += [self._tag(322, _LONG, page.tile[1]), self._tag(323, _LONG, page.tile[0])]
        else:
            assert page.rows_per_strip is not None
            tags.append(self._tag(278, _LONG, page.rows_per_strip))
        if page.samples == 4:
            tags.append(self._tag(338, _SHORT, _UNASSOCIATED_ALPHA))
        if page.has_predictor:
            tags.append(self._tag(317, _SHORT, 2))
        if self._told.per_cm is not None:
            tags += [
                self._rational(code, value)
                for code, value in zip((282, 283), self._told.per_cm, strict=True)
            ]
            tags.append(self._tag(296, _SHORT, _CENTIMETER))
        if is_first:
            tags.append(_text(305, _SOFTWARE.encode()))
            if self._told.description is not None:
                tags.append(_text(270, self._told.description))
        return tags

    def _tag(self, code: int, type_: int, *values: int) -> _Tag:
        packed = struct.pack(f"{self._order}{len(values)}{_LETTERS[type_]}", *values)
        return code, type_, len(values), packed

    def _table(self, code: int, values: Extents) -> _Tag:
        dtype = f"{self._order}u{8 if self._big else 4}"
        return code, _LONG8 if self._big else _LONG, len(values), values.astype(dtype).tobytes()

    def _rational(self, code: int, value: float) -> _Tag:
        if value >= 1:
            ratio = Fraction(value).limit_denominator(max(1, int((2**32 - 1) / (value + 1))))
        else:  # the denominator is the larger number
            ratio = 1 / Fraction(1 / value).limit_denominator(max(1, int((2**32 - 1) * value / 2)))
        packed = struct.pack(f"{self._order}II", ratio.numerator, ratio.denominator)
        return code, _RATIONAL, 1, packed


def _text(code: int, value: bytes) -> _Tag:
    return code, _ASCII, len(value) + 1, value + b"\0"
