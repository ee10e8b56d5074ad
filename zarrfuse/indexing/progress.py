"""What `zarrfuse index` shows while it works. Used by `run`."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from zarrfuse.progress import bar_of_files


class Progress(Protocol):
    """Who is told what goes on."""

    def say(self, line: str) -> None:
        """Show a line."""

    def agrees(self, question: str) -> bool:
        """Ask whether to go on."""

    def counting(self, title: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
        """A block in which files are counted; its function takes the number of those that were done."""


class Silent(Progress):
    """Shows nothing, and always agrees: for Python."""

    def say(self, line: str) -> None:
        """See `Progress`."""

    def agrees(self, question: str) -> bool:
        """See `Progress`."""
        return True

    @contextmanager
    def counting(self, title: str, total: int) -> Iterator[Callable[[int], None]]:
        """See `Progress`."""
        yield lambda _: None


class OnTerminal(Progress):
    """Lines on stderr; a bar, and questions, if there is a terminal."""

    def say(self, line: str) -> None:
        """See `Progress`."""
        print(line, file=sys.stderr)

    def agrees(self, question: str) -> bool:
        """See `Progress`. Without a terminal it agrees: scripts were tried before."""
        if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
            return True
        print(f"{question} [Y/n] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in ("", "y", "yes")

    def counting(self, title: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
        """See `Progress`. With files per second, and the time left."""
        return bar_of_files(title, total)
