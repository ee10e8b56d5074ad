"""What is measured of `zarrfuse index`, beside other ways to read a folder of TIFF files as Zarr.

The files are tiled and not compressed. `tifffile + zarr-python` reads each and writes it as a shard, which
copies all pixels; it does fewer files. kerchunk lists where the tiles are, as `zarrfuse index` does, but in
memory: what it would store is not counted. Each is a process of its own, with all that it imports.
"""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import tifffile

from benchmarks.systems import Failed, command_environment, zarrfuse_command

_SIDE = 1448
"""Of an image of 16 bits: 4 MiB."""
_TILE = 256


@dataclass(frozen=True)
class IndexingSizes:
    """How many files are indexed, and how many of them are converted or listed by others."""

    files: int = 2_000
    converted: int = 200


QUICK_INDEXING = IndexingSizes(40, 10)

_CONVERT = """
import sys, tifffile, zarr
from pathlib import Path
paths = sorted(Path(sys.argv[1]).iterdir())
side, tile = int(sys.argv[3]), int(sys.argv[4])
whole = -(-side // tile) * tile
array = zarr.create_array(sys.argv[2], shape=(len(paths), side, side), dtype="u2",
                          chunks=(1, tile, tile), shards=(1, whole, whole), compressors=None)
for number, path in enumerate(paths):
    array[number] = tifffile.imread(path)
"""
_KERCHUNK = """
import sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from kerchunk.tiff import tiff_to_zarr
listed = [tiff_to_zarr(str(path)) for path in sorted(Path(sys.argv[1]).iterdir())]
"""


def write_tiffs(folder: Path, count: int) -> None:
    """Write that many files, each with other pixels at its beginning."""
    folder.mkdir(parents=True)
    first = folder / "z0000.tif"
    pixels = np.random.default_rng(0).integers(0, 60_000, (_SIDE, _SIDE), dtype=np.uint16)
    tifffile.imwrite(first, pixels, tile=(_TILE, _TILE), metadata=None)
    for number in range(1, count):
        shutil.copyfile(first, folder / f"z{number:04}.tif")


@dataclass(frozen=True)
class IndexingRow:
    """A way to make an array of the files; `on` returns seconds."""

    name: str
    title: str
    files: int
    on: Callable[[], float]


class Indexing:
    """All rows, of files in `folder`; `bytes_per_file` is what `zarrfuse index` has read of each."""

    def __init__(self, folder: Path, sizes: IndexingSizes) -> None:
        self._folder = folder
        self._files = folder / "tiffs"
        self._few = folder / "few"
        self._out = folder / "out"
        self._sizes = sizes
        self.bytes_per_file = 0.0
        write_tiffs(self._files, sizes.files)
        write_tiffs(self._few, sizes.converted)
        self._env = command_environment(folder)
        # So that the byte code of all is in memory.
        two = folder / "two"
        write_tiffs(two, 2)
        self._timed([*zarrfuse_command(), "index", str(two)])
        for text in (_CONVERT, _KERCHUNK):
            arguments = [str(two), str(folder / "warm"), str(_SIDE), str(_TILE)]
            self._timed([sys.executable, "-c", text, *arguments])

    @property
    def rows(self) -> Sequence[IndexingRow]:
        """The rows; those of `zarrfuse index` first, of which the second one needs the first."""
        files, few = self._sizes.files, self._sizes.converted
        return (
            IndexingRow("index", "`zarrfuse index`", files, self._index),
            IndexingRow("index-again", "the same again, nothing changed", files, self._again),
            IndexingRow(
                "index-convert",
                "converted by tifffile and zarr-python",
                few,
                lambda: self._script(_CONVERT, self._out, _SIDE, _TILE),
            ),
            IndexingRow(
                "index-kerchunk", "listed by kerchunk", few, lambda: self._script(_KERCHUNK)
            ),
        )

    def _index(self) -> float:
        shutil.rmtree(self._out, ignore_errors=True)
        return self._again()

    def _again(self) -> float:
        command = [*zarrfuse_command(), "index", str(self._files), "--out", str(self._out)]
        seconds, said = self._timed(command)
        found = re.search(r"read ([\d.,]+) MB of headers of ([\d,]+) files", said)
        if found is not None and found[2] != "0":
            count = int(found[2].replace(",", ""))
            self.bytes_per_file = float(found[1].replace(",", "")) * 1e6 / count
        return seconds

    def _script(self, text: str, *arguments: object) -> float:
        shutil.rmtree(self._out, ignore_errors=True)
        return self._timed([sys.executable, "-c", text, str(self._few), *map(str, arguments)])[0]

    def _timed(self, command: list[str]) -> tuple[float, str]:
        started = time.perf_counter()
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=1_800, env=self._env
        )
        seconds = time.perf_counter() - started
        if done.returncode:
            raise Failed(f"{' '.join(command[:4])}: {done.stderr.strip()[-400:]}")
        return seconds, done.stderr


def markdown(
    rounds: int, rows: Sequence[tuple[IndexingRow, Sequence[float]]], bytes_per_file: float
) -> str:
    """The table: files per second, and how many times as fast `zarrfuse index` was."""
    ours = next((seconds for row, seconds in rows if row.name == "index"), ())
    own_files = next((row.files for row, _ in rows if row.name == "index"), 0)
    lines = [["", "files", "files/s", "`zarrfuse index` is"], ["---"] * 4]
    for row, seconds in rows:
        ratios = [
            (own_files / own) / (row.files / other)
            for own, other in zip(ours, seconds, strict=False)
        ]
        times = f"{median(ratios):.2f}x" if ratios and row.name != "index" else ""
        rate = f"{row.files / median(seconds):,.0f}"
        lines.append([row.title, f"{row.files:,}", rate, times])
    text = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return (
        f"TIFF files of 4 MiB in tiles of {_TILE}, not compressed. Medians of {rounds} rounds. "
        f"`zarrfuse index` read {bytes_per_file / 1e3:,.1f} KB of each file.\n\n{text}\n"
    )
