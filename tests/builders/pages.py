"""Pages of the documentation: their blocks of code, which tests run, and the options that commands have.

A test takes the commands of a page by `blocks("docs/mount.md", "sh")`, and runs all of them;
`docs/test_examples.py` finds the pages and languages that no test takes.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from builders.mounts import clear, zarrfuse

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted([REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")])
RUN = ("sh", "console", "python")
"""The languages of blocks that tests run: commands, commands with what they print, code."""

NOT_RUN = {
    "zarrfuse mount image.ome.zarr mnt --view images": "the tutorial ome-zarr-in-fiji.md has it, too",
    "apt install fuse3 libfuse3-dev pkg-config": "installs packages, as .ci/setup does",
    "make demo": "packaging/test_bare_debian.py runs both on a Debian that has nothing yet",
    "apt install git dpkg-dev debhelper": "packaging/test_bare_debian.py builds and installs it",
    "rattler-build build": "packaging/test_conda_recipe.py renders the recipe; it is not built",
    "podman build": "there is no podman in the tests",
    "pip install .": "mounts/test_extensions_mount.py installs it into a folder of its own",
    "make bench": "takes minutes",
}
"""How the blocks begin that no test runs as they are, and why."""

_LINE = re.compile(
    r"^(?:#+ (?P<heading>[^\n]*)|```(?P<language>\w*)\n(?P<text>.*?)^```$)", re.M | re.S
)


class Block(NamedTuple):
    """A block of a page, with the heading above it."""

    section: str
    language: str
    text: str


def blocks(page: str, *languages: str) -> list[Block]:
    """The blocks of a page in some languages, in their order, but those of `NOT_RUN`.

    `page`: its path in the repository.
    """
    return [
        block
        for block in all_blocks(page)
        if block.language in languages and not block.text.startswith(tuple(NOT_RUN))
    ]


def all_blocks(page: str) -> list[Block]:
    """All blocks of a page."""
    found = []
    section = ""
    for match in _LINE.finditer((REPOSITORY / page).read_text()):
        if match["heading"] is not None:
            section = match["heading"]
        else:
            found.append(Block(section, match["language"], match["text"]))
    return found


@contextmanager
def shell_in(folder: Path) -> Iterator[Callable[[str], str]]:
    """Runs commands in a folder, and returns what they print; what they have mounted there is unmounted.

    `zarrfuse` is that of this Python. A command that fails, fails the test.
    """

    def run(commands: str) -> str:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["sh", "-eux", "-c", commands],
            check=False,
            cwd=folder,
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        yield run
    finally:
        clear(folder)


def follow(shown: Iterable[Block], run: Callable[[str], str]) -> None:
    """Run blocks of `sh` and `console`; those of `console` must print what they say."""
    for block in shown:
        if block.language == "sh":
            run(block.text)
            continue
        for command, printed in re.findall(
            r"^\$ (.*)\n((?:[^$].*\n|\n)*)", block.text, re.MULTILINE
        ):
            assert run(command) == printed


def options_of(command: str) -> set[str]:
    """The options that the help of a command names."""
    return set(re.findall(r"--[a-z-]+", zarrfuse(command, "--help").stdout))
