"""The commands of `docs/tiff-shards.md`, run in the order they stand there; its options and its picture."""

import re
from pathlib import Path
from xml.etree import ElementTree

from builders.pages import blocks, follow, options_of, shell_in
from builders.scripts import module_of

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "tiff-shards.md").read_text()


def test_each_command_of_the_page_works_and_shows_what_it_says(tmp_path: Path) -> None:
    with shell_in(tmp_path) as run:
        follow(blocks("docs/tiff-shards.md", "sh", "console"), run)


def test_the_picture_is_what_its_script_draws() -> None:
    drawn = module_of(DOCS / "tiff_shards.py").picture()
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    assert (DOCS / "tiff-shards.svg").read_text() == drawn
    assert "(tiff-shards.svg)" in PAGE


def test_the_options_of_the_page_are_those_of_the_commands() -> None:
    told = options_of("index") | options_of("export") | options_of("check") | options_of("mount")
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE.replace("--time-style", "")))
    assert named <= told
