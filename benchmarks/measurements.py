"""What is measured, and how.

Every figure is taken on a mount that was made for it, so that nothing is in the caches that the
kernel keeps of the mount: not names, not attributes, not pages. The folder below is the same for
all, and warm: before each figure the same is done on the folder itself, without counting, so that
all bytes and names are in the page cache and no disk is measured (machines that are short of memory
lose them within a minute). The raw folder is therefore read from memory, and is the most that any
mount could reach. Only the peak of memory is of one mount on which everything has been done, one
after the other.

Readers are other processes: `reader.c` for bytes, `/bin/ls` for names, `zarrfuse info` for nodes, and
for nodes also this one. Starting them is not in the figures for bytes. Files are read with the
kernel's usual read-ahead, except at random, where the reader says so (`POSIX_FADV_RANDOM`) and reads
no page twice.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.datasets import PAGE, Datasets
from benchmarks.systems import (
    Failed,
    FuseMount,
    System,
    command_environment,
    run,
    zarrfuse_command,
)
from benchmarks.table import Row, Table, Unit, memory_row
from zarrfuse.config import PERMANENT_TTL_S
from zarrfuse.stores.opening import open_store
from zarrfuse.views.choice import open_view
from zarrfuse.views.walk import ToldFolder, walk


@dataclass(frozen=True)
class Measurement:
    """One thing to do on a mount of `source`.

    `work` is done in the seconds that are measured: bytes (`unit` "MB/s") or things ("/s"); seconds
    themselves are told where `unit` is "s". `systems`: the names of those on which there is something
    to measure. `with_mounting`: the mount command is part of it.
    """

    name: str
    title: str
    unit: Unit
    work: int
    source: Path
    on: Callable[[Path, bool], float]
    """Seconds on a mounted folder; whether it merges parts."""
    systems: tuple[str, ...] = ("raw", "bindfs", "zarrfuse")
    with_mounting: bool = False

    def seconds(self, system: System) -> float:
        """Do it on a new mount. Raises `Failed`."""
        self.on(self.source, False)
        begun = time.perf_counter()
        with system.mounted(self.source) as folder:
            seconds = self.on(folder, system.merges)
            return time.perf_counter() - begun if self.with_mounting else seconds


def mount_table(
    name: str,
    rounds: int,
    readahead_kib: int,
    rows: Sequence[Row],
    memory_bytes: Mapping[str, int] | None = None,
) -> Table:
    """What was measured of mounts beside bindfs and the folder itself."""
    memory = "peak memory of the daemon after all of the above"
    return Table(
        name,
        "Ratios say how many times as fast as the other. Read-ahead of the zarrfuse mount: "
        f"{readahead_kib} KiB. Spread: slowest against fastest round of zarrfuse.",
        rounds,
        ("raw", "bindfs", "zarrfuse"),
        [
            *(each for row in rows for each in _with_imports(row)),
            *([memory_row("memory", memory, memory_bytes)] if memory_bytes else []),
        ],
        {"bindfs": ("bindfs",), "raw": ("raw",)},
    )


def _with_imports(row: Row) -> Iterator[Row]:
    """A row; and where imports were measured, one of what zarrfuse took longer than these."""
    yield row
    if imports := row.figures.get("imports"):
        pairs = zip(row.figures["zarrfuse"], imports, strict=True)
        yield replace(
            row,
            name=f"{row.name}-imports",
            title=f"{row.title}, less the imports",
            figures={"zarrfuse": [ours - other for ours, other in pairs]},
            is_compared=False,
        )


def compiled_reader(folder: Path) -> str:
    """The path of `reader.c` compiled into `folder`. `Failed` without gcc."""
    reader = str(folder / "reader")
    source = Path(__file__).with_name("reader.c")
    run(["gcc", "-O2", "-Wall", "-pthread", "-o", reader, str(source)])
    return reader


class Measurements:
    """All measurements on `datasets`. `reader` is the compiled `reader.c`."""

    def __init__(self, datasets: Datasets, folder: Path, reader: str) -> None:
        self._datasets = datasets
        self._environment = command_environment(folder)
        self._reader = reader
        self.all = self._all()

    def _all(self) -> list[Measurement]:
        data = self._datasets
        sizes = data.sizes
        root = data.root
        large = f"{sizes.large_bytes >> 20:,} MiB"
        listed = f"{sizes.listed_files:,}"
        of_nodes = f"of {sizes.nodes:,}"
        return [
            Measurement(
                "sequential",
                f"read a chunk of {large}",
                "MB/s",
                sizes.large_bytes,
                root,
                self._sequential,
            ),
            Measurement(
                "merged",
                f"read a chunk of {large} stored in three parts",
                "MB/s",
                data.parts_bytes,
                root,
                self._merged,
            ),
            *(
                Measurement(
                    f"random-{threads}",
                    f"read 4 KiB at random, {_threads(threads)}",
                    "/s",
                    sizes.random_reads,
                    root,
                    self._random(threads),
                )
                for threads in (1, 4)
            ),
            *(
                Measurement(
                    f"open-{threads}",
                    f"open, read, close {sizes.small_files:,} chunks of 4 KiB, {_threads(threads)}",
                    "/s",
                    sizes.small_files,
                    root,
                    self._each(threads),
                )
                for threads in (1, 4)
            ),
            Measurement("list", f"`ls -l` of {listed} chunks", "s", 1, root, self._long_listing),
            *(
                Measurement(
                    name,
                    f"mount to the end of the first `ls`, {count} chunks",
                    "s",
                    1,
                    source,
                    _first_listing,
                    systems=("imports", "bindfs", "zarrfuse"),
                    with_mounting=True,
                )
                for name, source, count in (
                    ("mount-few", data.ten, "ten"),
                    ("mount-many", data.many, listed),
                )
            ),
            *(
                Measurement(name, title, "/s", sizes.nodes, root, on, systems=(system,))
                for name, title, on, system in (
                    ("info", f"`zarrfuse info` {of_nodes} nodes", self._info, "raw"),
                    (
                        "info-mount",
                        f"`zarrfuse info` {of_nodes} mounted nodes",
                        self._info,
                        "zarrfuse",
                    ),
                    ("nodes", f"facts {of_nodes} nodes, in one process", self._facts, "raw"),
                )
            ),
        ]

    def peak_memory_bytes(self, system: FuseMount) -> int:
        """What the daemon has at most in memory when everything is done on one mount."""
        with system.mounted(self._datasets.root) as folder:
            for measurement in self.all:
                if system.name in measurement.systems and not measurement.with_mounting:
                    measurement.on(folder, system.merges)
            return system.peak_memory_bytes()

    def _sequential(self, folder: Path, _merges: bool) -> float:
        return self._read(self._datasets.sizes.large_bytes, "seq", folder / self._datasets.large)

    def _merged(self, folder: Path, merges: bool) -> float:
        data = self._datasets
        files = [data.merged] if merges else data.parts
        return self._read(data.parts_bytes, "seq", *(folder / file for file in files))

    def _random(self, threads: int) -> Callable[[Path, bool], float]:
        def read(folder: Path, _merges: bool) -> float:
            count = self._datasets.sizes.random_reads
            path = folder / self._datasets.large
            return self._read(count * PAGE, "random", threads, count, path)

        return read

    def _each(self, threads: int) -> Callable[[Path, bool], float]:
        def read(folder: Path, _merges: bool) -> float:
            data = self._datasets
            nbytes = data.sizes.small_files * PAGE
            return self._read(nbytes, "each", threads, folder / data.small, data.names_file)

        return read

    def _read(self, nbytes: int, *arguments: object) -> float:
        """Run the reader, which has to read `nbytes`; its seconds."""
        seconds, read = run([self._reader, *map(str, arguments)]).split()
        if int(read) != nbytes:
            raise Failed(f"the reader got {read} bytes of {nbytes}: {arguments}")
        return float(seconds)

    def _long_listing(self, folder: Path, _merges: bool) -> float:
        begun = time.perf_counter()
        _list("-l", folder / self._datasets.listed)
        return time.perf_counter() - begun

    def _info(self, folder: Path, _merges: bool) -> float:
        """The whole command, as it is waited for."""
        path = folder / self._datasets.hierarchy
        begun = time.perf_counter()
        lines = run(zarrfuse_command("info", str(path)), self._environment).count("\n")
        seconds = time.perf_counter() - begun
        self._check_nodes(lines)
        return seconds

    def _facts(self, folder: Path, _merges: bool) -> float:
        """What `info` is made of, without the start of a process and without printing."""
        store = open_store(str(folder / self._datasets.hierarchy))
        begun = time.perf_counter()
        count = sum(1 for _ in walk(ToldFolder(open_view("chunks", store, PERMANENT_TTL_S))))
        seconds = time.perf_counter() - begun
        store.close()
        self._check_nodes(count)
        return seconds

    def _check_nodes(self, count: int) -> None:
        if count != self._datasets.sizes.nodes:
            raise Failed(f"info tells of {count} nodes of {self._datasets.sizes.nodes}")


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _first_listing(folder: Path, _merges: bool) -> float:
    begun = time.perf_counter()
    _list(folder)
    return time.perf_counter() - begun


def _list(*arguments: object) -> None:
    done = subprocess.run(
        ["/bin/ls", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        check=False,
        timeout=600,
        env={**os.environ, "LC_ALL": "C"},
    )
    if done.returncode:
        raise Failed(f"ls {' '.join(map(str, arguments))}: {done.returncode}")
