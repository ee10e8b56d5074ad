"""What `zarrfuse index` shows while it works. Used by `run`."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


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
        yield _ignore


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

    @contextmanager
    def counting(self, title: str, total: int) -> Iterator[Callable[[int], None]]:
        """See `Progress`. With files per second, and the time left."""
        if not sys.stderr.isatty():
            yield _ignore
            return
        from rich.console import Console  # noqa: PLC0415  # 0.1 s
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            MofNCompleteColumn,
            ProgressColumn,
            Task,
            TextColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bar  # noqa: PLC0415

        class Rate(ProgressColumn):
            """Files per second."""

            def render(self, task: Task) -> str:
                return f"{task.speed or 0:,.0f} files/s"

        with Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            Rate(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        ) as bar:
            task = bar.add_task(title, total=total)
            yield lambda done: bar.update(task, advance=done)


def _ignore(done: int) -> None:
    del done
