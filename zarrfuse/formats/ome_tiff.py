"""The size and the header of a tiled, pyramidal OME-TIFF.

Owns which pyramids can be such a file, and its header. Used by `views.images.pyramid`, which adds the
pixels. It must not know stores, chunks or decoded arrays.

    header    file header, OME-XML, an IFD with tables of its tiles for each plane of each level
    zeros     up to `Layout.tiles.start`
    pixels    as `files.tiles` lays them out: the coarsest level first

The planes of level 0 are the IFDs of the file, and each has one SubIFD for each coarser level (OME-TIFF
specification, "Supporting multi-resolution"). All IFDs are at the beginning of the file: a program that
opens it reads every IFD, and the kernel's read-ahead would decode chunks between them. The coarsest level
follows them for the same reason.

tifffile writes the IFDs into a file object that keeps them and drops the pixels. Their space follows from
counts, so that the size needs neither tifffile nor a header.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import numpy as np

from zarrfuse.formats.envelope import PAGE
from zarrfuse.formats.image_metadata import ome_metadata, plane_resolution, stacked
from zarrfuse.formats.tiles import LARGEST_SIDE, Planes, Tiles, tile_shape, tiles_from
from zarrfuse.spec.ome import Picture

MOST_TILES = 1 << 22
MOST_IFDS = 1 << 16
CLASSIC_LIMIT = 1 << 32

# What OME-XML has a name for and readers know: neither complex numbers nor half floats.
TYPES = frozenset(
    ["bool", "uint8", "uint16", "uint32", "int8", "int16", "int32", "float32", "float64"]
)


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of one file, made by `pyramid_layout`; hashable."""

    tiles: Tiles
    dtype: np.dtype[Any]
    """Type of the pixels in the file: booleans are uint8."""
    shape: tuple[int, ...]
    """Shape of level 0."""
    picture: Picture
    name: str

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self.tiles.stop

    @property
    def samples(self) -> int:
        """Samples of a pixel: 1, or 3 and 4 for RGB and RGBA."""
        return self.shape[-1] if self.picture.samples else 1

    @property
    def is_bigtiff(self) -> bool:
        """Whether offsets have 64 bits: from 4 GiB on."""
        return self.size >= CLASSIC_LIMIT


def pyramid_problem(
    shapes: Sequence[tuple[int, ...]], dtypes: Sequence[np.dtype[Any]], picture: Picture
) -> str | None:
    """Why there is no OME-TIFF of these levels, finest first, as a clause; None if there is one.

    `picture` is that of level 0.
    """
    if not shapes:
        return "it has no levels"
    problem = _problem_of_first(shapes[0], dtypes[0], picture)
    if problem is not None:
        return problem
    before = shapes[0]
    for index, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True)):
        what = f"level {index}"
        if len(shape) != len(before):
            return f"{what} has {len(shape)} dimensions and level 0 has {len(before)}"
        if dtype != dtypes[0]:
            return f"{what} is of type {dtype} and level 0 of {dtypes[0]}"
        if 0 in shape:
            return f"{what} is empty"
        for axis, length, finer in zip(picture.axes, shape, before, strict=True):
            if length > finer:
                return f"{what} is larger than the level before"
            if length < finer and axis.letter not in ("T", "Z", "Y", "X"):
                return (
                    f"{what} has {length} elements along {_called(axis.name)} and level 0 {finer}"
                )
        before = shape
    levels = _levels(shapes, picture)
    ifds = levels[0].count * len(levels)
    if ifds > MOST_IFDS:
        return f"it would have {ifds} planes in all its levels, more than {MOST_IFDS}"
    tiles = sum(level.count * level.tiles((LARGEST_SIDE, LARGEST_SIDE)) for level in levels)
    if tiles > MOST_TILES:
        return f"it would have {tiles} tiles, more than {MOST_TILES}"
    return None


@lru_cache(maxsize=512)
def pyramid_layout(
    shapes: tuple[tuple[int, ...], ...],
    dtypes: tuple[np.dtype[Any], ...],
    picture: Picture,
    chunk: tuple[int, int],
    name: str,
) -> Layout:
    """The positions of tiles, and the size of the file. Arithmetic only.

    `chunk`: the shape in pixels (Y, X) of a unit of level 0. Levels whose planes are not smaller than those
    of the level before are left out: a reader that chooses by size could confuse them. Raises `ValueError`
    if there is a `pyramid_problem`.
    """
    problem = pyramid_problem(shapes, dtypes, picture)
    if problem is not None:
        raise ValueError(problem)
    dtype = np.dtype(np.uint8) if dtypes[0] == np.bool_ else dtypes[0].newbyteorder("<")
    pixel_bytes = dtype.itemsize * (shapes[0][-1] if picture.samples else 1)
    levels = _levels(shapes, picture)
    tile = tile_shape(levels, chunk)
    room = _room(levels, tile, _metadata(shapes[0], dtype, picture, name)[1])
    tiles = tiles_from(-(-room // PAGE) * PAGE, levels, tile, pixel_bytes)
    return Layout(tiles, dtype, shapes[0], picture, name)


def pyramid_header(layout: Layout) -> bytes:
    """The bytes of the file up to the last IFD: the same for the same layout.

    They are at most `layout.tiles.start` bytes; zeros follow up to there. Imports tifffile. Takes about 60
    us for each IFD and 0.5 us for each tile.
    """
    from tifffile import TiffWriter  # noqa: PLC0415

    tiles = layout.tiles
    stack, metadata = _metadata(layout.shape, layout.dtype, layout.picture, layout.name)
    pixels_per_cm = plane_resolution(metadata)
    rgb = layout.samples > 1
    file = _HeaderFile(tiles.start)
    with TiffWriter(
        file, bigtiff=layout.is_bigtiff, byteorder="<", ome=False, shaped=False
    ) as writer:
        for plane, leading in enumerate(product(*map(range, tiles.levels[0].lengths))):
            for number, level in enumerate(tiles.levels):
                finest = number == 0
                writer.write(
                    None,
                    shape=(level.height, level.width) + ((layout.samples,) if rgb else ()),
                    dtype=layout.dtype,
                    photometric="rgb" if rgb else "minisblack",
                    planarconfig="contig" if rgb else None,
                    tile=tiles.shape,
                    subifds=len(tiles.levels) - 1 if finest else None,
                    subfiletype=None if finest else 1,  # a reduced version of another image
                    description=_xml(layout, stack, metadata) if finest and plane == 0 else None,
                    resolution=_resolution(pixels_per_cm, tiles.levels[0], level),
                    resolutionunit="CENTIMETER" if pixels_per_cm else None,
                    metadata=None,
                    software=False,
                    align=_plane_start(tiles, number, leading),  # larger than any offset so far
                )
                file.seek(file.end)  # the next IFD follows this one, not its pixels
    if file.end > tiles.start:
        raise RuntimeError(f"{layout.name}: a header of {file.end} bytes is larger than its space")
    return file.getvalue()


class _HeaderFile(io.BytesIO):
    """A file that keeps the bytes before `limit` and drops the rest."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    @property
    def end(self) -> int:
        """The end of the kept bytes."""
        return self.getbuffer().nbytes

    def write(self, data: Any) -> int:
        """Skip bytes after the limit: pixels, which are all zero."""
        if self.tell() < self._limit:
            return super().write(data)
        count = memoryview(data).nbytes
        self.seek(count, io.SEEK_CUR)
        return count


def _problem_of_first(shape: tuple[int, ...], dtype: np.dtype[Any], picture: Picture) -> str | None:
    if dtype.name not in TYPES:
        return f"{dtype} has no type in OME-TIFF that readers know"
    if len(shape) < 2 + picture.samples:
        return f"it has {len(shape)} dimensions, fewer than an image"
    if 0 in shape:
        return "level 0 is empty"
    if max(shape) >= 1 << 31:
        return "it is longer than OME-XML can say"
    return None


def _called(axis: str) -> str:
    return f"axis {axis}" if axis else "an axis without a name"


def _levels(shapes: Sequence[tuple[int, ...]], picture: Picture) -> list[Planes]:
    """The levels of the file: the first, and each with smaller planes than the one before."""
    levels: list[Planes] = []
    for index, shape in enumerate(shapes):
        *lengths, height, width = shape[:-1] if picture.samples else shape
        if not levels or (height, width) != (levels[-1].height, levels[-1].width):
            levels.append(Planes(index, tuple(lengths), height, width))
    return levels


def _plane_start(tiles: Tiles, number: int, leading: tuple[int, ...]) -> int:
    """The position of the pixels of a level for the plane `leading` of level 0.

    If a level has fewer planes (a volume that is halved in depth, too), several planes of level 0 share the
    nearest one: OME-TIFF needs every plane in every resolution, and two IFDs may refer to the same tiles.
    """
    plane = 0
    lengths = tiles.levels[0].lengths, tiles.levels[number].lengths
    for at, finest, here in zip(leading, *lengths, strict=True):
        plane = plane * here + (2 * at + 1) * here // (2 * finest)
    return tiles.plane_start(number, plane)


def _metadata(
    shape: tuple[int, ...], dtype: np.dtype[Any], picture: Picture, name: str
) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The shape as a stack of images, and the `metadata` for tifffile."""
    stack, picture = stacked(shape, picture)
    return stack, ome_metadata(stack, dtype, picture, name)


def _resolution(
    pixels_per_cm: tuple[float, float] | None, finest: Planes, level: Planes
) -> tuple[float, float] | None:
    if pixels_per_cm is None:
        return None
    x, y = pixels_per_cm
    return x * level.width / finest.width, y * level.height / finest.height


def _xml(layout: Layout, shape: tuple[int, ...], metadata: dict[str, Any]) -> bytes:
    """OME-XML of the image, in UTF-8."""
    from tifffile import OmeXml  # noqa: PLC0415

    first = layout.tiles.levels[0]
    # The same image may be in other files, with other levels or none; each needs its own UUID.
    uuid = uuid5(NAMESPACE_URL, repr((layout, metadata)))
    xml = OmeXml(**{**metadata, "UUID": str(uuid)})
    xml.addimage(
        dtype=layout.dtype,
        shape=shape,
        storedshape=(first.count, 1, 1, first.height, first.width, layout.samples),
        **metadata,
    )
    text: str = xml.tostring(declaration=True)
    return text.encode()


def _room(levels: Sequence[Planes], tile: tuple[int, int], metadata: dict[str, Any]) -> int:
    """An upper bound of the bytes of `pyramid_header`, computed from counts.

    An IFD has 19 entries of 20 bytes, a few longer values, and 12 bytes for each tile. In OME-XML a byte
    becomes at most 6, as in `&quot;`.
    """
    planes = levels[0].count
    ifds = planes * len(levels)
    tiles = planes * sum(level.tiles(tile) for level in levels)
    elements = 2 * planes  # XML elements of channels, at most one for each plane, and of positions
    xml = 4096 + 128 * elements + _room_of_value("", metadata)
    return 16 + xml + ifds * (600 + 8 * len(levels)) + tiles * 12


def _room_of_value(name: str, value: Any) -> int:
    if isinstance(value, dict):
        return 64 + sum(_room_of_value(key, item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return sum(_room_of_value(name, item) for item in value)
    return 2 * len(name) + 16 + 6 * len(str(value).encode())
