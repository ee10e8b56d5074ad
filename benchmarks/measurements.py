"""What is measured, and how.

Every figure is taken on a mount that was made for it, so that nothing is in the caches that the
kernel keeps of the mount: not names, not attributes, not pages. The folder below is the same for
all, and warm: all its bytes and names are in the page cache, so that no disk is measured. The raw
folder is therefore read from memory, and is the most that any mount could reach.

Readers are other processes: `reader.c` for bytes, `/bin/ls` for names. Their own start is not in the
figures for bytes. Files are read with the kernel's usual read-ahead, except at random, where readers
say so (`POSIX_FADV_RANDOM`), and where no page is read twice.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.datasets import PAGE, Datasets
from benchmarks.systems import Failed, Folder, FuseMount, run

System = Folder | FuseMount


@dataclass(frozen=True)
class Measurement:
    """One row: what is done, and how a figure in seconds is to be told.

    `work` is how much is done, in bytes ("MB/s") or things ("/s"); None tells seconds.
    """

    name: str
    title: str
    seconds: Callable[[System], float]
    unit: Literal["MB/s", "/s", "s"] = "s"
    work: int = 1
    needs_mount: bool = False
    on_mount: Callable[[Path], float] | None = None
    """The same on a folder that is there already."""


class Measurements:
    """All rows, on `datasets`. Compiles the reader into `folder`; raises `Failed` without gcc."""

    def __init__(self, datasets: Datasets, folder: Path) -> None:
        self._datasets = datasets
        self._reader = str(folder / "reader")
        source = Path(__file__).with_name("reader.c")
        run(["gcc", "-O2", "-pthread", "-o", self._reader, str(source)])

    def all(self) -> list[Measurement]:
        """In the order of the table."""
        sizes = self._datasets.sizes
        rows = [
            self._on("sequential", _sequential_title(sizes.large_bytes), self._sequential)
            .telling("MB/s", sizes.large_bytes),
        ]
        return [row.made(self._datasets.root) for row in rows]
