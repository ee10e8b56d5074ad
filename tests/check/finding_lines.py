"""What `check` says of a dataset, line by line."""

from pathlib import Path

from zarrfuse.check import findings


def lines(source: Path) -> list[str]:
    return [finding.line() for finding in findings(str(source), deep=True)]
