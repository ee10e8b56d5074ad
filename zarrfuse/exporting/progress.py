"""The progress bar of an export, and its summary. Used by `run`."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Task


class Progress:
    """What was done so far; for any thread.

    `written`, `kept` and `empty`: the number of files that were written, that an earlier run had written,
    and that are not there because no chunk is. `pixel_bytes`: of decoded pixels, of `of_all`.
    `stored_bytes`: of the files that were written.
    """

    def __init__(self, of_all: int) -> None:
        self.of_all = of_all
        self.pixel_bytes = 0
        self.stored_bytes = 0
        self.written = self.kept = self.empty = 0
        self._lock = threading.Lock()

    def add(
        self,
        *,
        pixel_bytes: int = 0,
        stored_bytes: int = 0,
        written: int = 0,
        kept: int = 0,
        empty: int = 0,
    ) -> None:
        """Count what was done."""
        with self._lock:
            self.pixel_bytes += pixel_bytes
            self.stored_bytes += stored_bytes
            self.written += written
            self.kept += kept
            self.empty += empty

    def summary(self) -> str:
        """One line."""
        words = [f"{_counted(self.written, 'file')} written, {_amount(self.stored_bytes)}"]
        if self.kept:
            words.append(f"{_counted(self.kept, 'file')} of an earlier run kept")
        if self.empty:
            words.append(f"{self.empty:,} without chunks left out")
        return ", ".join(words)


@contextmanager
def shown(progress: Progress) -> Iterator[None]:
    """A block with a progress bar on stderr, if that is a terminal: bytes of pixels, rate, time left."""
    if not sys.stderr.isatty():
        yield
        return
    from rich import progress as rich_progress  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415

    class Done(rich_progress.ProgressColumn):
        """Updates the task whenever the bar is drawn."""

        def render(self, task: "Task") -> str:
            bar.update(task.id, completed=min(progress.pixel_bytes, progress.of_all))
            return ""

    bar = rich_progress.Progress(
        Done(),
        rich_progress.TextColumn("exporting"),
        rich_progress.BarColumn(),
        rich_progress.DownloadColumn(),
        rich_progress.TransferSpeedColumn(),
        rich_progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar.add_task("", total=progress.of_all)
    with bar:
        yield


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _amount(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
