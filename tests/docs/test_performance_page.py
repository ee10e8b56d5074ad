"""The pictures of `docs/performance.md`: drawn by their script from the figures kept beside them."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

from builders.scripts import module_of

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "performance.md").read_text()
FIGURES = json.loads((DOCS / "performance.json").read_text())
DRAWN = module_of(DOCS / "performance_plots.py").pictures(FIGURES)


def test_each_picture_is_what_the_script_draws_and_is_on_the_page() -> None:
    kept = {path.name: path.read_text() for path in DOCS.glob("performance-*.svg")}
    assert kept == DRAWN
    assert re.findall(r"\((performance-.*\.svg)\)", PAGE) == list(DRAWN)


def test_the_pictures_have_each_ratio_to_a_peer_as_text() -> None:
    for table, picture in zip(FIGURES["tables"], DRAWN.values(), strict=True):
        texts = [each.text or "" for each in ElementTree.fromstring(picture).iter() if each.text]
        shown = [text for text in texts if re.fullmatch(r"\d+\.\d\dx", text)]
        assert shown == [
            f"{ratio:.2f}x"
            for row in table["rows"]
            for name, ratio in row["ratios"].items()
            if name != "raw"
        ]
        assert {name for row in table["rows"] for name in row["ratios"]} - {"raw"} <= set(texts)


def test_each_bar_has_a_line_over_all_rounds_which_its_end_lies_on() -> None:
    for table, picture in zip(FIGURES["tables"], DRAWN.values(), strict=True):
        parts = list(ElementTree.fromstring(picture))
        lines = [at for at, part in enumerate(parts) if part.get("class") == "rounds"]
        assert len(lines) == sum(len(row["ratios"].keys() - {"raw"}) for row in table["rows"])
        for at in lines:
            low, high = map(float, re.findall(r"[MH]([\d.]+)", parts[at].get("d", ""))[:2])
            left, width = (float(parts[at - 1].get(name, "")) for name in ("x", "width"))
            assert low <= high
            assert any(low - 0.1 <= end <= high + 0.1 for end in (left, left + width))


def test_the_page_names_the_machine_and_the_rounds_of_the_pictures() -> None:
    [rounds] = {table["rounds"] for table in FIGURES["tables"]}
    words = {2: "two", 3: "three", 5: "five"}
    pictures = PAGE.partition("## In pictures")[2].partition("\n## ")[0]
    assert f"{words[rounds]} rounds" in pictures
    assert FIGURES["machine"] in " ".join(pictures.split())
