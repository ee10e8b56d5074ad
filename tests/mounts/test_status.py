"""`zarrfuse status` and `--metrics` tell what a mount does."""

import json
import signal
import socket
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr
from builders.mounts import Daemon, status, wait_for, zarrfuse
from prometheus_client.parser import text_string_to_metric_families

Served = Callable[..., Daemon]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    array = zarr.create_array(tmp_path / "a.zarr", shape=(64, 64), chunks=(16, 16), dtype="u1")
    array[...] = np.arange(64 * 64).reshape(64, 64) % 251
    return tmp_path / "a.zarr"


def read(daemon: Daemon) -> int:
    """Read all chunks; their bytes."""
    return sum(len(path.read_bytes()) for path in (daemon.mountpoint / "c").glob("?/?"))


def test_a_mount_tells_its_counters(source: Path, served: Served) -> None:
    daemon = served(source)
    size = read(daemon)
    told = json.loads(zarrfuse("status", daemon.mountpoint, "--json").stdout)
    assert told["state"] == "up"
    assert told["source"] == str(source)
    assert told["bytes_read"] >= size
    assert told["requests_by_kind"]["open"] >= 16
    assert sum(told["requests_by_kind"].values()) == told["requests"]
    assert told["store_calls"]["calls"] > 0
    assert 0 < told["store_calls"]["p50_s"] <= told["store_calls"]["p99_s"]
    lines = dict(
        line.split("  ", 1) for line in zarrfuse("status", daemon.mountpoint).stdout.splitlines()
    )
    shown = {name.strip(): text.strip() for name, text in lines.items()}
    assert shown["view"] == "chunks"
    assert "open" in shown["requests"]
    assert "calls: half in" in shown["store"]
    assert shown["errors"] == "none"


def test_all_mounts_are_listed(source: Path, served: Served) -> None:
    daemons = [served(source, "--view", view) for view in ("raw", "images")]
    told = json.loads(zarrfuse("status", "--json", check=False).stdout)
    by_mountpoint = {each["mountpoint"]: each for each in told}
    table = zarrfuse("status", check=False).stdout.splitlines()
    assert table[0].split()[:5] == ["MOUNTPOINT", "SOURCE", "VIEW", "STATE", "UP"]
    for daemon, view in zip(daemons, ("raw", "images"), strict=True):
        assert by_mountpoint[str(daemon.mountpoint)]["view"] == view
        [line] = [line for line in table if line.startswith(f"{daemon.mountpoint} ")]
        assert line.split()[1:4] == [str(source), view, "up"]


def test_a_dead_mount_is_told_of(source: Path, served: Served) -> None:
    daemon = served(source)
    daemon.process.send_signal(signal.SIGKILL)
    daemon.process.wait(20)
    done = zarrfuse("status", daemon.mountpoint, check=False)
    assert done.returncode == 1
    assert "dead" in done.stdout
    assert zarrfuse("status", check=False).returncode == 1


def test_what_is_no_mount_is_refused(tmp_path: Path) -> None:
    done = zarrfuse("status", tmp_path, check=False)
    assert done.returncode == 1
    assert done.stderr == f"zarrfuse: {tmp_path} is no mount of zarrfuse\n"


def metrics(url: str) -> dict[tuple[str, str], float]:
    """(name, value of the first label): value."""
    with urllib.request.urlopen(url, timeout=20) as answer:
        text = answer.read().decode()
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_gets_the_same_numbers(source: Path, served: Served) -> None:
    daemon = served(source, "--metrics", "0", "--view", "images", "--cache-size", "1M")
    assert len((daemon.mountpoint / "a.npy").read_bytes()) > 64 * 64
    [url] = [line.split()[-1] for line in daemon.text().splitlines() if "metrics: " in line]
    assert url.startswith("http://127.0.0.1:")
    found = metrics(url)
    told = status(daemon.mountpoint)
    assert found["zarrfuse_bytes_total", "read"] == told["bytes_read"]
    assert found["zarrfuse_cache_misses_total", ""] == told["cache"]["misses"] > 0
    assert found["zarrfuse_requests_total", "open"] > 0
    assert found["zarrfuse_store_call_seconds_bucket", "+Inf"] > 0
    assert any(name == "zarrfuse_mount_info" for name, _ in found)
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(20) == 0


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("0.0.0.0:9100", "only addresses of this machine"),
        ("example.org:9100", "only addresses of this machine"),
        ("localhost:99999", "is neither PORT nor HOST:PORT"),
        ("http://localhost", "is neither PORT nor HOST:PORT"),
    ],
)
def test_other_machines_are_not_served(
    source: Path, mountpoint: Path, address: str, said: str
) -> None:
    done = zarrfuse("mount", source, mountpoint, "--metrics", address, check=False)
    assert done.returncode == 1
    assert said in done.stderr
    assert not list(mountpoint.iterdir())


def test_an_address_in_use_is_refused(source: Path, mountpoint: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = zarrfuse("mount", source, mountpoint, "--metrics", port, check=False)
    assert done.returncode == 1
    assert f"--metrics {port} cannot be served: Address already in use" in done.stderr
    wait_for(lambda: not list(mountpoint.iterdir()))
