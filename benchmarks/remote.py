"""What is measured of a bucket, on zarrfuse, `rclone mount` and `s3fs`.

Every figure is taken on a new mount. Cold: without a disk cache. Warm: each mount has one, and what is
measured was done once on an earlier mount. The server (`remote_server.py`) has everything in memory, and 20
ms of latency. Before anything is measured, each mount is compared with the folder behind the server.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.remote_data import SMALL_BYTES, RemoteData
from benchmarks.remote_server import BUCKET
from benchmarks.systems import (
    Failed,
    FuseMount,
    System,
    command_environment,
    run,
    zarrfuse_command,
)
from benchmarks.table import Row, Table, Unit, memory_row

RTT_MS = 20
SYSTEMS = ("zarrfuse", "rclone", "s3fs")
_RANDOM_BYTES = 64 << 10
_SMALL_THREADS = 8
_BUCKET = Path(BUCKET)
_ALLOWED_BYTES = 150 << 20


@dataclass(frozen=True)
class RemoteMeasurement:
    """One thing to do on a mount of the bucket; `caches` is the folder of all disk caches."""

    name: str
    title: str
    unit: Unit
    work: int
    on: Callable[[Path], float]
    caches: Path
    is_warm: bool = False
    systems: tuple[str, ...] = SYSTEMS

    def seconds(self, system: System) -> float:
        """Do it on a new mount. Raises `Failed`."""
        shutil.rmtree(self.caches, ignore_errors=True)
        self.caches.mkdir()
        if self.is_warm:
            with system.mounted(_BUCKET) as folder:
                self.on(folder)
        with system.mounted(_BUCKET) as folder:
            return self.on(folder)


def remote_mounts(
    folder: Path, port: int, caches: Path | None = None
) -> tuple[FuseMount, FuseMount, FuseMount]:
    """The three, as their pages say for reading; with disk caches below `caches`, if it is given."""
    folder.mkdir()
    endpoint = f"http://127.0.0.1:{port}"
    # What is set on this machine for S3 is not meant for this server.
    env = {k: v for k, v in command_environment(folder).items() if not k.startswith("AWS_")}
    ours = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_SKIP_SIGNATURE": "true",
        "AWS_REGION": "us-east-1",
    }
    zarrfuse = ["--cache-dir", f"{caches}/zarrfuse"] if caches else []
    # --use-server-modtime: else it asks for each object when it lists.
    rclone = ["--daemon", "--read-only", "--config", "/dev/null", "--use-server-modtime"]
    rclone += ["--vfs-cache-mode", "full", "--cache-dir", f"{caches}/rclone"] if caches else []
    s3fs = f"url={endpoint},use_path_request_style,public_bucket=1,ro"
    s3fs += f",use_cache={caches}/s3fs" if caches else ""
    return (
        FuseMount(
            "zarrfuse",
            folder / "zarrfuse",
            lambda bucket, target: zarrfuse_command("mount", f"s3://{bucket}", target, *zarrfuse),
            env={**env, **ours},
        ),
        FuseMount(
            "rclone",
            folder / "rclone",
            lambda bucket, target: [
                *("rclone", "mount", f":s3,provider=Other,endpoint='{endpoint}':{bucket}"),
                *(target, *rclone),
            ],
            env=env,
        ),
        FuseMount(
            "s3fs",
            folder / "s3fs",
            lambda bucket, target: ["s3fs", bucket, target, "-o", s3fs],
            env=env,
        ),
    )


def check_mounts(mounts: Sequence[FuseMount], data: RemoteData) -> None:
    """Raises `Failed` if a mount does not show the files of the bucket."""
    for mount in mounts:
        with mount.mounted(_BUCKET) as folder:
            run(["diff", "-r", str(data.root), str(folder)])


def remote_measurements(
    data: RemoteData, reader: str, caches: Path, *, warm: bool
) -> Iterator[RemoteMeasurement]:
    """All of them. `reader` is the compiled `reader.c`."""
    sizes = data.sizes

    def row(
        name: str, title: str, unit: Unit, work: int, on: Callable[[Path], float]
    ) -> RemoteMeasurement:
        if warm:
            name, title = f"{name}-warm", f"{title}, warm"
        return RemoteMeasurement(name, title, unit, work, on, caches, warm)

    def read(nbytes: int, *arguments: object) -> float:
        seconds, count = run([reader, *map(str, arguments)]).split()
        if int(count) != nbytes:
            raise Failed(f"the reader got {count} bytes of {nbytes}: {arguments}")
        return float(seconds)

    yield row(
        "remote-sequential",
        f"read a chunk of {sizes.large_bytes >> 20:,} MiB",
        "MB/s",
        sizes.large_bytes,
        lambda mount: read(sizes.large_bytes, "seq", mount / data.large),
    )
    random_bytes = sizes.random_reads * _RANDOM_BYTES
    yield row(
        "remote-random",
        f"{sizes.random_reads:,} reads of 64 KiB at random, 1 thread",
        "/s",
        sizes.random_reads,
        lambda mount: read(
            random_bytes, "random", 1, sizes.random_reads, mount / data.large, _RANDOM_BYTES
        ),
    )
    yield row(
        "remote-list",
        f"`ls -lR` of {sizes.listed_files:,} chunks",
        "s",
        1,
        lambda mount: _list(mount / data.listed),
    )
    yield row(
        "remote-small",
        f"open, read, close {sizes.small_files:,} chunks of 16 KiB, {_SMALL_THREADS} threads",
        "/s",
        sizes.small_files,
        lambda mount: read(
            sizes.small_files * SMALL_BYTES,
            "each",
            _SMALL_THREADS,
            mount / data.small,
            data.names_file,
        ),
    )
    yield row(
        "remote-plane",
        "first plane of a pyramid, by zarr-python",
        "s",
        1,
        lambda mount: _first_plane(mount / data.pyramid / "0"),
    )


def peak_memory_bytes(mount: FuseMount, measurements: Sequence[RemoteMeasurement]) -> int:
    """What the daemon has at most in memory when everything is done on one mount."""
    with mount.mounted(_BUCKET) as folder:
        for measurement in measurements:
            measurement.on(folder)
        return mount.peak_memory_bytes()


def remote_table(
    rounds: int, rows: Sequence[Row], memory_bytes: Mapping[str, int], cache_bytes: int
) -> Table:
    """What was measured of a bucket."""
    memory = f"peak memory (allowed: {(cache_bytes + _ALLOWED_BYTES) >> 20} MiB)"
    return Table(
        "remote",
        f"A bucket behind {RTT_MS} ms of latency; the ratio says how many times as fast as the faster of "
        "the other two zarrfuse was. Spread: slowest against fastest round of zarrfuse.",
        rounds,
        SYSTEMS,
        [*rows, *([memory_row("remote-memory", memory, memory_bytes)] if memory_bytes else [])],
        {"the faster": SYSTEMS[1:]},
    )


def _list(folder: Path) -> float:
    begun = time.perf_counter()
    with open(os.devnull, "wb") as nowhere:
        done = subprocess.run(
            ["/bin/ls", "-lR", str(folder)],
            stdout=nowhere,
            check=False,
            timeout=600,
            env={**os.environ, "LC_ALL": "C"},
        )
    if done.returncode:
        raise Failed(f"ls -lR {folder}: {done.returncode}")
    return time.perf_counter() - begun


def _first_plane(array: Path) -> float:
    return float(
        run([sys.executable, "-m", "benchmarks.image_reader", "page-zarr", str(array)]).split()[0]
    )
