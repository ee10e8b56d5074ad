"""Draws docs/tiff-shards.svg, the bytes of a TIFF file that is a Zarr shard: `python docs/tiff_shards.py`.

Owns the picture of docs/tiff-shards.md. All numbers are those of a file that tifffile writes, and of the
index that `zarrfuse index` writes for it; a test compares the picture with what this script draws.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tifffile

from zarrfuse.shards.index import shard_index
from zarrfuse.shards.tiff import read_tiff

PICTURE = Path(__file__).with_name("tiff-shards.svg")
HEIGHT, WIDTH, TILE = 32, 48, 16

_TIMES = "\N{MULTIPLICATION SIGN}"
_INK, _QUIET, _PAPER, _FRAME = "#1f2933", "#52606d", "#fbfaf7", "#d9d5cb"
_TIFF, _ZARR = "#1d63b8", "#b8480f"
_HEAD_FILL, _INDEX_FILL = "#dbe8f8", "#fbe3d3"
_TILES = ("#e3d5f2", "#cfe6d4", "#f6e3a8", "#c9e3ee", "#f4cfd3", "#dde0bd")

_PAGE_WIDTH, _PAGE_HEIGHT = 1080, 660
_LEFT = 40
_STRIP_Y, _STRIP_HEIGHT = 282, 64
_INDEX_Y = 420
_SHARD_Y = 574
_TILES_LEFT, _TILE_STEP = 480, 84


@dataclass(frozen=True)
class Bytes:
    """A piece of a file that is drawn as a box: its name, where it begins and ends, and the box in x."""

    name: str
    begin: int
    end: int
    left: float
    width: float

    @property
    def middle(self) -> float:
        """The middle of the box."""
        return self.left + self.width / 2


@dataclass(frozen=True)
class Example:
    """The file that is drawn.

    `front`: header, IFD, and the two arrays of tiles, in the order of the file; `pairs`: the index.
    """

    file_bytes: int
    index_bytes: int
    front: tuple[Bytes, ...]
    tiles: tuple[Bytes, ...]
    pairs: tuple[tuple[int, int], ...]


def example() -> Example:
    """A file of six tiles in memory, and its index."""
    pixels = np.add.outer(np.arange(HEIGHT), np.arange(WIDTH)).astype("<u2")
    file = io.BytesIO()
    tifffile.imwrite(file, pixels, tile=(TILE, TILE), metadata=None, software=False, byteorder="<")
    size = file.tell()
    file.seek(0)
    (array,) = read_tiff("0.tif", file)
    index = shard_index(array, array.shape)
    file.seek(0)
    with tifffile.TiffFile(file) as tiff:
        page = tiff.pages.first
        tags = {name: page.tags[name] for name in ("TileOffsets", "TileByteCounts")}
        ifd_end = page.offset + 2 + 12 * len(page.tags) + 4
        arrays = {
            name: (tag.valueoffset, tag.valueoffset + tag.valuebytecount)
            for name, tag in tags.items()
        }
        ifd = page.offset, ifd_end
    x = float(_LEFT)
    front = []
    for name, (begin, end), width in (
        ("header", (0, 8), 66),
        ("IFD", ifd, 96),
        *((name, arrays[name], 116) for name in sorted(arrays, key=lambda name: arrays[name])),
    ):
        front.append(Bytes(name, begin, end, x, width))
        x += width + 6
    numbers = np.frombuffer(index[:-4], "<u8").reshape(-1, 2)
    pairs = tuple((int(offset), int(length)) for offset, length in numbers)
    tiles = tuple(
        Bytes(
            f"tile {number}",
            offset,
            offset + length,
            _TILES_LEFT + number * _TILE_STEP,
            _TILE_STEP - 6,
        )
        for number, (offset, length) in enumerate(pairs)
    )
    return Example(size, len(index), tuple(front), tiles, pairs)


def picture() -> str:
    """The text of the picture."""
    return "\n".join(_lines(example())) + "\n"


def _lines(drawn: Example) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_PAGE_WIDTH} {_PAGE_HEIGHT}" '
        f'width="{_PAGE_WIDTH}" height="{_PAGE_HEIGHT}" role="img" '
        'font-family="\'DejaVu Sans\', Verdana, sans-serif" font-size="13">'
    )
    yield "<title>A TIFF file with an index behind it is a Zarr shard</title>"
    yield "<defs>"
    for name, colour in (("tiff", _TIFF), ("zarr", _ZARR)):
        yield (
            f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" '
            f'orient="auto"><path d="M0,0.6 L8,4 L0,7.4 z" fill="{colour}"/></marker>'
        )
    yield "</defs>"
    yield (
        f'<rect x="1" y="1" width="{_PAGE_WIDTH - 2}" height="{_PAGE_HEIGHT - 2}" rx="12" '
        f'fill="{_PAPER}" stroke="{_FRAME}"/>'
    )
    yield from _image()
    yield from _legend()
    yield from _file(drawn)
    yield from _index(drawn)
    yield from _shard(drawn)
    yield "</svg>"


def _image() -> Iterator[str]:
    """The image in tiles, as both kinds of programs show it."""
    side = 44
    left, top = _LEFT, 34
    for number, colour in enumerate(_TILES):
        row, column = divmod(number, WIDTH // TILE)
        x, y = left + column * side, top + row * side
        yield _box(x, y, side, side, colour)
        yield _text(x + side / 2, y + side / 2 + 5, str(number), anchor="middle", size=15)
    x = left + 3 * side + 20
    yield _text(
        x, top + 16, f"An image of {WIDTH} {_TIMES} {HEIGHT} pixels, uint16,", weight="bold"
    )
    yield _text(x, top + 36, f"in six tiles of {TILE} {_TIMES} {TILE}.")
    yield _text(x, top + 60, "To TIFF, they are tiles;", colour=_TIFF)
    yield _text(x, top + 80, "to Zarr, the inner chunks of a shard.", colour=_ZARR)


def _legend() -> Iterator[str]:
    x, y = 640, 50
    for name, colour, lines in (
        ("tiff", _TIFF, ("TIFF programs begin at the front:", "header → IFD → TileOffsets → tile")),
        ("zarr", _ZARR, ("Zarr programs begin at the end:", "index → tile")),
    ):
        yield _arrow(f"M{x},{y - 4} h34", name, colour)
        yield _text(x + 46, y, lines[0], colour=colour, weight="bold")
        yield _text(x + 46, y + 19, lines[1], colour=colour)
        y += 52


def _file(drawn: Example) -> Iterator[str]:
    top, bottom = _STRIP_Y, _STRIP_Y + _STRIP_HEIGHT
    yield _name(_STRIP_Y - 106, "0.tif", f"the TIFF file, {drawn.file_bytes:,} bytes, unchanged")
    inside = {
        "header": ("II 42",),
        "IFD": (f"{WIDTH} {_TIMES} {HEIGHT}, 16 bit", f"tiles {TILE} {_TIMES} {TILE}"),
        "TileOffsets": _shortened([pair[0] for pair in drawn.pairs]),
        "TileByteCounts": _shortened([pair[1] for pair in drawn.pairs]),
    }
    for piece in drawn.front:
        yield _box(piece.left, top, piece.width, _STRIP_HEIGHT, _HEAD_FILL, _TIFF)
        yield _text(piece.middle, top + 19, piece.name, anchor="middle", weight="bold", size=12)
        for number, line in enumerate(inside[piece.name]):
            yield _text(piece.middle, top + 37 + 15 * number, line, anchor="middle", size=10)
        yield _text(piece.left, bottom + 16, str(piece.begin), size=10, colour=_QUIET)
    gap = (drawn.front[-1].left + drawn.front[-1].width + drawn.tiles[0].left) / 2
    yield _text(gap, top + 37, "…", anchor="middle", colour=_QUIET)
    for tile, colour in zip(drawn.tiles, _TILES, strict=True):
        yield _box(tile.left, top, tile.width, _STRIP_HEIGHT, colour)
        yield _text(tile.middle, top + 28, tile.name, anchor="middle", weight="bold", size=12)
        length = f"{tile.end - tile.begin} bytes"
        yield _text(tile.middle, top + 46, length, anchor="middle", size=10)
        yield _text(tile.left, bottom + 16, str(tile.begin), size=10, colour=_QUIET)
    # What points to what, above the boxes.
    boxes = {piece.name: piece for piece in drawn.front}
    header, ifd, offsets = boxes["header"], boxes["IFD"], boxes["TileOffsets"]
    sizes = boxes["TileByteCounts"]
    yield _arc(header.middle, ifd.left + 22, top, 22)
    yield _arc(ifd.middle + 10, offsets.left + 24, top, 24)
    yield _arc(ifd.middle - 4, sizes.left + 24, top, 40)
    start = offsets.middle + 46
    for number, tile in enumerate(drawn.tiles):
        yield _arc(start - number * 7, tile.middle, top, 54 + number * 8)


def _index(drawn: Example) -> Iterator[str]:
    top, height = _INDEX_Y, 58
    yield _name(
        top + 12, "0.tif.index", f"the index that zarrfuse writes, {drawn.index_bytes} bytes"
    )
    yield _text(
        _LEFT, top + 32, "offset and size of each tile, and a checksum", size=11, colour=_QUIET
    )
    for number, (tile, (offset, length)) in enumerate(zip(drawn.tiles, drawn.pairs, strict=True)):
        yield _box(tile.left, top, tile.width, height, _INDEX_FILL, _ZARR)
        yield _text(tile.middle, top + 17, str(number), anchor="middle", weight="bold", size=11)
        yield _text(tile.middle, top + 34, str(offset), anchor="middle", size=11)
        yield _text(tile.middle, top + 49, str(length), anchor="middle", size=11)
        bottom = _STRIP_Y + _STRIP_HEIGHT
        yield _arrow(f"M{tile.middle},{top - 3} V{bottom + 4}", "zarr", _ZARR)
    x = drawn.tiles[-1].left + _TILE_STEP
    yield _box(x, top, 58, height, _INDEX_FILL, _ZARR)
    yield _text(x + 29, top + 34, "crc32c", anchor="middle", size=11)


def _shard(drawn: Example) -> Iterator[str]:
    top, height = _SHARD_Y, 40
    whole = drawn.file_bytes + drawn.index_bytes
    scale = (_PAGE_WIDTH - 2 * _LEFT) / whole
    yield _text(
        _LEFT,
        top - 40,
        f"The shard: one behind the other, {whole:,} bytes (to scale)",
        weight="bold",
        size=14,
    )
    yield _text(
        _LEFT,
        top - 18,
        "concat-parts in zarr.json says so. In a mount the shard is one file, and still a TIFF: "
        "programs for TIFF do not look behind the last tile.",
        size=11,
        colour=_QUIET,
    )
    pieces = (
        ("front", 0, drawn.tiles[0].begin, _HEAD_FILL, _TIFF),
        *(
            (tile.name, tile.begin, tile.end, colour, _QUIET)
            for tile, colour in zip(drawn.tiles, _TILES, strict=True)
        ),
        ("", drawn.file_bytes, whole, _INDEX_FILL, _ZARR),
    )
    for name, begin, end, fill, edge in pieces:
        x, width = _LEFT + begin * scale, (end - begin) * scale
        yield _box(x, top, width, height, fill, edge)
        yield _text(x + width / 2, top + 25, name, anchor="middle", size=12)
    cut, right = _LEFT + drawn.file_bytes * scale, _LEFT + whole * scale
    below = top + height + 12
    for begin, end, label, colour in (
        (_LEFT, cut, f"0.tif, {drawn.file_bytes:,} bytes", _TIFF),
        (cut, right, f"0.tif.index, {drawn.index_bytes} bytes", _ZARR),
    ):
        yield (
            f'<path d="M{begin + 1:g},{below - 6} v6 H{end - 1:g} v-6" fill="none" stroke="{colour}" '
            'stroke-width="1.6"/>'
        )
        at, anchor = ((begin + end) / 2, "middle") if end < right else (right, "end")
        yield _text(at, below + 17, label, anchor=anchor, weight="bold", size=12, colour=colour)


def _name(y: float, name: str, what: str) -> str:
    return (
        f'<text x="{_LEFT}" y="{y}" fill="{_INK}"><tspan font-weight="bold" font-size="14">{name}</tspan>'
        f'<tspan dx="10" fill="{_QUIET}">{what}</tspan></text>'
    )


def _shortened(numbers: list[int]) -> tuple[str, str]:
    return f"{numbers[0]}, {numbers[1]}, {numbers[2]},", f"… {numbers[-1]}"


def _box(x: float, y: float, width: float, height: float, fill: str, edge: str = _QUIET) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" fill="{fill}" '
        f'stroke="{edge}" stroke-width="1.2"/>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    colour: str = _INK,
    anchor: str = "start",
    size: int = 13,
    weight: str = "normal",
) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" fill="{colour}" text-anchor="{anchor}" font-size="{size}" '
        f'font-weight="{weight}">{text}</text>'
    )


def _arrow(path: str, name: str, colour: str) -> str:
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6" '
        f'marker-end="url(#{name})"/>'
    )


def _arc(start: float, end: float, y: float, height: float) -> str:
    """An arrow over boxes, from the top of one to the top of another."""
    top = y - height * 4 / 3
    return _arrow(
        f"M{start:g},{y - 2:g} C{start:g},{top:g} {end:g},{top:g} {end:g},{y - 3:g}", "tiff", _TIFF
    )


if __name__ == "__main__":
    PICTURE.write_text(picture())
