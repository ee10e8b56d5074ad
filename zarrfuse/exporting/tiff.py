"""TIFF files that are shards: each inner chunk is a tile or strip.

Owns how the inner chunks of a file become tiles, strips and pages. `tiff_ifds` makes the bytes of the
headers, `tiff_description` says what is in them for readers. Used by `run`.

    header    with the size of all IFDs known, they are in front
    IFDs      one for each page: the planes of all leading axes, in C order
    data      inner chunks in the order in which they are made

A file at the edge of the array has the width and height of its real pixels, and tiles are padded. Strips
cannot be padded, except behind the last row if they are not compressed: tifffile does not decode more rows
than a strip has. So inner chunks that are cut become tiles; where TIFF has no such tiles, because their
sides are no multiples of 16, the picture has whole strips, with the stored padding on the right and below.
Inner chunks that are not stored are missing in the index. In the IFDs, all of them are one tile of the fill
value: GDAL writes offset and size 0 for these, which libtiff refuses.
"""

from math import prod
from typing import Any, BinaryIO

import numpy as np

from zarrfuse.exporting.plan import Abilities, Plan, is_tile
from zarrfuse.exporting.source import Coords
from zarrfuse.exporting.tiff_description import described
from zarrfuse.exporting.tiff_ifds import Ifds, Page
from zarrfuse.exporting.tiles import Tiles
from zarrfuse.shards.layout import MISSING, Extents, grid_of

_TYPES = frozenset(
    [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    + ["float16", "float32", "float64", "complex64", "complex128"]
)
_CLASSIC_BYTES = (1 << 32) - 1
_MOST_PAGES = 1 << 20


TIFF = Abilities(
    kept=("none", "zstd", "deflate", "lzma", "lzw", "packbits"),
    offered=("zstd", "none", "deflate", "lzma"),
    of_pages=True,
    differences=True,
)


class TiffFormat:
    """See `FileFormat`."""

    suffix = ".tiff"
    header_size: int | None = None

    def __init__(self, plan: Plan, title: str) -> None:
        self._plan = plan
        self._title = title

    def problem(self, plan: Plan) -> str | None:
        """See `FileFormat`."""
        if plan.dtype.name not in _TYPES:
            return f"TIFF has no type for {plan.dtype.name}"
        pages = prod(plan.chunk_shape[: -2 - plan.samples])
        if pages > _MOST_PAGES:
            return f"a file would have {pages} pages: give a smaller --shard"
        if max(plan.inner_shape) >= 1 << 31:
            return f"no reader of TIFF takes a side of {max(plan.inner_shape)} pixels: give --tile"
        return None

    def write(
        self, file: BinaryIO, header: BinaryIO | None, coords: Coords, tiles: Tiles
    ) -> tuple[Extents, Extents]:
        """See `FileFormat`."""
        del header  # there is none
        plan = self._plan
        shape = plan.file_shape(coords)
        plane = len(shape) - 2 - plan.samples
        page = _page(plan, shape)
        shape = (*shape[:plane], page.height, page.width, *shape[plane + 2 :])
        told = described(plan, coords, shape, self._title)
        pages = prod(shape[:plane])
        ifds = Ifds(page, pages, told, big=False)
        if ifds.size + tiles.most_bytes > _CLASSIC_BYTES:
            ifds = Ifds(page, pages, told, big=True)
        offsets: Extents = np.full(plan.inner_grid, MISSING, np.uint64)
        sizes: Extents = np.full(plan.inner_grid, MISSING, np.uint64)
        missing: tuple[Any, ...] | None = None
        at = ifds.size
        file.seek(at)
        for tile in tiles.made:
            file.write(tile.data)
            places = tuple(np.array(tile.places).T)
            offsets[places] = at
            sizes[places] = len(tile.data)
            missing = places if tile.is_missing else missing
            at += len(tile.data)
        real = tuple(map(slice, grid_of(shape, plan.inner_shape)))
        shown = _shown_sizes(sizes[real].copy(), page, pages)
        file.truncate(max(at, ifds.size))
        file.seek(0)
        file.write(ifds.encoded(offsets[real].reshape(pages, -1), shown))
        if missing is not None:
            offsets[missing] = sizes[missing] = MISSING
        return offsets, sizes


def _page(plan: Plan, shape: Coords) -> Page:
    """The page of a file with so many real pixels along each axis."""
    plane = len(shape) - 2 - plan.samples
    y, x = plan.inner_shape[plane : plane + 2]
    height, width = shape[plane : plane + 2]
    fits = width == x and (not height % y or plan.encoding.compression == "none")
    is_strip = x == plan.chunk_shape[plane + 1] and (fits or not is_tile(y, x))
    if is_strip:
        width = x
        if plan.encoding.compression != "none":
            height = -(-height // y) * y
    return Page(
        height=height,
        width=width,
        samples=shape[-1] if plan.samples else 1,
        dtype=plan.dtype,
        big_endian=plan.encoding.big_endian,
        compression=plan.encoding.compression,
        has_predictor=plan.encoding.delta is not None,
        tile=None if is_strip else (y, x),
        rows_per_strip=min(y, height) if is_strip else None,
    )


def _shown_sizes(sizes: Extents, page: Page, pages: int) -> Extents:
    """The byte counts of the tiles or strips of each page.

    The last strip of a page has only its rows, although the inner chunk is stored whole.
    """
    sizes = sizes.reshape(pages, -1)
    if page.rows_per_strip is not None and page.compression == "none":
        rows = page.height - (sizes.shape[1] - 1) * page.rows_per_strip
        row_bytes = page.width * page.samples * page.dtype.itemsize
        sizes[:, -1] = np.minimum(sizes[:, -1], np.uint64(rows * row_bytes))
    return sizes
