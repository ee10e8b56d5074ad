"""Mounts that are about to be treated badly: served by a process of their own, and always cleared.

A daemon that does not answer must not hang the tests too: what outlives `GIVEN_UP_S` is aborted.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mounting
from mounting import clear, start, wait_for

from zarrfuse import mounts

GIVEN_UP_S = 60


@dataclass
class Daemon(mounting.Daemon):
    """A mount in the foreground whose requests can be aborted, so that no test waits for them."""

    abort: str | None = field(default=None)

    def status(self) -> dict[str, Any]:
        """Its `status.json`."""
        return json.loads((self.mountpoint / ".zarrfuse/status.json").read_bytes())

    def info(self, path: str) -> dict[str, Any]:
        """What its control files tell of a path."""
        return json.loads((self.mountpoint / ".zarrfuse/info" / path).read_bytes())

    def peak_mib(self) -> float:
        """The most memory it has had."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in text.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024

    def descriptors(self) -> int:
        """How many it holds open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def is_up(self) -> bool:
        """Whether it runs and answers."""
        return self.process.poll() is None and self.status()["uptime_s"] >= 0

    def terminate(self) -> None:
        """What a service manager does first."""
        self.process.send_signal(signal.SIGTERM)

    def give_up(self) -> None:
        """End it, and every request that waits for it."""
        self.process.kill()
        if self.abort is not None:
            Path(self.abort).write_text("1")


@contextmanager
def serving(
    folder: Path, source: Path, *options: str, command: tuple[str, ...] = (), name: str = "m"
) -> Iterator[Daemon]:
    """Mount `source` below `folder`; unmounted, ended and reaped at the end."""
    point = folder / name
    point.mkdir(exist_ok=True)
    log = folder / f"{name}.log"
    process = start(["mount", source, point, "--foreground", *options], log, command)
    daemon = Daemon(point, process, log)
    watchdog = threading.Timer(GIVEN_UP_S, daemon.give_up)
    watchdog.daemon = True
    watchdog.start()
    try:
        wait_for(lambda: " is mounted" in daemon.text() or process.poll() is not None)
        assert process.poll() is None, daemon.text()
        mounted = mounts.mount_at(str(point))
        assert mounted is not None
        minor = mounted.device.partition(":")[2]
        if os.access(path := f"/sys/fs/fuse/connections/{minor}/abort", os.W_OK):
            daemon.abort = path
        yield daemon
    finally:
        watchdog.cancel()
        clear(point)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            daemon.give_up()
            process.wait(10)


def fake(**spec: Any) -> tuple[str, ...]:
    """The command that serves a fake store."""
    return (sys.executable, str(Path(__file__).with_name("serve_fake.py")), json.dumps(spec))


def errno_when(function: Callable[[], object]) -> int:
    """The errno that a system call fails with; 0 if it does not."""
    try:
        function()
    except OSError as error:
        return error.errno or 0
    return 0


def array(**members: Any) -> dict[str, Any]:
    """Metadata of an array of 4 by 4 chunks, with other members in place of its own."""
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [8, 8],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 2]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
        **members,
    }


def in_parts(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    """Storage transformers of an array whose chunks are stored in parts."""
    return [{"name": "concat-parts", "configuration": {"parts": list(parts)}}]


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Write files below a folder."""
    for key, data in files.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
