"""Other FUSE file systems that show a folder, for the rows of small files.

Owns how each is mounted, and which of them are installed: rclone comes from Debian, ratarmount and fsspec
from PyPI (`.venv/peers`, which `make bench` sets up). `pass_through` is what Python itself costs.
"""

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.systems import FuseMount, command_environment
from benchmarks.table import Row, Table

# Its own way into the background (-f, whose help says the opposite) hangs.
_IN_BACKGROUND = (
    '"$0" -m fsspec.fuse local "$1" "$2" >/dev/null 2>&1 &'
    ' until mountpoint -q "$2"; do sleep 0.05; done'
)
_PEERS = Path(sys.prefix) / "peers" / "bin"


def peers(folder: Path) -> Iterator[FuseMount]:
    """Those that are installed."""
    yield FuseMount(
        "pass-through",
        folder / "pass-through",
        lambda source, target: [sys.executable, "-m", "benchmarks.pass_through", source, target],
        env=command_environment(folder),
    )
    if rclone := shutil.which("rclone"):
        options = ["--daemon", "--read-only", "--config", "/dev/null", "--attr-timeout", "1s"]
        yield FuseMount(
            "rclone",
            folder / "rclone",
            lambda source, target: [rclone, "mount", source, target, *options],
        )
    if (ratarmount := _PEERS / "ratarmount").exists():
        yield FuseMount(
            "ratarmount",
            folder / "ratarmount",
            lambda source, target: [str(ratarmount), source, target],
        )
    if (python := _PEERS / "python").exists():
        yield FuseMount(
            "fsspec.fuse",
            folder / "fsspec",
            lambda source, target: ["sh", "-c", _IN_BACKGROUND, str(python), source, target],
        )


def peer_table(rounds: int, systems: Sequence[str], rows: Sequence[Row]) -> Table:
    """What was measured of zarrfuse beside other mounts."""
    caption = "Behind each other mount, how many times as fast as it zarrfuse was."
    return Table("peers", caption, rounds, systems, rows)
