"""Draws the pictures of docs/performance.md from docs/performance.json: `python docs/performance_plots.py`.

Owns their looks: of each table a picture, in which each ratio is a bar from 1x to the right if zarrfuse was
faster, to the left if it was slower, with a thin line over all rounds. `make bench ARGS="--json
docs/performance.json"` writes the document, which benchmarks/NOTES.md describes; a test compares the
pictures with what this script draws.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

DOCS = Path(__file__).parent
FIGURES = DOCS / "performance.json"

_INK, _QUIET, _PAPER, _FRAME, _GRID = "#1f2933", "#52606d", "#fbfaf7", "#d9d5cb", "#e6e2d8"
_FASTER, _SLOWER = "#1d63b8", "#b8480f"
_HEADINGS = {
    "mounts": "Reading and listing, beside bindfs",
    "peers": "Small files, beside other mounts",
    "writing": "Writing, beside bindfs",
    "images": "Images, beside zarr-python",
    "index": "Indexing TIFF files, beside other programs",
    "remote": "A bucket, beside other mounts",
}
_NOTES = {
    "index": "tifffile, zarr-python is a conversion: it copies the pixels",
}
_NOT_DRAWN = "raw"
"""The folder itself is no peer: it is what all of them show."""

_PAGE_WIDTH = 860
_NAMES_RIGHT, _BARS_LEFT, _BARS_RIGHT = 186, 236, 790
_TOP, _TITLE_HEIGHT, _BAR_STEP, _BAR_HEIGHT, _GAP, _FOOT = 78, 22, 20, 13, 12, 46


def pictures(document: dict[str, Any]) -> dict[str, str]:
    """By file name, a picture of each table; the axis is the same in all."""
    tables = {table["name"]: list(_drawn(table)) for table in document["tables"]}
    ratios = [1.0]
    for rows in tables.values():
        for _, bars in rows:
            for bar in bars.values():
                ratios += (bar.lowest, bar.highest)
    axis = _Axis(math.floor(math.log10(min(ratios))), math.ceil(math.log10(max(ratios))))
    return {
        f"performance-{table['name']}.svg": "\n".join(_lines(table, tables[table["name"]], axis))
        + "\n"
        for table in document["tables"]
    }


@dataclass(frozen=True)
class _Ratio:
    """How many times as fast as a peer: the median of the rounds, and the ends of what they were."""

    median: float
    lowest: float
    highest: float


def _drawn(table: dict[str, Any]) -> Iterator[tuple[str, dict[str, _Ratio]]]:
    """(title, ratios by peer) of the rows that have any."""
    for row in table["rows"]:
        bars: dict[str, _Ratio] = {}
        for name, median in row["ratios"].items():
            if name != _NOT_DRAWN:
                ours, peer = (row["systems"][each] for each in (table["ours"], name))
                rounds = [
                    (ours["work"] / our) / (peer["work"] / its)
                    for our, its in zip(ours["rounds"], peer["rounds"], strict=True)
                ]
                bars[name] = _Ratio(median, min(rounds), max(rounds))
        if bars:
            yield row["title"].replace("`", ""), bars


class _Axis:
    """From one power of ten to another."""

    def __init__(self, low: int, high: int) -> None:
        self._low, self._high = low, high

    def x(self, ratio: float) -> float:
        """Where a ratio is."""
        part = (math.log10(ratio) - self._low) / (self._high - self._low)
        return _BARS_LEFT + part * (_BARS_RIGHT - _BARS_LEFT)

    def ticks(self) -> Iterator[float]:
        """1, 2, 5, 10 and so on."""
        for power in range(self._low, self._high):
            yield from (digit * 10**power for digit in (1, 2, 5))
        yield 10**self._high


def _lines(
    table: dict[str, Any], rows: list[tuple[str, dict[str, _Ratio]]], axis: _Axis
) -> Iterator[str]:
    bottom = _TOP + sum(_TITLE_HEIGHT + _BAR_STEP * len(bars) + _GAP for _, bars in rows)
    height = bottom + _FOOT
    heading = _HEADINGS[table["name"]]
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_PAGE_WIDTH} {height}" '
        f'width="{_PAGE_WIDTH}" height="{height}" role="img" '
        'font-family="\'DejaVu Sans\', Verdana, sans-serif" font-size="13">'
    )
    yield f"<title>{heading}: how many times as fast zarrfuse was</title>"
    yield (
        f'<rect x="1" y="1" width="{_PAGE_WIDTH - 2}" height="{height - 2}" rx="12" fill="{_PAPER}" '
        f'stroke="{_FRAME}"/>'
    )
    yield _text(24, 34, heading, size=16, weight="bold")
    about = f"bar: the median of {table['rounds']} rounds; line: all of them; logarithmic"
    yield _text(24, 56, f"how many times as fast zarrfuse was ({about})", _QUIET)
    for ratio in axis.ticks():
        x = axis.x(ratio)
        yield _line(x, _TOP, bottom, _INK if ratio == 1 else _GRID)
        yield _text(x, bottom + 18, f"{ratio:g}x", _QUIET, size=11, anchor="middle")
    yield _text(axis.x(1) - 12, bottom + 36, "slower", _SLOWER, size=12, anchor="end")
    yield _text(axis.x(1) + 12, bottom + 36, "faster", _FASTER, size=12)
    if table["name"] in _NOTES:
        note = _NOTES[table["name"]]
        yield _text(_PAGE_WIDTH - 24, bottom + 36, note, _QUIET, size=11, anchor="end")
    y = _TOP
    for title, bars in rows:
        yield _text(24, y + 15, title, weight="bold", halo=True)
        y += _TITLE_HEIGHT
        for name, ratio in bars.items():
            yield _text(_NAMES_RIGHT, y + 12, name, anchor="end")
            yield from _bar(axis, y, ratio)
            y += _BAR_STEP
        y += _GAP
    yield "</svg>"


def _bar(axis: _Axis, y: float, ratio: _Ratio) -> Iterator[str]:
    """From 1x to a median, which stands beside it, and a line over all rounds."""
    is_faster = ratio.median >= 1
    colour = _FASTER if is_faster else _SLOWER
    one, end = axis.x(1), axis.x(ratio.median)
    low, high = axis.x(ratio.lowest), axis.x(ratio.highest)
    yield (
        f'<rect x="{min(one, end):.1f}" y="{y + 1}" width="{abs(end - one):.1f}" '
        f'height="{_BAR_HEIGHT}" fill="{colour}"/>'
    )
    middle = y + 1 + _BAR_HEIGHT / 2
    yield (
        f'<path class="rounds" d="M{low:.1f},{middle} H{high:.1f} M{low:.1f},{middle - 3} v6 '
        f'M{high:.1f},{middle - 3} v6" stroke="{_INK}" stroke-width="1.5" fill="none"/>'
    )
    beside, anchor = (max(high, one) + 6, "start") if is_faster else (min(low, one) - 6, "end")
    yield _text(beside, y + 12, f"{ratio.median:.2f}x", colour, size=12, anchor=anchor, halo=True)


def _line(x: float, top: float, bottom: float, colour: str) -> str:
    return f'<path d="M{x:.1f},{top} V{bottom}" stroke="{colour}"/>'


def _text(
    x: float,
    y: float,
    text: str,
    colour: str = _INK,
    *,
    size: int = 13,
    weight: str = "normal",
    anchor: str = "start",
    halo: bool = False,
) -> str:
    """`halo`: the lines of the axis end at the letters."""
    around = f' stroke="{_PAPER}" stroke-width="5" paint-order="stroke"' if halo else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}"{around}>{escape(text)}</text>'
    )


if __name__ == "__main__":
    for name, picture in pictures(json.loads(FIGURES.read_text())).items():
        (DOCS / name).write_text(picture)
