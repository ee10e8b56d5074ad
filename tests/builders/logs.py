"""What was logged."""

import logging

import pytest


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The messages of warnings and errors."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
