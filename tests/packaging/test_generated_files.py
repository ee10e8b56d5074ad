"""Man pages and completion of shells are what the code says, and work."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from builders.mounts import ENVIRONMENT
from builders.scripts import module_of

PACKAGING = Path(__file__).parents[2] / "packaging"
PAGES = sorted((PACKAGING / "man").rglob("*.[18]"))


def test_they_are_as_the_code_says() -> None:
    found = dict(module_of(PACKAGING / "generate.py").files())
    for path, text in found.items():
        assert (PACKAGING / path).read_text() == text, "run: python packaging/generate.py"
    assert sorted(path.name for path in PAGES) == [
        "mount.zarrfuse.8",
        *sorted(Path(path).name for path in found if path.startswith("man/")),
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_no_mistakes(page: Path) -> None:
    done = subprocess.run(
        ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MANROFFSEQ": "", "MANWIDTH": "80"},
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["mo"], {"mount"}),
        (["mount", "--vi"], {"--view"}),
        (["mount", "--view", "im"], {"images"}),
    ],
)
def test_bash_completes(words: list[str], wanted: set[str]) -> None:
    script = """
    source "$1"; shift
    COMP_WORDS=(zarrfuse "$@"); COMP_CWORD=$#
    _zarrfuse_completion zarrfuse
    printf '%s\\n' "${COMPREPLY[@]}"
    """
    done = subprocess.run(
        ["bash", "-c", script, "bash", PACKAGING / "completions/zarrfuse", *words],
        capture_output=True,
        text=True,
        check=True,
        env={**ENVIRONMENT, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        timeout=60,
    )
    assert set(done.stdout.split()) == wanted


def test_zsh_completes_at_the_first_tab() -> None:
    """It runs the file then, for what the function is to do: the last command calls it."""
    last = (PACKAGING / "completions/_zarrfuse").read_text().splitlines()[-1]
    assert last == '_zarrfuse_completion "$@"'
