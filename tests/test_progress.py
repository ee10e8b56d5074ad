"""What long work shows: bars on a terminal, and counts and amounts in words."""

import os
import pty
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from zarrfuse.progress import amount, bar_of_bytes, bar_of_files, counted


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], str]]:
    """A block whose stderr is a terminal; its function returns what that has shown."""
    reader, writer = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with os.fdopen(writer, "w") as stderr, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", stderr)

        def shown() -> str:
            stderr.write("END")
            stderr.flush()
            text = b""
            while b"END" not in text:  # what was written may arrive in pieces
                text += os.read(reader, 1 << 16)
            return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.decode())

        yield shown
    os.close(reader)


def test_a_bar_of_bytes_asks_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as shown:
        with bar_of_bytes("exporting", 4_000_000, lambda: 3_000_000):
            pass
        assert re.search(r"exporting .* 3\.0/4\.0 MB", shown())


def test_lines_are_printed_above_the_bar_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as shown:
        with bar_of_bytes("reading", 4, lambda: 2) as print_above:
            assert print_above is not None
            print_above("[red] c/0/1 :smile:")
        assert "[red] c/0/1 :smile:\r\n" in shown()


def test_a_bar_of_files_counts_those_that_were_done(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as shown:
        with bar_of_files("reading headers", 30) as count:
            count(10)
            count(5)
        assert re.search(r"reading headers .* 15/30 .*files/s", shown())


def test_without_a_terminal_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with bar_of_bytes("exporting", 4, lambda: 3) as print_above:
        assert print_above is None
    with bar_of_files("reading headers", 30) as count:
        count(10)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "count, words", [(0, "0 files"), (1, "1 file"), (2, "2 files"), (20_000, "20,000 files")]
)
def test_a_count_has_its_plural(count: int, words: str) -> None:
    assert counted(count, "file") == words


@pytest.mark.parametrize(
    "size, words",
    [(0, "0.0 kB"), (6_300, "6.3 kB"), (12_340_000, "12.3 MB"), (2_100_000_000_000, "2,100.0 GB")],
)
def test_an_amount_has_its_unit(size: int, words: str) -> None:
    assert amount(size) == words
