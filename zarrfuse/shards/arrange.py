"""The array of a file with other dimensions: in another order, with more of them, or cut in fewer rows.

Nothing in the file changes: only what is said of it. Used by `tiff` and `indexing`.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from zarrfuse.shards.layout import MISSING, Extents, FileArray, Layout, codecs_text


def is_raw(layout: Layout) -> bool:
    """Whether inner chunks are the bytes of their pixels, so that they can be cut in rows."""
    return [codec["name"] for codec in layout.codec_list()] == ["bytes"]


def arranged(layout: Layout, sources: Sequence[str | None], names: Sequence[str]) -> Layout:
    """The layout of an array with the dimensions `names`.

    `sources`: for each dimension the axis of the file, or None for a dimension of 1. All axes occur once.
    If their order changes, the codec `transpose` says so (transpose codec, Configuration parameters).
    """
    axes = layout.axes
    inner = [1 if source is None else layout.inner_shape[axes.index(source)] for source in sources]
    codecs = layout.codec_list()
    kept = [source for source in sources if source is not None]
    if tuple(kept) != axes:
        of_one = [at for at, source in enumerate(sources) if source is None]
        order = [*of_one, *(list(sources).index(axis) for axis in axes)]
        codecs.insert(0, {"name": "transpose", "configuration": {"order": order}})
    return replace(layout, axes=tuple(names), inner_shape=tuple(inner), codecs=codecs_text(codecs))


def arranged_shape(
    shape: Sequence[int], layout: Layout, sources: Sequence[str | None]
) -> tuple[int, ...]:
    """The shape of a file for the dimensions of `arranged`."""
    return tuple(1 if source is None else shape[layout.axes.index(source)] for source in sources)


def arranged_array(array: FileArray, sources: Sequence[str | None], layout: Layout) -> FileArray:
    """The array of a file as one of `layout`, which `arranged` made of its own."""
    axes = array.layout.axes
    order = [axes.index(source) for source in sources if source is not None]
    grid = [1 if source is None else array.grid[axes.index(source)] for source in sources]
    return replace(
        array,
        layout=layout,
        shape=arranged_shape(array.shape, array.layout, sources),
        offsets=array.offsets.transpose(order).reshape(grid),
        sizes=array.sizes.transpose(order).reshape(grid),
    )


def with_rows(layout: Layout, rows: int) -> Layout:
    """The layout with inner chunks of so many rows."""
    y = layout.axes.index("y")
    inner = layout.inner_shape
    return replace(layout, inner_shape=(*inner[:y], rows, *inner[y + 1 :]))


def cut_in_rows(array: FileArray, layout: Layout) -> FileArray:
    """The array of a file, uncompressed, as one of `layout`, whose inner chunks have fewer rows."""
    if array.layout == layout:
        return array
    y = layout.axes.index("y")
    itemsize = int(array.sizes[array.offsets != MISSING][0]) // prod(array.layout.inner_shape)
    offsets, sizes = split_rows(
        array.offsets,
        array.shape[y],
        array.layout.inner_shape[y],
        layout.inner_shape[y],
        prod(layout.inner_shape[y + 1 :]) * itemsize,
        y,
    )
    return replace(array, layout=layout, offsets=offsets, sizes=sizes)


def split_rows(
    offsets: Extents, height: int, rows: int, new_rows: int, row_bytes: int, y: int
) -> tuple[Extents, Extents]:
    """(offset, size) of inner chunks of `new_rows` rows, which divide `height`, of those of `rows` rows.

    Each must lie in one of the old ones, or these must be behind each other. Only of uncompressed pixels.
    """
    begins = np.arange(0, height, new_rows)
    of_old = np.take(offsets, begins // rows, y)
    within = ((begins % rows) * row_bytes).astype(np.uint64)
    within = within.reshape([-1 if axis == y else 1 for axis in range(offsets.ndim)])
    missing = of_old == MISSING
    found: Extents = np.where(missing, MISSING, of_old + within)
    sizes: Extents = np.where(missing, MISSING, np.uint64(new_rows * row_bytes))
    return found, sizes
