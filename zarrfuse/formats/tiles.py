"""The positions of the tiles of a pyramid in a file.

Owns the shape of tiles and the arithmetic between bytes and tiles. Used by `ome_tiff`, which sets their
start, and by `views.images.pyramid`, which fills them. Of TIFF it may know only the permitted sides of a
tile.

The coarsest level comes first. Each level is a sequence of planes, each plane a sequence of rows of tiles,
without gaps. All tiles of a file have the same shape, also at the edges.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SMALLEST_SIDE, LARGEST_SIDE = 128, 1024
SIDE_STEP = 32
"""Both sides of a tile are multiples of this.

TIFF 6.0, section 15, requires multiples of 16. libtiff 4.5 (`_TIFFReadEncodedTileAndAllocBuffer`, which
OpenSlide and GNOME's image loader call), if it does not map the file, refuses uncompressed tiles whose size
is not a multiple of 1024 bytes, which is 32 squared.
"""
MANY_TILES = 1 << 20
"""With more, tiles become larger: each costs 12 bytes of the header."""


@dataclass(frozen=True, slots=True)
class Planes:
    """The planes of one level: `height` and `width` in pixels, one plane for each leading index."""

    index: int
    """Index of the level in the pyramid."""
    lengths: tuple[int, ...]
    """Lengths of the leading axes: their product is the number of planes."""
    height: int
    width: int

    @property
    def count(self) -> int:
        """The number of planes."""
        return math.prod(self.lengths)

    def tiles(self, tile: tuple[int, int]) -> int:
        """The number of tiles of that shape that cover one plane."""
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
    """Height and width of a tile in pixels."""
    pixel_bytes: int
    levels: tuple[Planes, ...]
    """Finest first."""
    starts: tuple[int, ...]
    """The offset in the file of each of `levels`."""
    stop: int
    """The end of the last tile."""

    @property
    def start(self) -> int:
        """The offset of the first tile."""
        return self.starts[-1]

    @property
    def row_bytes(self) -> int:
        """The bytes of one row of pixels of a tile."""
        return self.shape[1] * self.pixel_bytes

    @property
    def tile_bytes(self) -> int:
        """The bytes of one tile."""
        return self.shape[0] * self.row_bytes

    def plane_start(self, level: int, plane: int) -> int:
        """The offset of the tiles of one plane; `plane` is its index in C order."""
        return self.starts[level] + plane * self.levels[level].tiles(self.shape) * self.tile_bytes

    def pieces(self, start: int, stop: int) -> Iterator[Piece]:
        """The tiles in the bytes `start` to `stop` of the file, in order."""
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
    """The side of a tile that touches few chunks; `chunk` and `length` (of the plane) are in pixels.

    It is a multiple of 32 from 128 to 1024, near a multiple or a fraction of `chunk`, and not longer than
    `length` needs.
    """
    chunk = max(chunk, 1)
    side = chunk * -(-SMALLEST_SIDE // chunk)
    side = -(-side // -(-side // LARGEST_SIDE))
    return max(min(_rounded(side), _rounded(length)), SMALLEST_SIDE)


def tile_shape(levels: Sequence[Planes], chunk: tuple[int, int]) -> tuple[int, int]:
    """Height and width of the tiles for these levels, finest first; `chunk`: the shape of chunks."""
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
    """The tiles of `levels`, finest first, from offset `start` of a file on."""
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
