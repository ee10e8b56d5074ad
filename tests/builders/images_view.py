"""What the tests of the `images` view share: its files, read through the readers of the view.

Owns how a file is found and read in process, and what it means that tifffile and numpy read the same.
"""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import tifffile
import zarr

from builders.array_layouts import (
    Layout,
    chunk_boxes,
    chunk_file,
    few_layouts,
    in_five,
    layouts,
    little,
)
from builders.views import FOREVER
from zarrfuse.stores.base import Kind, Store
from zarrfuse.stores.cache import ByteCache
from zarrfuse.views.base import Folder
from zarrfuse.views.choice import open_view

ALL = {layout.name: layout for layout in layouts()}
FEW = {layout.name: layout for layout in few_layouts()}


def images(store: Store, ttl_s: float = FOREVER, cache_bytes: int | None = None) -> Folder:
    """The root of the view; with a cache of its own of so many bytes."""
    cache = None if cache_bytes is None else ByteCache(cache_bytes)
    return open_view("images", store, ttl_s, root_name="root", cache=cache)


def rendering(name: str, ending: str) -> str:
    """Where the file of a whole array is: `a/b` -> `a/b/b.npy`."""
    return f"{name}/{name.rpartition('/')[2]}.{ending}"


def assert_tiff(data: bytes, expected: Any) -> None:
    """tifffile reads those elements, in that order and shape (but for dimensions of one).

    Of more than five dimensions the leading ones are merged.
    """
    found = tifffile.imread(io.BytesIO(data))
    expected = np.asarray(expected)
    if expected.dtype == bool:
        expected = expected.astype(np.uint8)
    assert found.dtype == expected.dtype.newbyteorder("=")
    if expected.ndim <= 5:
        assert in_five(found.shape) == in_five(expected.shape)
    assert little(found).tobytes() == little(expected).tobytes()


def assert_npy(data: bytes, expected: Any) -> None:
    """numpy reads that array."""
    found = np.load(io.BytesIO(data), allow_pickle=False)
    expected = little(np.asarray(expected))
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert little(found).tobytes() == expected.tobytes()


@dataclass(frozen=True)
class Written:
    """Arrays that zarr-python wrote into a folder, as it reads them and as the view shows them."""

    folder: Path
    arrays: Mapping[str, "zarr.Array[Any]"]
    root: Folder


def paths(folder: Folder) -> Iterator[str]:
    """Every file below a folder; sizes in listings are those of the files."""
    for name, entry in folder.list().items():
        if entry.kind is Kind.FOLDER:
            yield from paths(folder.child(name))
            continue
        reader = folder.open(name)
        assert reader.size == entry.size
        reader.close()
        yield f"{folder.path}/{name}"


def slices_of(size: int, chance: Random, count: int) -> Iterator[tuple[int, int]]:
    """Offsets and sizes in a file: small ones, large ones, and those that meet an end of the file."""
    for _ in range(count):
        offset = chance.randrange(size + 1)
        most = size - offset
        yield offset, min(most, chance.choice((1, 7, 100, 4096, most, chance.randrange(most + 1))))
    yield from ((0, 1), (size - 1, 1), (0, size), (size, 0))


def files_to_read(name: str, layout: Layout, array: Any) -> list[str]:
    """One file of each kind that an array is shown as."""
    files = [rendering(name, "npy")]
    if layout.has_tiff:
        coords = [coords for coords, _ in chunk_boxes(array)]
        files += [rendering(name, "tiff"), f"{name}/{chunk_file(coords[len(coords) // 2])}"]
        if len(layout.shape) >= 2:
            files.append(rendering(name, "png"))
    return files


def pyramid(folder: Path | zarr.storage.MemoryStore) -> list[Any]:
    """A pyramid of three levels, stored in layouts that differ, in the group `p`; its arrays."""
    finest = (np.arange(3 * 70 * 90, dtype=np.uint16) * 40503).reshape(3, 70, 90)
    levels = [finest, finest[:, ::2, ::2], finest[:, ::4, ::4]]
    scales = [[1.0, 0.5 * 2**level, 0.5 * 2**level] for level in range(3)]
    axes = [{"name": "z", "type": "space", "unit": "micrometer"}] + [
        {"name": name, "type": "space", "unit": "micrometer"} for name in "yx"
    ]
    datasets = [
        {"path": f"s{level}", "coordinateTransformations": [{"type": "scale", "scale": scale}]}
        for level, scale in enumerate(scales)
    ]
    multiscales = [{"name": "p", "axes": axes, "datasets": datasets}]
    attributes = {"ome": {"version": "0.5", "multiscales": multiscales}}
    zarr.create_group(folder, path="p", attributes=attributes)
    for level, values in enumerate(levels):
        options: dict[str, Any] = {"shards": (1, 32, 40)} if level == 0 else {}
        made = zarr.create_array(
            folder,
            name=f"p/s{level}",
            shape=values.shape,
            dtype=values.dtype,
            chunks=(1, 16, 20),
            dimension_names=("z", "y", "x"),
            **options,
        )
        made[...] = values
    return levels
