"""Each example of the documentation is run by a test.

Commands stand in blocks of `sh`, commands with what they print in blocks of `console`, code in blocks of
`python`. A test takes all of one language from a page by `blocks(page, language)`.
"""

import ast
import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer
from builders.pages import NOT_RUN, PAGES, REPOSITORY, RUN, all_blocks, blocks

from zarrfuse.cli.app import app

NAMES = [page.relative_to(REPOSITORY).as_posix() for page in PAGES]
_IN_BLOCKS = re.compile(r"^(?:[ $]*|.*[; ])zarrfuse ([a-z].*)", re.MULTILINE)
_IN_TEXT = re.compile(r"`zarrfuse\s+([a-z][^`]*)`")


def taken() -> Iterator[tuple[str, str]]:
    """(page, language) of each call of `blocks` in the tests."""
    for path in set((REPOSITORY / "tests").glob("*/test_*.py")) - {Path(__file__)}:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "blocks":
                page, *languages = map(ast.literal_eval, node.args)
                yield from ((page, language) for language in languages)


def test_a_test_runs_the_examples_of_each_page() -> None:
    shown = {(page, block.language) for page in NAMES for block in blocks(page, *RUN)}
    assert len(shown) > 15
    assert shown - set(taken()) == set()


def test_what_is_not_run_is_there() -> None:
    begins = {name: [b.text for page in NAMES for b in all_blocks(page)] for name in NOT_RUN}
    assert [
        name for name, texts in begins.items() if not any(t.startswith(name) for t in texts)
    ] == []


@pytest.mark.parametrize("page", NAMES)
def test_each_block_has_a_language(page: str) -> None:
    found = all_blocks(page)
    assert [block.text for block in found if not block.language] == []
    fences = re.findall(r"^\s*(?:```|~~~)", (REPOSITORY / page).read_text(), re.MULTILINE)
    assert len(fences) == 2 * len(found), "a block is indented"


def commands_of(page: str) -> Iterator[list[str]]:
    """The words after `zarrfuse` of each command of a page, in blocks and in the text."""
    text = (REPOSITORY / page).read_text()
    lines = _IN_TEXT.findall(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
    for block in all_blocks(page):
        if block.language in ("sh", "console"):
            lines += _IN_BLOCKS.findall(block.text.replace("\\\n", ""))
    for line in lines:
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        yield list(takewhile(lambda word: not set(word) <= set("();<>|&"), words))


@pytest.mark.parametrize("page", NAMES)
def test_each_command_and_option_exists(page: str) -> None:
    group: Any = typer.main.get_command(app)
    context = group.make_context("zarrfuse", [], resilient_parsing=True)
    for name, *arguments in commands_of(page):
        command = group.commands[name]
        inner = command.context_class(command, info_name=name, parent=context)
        command.make_parser(inner).parse_args(arguments)
