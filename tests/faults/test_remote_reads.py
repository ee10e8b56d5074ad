"""Many readers of a remote store while one request in ten fails: right bytes or an errno, and no leak.

The faults are those of `builders.fault_proxy`, in front of a real server. Whoever waits for a stalled
request can be interrupted.
"""

import errno
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from builders.documents import array, group
from builders.fault_proxy import KINDS, FaultProxy, fault_proxy
from builders.folders import write_files
from builders.http_server import serving_http
from builders.mounts import Daemon, serving, wait_for
from builders.object_server import ObjectServer, environment_for, set_environment
from sampling import Sample

READERS = 32
TIMEOUT_S = 5
HUNG_S = 60
"""No open and read takes so long: each is several requests of the kernel, of `TIMEOUT_S` at most."""
ENDED_S = 30
"""A program that was interrupted has ended; what it waits for takes three times as long."""
ALLOWED = {errno.EIO, errno.ETIMEDOUT, errno.ESTALE}
LARGE, SMALL = 2 << 20, 40_000
CHUNKS = {f"large/c/{n}": LARGE for n in range(16)} | {f"small/c/{n}": SMALL for n in range(200)}
CACHE = "8M"
"""Less than there is to read, so that reads remain requests."""


def content(key: str) -> bytes:
    """The bytes of a chunk."""
    return random.Random(key).randbytes(CHUNKS[key])


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two arrays, of large and of small chunks, in a group that names them."""
    folder = tmp_path_factory.mktemp("remote") / "dataset"
    write_files(folder, {key: content(key) for key in CHUNKS})
    documents = {
        name: array(shape=[size * count], chunk_grid=_grid(size), data_type="uint8")
        for name, size, count in (("large", LARGE, 16), ("small", SMALL, 200))
    }
    named = {name: json.loads(text) for name, text in documents.items()}
    consolidated = {"kind": "inline", "must_understand": False, "metadata": named}
    write_files(folder, {"zarr.json": group(consolidated_metadata=consolidated)})
    write_files(folder, {f"{name}/zarr.json": text for name, text in documents.items()})
    return folder


def _grid(size: int) -> dict:
    return {"name": "regular", "configuration": {"chunk_shape": [size]}}


@dataclass(frozen=True)
class Remote:
    """A server that has the dataset: its port, and how a mount is told of another port in front."""

    port: int
    source: Callable[[int], str]
    environment: Callable[[int], dict[str, str]]
    lists: bool
    """Whether it lists sizes, so that a look-up of a listed name asks nothing."""


@contextmanager
def on_s3(dataset: Path) -> Iterator[Remote]:
    """A bucket."""
    server = ObjectServer()
    try:
        bucket = server.bucket()
        for path in dataset.rglob("*"):
            if path.is_file():
                bucket.put(f"data/{path.relative_to(dataset).as_posix()}", path.read_bytes())
        yield Remote(server.port, lambda _: f"{bucket.url}/data", environment_for, lists=True)
    finally:
        server.stop()


@contextmanager
def on_http(dataset: Path) -> Iterator[Remote]:
    """A server that lists nothing."""
    with serving_http(dataset, dataset.with_name("nginx"), "none") as server:
        yield Remote(
            server.port, lambda port: f"http://127.0.0.1:{port}", lambda _: {}, lists=False
        )


SERVERS = {"s3": on_s3, "http": on_http}


@pytest.fixture(scope="module", params=SERVERS)
def remote(request: pytest.FixtureRequest, dataset: Path) -> Iterator[Remote]:
    """Each kind of server."""
    with SERVERS[request.param](dataset) as served:
        yield served


@contextmanager
def mounted_behind_faults(
    folder: Path, remote: Remote, *options: str
) -> Iterator[tuple[Daemon, FaultProxy]]:
    """A mount of the dataset through a proxy that has no faults yet."""
    with (
        fault_proxy(remote.port) as proxy,
        set_environment(remote.environment(proxy.port)),
        serving(folder, remote.source(proxy.port), *options, given_up_s=550) as daemon,
    ):
        yield daemon, proxy


@dataclass(frozen=True)
class Read:
    """What came of one read, and how long it took."""

    outcome: str
    seconds: float


def read_at_random(mount: Path, seed: int) -> Read:
    """Open a chunk, and compare some bytes of it with what they must be."""
    chance = random.Random(seed)
    key = chance.choice(["large/c/", "small/c/"])
    key += str(chance.randrange(16 if key.startswith("large") else 200))
    offset, size = chance.randrange(CHUNKS[key]), chance.choice([100, 4096, 65_536, 400_000])
    flags = os.O_RDONLY | (os.O_DIRECT if chance.random() < 0.7 else 0)  # past the page cache
    begun = time.monotonic()
    try:
        descriptor = os.open(mount / key, flags)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
            data = os.pread(descriptor, size, offset)
        finally:
            os.close(descriptor)
    except OSError as error:
        outcome = errno.errorcode[error.errno or 0]
    else:
        outcome = "right" if data == _contents[key][offset : offset + size] else f"wrong: {key}"
    return Read(outcome, time.monotonic() - begun)


_contents = {key: content(key) for key in CHUNKS}


def read_by_many(mount: Path, seeds: range) -> list[Read]:
    """Read by `READERS` threads."""
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(lambda seed: read_at_random(mount, seed), seeds))


def tasks(daemon: Daemon) -> int:
    """The threads of a daemon."""
    return len(os.listdir(f"/proc/{daemon.process.pid}/task"))


def connections(daemon: Daemon, port: int) -> list[str]:
    """The connections of a daemon to a port of this machine, also those that the other side has closed."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    sockets = {f"socket:[{row[9]}]" for row in rows if int(row[2].partition(":")[2], 16) == port}
    return [target for target in open_by(daemon) if target in sockets]


def open_by(daemon: Daemon) -> Iterator[str]:
    """What the descriptors of a daemon lead to."""
    for descriptor in Path(f"/proc/{daemon.process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            yield os.readlink(descriptor)


@pytest.mark.timeout(600)
def test_reads_of_a_failing_server_are_right_or_an_errno_and_nothing_leaks(
    tmp_path: Path, remote: Remote, sample: Sample
) -> None:
    count = sample.count(10_000, default=300)
    first = sample.chance.randrange(1 << 30)
    options = ("--timeout", str(TIMEOUT_S), "--cache-size", CACHE, "--cache-ttl", "1")
    with mounted_behind_faults(tmp_path, remote, *options) as (daemon, proxy):
        without_faults = read_by_many(daemon.mountpoint, range(first, first + 300))
        assert {read.outcome for read in without_faults} == {"right"}
        proxy.hang_up()
        wait_for(lambda: not connections(daemon, proxy.port), HUNG_S)
        threads, descriptors = tasks(daemon), daemon.descriptors()

        proxy.set(rate=0.1, seed=first, slow_s=0.5)
        reads = read_by_many(daemon.mountpoint, range(first + 300, first + 300 + count))
        assert len(proxy.faults()) > len(KINDS) // 2  # which ones is chance
        outcomes = Counter(read.outcome for read in reads)
        allowed = {errno.errorcode[number] for number in ALLOWED}
        assert set(outcomes) <= {"right"} | allowed, outcomes
        assert outcomes["right"] > count // 2, outcomes
        assert max(read.seconds for read in reads) < HUNG_S

        proxy.set()
        wait_for(lambda: daemon.status()["open_files"] <= 1, HUNG_S)
        after = read_by_many(daemon.mountpoint, range(first, first + 100))
        assert {read.outcome for read in after} == {"right"}
        proxy.hang_up()
        wait_for(lambda: not connections(daemon, proxy.port), HUNG_S)
        wait_for(lambda: daemon.descriptors() <= descriptors, HUNG_S)
        wait_for(lambda: tasks(daemon) <= threads, HUNG_S)
        assert daemon.is_up()
        assert "Traceback" not in daemon.text()


@pytest.mark.parametrize("program", ["cat", "stat", "ls"])
def test_a_program_that_waits_for_a_stalled_request_is_ended_by_ctrl_c(
    tmp_path: Path, remote: Remote, program: str
) -> None:
    with mounted_behind_faults(tmp_path, remote, "--timeout", "90") as (daemon, proxy):
        key = "small/c" if program == "ls" else "small/c/7"
        if program == "cat":
            os.stat(daemon.mountpoint / key)  # so that what waits is not the lookup
        else:
            os.listdir(daemon.mountpoint)
        proxy.set(rate=1, kinds=["stall"], path="small", stall_s=3600)
        waiting = subprocess.Popen(
            [program, daemon.mountpoint / key],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for(lambda: proxy.faults()["stall"])
            waiting.send_signal(signal.SIGINT)
            assert waiting.wait(ENDED_S) == -signal.SIGINT
        finally:
            proxy.set()
            proxy.hang_up()
            waiting.kill()
            waiting.wait(HUNG_S)
        assert (daemon.mountpoint / "large/c/0").read_bytes() == _contents["large/c/0"]


def test_a_stalled_request_holds_up_nobody_else(tmp_path: Path, remote: Remote) -> None:
    with mounted_behind_faults(tmp_path, remote, "--timeout", "90") as (daemon, proxy):
        mount = daemon.mountpoint
        proxy.set(rate=1, kinds=["stall"], path="small/c/7", stall_s=3600)
        # The kernel makes one look-up at a time in a folder, and one that has to ask may stall.
        folder, numbers = ("small", range(100, 140)) if remote.lists else ("large", range(16))
        others = [f"{folder}/c/{number}" for number in numbers]
        with ThreadPoolExecutor(READERS) as pool:
            stalled = [pool.submit((mount / f"small/c/7{n}").read_bytes) for n in range(10)]
            wait_for(lambda: proxy.faults()["stall"])
            read = list(pool.map(lambda key: (mount / key).read_bytes(), others))
            assert read == [_contents[key] for key in others]
            assert not any(one.done() for one in stalled)
            proxy.set()
            proxy.hang_up()  # the requests fail and are repeated, or not
            for number, one in enumerate(stalled):
                if (error := one.exception(HUNG_S)) is None:
                    assert one.result() == _contents[f"small/c/7{number}"]
                else:
                    assert isinstance(error, OSError)
                    assert error.errno in ALLOWED
