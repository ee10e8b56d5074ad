"""Progress of long work for people: a bar on stderr, and the words of a summary.

Used by `check`, `indexing` and `exporting`. It must not know what the work is. Without a terminal there is
no bar, and rich, which takes 0.1 s, is not imported.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, Task


@contextmanager
def bar_of_bytes(
    title: str, total: int, done: Callable[[], int]
) -> Iterator[Callable[[str], None] | None]:
    """A block with a bar of bytes: how many of `total`, their rate, and the time left.

    `done`: how many bytes there are so far; called whenever the bar is drawn, by a thread. The block gets a
    function that prints a line above the bar, None without a bar.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress as rich  # noqa: PLC0415

    class Polled(rich.ProgressColumn):
        """Updates the task whenever the bar is drawn."""

        def render(self, task: "Task") -> str:
            bar.update(task.id, completed=done())
            return ""

    def print_above(line: str) -> None:
        bar.console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)

    bar = _bar(
        Polled(),
        rich.TextColumn(title),
        rich.BarColumn(),
        rich.DownloadColumn(),
        rich.TransferSpeedColumn(),
    )
    bar.add_task("", total=total)
    with bar:
        yield print_above


@contextmanager
def bar_of_files(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A block with a bar of files: how many of `total`, their rate, and the time left.

    The block gets a function that takes the number of files that were done since it was last called.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich import progress as rich  # noqa: PLC0415

    class Rate(rich.ProgressColumn):
        """Files per second."""

        def render(self, task: "Task") -> str:
            return f"{task.speed or 0:,.0f} files/s"

    bar = _bar(rich.TextColumn(title), rich.BarColumn(), rich.MofNCompleteColumn(), Rate())
    task = bar.add_task("", total=total)
    with bar:
        yield lambda done: bar.update(task, advance=done)


def counted(count: int, what: str) -> str:
    """A number of things: "1 file", "2,000 files"."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def amount(size: int) -> str:
    """A number of bytes: "0.3 kB", "1,024.0 GB"."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size / 1e3:.1f} kB"


def _bar(*columns: "ProgressColumn") -> "Progress":
    """A bar on stderr that also has the time left; it disappears at the end of its block."""
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress, TimeRemainingColumn  # noqa: PLC0415

    return Progress(
        *columns,
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
