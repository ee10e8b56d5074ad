"""Writes chunks with zarr-python, in a process of its own, and says how long that took.

    python -m benchmarks.array_writer ARRAY CHUNKS BYTES

The pixels are made, and everything is imported, before the clock starts.
"""

import sys
import time

import numpy as np
import zarr

_ROWS = 100
"""So many chunks are given to zarr-python at a time."""


def main() -> None:
    """Print the seconds."""
    path, count, nbytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rows = np.random.default_rng(0).integers(1, 256, (_ROWS, nbytes), np.uint8)
    array = zarr.open_array(path, mode="r+")
    begun = time.perf_counter()
    for first in range(0, count, _ROWS):
        stop = min(first + _ROWS, count)
        array[first:stop] = rows[: stop - first]
    print(time.perf_counter() - begun)


if __name__ == "__main__":
    main()
