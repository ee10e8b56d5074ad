"""Arrays to export, and what all readers find in what was exported."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
import zarr
from numpy.typing import NDArray

import zarrfuse
from zarrfuse.check import findings

Pixels = NDArray[Any]


def pixels(shape: tuple[int, ...], dtype: str = "uint16", seed: int = 0) -> Pixels:
    """Random numbers that compress a little."""
    numbers = np.random.default_rng(seed).integers(1, 100, shape)
    return numbers.astype(dtype)


def stored(folder: Path, data: Pixels, **how: Any) -> zarr.Array[Any]:
    """An array that zarr-python writes."""
    array = zarr.create_array(folder, shape=data.shape, dtype=data.dtype, **how)
    array[...] = data
    return array


def read(folder: Path) -> Pixels:
    """All pixels of an exported array, through the `plain` view."""
    array = zarr.open_array(zarrfuse.open_store(folder), mode="r")
    return np.asarray(array[...])


def tiffs(folder: Path) -> dict[tuple[int, ...], Path]:
    """The files of an exported array, by their coordinates."""
    return {
        tuple(map(int, path.relative_to(folder / "c").with_suffix("").parts)): path
        for path in sorted((folder / "c").rglob("*.tiff"))
    }


def assert_exported(
    folder: Path, data: Pixels, chunk_shape: tuple[int, ...], *, missing: int = 0
) -> None:
    """zarr-python, tifffile and `check` find `data` in an exported array, and nothing wrong."""
    np.testing.assert_array_equal(read(folder), data)
    files = tiffs(folder)
    grid = [range(-(-n // c)) for n, c in zip(data.shape, chunk_shape, strict=True)]
    assert len(files) == len(list(product(*grid))) - missing
    for coords, path in files.items():
        box = tuple(slice(i * c, (i + 1) * c) for i, c in zip(coords, chunk_shape, strict=True))
        with tifffile.TiffFile(path) as tiff:
            planes = [page.asarray() for page in tiff.pages]
        part = data[box]
        found = np.stack(planes).reshape(-1)
        np.testing.assert_array_equal(found, part.reshape(-1), err_msg=str(path))
        np.testing.assert_array_equal(tifffile.imread(path).squeeze(), part.squeeze())
    assert [finding.line() for finding in findings(str(folder), deep=True)] == []
