"""TIFF files are written and read without a complaint."""

import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture
def no_complaints(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """tifffile logs what it finds odd in a file, and warns of what it writes."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    assert not [record for record in caplog.get_records("call") if record.name == "tifffile"]
