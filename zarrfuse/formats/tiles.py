"""Where the tiles of a pyramid lie in a file that holds them one behind the other.

Owns the shape of tiles and the arithmetic between bytes and tiles. Used by `files.ome_tiff`, which
says where they begin, and by `images.pyramid`, which fills them. It knows nothing of TIFF but the
sides that a tile may have.

The coarsest level comes first. Of each level come its planes, of each plane its rows of tiles. All
tiles of a file have one shape, those at the edges too.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SMALLEST_SIDE, LARGEST_SIDE = 128, 1024
SIDE_STEP = 32
"""Both sides of a tile are multiples of it.

TIFF 6.0, section 15, wants multiples of 16. libtiff 4.5 (`_TIFFReadEncodedTileAndAllocBuffer`, which
OpenSlide and what GNOME reads pictures with come to) refuses uncompressed tiles of other sizes than
multiples of 1024 bytes where it has not mapped the file: 32 squared is that.
"""
MANY_TILES = 1 << 20
"""Where there would be more, tiles become larger: each costs 12 bytes of a header."""


@dataclass(frozen=True, slots=True)
class Planes:
    """The planes of one level: `height` and `width` in pixels, one plane for each leading index."""

    index: int
    """Which of the levels of the pyramid this is."""
    lengths: tuple[int, ...]
    """Of the leading axes: their product is the number of planes."""
    height: int
    width: int

    @property
    def count(self) -> int:
        """How many planes there are."""
        return math.prod(self.lengths)

    def tiles(self, tile: tuple[int, int]) -> int:
        """How many tiles of that shape cover one plane."""
        return -(-self.height // tile[0]) * -(-self.width // tile[1])


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes `start` to `stop` of one tile; its first pixel is at (`y`, `x`) of the plane `leading`."""

    level: int
    """Index into `Tiles.levels`."""
    leading: tuple[int, ...]
    y: int
    x: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Tiles:
    """All tiles of a file. Made by `tiles_from`."""

    shape: tuple[int, int]
    """Of a tile in pixels: height, width."""
    pixel_bytes: int
    levels: tuple[Planes, ...]
    """Finest first."""
    starts: tuple[int, ...]
    """Where in the file each of `levels` begins."""
    stop: int
    """Where the last one ends."""

    @property
    def start(self) -> int:
        """Where the first one begins."""
        return self.starts[-1]

    @property
    def row_bytes(self) -> int:
        """Of one row of pixels of a tile."""
        return self.shape[1] * self.pixel_bytes

    @property
    def tile_bytes(self) -> int:
        """Of one tile."""
        return self.shape[0] * self.row_bytes

    def plane_start(self, level: int, plane: int) -> int:
        """Where the tiles of one plane begin; `plane` counts in C order."""
        return self.starts[level] + plane * self.levels[level].tiles(self.shape) * self.tile_bytes

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        """The tiles under the bytes `start` to `stop` of the file, in their order."""
        tile_bytes = self.tile_bytes
        for number in reversed(range(len(self.levels))):
            level, first = self.levels[number], self.starts[number]
            columns = -(-level.width // self.shape[1])
            in_plane = level.tiles(self.shape)
            at = max(start - first, 0)
            end = min(stop - first, level.count * in_plane * tile_bytes)
            while at < end:
                tile, skipped = divmod(at, tile_bytes)
                upto = min(tile_bytes, skipped + end - at)
                plane, tile = divmod(tile, in_plane)
                row, column = divmod(tile, columns)
                yield Piece(
                    number,
                    _position(plane, level.lengths),
                    row * self.shape[0],
                    column * self.shape[1],
                    skipped,
                    upto,
                )
                at += upto - skipped


def tile_side(chunk: int, length: int) -> int:
    """How long a side of a tile is, so that it touches few chunks: `chunk` and `length` in pixels.

    A multiple of 32 from 128 to 1024, near a multiple or a fraction of `chunk`, no longer than what
    `length` needs.
    """
    chunk = max(chunk, 1)
    side = chunk * -(-SMALLEST_SIDE // chunk)
    side = -(-side // -(-side // LARGEST_SIDE))
    return max(min(_rounded(side), _rounded(length)), SMALLEST_SIDE)


def tile_shape(levels: Sequence[Planes], chunk: tuple[int, int]) -> tuple[int, int]:
    """Height and width of the tiles for these levels, finest first, whose chunks have that shape."""
    tile = (tile_side(chunk[0], levels[0].height), tile_side(chunk[1], levels[0].width))
    while sum(level.count * level.tiles(tile) for level in levels) > MANY_TILES:
        larger = (min(tile[0] * 2, LARGEST_SIDE), min(tile[1] * 2, LARGEST_SIDE))
        if larger == tile:
            break
        tile = larger
    return tile


def tiles_from(
    start: int, levels: Sequence[Planes], tile: tuple[int, int], pixel_bytes: int
) -> Tiles:
    """The tiles of `levels`, finest first, from byte `start` of a file on."""
    starts = []
    for level in reversed(levels):
        starts.append(start)
        start += level.count * level.tiles(tile) * tile[0] * tile[1] * pixel_bytes
    return Tiles(tile, pixel_bytes, tuple(levels), tuple(reversed(starts)), start)


def _position(index: int, lengths: tuple[int, ...]) -> tuple[int, ...]:
    """The position of the element `index`, in C order."""
    position = []
    for length in reversed(lengths):
        index, at = divmod(index, length)
        position.append(at)
    return tuple(reversed(position))


def _rounded(side: int) -> int:
    return -(-side // SIDE_STEP) * SIDE_STEP
