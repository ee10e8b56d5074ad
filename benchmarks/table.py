"""The figures as a table.

A ratio is always "how many times as fast as": the median over the rounds of the ratios within one round,
whose figures were measured one after the other.
"""

import os
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Protocol

from benchmarks.measurements import Unit
from benchmarks.systems import Failed, System, run

Figures = Mapping[str, Sequence[float]]
"""Seconds by system, one for each round."""


def ratio(figures: Figures, other: str) -> float | None:
    """How many times as fast as `other` zarrfuse was, or None if one was not measured."""
    pairs = zip(figures.get("zarrfuse", ()), figures.get(other, ()), strict=False)
    ratios = [theirs / ours for ours, theirs in pairs]
    return median(ratios) if ratios else None


class Measured(Protocol):
    """What a row of the table tells of."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""

    @property
    def title(self) -> str:
        """What was done."""

    @property
    def unit(self) -> Unit:
        """How it is told."""

    @property
    def work(self) -> int:
        """Bytes, or things, in the seconds that were measured."""

    @property
    def systems(self) -> tuple[str, ...]:
        """On which systems it is measured."""

    def seconds(self, system: System) -> float:
        """Do it once."""


@dataclass
class Table:
    """What was measured of mounts beside bindfs and the folder itself, in one run."""

    rounds: int
    readahead_kib: int
    rows: Sequence[tuple[Measured, Figures]]
    memory_bytes: Mapping[str, int]

    def markdown(self) -> str:
        """The table, ready to be pasted."""
        header = ["", "raw", "bindfs", "zarrfuse", "to bindfs", "to raw", "spread"]
        lines = [header, ["---"] * len(header)]
        lines += [self._row(measurement, figures) for measurement, figures in self.rows]
        if self.memory_bytes:
            lines.append(self._memory_row())
        text = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        return (
            f"Medians of {self.rounds} rounds; ratios say how many times as fast as the other. "
            f"Read-ahead of the zarrfuse mount: {self.readahead_kib} KiB. Spread: slowest against "
            f"fastest round of zarrfuse.\n\n{text}\n"
        )

    def _row(self, measurement: Measured, figures: Figures) -> list[str]:
        ours, imports = figures.get("zarrfuse", ()), figures.get("imports", ())
        own = told(measurement.unit, measurement.work, ours)
        if ours and imports:
            longer_s = median(one - other for one, other in zip(ours, imports, strict=True))
            own += f", {longer_s:.3f} s more than the imports"
        return [
            measurement.title,
            *(
                told(measurement.unit, measurement.work, figures.get(name, ()))
                for name in ("raw", "bindfs")
            ),
            own,
            _times(ratio(figures, "bindfs")),
            _times(ratio(figures, "raw")),
            _times(max(ours) / min(ours) if ours else None),
        ]

    def _memory_row(self) -> list[str]:
        memory = [f"{self.memory_bytes[name] / 2**20:.0f} MiB" for name in ("bindfs", "zarrfuse")]
        return ["peak memory of the daemon after all of the above", "", *memory, "", "", ""]


@dataclass
class PeerTable:
    """What was measured of zarrfuse beside other mounts, in one run."""

    rounds: int
    systems: Sequence[str]
    rows: Sequence[tuple[Measured, Figures]]

    def markdown(self) -> str:
        """The table, ready to be pasted."""
        lines = [["", *self.systems], ["---"] * (len(self.systems) + 1)]
        lines += [
            [m.title, *(self._cell(m, figures, name) for name in self.systems)]
            for m, figures in self.rows
        ]
        text = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        return (
            f"Medians of {self.rounds} rounds; behind each other mount, how many times as fast as it "
            f"zarrfuse was.\n\n{text}\n"
        )

    def _cell(self, measurement: Measured, figures: Figures, name: str) -> str:
        rate = told(measurement.unit, measurement.work, figures.get(name, ()))
        return rate if name == "zarrfuse" else f"{rate} ({_times(ratio(figures, name))})"


def told(unit: Unit, work: int, seconds: Sequence[float]) -> str:
    """How fast `work` was done in the median of `seconds`; empty where nothing was measured."""
    if not seconds:
        return ""
    middle = median(seconds)
    if unit == "s":
        return f"{middle:.3f} s"
    if unit == "MB/s":
        return f"{work / middle / 1e6:,.0f} MB/s"
    return f"{work / middle:,.0f} /s"


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}x"


def machine(folder: Path) -> str:
    """What it was measured on, in one line."""
    cpu = _in_file("/proc/cpuinfo", r"model name\s*: (.+)") or platform.machine()
    total = int(_in_file("/proc/meminfo", r"MemTotal:\s*(\d+)") or 0) / 2**20
    file_system = run(["findmnt", "-n", "-o", "FSTYPE", "-T", str(folder)]).strip()
    return ", ".join(
        [
            f"Linux {platform.release()}",
            f"{os.cpu_count()} x {cpu}",
            f"{total:.0f} GiB of memory",
            f"data on {file_system}",
            f"Python {platform.python_version()}",
            f"pyfuse3 {version('pyfuse3')}",
            f"libfuse {_fuse_version()}",
            _first_line(["bindfs", "--version"]),
        ]
    )


def _in_file(path: str, pattern: str) -> str | None:
    found = re.search(pattern, Path(path).read_text())
    return found[1] if found else None


def _fuse_version() -> str:
    """Of the libfuse that pyfuse3 is linked to."""
    code = (
        "import pyfuse3, ctypes, re\n"
        "path = re.search(r'\\S+libfuse3\\S+', open('/proc/self/maps').read())[0]\n"
        "say = ctypes.CDLL(path).fuse_pkgversion\n"
        "say.restype = ctypes.c_char_p\n"
        "print(say().decode())\n"
    )
    try:
        return run([sys.executable, "-c", code]).strip()
    except Failed:
        return "unknown"


def _first_line(command: list[str]) -> str:
    return run(command).splitlines()[0]
