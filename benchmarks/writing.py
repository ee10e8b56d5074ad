"""Writing beside bindfs and the folder itself: what is measured, and how.

The same program writes the same pixels each time, into an array that is there and has no chunks:
zarr-python in a process of its own (`array_writer`), or `cp`. Through zarrfuse each chunk is split
into three parts, behind a header and in front of an index; bindfs and the folder itself store it as
one file. Each figure is taken on a new mount of a new folder. The clock stops when the program has
ended: neither is asked to wait for the disk, though zarrfuse does so for what it stores in parts.
What a figure left behind is flushed and deleted before the next one is begun, which waits: ext4 without a
journal takes no file number that was deleted within five seconds, and looks at each of them again for
every file that is made, so that a figure would pay for the one before.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.systems import FuseMount, System, command_environment, run, zarrfuse_command
from benchmarks.table import Unit

HEADER_BYTES, INDEX_BYTES = 512, 20
_SETTLED_S = 6.0
"""So long after files were deleted that does not slow down who makes new ones."""


@dataclass(frozen=True)
class WritingSizes:
    """How much is written: chunks of so many bytes, and one large chunk."""

    chunks: int = 2000
    chunk_bytes: int = 1 << 20
    large_bytes: int = 1 << 30


QUICK_WRITING = WritingSizes(chunks=40, large_bytes=32 << 20)


@dataclass(frozen=True)
class WritingMeasurement:
    """One thing to write, into a folder that `prepare` fills; whether it is stored in parts."""

    name: str
    title: str
    unit: Unit
    work: int
    prepare: Callable[[Path, bool], None]
    write: Callable[[Path], float]
    folder: Path
    systems: tuple[str, ...] = ("raw", "bindfs", "zarrfuse")

    def seconds(self, system: System) -> float:
        """Do it on a new mount of a new folder. Raises `Failed`."""
        self.prepare(self.folder, system.merges)
        try:
            with system.mounted(self.folder) as mounted:
                return self.write(mounted)
        finally:
            shutil.rmtree(self.folder)
            os.sync()
            time.sleep(_SETTLED_S)


def bindfs_writable(folder: Path) -> FuseMount:
    """bindfs, to be written."""
    return FuseMount(
        "bindfs",
        folder / "bindfs-writing",
        lambda source, target: ["bindfs", "--no-allow-other", source, target],
    )


def zarrfuse_writable(folder: Path) -> FuseMount:
    """The `plain` view of zarrfuse, to be written."""
    return FuseMount(
        "zarrfuse",
        folder / "zarrfuse-writing",
        lambda source, target: zarrfuse_command(
            "mount", source, target, "--view", "plain", "--read-write"
        ),
        merges=True,
        env=command_environment(folder),
    )


def writing_measurements(folder: Path, sizes: WritingSizes) -> Iterator[WritingMeasurement]:
    """All of them; `folder` holds what is copied, and what is written meanwhile."""
    array = folder / "written"
    count, nbytes = sizes.chunks, sizes.chunk_bytes
    yield WritingMeasurement(
        "write-parts",
        f"zarr-python writes {count:,} chunks of {nbytes >> 20} MiB (zarrfuse: in three parts)",
        "MB/s",
        count * nbytes,
        lambda to, parts: _prepare(to, count, nbytes, parts),
        _array_writer(count, nbytes),
        array,
    )
    large = folder / "large"
    yield WritingMeasurement(
        "write-chunk",
        f"`cp` of a chunk of {sizes.large_bytes >> 20:,} MiB",
        "MB/s",
        sizes.large_bytes,
        lambda to, _: _prepare(to, 1, sizes.large_bytes, False),
        _copier(large, sizes.large_bytes),
        array,
    )


def _prepare(folder: Path, count: int, nbytes: int, parts: bool) -> None:
    """An array without chunks, in `folder`."""
    (folder / "a" / "c").mkdir(parents=True)
    (folder / "a" / "zarr.json").write_text(json.dumps(_document(count, nbytes, parts)))


def _document(count: int, nbytes: int, parts: bool) -> dict[str, Any]:
    keys: dict[str, Any] = {"name": "default", "configuration": {"separator": "/"}}
    three = [
        {"key_suffix": ".head", "size": HEADER_BYTES},
        {"key_suffix": ""},
        {"key_suffix": ".index", "size": INDEX_BYTES},
    ]
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [count, nbytes],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, nbytes]}},
        "chunk_key_encoding": keys,
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
        "storage_transformers": (
            [{"name": "concat-parts", "configuration": {"parts": three}}] if parts else []
        ),
        "attributes": {},
    }


def _array_writer(count: int, nbytes: int) -> Callable[[Path], float]:
    def write(folder: Path) -> float:
        arguments = (str(folder / "a"), str(count), str(nbytes))
        return float(run([sys.executable, "-m", "benchmarks.array_writer", *arguments]))

    return write


def _copier(large: Path, nbytes: int) -> Callable[[Path], float]:
    def write(folder: Path) -> float:
        if not large.exists():
            block = os.urandom(1 << 20)
            with large.open("wb") as file:
                for _ in range(nbytes >> 20):
                    file.write(block)
        target = folder / "a" / "c" / "0"
        target.mkdir()
        begun = time.perf_counter()
        run(["cp", str(large), str(target / "0")])
        return time.perf_counter() - begun

    return write
