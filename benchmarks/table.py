"""The figures of a run as tables: Markdown to read, and a document (JSON) to draw from.

Owns all arithmetic with figures: both show the same medians, ratios and spreads. A ratio is always "how
many times as fast as": the median over the rounds of the ratios within one round, whose figures were
measured one after the other. What is measured, and on which systems, is not known here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal, Protocol

from benchmarks.systems import System

Unit = Literal["MB/s", "/s", "s", "ms", "kB", "MiB"]
Figures = Mapping[str, Sequence[float]]
"""Seconds or bytes by system, one for each round."""

_RATES: Mapping[Unit, float] = {"MB/s": 1e6, "/s": 1}
_COSTS: Mapping[Unit, float] = {"s": 1, "ms": 1e-3, "kB": 1e3, "MiB": 1 << 20}
_IN_BYTES = ("kB", "MiB")
_FORMATS: Mapping[Unit, str] = {
    **{"MB/s": ",.0f", "/s": ",.0f", "s": ".3f"},
    **{"ms": ".2f", "kB": ",.1f", "MiB": ".0f"},
}


class Titled(Protocol):
    """What a row tells of."""

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


class Measured(Titled, Protocol):
    """What can be measured on several systems."""

    @property
    def systems(self) -> tuple[str, ...]:
        """On which systems it is measured."""

    def seconds(self, system: System) -> float:
        """Do it once."""


@dataclass(frozen=True)
class Row:
    """One thing that was measured of several systems.

    `figures` are seconds, or bytes where `unit` is one of bytes. `work` by system: the bytes ("MB/s") or
    things that they were taken for. `is_compared`: whether there are ratios and a spread.
    """

    name: str
    title: str
    unit: Unit
    work: Mapping[str, int]
    figures: Figures
    is_compared: bool = True

    @classmethod
    def of(cls, what: Titled, figures: Figures) -> "Row":
        """The row of a measurement, in which all systems did the same."""
        return cls(what.name, what.title, what.unit, dict.fromkeys(figures, what.work), figures)

    def figure(self, system: str) -> float:
        """The median of a system's figures, in `unit`."""
        middle, work = median(self.figures[system]), self.work[system]
        if self.unit in _RATES:
            return work / middle / _RATES[self.unit]
        return middle / work / _COSTS[self.unit]

    def told(self, system: str) -> str:
        """The same as text; empty where nothing was measured."""
        if not self.figures.get(system):
            return ""
        return f"{self.figure(system):{_FORMATS[self.unit]}} {self.unit}"

    def ratio(self, ours: str, others: Sequence[str]) -> float | None:
        """How many times as fast as the fastest of `others` `ours` was; None if one was not measured."""
        names = (ours, *others)
        if not self.is_compared or not all(self.figures.get(name) for name in names):
            return None
        costs = ([each / self.work[name] for each in self.figures[name]] for name in names)
        ratios: list[float] = [min(theirs) / own for own, *theirs in zip(*costs, strict=True)]
        return median(ratios)

    def spread(self, system: str) -> float | None:
        """The slowest against the fastest round."""
        figures = self.figures.get(system)
        return max(figures) / min(figures) if figures and self.is_compared else None

    def document(self, ours: str, ratios: Mapping[str, float]) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "unit": self.unit,
            "measured": "bytes" if self.unit in _IN_BYTES else "seconds",
            "systems": {
                name: {
                    "work": self.work[name],
                    "rounds": list(figures),
                    "median": median(figures),
                    "figure": self.figure(name),
                }
                for name, figures in self.figures.items()
            },
            "ratios": ratios,
            "spread": self.spread(ours),
        }


@dataclass(frozen=True)
class Table:
    """What was measured of `systems` in one run; `ours` is the one of zarrfuse.

    `rivals`: columns of ratios by their headings, each to the fastest of some systems. Without them, the
    ratio to each other system stands behind its figure.
    """

    name: str
    caption: str
    rounds: int
    systems: Sequence[str]
    rows: Sequence[Row]
    rivals: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ours: str = "zarrfuse"

    def markdown(self) -> str:
        """The table, ready to be pasted."""
        header = ["", *self.systems, *(f"to {name}" for name in self.rivals), "spread"]
        lines = [header, ["---"] * len(header), *map(self._cells, self.rows)]
        text = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        return f"Medians of {self.rounds} rounds. {self.caption}\n\n{text}\n"

    def document(self) -> dict[str, Any]:
        """For JSON; what it has is in NOTES.md."""
        return {
            "name": self.name,
            "caption": self.caption,
            "rounds": self.rounds,
            "ours": self.ours,
            "rows": [row.document(self.ours, self._ratios(row)) for row in self.rows],
        }

    def _ratios(self, row: Row) -> dict[str, float]:
        """By rival, where there is one."""
        others = {name: (name,) for name in self.systems if name != self.ours}
        found = {name: row.ratio(self.ours, of) for name, of in (self.rivals or others).items()}
        return {name: ratio for name, ratio in found.items() if ratio is not None}

    def _cells(self, row: Row) -> list[str]:
        ratios = self._ratios(row)
        told = {name: row.told(name) for name in self.systems}
        if not self.rivals:
            told |= {name: f"{told[name]} ({_times(ratio)})" for name, ratio in ratios.items()}
        columns = (_times(ratios.get(name)) for name in self.rivals)
        return [row.title, *told.values(), *columns, _times(row.spread(self.ours))]


def memory_row(name: str, title: str, nbytes: Mapping[str, int]) -> Row:
    """Peak memory of daemons."""
    figures = {name: [each] for name, each in nbytes.items()}
    return Row(name, title, "MiB", dict.fromkeys(nbytes, 1), figures, is_compared=False)


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}x"
