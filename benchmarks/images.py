"""The `images` view beside zarr-python: what is measured, and how.

Both decode the same store, whose files are in the page cache before each figure (they are read once,
without counting). Both have imported what they need before the clock starts: before a figure, a small
array is read on the new mount, as a script imports zarr before it reads. The rows of the first page do
without: one reads a second after the mount, when the daemon has imported what it needs by itself, and
one as soon as the reader has started, which takes it a few tenths. Nothing of the mount is in the
kernel's page cache: each figure has a mount of its own.

Whole files are read by `reader.c`, 1 MiB at a time into the same memory, as `cat` would; `array[:]`
makes an array of them. The other readers are `image_reader`. Each runs in a process of its own.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from benchmarks.image_arrays import ImageArrays, rendering
from benchmarks.systems import Failed, FuseMount, run
from benchmarks.table import Row, Table, Unit, memory_row

Before: TypeAlias = Literal["warm", "wait", "nothing"]
_WARM: Before = "warm"
_WAIT: Before = "wait"
_NOTHING: Before = "nothing"
_SETTLED_S = 1.0

OURS, ZARR = "zarrfuse", "zarr-python"


@dataclass(frozen=True)
class ImageMeasurement:
    """One thing to read, on a mount and with zarr-python from the store; seconds each.

    `work` is done in these seconds: bytes (`unit` "MB/s") or things ("/s"); "s" tells the seconds.
    `before`: what is done on a new mount before the reader starts.
    """

    name: str
    title: str
    unit: Unit
    work: int
    array: str
    ours: Callable[[Path], tuple[float, int]]
    zarr: Callable[[Path], tuple[float, int]]
    before: Before = _WARM
    same_bytes: bool = True
    """Whether both readers print the same number when they have read the same."""


class ImageMeasurements:
    """All measurements on `arrays`, which `mount` shows. `reader` is the compiled `reader.c`."""

    def __init__(self, arrays: ImageArrays, mount: FuseMount, reader: str) -> None:
        self._arrays = arrays
        self._mount = mount
        self._reader = reader
        self.all = tuple(self._all())

    def _all(self) -> Iterator[ImageMeasurement]:
        data, sizes = self._arrays, self._arrays.sizes
        whole = f"the TIFF of a whole array of {_binary(sizes.nbytes)}"
        for name, array, stored in (
            ("image-tiff", data.zstd, "zstd"),
            ("image-tiff-sharded", data.sharded, "zstd in shards"),
        ):
            yield ImageMeasurement(
                name,
                f"read {whole}, {stored}",
                "MB/s",
                sizes.nbytes,
                array,
                self._whole(array),
                _python("whole-zarr"),
                same_bytes=False,
            )
        yield ImageMeasurement(
            "image-npy",
            f"numpy.load of a whole array of {_binary(sizes.nbytes)}, zstd",
            "MB/s",
            sizes.nbytes,
            data.zstd,
            self._rendering(data.zstd, "npy", "whole-npy"),
            _python("whole-zarr"),
        )
        page = f"first page, {_binary(2 * sizes.huge_side**2)}, of the TIFF of"
        page = f"{page} an array of {_binary(sizes.huge_nbytes)}"
        for name, title, before in (
            ("image-first-page", f"{page}, a second after the mount", _WAIT),
            ("image-page-at-once", f"{page}, as soon as a reader starts", _NOTHING),
        ):
            yield ImageMeasurement(
                name,
                title,
                "s",
                1,
                data.huge,
                self._rendering(data.huge, "tiff", "page-tiff"),
                _python("page-zarr"),
                before=before,
            )
        side = f"{sizes.window} x {sizes.window}"
        arguments = (str(sizes.window), str(sizes.windows))
        for name, array, chunks in (
            ("image-windows", data.zstd, f"chunks of {sizes.chunk} x {sizes.chunk}"),
            ("image-windows-frames", data.frames, "each page a chunk"),
        ):
            yield ImageMeasurement(
                name,
                f"{sizes.windows} windows of {side} at random, NPY through mmap, {chunks}",
                "/s",
                sizes.windows,
                array,
                self._rendering(array, "npy", "windows-npy", *arguments),
                _python("windows-zarr", *arguments),
            )

    def seconds(self, measurement: ImageMeasurement, system: str) -> float:
        """What the reader takes on a new mount, or with zarr-python. Raises `Failed`."""
        array = measurement.array
        files = self._arrays.stored_files(array)
        run([self._reader, "seq", *map(str, files)])
        seconds, _ = self._both(measurement, system)
        return seconds

    def check(self, measurement: ImageMeasurement) -> None:
        """Raises `Failed` if the two do not read the same pixels."""
        if measurement.same_bytes:
            numbers = {name: self._both(measurement, name)[1] for name in (OURS, ZARR)}
            if len(set(numbers.values())) != 1:
                raise Failed(f"{measurement.name}: not the same pixels: {numbers}")

    def _both(self, measurement: ImageMeasurement, system: str) -> tuple[float, int]:
        if system == ZARR:
            return measurement.zarr(self._arrays.stored(measurement.array))
        with self._mount.mounted(self._arrays.root) as folder:
            if measurement.before == _WARM:
                for ending in ("tiff", "npy"):
                    rendering(folder, self._arrays.small, ending).read_bytes()
            elif measurement.before == _WAIT:
                time.sleep(_SETTLED_S)
            return measurement.ours(folder)

    def peak_memory_bytes(self) -> int:
        """What the daemon has at most in memory while both large arrays are read, one by one."""
        with self._mount.mounted(self._arrays.root) as folder:
            for array in (self._arrays.zstd, self._arrays.sharded):
                self._whole(array)(folder)
            return self._mount.peak_memory_bytes()

    def _whole(self, array: str) -> Callable[[Path], tuple[float, int]]:
        def read(folder: Path) -> tuple[float, int]:
            path = rendering(folder, array, "tiff")
            size = path.stat().st_size
            seconds, count = run([self._reader, "seq", str(path)]).split()
            if int(count) != size or size < self._arrays.sizes.nbytes:
                raise Failed(f"the reader got {count} bytes of {size}: {path}")
            return float(seconds), size

        return read

    def _rendering(
        self, array: str, ending: str, way: str, *arguments: str
    ) -> Callable[[Path], tuple[float, int]]:
        read = _python(way, *arguments)
        return lambda folder: read(rendering(folder, array, ending))


def _python(way: str, *arguments: str) -> Callable[[Path], tuple[float, int]]:
    """A reader of `image_reader`."""

    def read(path: Path) -> tuple[float, int]:
        module = "benchmarks.image_reader"
        seconds, number = run([sys.executable, "-m", module, way, str(path), *arguments]).split()
        return float(seconds), int(number)

    return read


def image_table(
    rounds: int, rows: Sequence[Row], memory_bytes: int | None, cache_bytes: int
) -> Table:
    """What was measured of the view beside zarr-python."""
    memory = "peak memory of the daemon while both whole arrays are read"
    return Table(
        "images",
        "The `images` view beside zarr-python, which decodes the same store; the cache of decoded chunks "
        f"has {cache_bytes >> 20} MiB.",
        rounds,
        (ZARR, OURS),
        [
            *rows,
            *(
                []
                if memory_bytes is None
                else [memory_row("image-memory", memory, {OURS: memory_bytes})]
            ),
        ],
        {ZARR: (ZARR,)},
    )


def _binary(nbytes: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if nbytes >= size:
            return f"{nbytes / size:g} {unit}"
    return f"{nbytes} bytes"
