"""The desktop of these tests itself: it ends what it started and does not see what is not there."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from desktop import Desktop, likeness_on_screen, program

Pixels = Callable[[int, int], np.ndarray]


def is_running(pid: int) -> bool:
    """Whether a process is there and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_desktop_ends_programs_that_detached_themselves_when_a_test_fails(tmp_path: Path) -> None:
    note = tmp_path / "pid"

    def fail_with_a_detached_program() -> None:
        with Desktop(tmp_path / "home") as desktop:
            desktop.start(
                "sh", "-c", f"setsid sleep 300 & echo $! > {note}.new; mv {note}.new {note}"
            )
            desktop.wait_until(lambda: note.exists() or None, "note of the process id", 10)
            assert is_running(int(note.read_text()))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_with_a_detached_program()

    pid = int(note.read_text())
    deadline = time.monotonic() + 5
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(pid)


def test_two_desktops_at_once_have_two_screens(tmp_path: Path) -> None:
    with Desktop(tmp_path / "one") as one, Desktop(tmp_path / "two", (640, 480)) as two:
        assert one.environment["DISPLAY"] != two.environment["DISPLAY"]
        assert one.screenshot().shape == (800, 1280)
        assert two.screenshot().shape == (480, 640)
    assert "DISPLAY" not in os.environ or os.environ["DISPLAY"] != one.environment["DISPLAY"]


def test_a_picture_is_recognised_whatever_its_place_and_contrast(pixels: Pixels) -> None:
    chunk = pixels(0, 1) >> 8
    screen = np.full((800, 1280), 30, np.uint8)
    screen[111:623, 333:845] = chunk // 2 + 90
    assert likeness_on_screen(chunk, screen) > 0.99


def test_another_picture_and_an_empty_screen_are_not_recognised(pixels: Pixels) -> None:
    screen = np.full((800, 1280), 30, np.uint8)
    assert abs(likeness_on_screen(pixels(0, 1) >> 8, screen)) < 0.1
    screen[111:623, 333:845] = pixels(0, 0) >> 8
    assert likeness_on_screen(pixels(0, 1) >> 8, screen) < 0.6


def test_a_missing_program_fails_and_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(AssertionError, match="eog is not there: install eog"):
        program("eog")
