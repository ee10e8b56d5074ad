"""One of several processes that write arrays with tensorstore: `python write_by_tensorstore.py TASK`.

TASK is JSON: see `Task`. It says `ready` on stdout, and begins when it is told anything on stdin, so
that all of them begin at once.
"""

import json
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorstore

SIDE = 64
SHARD = 32
INNER = 8
GROWN = 128
"""Rows that there are at last."""


@dataclass(frozen=True)
class Task:
    """What one process does with the array at `path`.

    It opens it, or makes it with `metadata`; has it grow to `shape`, where that is not None; and
    writes each of `boxes` (top, left, height, width) in an operation of its own, all at once.
    """

    path: str
    shape: tuple[int | None, int | None]
    boxes: list[tuple[int, int, int, int]]
    metadata: dict[str, Any] | None = None


def values(rows: int, columns: int) -> np.ndarray:
    """What the array of that size shall hold, all over: no zero, which is the fill value."""
    return (np.arange(1, rows * columns + 1, dtype="<u4") * 2_654_435_761 | 1).reshape(
        rows, columns
    )


def metadata(**members: Any) -> dict[str, Any]:
    """The array as a core Zarr v3 document: shards, with checksums and an index at the end."""
    little = {"name": "bytes", "configuration": {"endian": "little"}}
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [SIDE, SIDE],
        "data_type": "uint32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [SHARD, SHARD]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [
            {
                "name": "sharding_indexed",
                "configuration": {
                    "chunk_shape": [INNER, INNER],
                    "index_location": "end",
                    "index_codecs": [little, {"name": "crc32c"}],
                    "codecs": [little, {"name": "crc32c"}],
                },
            }
        ],
        "attributes": {},
        **members,
    }


def opened(path: str, **options: Any) -> tensorstore.TensorStore:
    """An array of Zarr v3 in a folder."""
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"}}
    wanted = options.pop("metadata", None)
    if wanted is not None:
        known = ("shape", "data_type", "chunk_grid", "fill_value", "codecs", "chunk_key_encoding")
        spec["metadata"] = {name: wanted[name] for name in known}
    return tensorstore.open(spec, **options).result()


def run(task: Task) -> None:
    """Do it."""
    if task.metadata is None:
        array = opened(task.path, open=True, read=True, write=True)
    else:
        array = opened(task.path, metadata=task.metadata, open=True, create=True)
    array = array.resize(exclusive_max=task.shape, expand_only=True).result()
    array = array.resolve(fix_resizable_bounds=True).result()
    pixels = values(GROWN, SIDE)
    written = []
    for top, left, height, width in task.boxes:
        box = slice(top, top + height), slice(left, left + width)
        written.append(array[box].write(pixels[box]))
    for one in written:
        one.result()


def main() -> None:
    """See the module."""
    task = Task(**json.loads(sys.argv[1]))
    print("ready", flush=True)
    sys.stdin.readline()
    run(task)


if __name__ == "__main__":
    main()
