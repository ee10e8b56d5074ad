"""How findings are shown: a line each, or one JSON document, and a progress bar on a terminal.

Used by `run`. It must not know how findings are found.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from zarrfuse.check.findings import Finding
from zarrfuse.check.survey import Survey
from zarrfuse.progress import amount, bar_of_bytes, counted


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
    """A line on stdout for each finding, and a summary on stderr.

    `print_above`: while there is a progress bar, prints a line above it.
    """

    def __init__(self) -> None:
        self.counts = Counts()
        self.print_above: Callable[[str], None] | None = None

    def add(self, finding: Finding) -> None:
        """See `Report`. Above the progress bar, if both are on one terminal."""
        self.counts.add(finding)
        if self.print_above is not None and sys.stdout.isatty():
            self.print_above(finding.line())
        else:
            print(finding.line(), flush=True)

    def end(self, survey: Survey, *, complete: bool) -> None:
        """See `Report`."""
        checked = f"{counted(survey.nodes, 'node')}, {counted(survey.chunks, 'chunk')}"
        if survey.bytes_read:
            checked += f", {amount(survey.bytes_read)} read"
        errors, warnings = self.counts.errors, self.counts.warnings
        found = f"{counted(errors, 'error')}, {counted(warnings, 'warning')}"
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


@contextmanager
def progress_of(survey: Survey, lines: Lines | None) -> Iterator[None]:
    """A block with a progress bar on stderr, if that is a terminal.

    `lines`: the report on stdout, None for JSON. With JSON on a terminal there is no bar, which would
    overwrite it.
    """
    if lines is None and sys.stdout.isatty():
        yield
        return
    try:
        with bar_of_bytes(
            "reading chunks", survey.chunk_bytes, lambda: survey.bytes_read
        ) as print_above:
            if lines is not None:
                lines.print_above = print_above
            yield
    finally:
        if lines is not None:
            lines.print_above = None
