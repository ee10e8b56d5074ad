"""Folders of small TIFF files, and what a dataset made of them holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
import zarr

import zarrfuse
from zarrfuse.config import RemoteConfig
from zarrfuse.indexing.options import Summary, options_of
from zarrfuse.indexing.progress import Silent
from zarrfuse.indexing.run import index as run

SHAPE = (16, 32)


def pixels(seed: int, shape: tuple[int, ...] = SHAPE, dtype: str = "uint16") -> np.ndarray:
    """Pixels that no other seed has, and none of them 0."""
    count = int(np.prod(shape))
    return ((np.arange(count) * 7 + seed * 131) % 250 + 1).astype(dtype).reshape(shape)


def write_tiff(path: Path, data: np.ndarray, **options: Any) -> None:
    """One file; as any program would, in tiles of 16 by 16 unless `options` say otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"tile": (16, 16), "metadata": None, **options}
    if options["tile"] is None:
        del options["tile"]
    new = path.with_name(path.name[:100] + ".new")
    tifffile.imwrite(new, data, photometric="minisblack", **options)
    os.replace(new, path)


def write_series(
    folder: Path, count: int, name: Callable[[int], str] = "t{:03}.tif".format, begin: int = 0
) -> None:
    """Files of one time point each: `pixels(number)`."""
    for number in range(begin, begin + count):
        write_tiff(folder / name(number), pixels(number))


def indexed(folder: Path | str, out: Path | str | None = None, **options: Any) -> Summary:
    """What `zarrfuse index` does, in this process."""
    given: dict[str, Any] = {
        "pattern": None,
        "dims": None,
        "way": "link",
        "ngff": False,
        "dataset": None,
        "dry_run": False,
        "delete": False,
        "jobs": 1,
        "scheduler": None,
        "remote": RemoteConfig(),
    }
    summary = run(
        options_of(str(folder), None if out is None else str(out), **{**given, **options}), Silent()
    )
    assert summary is not None
    return summary


def read(dataset: Path | str, level: str = "") -> np.ndarray:
    """All pixels of an array."""
    array = zarr.open_array(zarrfuse.open_store(str(dataset)), path=level or None, mode="r")
    return np.asarray(array[...])


def tree(folder: Path) -> dict[str, bytes]:
    """All files below a folder, with hidden ones."""
    return {
        os.fsdecode(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def same_tree(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> None:
    """Fails unless two trees are equal, and says which files are not."""
    assert sorted(one) == sorted(other)
    assert [key for key in one if one[key] != other[key]] == []
