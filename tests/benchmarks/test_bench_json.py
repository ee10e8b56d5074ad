"""`make bench --json`: the document has the figures that the Markdown shows, and each round's."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from sampling import is_thorough

from benchmarks.images import OURS, ZARR, image_table
from benchmarks.indexing import INDEX_ROWS, Account, index_table
from benchmarks.measurements import mount_table
from benchmarks.peers import peer_table
from benchmarks.remote import SYSTEMS, remote_table
from benchmarks.table import Figures, Row, Table, Unit

REPOSITORY = Path(__file__).parents[2]
UNITS = {"MB/s": 1e6, "/s": 1, "s": 1, "ms": 1e-3, "kB": 1e3, "MiB": 1 << 20}


def row(name: str, unit: Unit, work: int, **figures: list[float]) -> Row:
    return Row(name, f"do `{name}`", unit, dict.fromkeys(figures, work), figures)


def mounts() -> Table:
    rows = [
        row("read", "MB/s", 10**9, raw=[0.1, 0.2, 0.3], bindfs=[2, 1, 8], zarrfuse=[1, 2, 2]),
        row("mount", "s", 1, imports=[0.1, 0.2], bindfs=[0.01, 0.01], zarrfuse=[0.3, 0.5]),
        row("info", "/s", 10_001, zarrfuse=[1.5]),
    ]
    return mount_table("mounts", 3, 1024, rows, {"bindfs": 3 << 20, "zarrfuse": 50 << 20})


def peers() -> Table:
    rows = [row("peers-open-1", "/s", 2000, bindfs=[1, 2], zarrfuse=[1, 3], rclone=[9, 7])]
    return peer_table(2, ("bindfs", "zarrfuse", "rclone"), rows)


def images() -> Table:
    figures: Figures = {OURS: [1.0, 1.5, 2.0], ZARR: [2.0, 2.0, 2.0]}
    whole = Row("image-npy", "load", "MB/s", dict.fromkeys(figures, 10**9), figures)
    return image_table(3, [whole], 416 << 20, 256 << 20)


def index() -> Table:
    ours, copies = "zarrfuse index", "tifffile, zarr-python"
    once, twice = Account(2.0, 1.5, 10, 10), Account(4.0, 3.5, 10, 10)
    return index_table(
        2,
        {ours: 2000, copies: 400},
        [(INDEX_ROWS[0], {ours: [once, twice], copies: [twice, once]})],
        {ours: (12_288.0, 17_100.0), copies: (4_195_900.0, 4_419_600.0)},
    )


def bucket() -> Table:
    rows = [row("remote-list", "s", 1, zarrfuse=[0.4, 0.5], rclone=[2, 1], s3fs=[1, 4])]
    return remote_table(2, rows, dict.fromkeys(SYSTEMS, 100 << 20), 256 << 20)


def assert_same(document: dict[str, Any], markdown: str) -> None:
    """Each figure, ratio and spread of a table is in the document, and made of its rounds."""
    lines = [line[2:-2].split(" | ") for line in markdown.splitlines() if line.startswith("| ")]
    header, _, *rows = lines
    assert [cells[0] for cells in rows] == [each["title"] for each in document["rows"]]
    for each, cells in zip(document["rows"], rows, strict=True):
        shown = dict(zip(header, cells, strict=True))
        for name, figures in each["systems"].items():
            assert figures["median"] == median(figures["rounds"])
            middle, work, scale = figures["median"], figures["work"], UNITS[each["unit"]]
            is_rate = each["unit"] in ("MB/s", "/s")
            figure = work / middle / scale if is_rate else middle / work / scale
            assert figures["figure"] == pytest.approx(figure)
            if name in shown:
                assert_shows(shown[name], figure, each["unit"])
        for name, ratio in each["ratios"].items():
            assert_shows(shown.get(f"to {name}") or shown[name].partition("(")[2], ratio, "x")
        assert_shows(shown["spread"], each["spread"], "x")


def assert_shows(cell: str, value: float | None, unit: str) -> None:
    """A cell begins with a value, rounded, and its unit."""
    if value is None:
        assert cell == ""
        return
    found = re.match(rf"([\d,]+)(\.\d+)? ?{unit}", cell)
    assert found, cell
    decimals = len(found[2] or ".") - 1
    shown = float(found[1].replace(",", "") + (found[2] or ""))
    assert shown == pytest.approx(value, rel=0, abs=0.51 * 10**-decimals)


@pytest.mark.parametrize("table", [mounts, peers, images, index, bucket])
def test_the_document_of_a_table_has_the_figures_of_its_markdown(
    table: Callable[[], Table],
) -> None:
    made = table()
    document = json.loads(json.dumps(made.document()))
    assert document["rounds"] == made.rounds
    assert_same(document, made.markdown())


def test_a_ratio_is_the_median_of_the_ratios_of_the_rounds() -> None:
    [read, *_] = mounts().document()["rows"]
    assert read["ratios"] == pytest.approx({"bindfs": 2.0, "raw": 0.1})
    assert read["spread"] == 2.0


def test_a_ratio_is_to_the_fastest_of_several_in_each_round() -> None:
    [listed, _memory] = bucket().document()["rows"]
    assert listed["ratios"] == {"the faster": (1 / 0.4 + 1 / 0.5) / 2}


def test_a_ratio_is_for_the_same_number_of_files() -> None:
    [indexed, *_] = index().document()["rows"]
    assert indexed["ratios"] == {"tifffile, zarr-python": (10 + 2.5) / 2}


def test_memory_and_what_was_not_measured_have_no_ratio() -> None:
    rows = {each["name"]: each for each in mounts().document()["rows"]}
    assert rows["memory"]["measured"] == "bytes"
    assert rows["memory"]["systems"]["zarrfuse"]["rounds"] == [50 << 20]
    assert rows["memory"]["ratios"] == rows["info"]["ratios"] == {}


def test_what_a_mount_takes_beyond_its_imports_is_a_row() -> None:
    rows = {each["name"]: each for each in mounts().document()["rows"]}
    assert rows["mount-imports"]["systems"]["zarrfuse"]["median"] == pytest.approx(0.25)


@pytest.mark.skipif(not is_thorough(), reason="takes five seconds: make test-thorough")
def test_the_command_writes_the_document(tmp_path: Path) -> None:
    command = ["-m", "benchmarks", "--quick", "--only", "open-1", "list", "--json"]
    done = subprocess.run(
        [sys.executable, *command, tmp_path / "figures.json"],
        cwd=REPOSITORY,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "figures.json").read_text())
    assert done.stdout.startswith(f"{document['machine']}\n")
    [table] = document["tables"]
    assert [each["name"] for each in table["rows"]] == ["open-1", "list"]
    assert all(
        len(figures["rounds"]) == 2
        for each in table["rows"]
        for figures in each["systems"].values()
    )
    assert_same(table, done.stdout)
