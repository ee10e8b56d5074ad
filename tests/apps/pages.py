"""Pages of the documentation: their commands run in a folder, and the options that commands have."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from builders.mounts import clear, zarrfuse


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


def follow(page: str, run: Callable[[str], str]) -> int:
    """Run the blocks of `sh` and `console` of a page; those of `console` must print what it says.

    Returns how many there are.
    """
    blocks = re.findall(r"^```(sh|console)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for kind, block in blocks:
        if kind == "sh":
            run(block)
            continue
        for command, shown in re.findall(r"^\$ (.*)\n((?:[^$].*\n|\n)*)", block, re.MULTILINE):
            assert run(command) == shown
    return len(blocks)


def options_of(command: str) -> set[str]:
    """The options that the help of a command names."""
    return set(re.findall(r"--[a-z-]+", zarrfuse(command, "--help").stdout))
