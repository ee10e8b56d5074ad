"""The progress bar of an export, and its summary. Used by `run`."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from zarrfuse.progress import amount, bar_of_bytes, counted


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
        words = [f"{counted(self.written, 'file')} written, {amount(self.stored_bytes)}"]
        if self.kept:
            words.append(f"{counted(self.kept, 'file')} of an earlier run kept")
        if self.empty:
            words.append(f"{self.empty:,} without chunks left out")
        return ", ".join(words)


@contextmanager
def shown(progress: Progress) -> Iterator[None]:
    """A block with a progress bar on stderr, if that is a terminal: bytes of pixels, rate, time left."""
    total = progress.of_all
    with bar_of_bytes("exporting", total, lambda: min(progress.pixel_bytes, total)):
        yield
