"""Writes HDF5 files whose first bytes, as many in each file of an array, hold all that is not pixels.

So each can be stored in three parts: header, chunks, and the index of the shard. Used by `exporting`. It
must not know keys, or how chunks are encoded.

HDF5 places metadata in blocks (`meta_block_size`), and chunks outside of them. A block that is large enough
is at the beginning of the file and holds everything: the index of chunks of an array with a fixed shape has
the same size whether chunks are missing or not. The size is found by trying, and each file is checked.
"""

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from zarrfuse.shards.hdf5 import read_hdf5
from zarrfuse.shards.hdf5_filters import Filter, filters_of
from zarrfuse.shards.layout import MISSING, FileArray, Layout, Refused

DATASET = "data"
"""The name of the dataset in each file."""

_VERSIONS = ("v110", "v110")
"""Read by HDF5 1.10 and newer. Older formats index chunks by trees, which grow with the chunks stored."""
_DATA_TYPES = frozenset(
    [
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    ]
)
_IN_ALL_FILES = ("data_type", "axes", "inner_shape")
"""What is read as it was written; codecs may differ by what only matters for encoding."""
_ROUNDED_TO = 512
_TRIALS = 12
_MOST_CHUNK_BYTES = (1 << 32) - 1
"""Of a decoded chunk, in files that HDF5 1.10 reads."""


@dataclass(frozen=True, slots=True)
class Hdf5Shards:
    """The HDF5 files that are the shards of an array; made by `hdf5_shards`, and can be pickled.

    Attributes:
        layout: Of inner chunks, as `read_hdf5` finds it in each file.
        shape: The number of pixels of a shard.
        header_size: The bytes at the beginning of each file that hold no pixels.
        needs_plug_in: Whether readers of HDF5 need a plug-in (hdf5plugin) for the compression.
    """

    layout: Layout
    shape: tuple[int, ...]
    header_size: int
    needs_plug_in: bool
    _meta_block_size: int
    _attributes: Mapping[str, Any] = field(default_factory=dict)

    def write(
        self,
        path: Path,
        chunks: Iterable[tuple[tuple[int, ...], bytes]],
        *,
        shape: Sequence[int] | None = None,
    ) -> FileArray:
        """Write a file; where its chunks are.

        The bytes up to `header_size` are the header, those behind it only chunks, in the order given.

        Args:
            path: The new file; one that exists is replaced.
            chunks: (place in the grid of the shard, bytes) of the encoded inner chunks that are stored.
            shape: Of a shard at the end of the array, that of the pixels inside of it, if the file is to
                have no others.

        Raises:
            Refused: The chunks do not fit the layout, or HDF5 put metadata behind the header.
        """
        pixels = tuple(self.shape if shape is None else shape)
        stored = _write(
            path, self.layout, pixels, self.shape, self._attributes, self._meta_block_size, chunks
        )
        with path.open("rb") as file:
            array = read_hdf5(str(path), file, DATASET)[0]
        if not stored:
            os.truncate(path, self.header_size)
        present = array.offsets != MISSING
        # Chunks fill all bytes behind the header, so that no metadata is among or behind them.
        behind = path.stat().st_size - self.header_size
        if array.offsets[present].min(initial=MISSING) < self.header_size or behind != stored:
            raise Refused(
                f"{path}: HDF5 did not keep its metadata in the first {self.header_size} bytes"
            )
        same = all(getattr(array.layout, of) == getattr(self.layout, of) for of in _IN_ALL_FILES)
        if not same or int(array.sizes[present].sum()) != stored:
            raise Refused(f"{path}: is not read as it was written: {array.layout}")
        return array


def hdf5_shards(
    layout: Layout,
    shape: Sequence[int],
    *,
    scale: Mapping[str, tuple[float, str]] | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> Hdf5Shards:
    """How the shards of `shape` are written as HDF5 files; finds the size of the header, by writing some.

    Args:
        layout: Of inner chunks; `filters_of` tells whether its codecs can be kept. Axes called `dim_0` and
            so on get no label.
        shape: The number of pixels of a shard.
        scale: As in `FileArray`; written as `element_size_um` if all axes have micrometers.
        attributes: Of the dataset: texts, numbers, and lists of them.

    Raises:
        Refused: HDF5 has no such layout.
    """
    if find_spec("h5py") is None:
        raise Refused("writing HDF5 needs the package h5py: pip install 'zarrfuse[hdf5]'")
    filters = _filters(layout)
    size = prod(layout.inner_shape) * _dtype(layout).itemsize
    if size > _MOST_CHUNK_BYTES:
        raise Refused(f"HDF5 has no chunks of {size} bytes: take smaller inner chunks")
    written = {**(attributes or {}), **_element_size(layout, scale or {})}
    # A filtered chunk may have any size, another only its own.
    chunk = b"\0" if filters else bytes(size)
    pixels = tuple(shape)
    chunks = [((0,) * len(pixels), chunk)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trial.h5")

        def header(meta_block_size: int) -> tuple[int, int]:
            """Where the chunk is with blocks of this size, and the bytes that are not of it."""
            _write(path, layout, pixels, pixels, written, meta_block_size, chunks)
            with path.open("rb") as file:
                offset = int(read_hdf5("trial", file, DATASET)[0].offsets.flat[0])
            return offset, path.stat().st_size - len(chunk)

        block = _rounded(header(0)[1])
        for _ in range(_TRIALS):
            offset, others = header(block)
            if offset == others:
                needs = any(each.needs_plug_in for each in filters)
                return Hdf5Shards(layout, pixels, offset, needs, block, written)
            block = _rounded(block + block // 4)
    raise Refused(f"HDF5 does not keep the metadata of {prod(shape)} pixels in front of them")


def _rounded(size: int) -> int:
    return -(-size // _ROUNDED_TO) * _ROUNDED_TO


def _filters(layout: Layout) -> tuple[Filter, ...]:
    filters = filters_of(layout.codec_list(), _dtype(layout).itemsize)
    if filters is None:
        names = ", ".join(str(codec.get("name")) for codec in layout.codec_list())
        raise Refused(f"HDF5 has no filters for the codecs {names}")
    return filters


def _dtype(layout: Layout) -> np.dtype[Any]:
    if layout.data_type not in _DATA_TYPES:
        raise Refused(f"HDF5 files have no elements of the data type {layout.data_type}")
    configuration = layout.codec_list()[0].get("configuration") or {}
    return np.dtype(str(layout.data_type)).newbyteorder(
        ">" if configuration.get("endian") == "big" else "<"
    )


def _element_size(layout: Layout, scale: Mapping[str, tuple[float, str]]) -> dict[str, Any]:
    known = [scale[axis][0] for axis in layout.axes if scale.get(axis, (0, ""))[1] == "micrometer"]
    return {"element_size_um": known} if len(known) == len(layout.axes) else {}


def _fill_value(value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The element for a fill value in a `zarr.json`."""
    if dtype.kind == "c":
        return np.array(complex(*(float(part) for part in value)), dtype)
    if not isinstance(value, str):
        return np.array(value, dtype)
    if value.startswith("0x"):
        return (
            np.array(int(value, 16), f"u{dtype.itemsize}").view(f"f{dtype.itemsize}").astype(dtype)
        )
    return np.array(float(value), dtype)


def _write(
    path: Path,
    layout: Layout,
    shape: tuple[int, ...],
    largest: tuple[int, ...],
    attributes: Mapping[str, Any],
    meta_block_size: int,
    chunks: Iterable[tuple[tuple[int, ...], bytes]],
) -> int:
    """Write a file; the bytes of all chunks."""
    import h5py  # noqa: PLC0415
    from h5py import h5d, h5p, h5s, h5t, h5z  # noqa: PLC0415

    dtype = _dtype(layout)
    filters = _filters(layout)
    created = h5p.create(h5p.DATASET_CREATE)
    created.set_chunk(layout.inner_shape)
    created.set_fill_value(_fill_value(layout.fill_value, dtype))
    created.set_obj_track_times(False)
    for each in filters:
        # A filter that is not optional could not be named without its plug-in.
        created.set_filter(each.number, h5z.FLAG_OPTIONAL, each.values)
    size = prod(layout.inner_shape) * dtype.itemsize
    stored = 0
    with h5py.File(path, "w", libver=_VERSIONS, meta_block_size=meta_block_size) as file:
        kind = h5t.py_create(dtype, logical=True)
        # By the largest shape, the index of chunks has the same size in files that are smaller.
        space = h5s.create_simple(shape, largest)
        made = h5d.create(file.id, DATASET.encode(), kind, space, created)
        dataset = h5py.Dataset(made)
        for name, value in attributes.items():
            dataset.attrs[name] = value
        for at, axis in enumerate(layout.axes):
            if axis != f"dim_{at}":
                dataset.dims[at].label = axis
        for coordinates, chunk in chunks:
            origin = tuple(n * c for n, c in zip(coordinates, layout.inner_shape, strict=True))
            if not filters and len(chunk) != size:
                raise Refused(
                    f"{path}: the inner chunk at {origin} has {len(chunk)} bytes, not {size}"
                )
            made.write_direct_chunk(origin, chunk)
            stored += len(chunk)
    return stored
