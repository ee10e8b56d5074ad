"""Reads pixels as programs in Python do, in a process of its own, and says how long that took.

    python -m benchmarks.image_reader whole-zarr ARRAY
    python -m benchmarks.image_reader whole-npy FILE
    python -m benchmarks.image_reader page-zarr ARRAY
    python -m benchmarks.image_reader page-tiff FILE
    python -m benchmarks.image_reader windows-zarr ARRAY WINDOW COUNT
    python -m benchmarks.image_reader windows-npy FILE WINDOW COUNT

Prints the seconds, and a number that is the same for the same pixels. Imports are over before the
clock starts. Whole files are read by `reader.c`.
"""

import sys
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def _whole_zarr(path: str) -> tuple[float, int]:
    array = _zarr_array(path)
    begun = time.perf_counter()
    pixels = array[:]
    return time.perf_counter() - begun, pixels.nbytes


def _whole_npy(path: str) -> tuple[float, int]:
    begun = time.perf_counter()
    pixels = np.load(path)
    return time.perf_counter() - begun, pixels.nbytes


def _page_zarr(path: str) -> tuple[float, int]:
    import zarr  # noqa: PLC0415

    begun = time.perf_counter()
    pixels = np.asarray(zarr.open_array(path, mode="r")[0])
    return time.perf_counter() - begun, zlib.crc32(pixels.data)


def _page_tiff(path: str) -> tuple[float, int]:
    import tifffile  # noqa: PLC0415

    begun = time.perf_counter()
    with tifffile.TiffFile(path) as file:
        pixels = file.pages[0].asarray()
    return time.perf_counter() - begun, zlib.crc32(pixels.data)


def _windows_zarr(path: str, window: str, count: str) -> tuple[float, int]:
    return _windows(_zarr_array(path), int(window), int(count))


def _windows_npy(path: str, window: str, count: str) -> tuple[float, int]:
    return _windows(np.load(path, mmap_mode="r"), int(window), int(count))


def _zarr_array(path: str) -> Any:
    import zarr  # noqa: PLC0415

    return zarr.open_array(path, mode="r")


def _windows(array: Any, window: int, count: int) -> tuple[float, int]:
    """Windows of pages (Y, X) at the same random places for all who read."""
    found = []
    begun = time.perf_counter()
    for page, top, left in _places(array.shape, window, count):
        found.append(np.array(array[page, top : top + window, left : left + window]))
    seconds = time.perf_counter() - begun
    seen = 0
    for pixels in found:
        seen = zlib.crc32(pixels.data, seen)
    return seconds, seen


def _places(shape: tuple[int, ...], window: int, count: int) -> Iterator[tuple[int, int, int]]:
    chance = np.random.default_rng(11)
    for _ in range(count):
        page, top, left = (
            int(chance.integers(0, most))
            for most in (shape[0], shape[1] - window + 1, shape[2] - window + 1)
        )
        yield page, top, left


_WAYS: dict[str, Callable[..., tuple[float, int]]] = {
    "whole-zarr": _whole_zarr,
    "whole-npy": _whole_npy,
    "page-zarr": _page_zarr,
    "page-tiff": _page_tiff,
    "windows-zarr": _windows_zarr,
    "windows-npy": _windows_npy,
}


if __name__ == "__main__":
    taken, number = _WAYS[sys.argv[1]](*sys.argv[2:])
    print(f"{taken:.9f} {number}")
