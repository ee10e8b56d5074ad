"""How findings are shown: a line each, or one JSON document, and a progress bar on a terminal.

Used by `run`. It must not know how findings are found.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from zarrfuse.check.findings import Finding
from zarrfuse.check.survey import Survey

if TYPE_CHECKING:
    from rich.progress import Progress


class Report(Protocol):
    """Where findings go as they are found."""

    def add(self, finding: Finding) -> None:
        """Show one finding."""

    def end(self, survey: Survey, *, complete: bool) -> None:
        """Show the summary; `complete`: false if the check was interrupted."""


class Counts:
    """The number of findings by level."""

    def __init__(self) -> None:
        self.errors = 0
        self.warnings = 0

    def add(self, finding: Finding) -> None:
        """Count a finding."""
        if finding.level == "error":
            self.errors += 1
        else:
            self.warnings += 1


class Lines:
    """A line on stdout for each finding, and a summary on stderr."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.progress: Progress | None = None

    def add(self, finding: Finding) -> None:
        """See `Report`. Above the progress bar, if both are on one terminal."""
        self.counts.add(finding)
        if self.progress is not None and sys.stdout.isatty():
            self.progress.console.print(
                finding.line(), markup=False, highlight=False, emoji=False, soft_wrap=True
            )
        else:
            print(finding.line(), flush=True)

    def end(self, survey: Survey, *, complete: bool) -> None:
        """See `Report`."""
        checked = f"{_counted(survey.nodes, 'node')}, {_counted(survey.chunks, 'chunk')}"
        if survey.bytes_read:
            checked += f", {_amount(survey.bytes_read)} read"
        errors, warnings = self.counts.errors, self.counts.warnings
        found = f"{_counted(errors, 'error')}, {_counted(warnings, 'warning')}"
        if not errors and not warnings:
            found = "nothing is wrong"
        state = "" if complete else "interrupted; until then "
        print(f"zarrfuse: {state}{found} ({checked})", file=sys.stderr)


class Document:
    """One JSON document on stdout, a finding a line, written as they are found."""

    def __init__(self, source: str) -> None:
        self.counts = Counts()
        sys.stdout.write(f'{{"source": {json.dumps(source)}, "findings": [')

    def add(self, finding: Finding) -> None:
        """See `Report`."""
        comma = "," if self.counts.errors or self.counts.warnings else ""
        self.counts.add(finding)
        sys.stdout.write(f"{comma}\n{json.dumps(finding.to_json())}")
        sys.stdout.flush()

    def end(self, survey: Survey, *, complete: bool) -> None:
        """See `Report`."""
        facts: dict[str, Any] = {
            "errors": self.counts.errors,
            "warnings": self.counts.warnings,
            "nodes": survey.nodes,
            "chunks": survey.chunks,
            "chunk_bytes": survey.chunk_bytes,
            "bytes_read": survey.bytes_read,
            "complete": complete,
        }
        line = "\n" if self.counts.errors or self.counts.warnings else ""
        sys.stdout.write(f"{line}],\n{json.dumps(facts)[1:]}\n")


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _amount(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


@contextmanager
def progress_of(survey: Survey, lines: Lines | None) -> Iterator[None]:
    """A block with a progress bar on stderr, if that is a terminal.

    `lines`: the report on stdout, None for JSON. With JSON on a terminal there is no bar, which would
    overwrite it.
    """
    if not sys.stderr.isatty() or (lines is None and sys.stdout.isatty()):
        yield
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    class Read(ProgressColumn):
        """Updates the task whenever the bar is drawn."""

        def render(self, task: Task) -> str:
            progress.update(task.id, completed=survey.bytes_read)
            return ""

    progress = Progress(
        Read(),
        TextColumn("reading chunks"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    progress.add_task("", total=survey.chunk_bytes)
    if lines is not None:
        lines.progress = progress
    try:
        with progress:
            yield
    finally:
        if lines is not None:
            lines.progress = None
