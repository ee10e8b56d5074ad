"""`python -m benchmarks`: the options, the order of things, and leaving nothing behind."""

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import NoReturn, TypeVar

from benchmarks.datasets import QUICK, Sizes, write_datasets
from benchmarks.image_arrays import QUICK_IMAGES, ImageSizes, write_image_arrays
from benchmarks.images import OURS, ZARR, ImageMeasurements, image_table
from benchmarks.indexing import (
    INDEX_ROWS,
    Account,
    IndexMeasurements,
    can_drop_caches,
    index_table,
    programs,
)
from benchmarks.machine import machine
from benchmarks.measurements import Measurements, compiled_reader, mount_table
from benchmarks.peers import peer_table, peers
from benchmarks.remote import (
    RTT_MS,
    check_mounts,
    peak_memory_bytes,
    remote_measurements,
    remote_mounts,
    remote_table,
)
from benchmarks.remote_data import QUICK_REMOTE, RemoteSizes, write_remote_data
from benchmarks.remote_server import relay, s3_server
from benchmarks.systems import Failed, Folder, FuseMount, Imports, System, bindfs, images, zarrfuse
from benchmarks.table import Measured, Row, Table
from benchmarks.tiff_files import QUICK_TIFF, TiffSizes, write_tiff_files
from benchmarks.writing import (
    QUICK_WRITING,
    WritingSizes,
    bindfs_writable,
    writing_measurements,
    zarrfuse_writable,
)
from zarrfuse.stores.cache import default_cache_bytes

T = TypeVar("T")

_MOUNT_NAMES = (
    *("sequential", "merged", "random-1", "random-4", "open-1", "open-4", "list"),
    *("mount-few", "mount-many", "info", "info-mount", "nodes", "memory"),
)
_IMAGE_NAMES = (
    *("image-tiff", "image-tiff-sharded", "image-npy", "image-first-page", "image-page-at-once"),
    *("image-windows", "image-windows-frames", "image-memory"),
)
_WRITING_NAMES = ("write-parts", "write-chunk")
_PEER_NAMES = ("peers-random-1", "peers-random-4", "peers-open-1", "peers-open-4")
_REMOTE_ROWS = ("remote-sequential", "remote-random", "remote-list", "remote-small", "remote-plane")
_REMOTE_NAMES = (*_REMOTE_ROWS, *(f"{name}-warm" for name in _REMOTE_ROWS), "remote-memory")
_INDEX_NAMES = (*(row.name for row in INDEX_ROWS), "index-bytes")
_NAMES = (
    *(*_MOUNT_NAMES, *_PEER_NAMES, *_WRITING_NAMES, *_IMAGE_NAMES, *_INDEX_NAMES),
    *_REMOTE_NAMES,
)


def main() -> int:
    """Measure, print the tables. 0, unless something could not be run."""
    options = _options()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    # Not $TMPDIR's usual /tmp: that is memory on many systems, and has no disk's file system.
    where = os.environ.get("TMPDIR", "/var/tmp")
    try:
        with tempfile.TemporaryDirectory(prefix="zarrfuse-bench-", dir=where) as folder:
            _measure(Path(folder), options)
    except Failed as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("benchmarks: interrupted", file=sys.stderr)
        return 130
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=None, help="default 5, with --quick 2")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=_NAMES, default=_NAMES)
    parser.add_argument("--quick", action="store_true", help="small data: to see that it runs")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the markdown there too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    options = parser.parse_args()
    for path in filter(None, (options.output, options.json)):
        if not path.parent.is_dir():
            parser.error(f"{path}: there is no such folder")
    if options.rounds is None:
        options.rounds = 2 if options.quick else 5
    if options.rounds < 1:
        parser.error("--rounds: at least one")
    return options


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _measure(folder: Path, options: argparse.Namespace) -> None:
    """Print and write each table when it is complete: a long run that fails has given the first ones."""
    measured_on = machine(folder)
    print(measured_on, flush=True)
    tables: list[Table] = []
    for table in _tables(folder, options):
        tables.append(table)
        print(f"\n\n{table.markdown()}", end="", flush=True)
        if options.output is not None:
            parts = (measured_on, *(each.markdown() for each in tables))
            options.output.write_text("\n\n".join(parts))
        if options.json is not None:
            document = {"machine": measured_on, "tables": [each.document() for each in tables]}
            options.json.write_text(json.dumps(document, indent=1) + "\n")


def _tables(folder: Path, options: argparse.Namespace) -> Iterator[Table]:
    reader = compiled_reader(folder)
    if set(options.only) & set(_MOUNT_NAMES):
        yield _beside_bindfs(folder, options, reader)
    if set(options.only) & set(_PEER_NAMES):
        yield _beside_peers(folder, options, reader)
    if set(options.only) & set(_WRITING_NAMES):
        yield _writing_beside_bindfs(folder, options)
    if set(options.only) & set(_IMAGE_NAMES):
        yield _beside_zarr_python(folder, options, reader)
    if set(options.only) & set(_INDEX_NAMES):
        yield _indexing_beside_others(folder, options)
    if set(options.only) & set(_REMOTE_NAMES):
        yield _remote_beside_others(folder, options, reader)


def _beside_bindfs(folder: Path, options: argparse.Namespace, reader: str) -> Table:
    _say("writing the data")
    datasets = write_datasets(folder, QUICK if options.quick else Sizes())
    measurements = Measurements(datasets, folder, reader)
    mounts = (bindfs(folder), zarrfuse(folder))
    systems: tuple[System, ...] = (Folder(), Imports(), *mounts)
    readahead_kib = _first_mounts(datasets.ten, mounts)

    chosen = [m for m in measurements.all if m.name in options.only]
    rows = _figures(chosen, systems, options.rounds)
    memory: dict[str, int] = {}
    if "memory" in options.only:
        _say("peak memory")
        memory = {mount.name: measurements.peak_memory_bytes(mount) for mount in mounts}
    return mount_table("mounts", options.rounds, readahead_kib, rows, memory)


def _beside_peers(folder: Path, options: argparse.Namespace, reader: str) -> Table:
    _say("writing the data")
    own = folder / "beside-peers"
    own.mkdir()
    sizes = QUICK if options.quick else replace(Sizes(), listed_files=10, groups=1)
    measurements = Measurements(write_datasets(own, sizes), own, reader)
    mounts = (bindfs(own), zarrfuse(own), *peers(own))
    names = tuple(mount.name for mount in mounts)
    chosen = [
        replace(m, name=f"peers-{m.name}", systems=names)
        for m in measurements.all
        if f"peers-{m.name}" in options.only
    ]
    return peer_table(options.rounds, names, _figures(chosen, mounts, options.rounds))


def _writing_beside_bindfs(folder: Path, options: argparse.Namespace) -> Table:
    sizes = QUICK_WRITING if options.quick else WritingSizes()
    mounts = (bindfs_writable(folder), zarrfuse_writable(folder))
    chosen = [m for m in writing_measurements(folder, sizes) if m.name in options.only]
    empty = folder / "empty"
    empty.mkdir()
    readahead_kib = _first_mounts(empty, mounts)
    rows = _figures(chosen, (Folder(), *mounts), options.rounds)
    return mount_table("writing", options.rounds, readahead_kib, rows)


def _figures(chosen: Sequence[Measured], systems: tuple[System, ...], rounds: int) -> list[Row]:
    """A row of each measurement; systems take turns in each round."""
    figures: dict[str, dict[str, list[float]]] = {m.name: {} for m in chosen}
    for number in range(rounds):
        for measurement in chosen:
            _say(f"round {number + 1} of {rounds}: {measurement.title}")
            for system in _in_turn(systems, number):
                if system.name in measurement.systems:
                    seconds = measurement.seconds(system)
                    figures[measurement.name].setdefault(system.name, []).append(seconds)
    return [Row.of(m, figures[m.name]) for m in chosen]


def _beside_zarr_python(folder: Path, options: argparse.Namespace, reader: str) -> Table:
    _say("writing images")
    arrays = write_image_arrays(folder, QUICK_IMAGES if options.quick else ImageSizes())
    measurements = ImageMeasurements(arrays, images(folder), reader)
    chosen = [m for m in measurements.all if m.name in options.only]
    figures: dict[str, dict[str, list[float]]] = {m.name: {OURS: [], ZARR: []} for m in chosen}
    for measurement in chosen:
        measurements.check(measurement)
    for number in range(options.rounds):
        for measurement in chosen:
            _say(f"round {number + 1} of {options.rounds}: {measurement.title}")
            for system in _in_turn((OURS, ZARR), number):
                seconds = measurements.seconds(measurement, system)
                figures[measurement.name][system].append(seconds)
    memory = None
    if "image-memory" in options.only:
        _say("peak memory")
        memory = measurements.peak_memory_bytes()
    rows = [Row.of(m, figures[m.name]) for m in chosen]
    return image_table(options.rounds, rows, memory, default_cache_bytes())


def _indexing_beside_others(folder: Path, options: argparse.Namespace) -> Table:
    _say("writing TIFF files")
    own = folder / "tiff"
    own.mkdir()
    measurements = IndexMeasurements(
        write_tiff_files(own, QUICK_TIFF if options.quick else TiffSizes()), own
    )
    installed = tuple(programs())
    chosen = [row for row in INDEX_ROWS if row.name in options.only]
    if not can_drop_caches():
        _say("rows of a cold cache are left out: only root can drop caches")
        chosen = [row for row in chosen if not row.is_cold]
    figures: dict[str, dict[str, list[Account]]] = {row.name: {} for row in chosen}
    for number in range(options.rounds):
        for row in chosen:
            _say(f"round {number + 1} of {options.rounds}: index, {row.title}")
            for program in _in_turn(installed, number):
                if row.is_of(program):
                    account = measurements.account(row, program)
                    figures[row.name].setdefault(program.name, []).append(account)
    read = {}
    if "index-bytes" in options.only:
        _say("bytes read of files")
        read = {program.name: measurements.bytes_of_a_file(program) for program in installed}
    counts = {program.name: measurements.count(program) for program in installed}
    rows = [(row, figures[row.name]) for row in chosen]
    return index_table(options.rounds, counts, rows, read)


def _remote_beside_others(folder: Path, options: argparse.Namespace, reader: str) -> Table:
    _say("writing a bucket")
    own = folder / "remote"
    own.mkdir()
    data = write_remote_data(own, QUICK_REMOTE if options.quick else RemoteSizes())
    caches = own / "caches"
    with (
        s3_server(own / "server", data.root) as near,
        relay(own, near, RTT_MS // 2) as port,
    ):
        _say("comparing the mounts with the bucket")
        check_mounts(remote_mounts(own / "check", near), data)
        cold, warm = remote_mounts(own / "cold", port), remote_mounts(own / "warm", port, caches)
        rows = []
        for mounts, is_warm in ((cold, False), (warm, True)):
            measurements = remote_measurements(data, reader, caches, warm=is_warm)
            chosen = [m for m in measurements if m.name in options.only]
            rows += _figures(chosen, mounts, options.rounds)
        memory: dict[str, int] = {}
        if "remote-memory" in options.only:
            _say("peak memory")
            all_of_them = list(remote_measurements(data, reader, caches, warm=False))
            memory = {mount.name: peak_memory_bytes(mount, all_of_them) for mount in cold}
    return remote_table(options.rounds, rows, memory, default_cache_bytes())


def _first_mounts(source: Path, mounts: tuple[FuseMount, ...]) -> int:
    """Mount each once, so that programs and byte code are in memory; read-ahead of the last, KiB."""
    readahead_kib = 0
    for mount in mounts:
        with mount.mounted(source):
            readahead_kib = mount.readahead_kib()
    return readahead_kib


def _in_turn(systems: tuple[T, ...], number: int) -> tuple[T, ...]:
    """Another one first in each round."""
    first = number % len(systems)
    return systems[first:] + systems[:first]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
