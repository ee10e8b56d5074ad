"""`docs/comparison.md`: what it says of zarrfuse is so; what it says of others was tried by hand."""

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from builders.mounts import zarrfuse

PAGE = (Path(__file__).parents[2] / "docs/comparison.md").read_text()
OWN = {
    row[0].strip(): row[1].strip()
    for row in (line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("| "))
}


def refused(*arguments: object) -> str:
    done = zarrfuse("mount", *arguments, check=False)
    assert done.returncode in (1, 2)
    return done.stderr


@pytest.fixture
def point(tmp_path: Path) -> Path:
    folder = tmp_path / "mnt"
    folder.mkdir()
    return folder


def test_options_are_those_of_the_command() -> None:
    told = zarrfuse("mount", "--help").stdout
    named = set(re.findall(r"`(--[a-z-]+|-f)\b", " ".join(OWN.values())))
    assert len(named) > 10
    assert {each for each in named if each not in told} == set()


def test_what_is_refused(demo: Path, tmp_path: Path, point: Path) -> None:
    assert OWN["a source that does not exist"] == "refused, in a sentence"
    assert "does not exist" in refused(tmp_path / "none", point)
    assert OWN["a mountpoint that does not exist"] == "refused: make it first"
    assert "make an empty folder first" in refused(demo, tmp_path / "none")
    assert OWN["an option that does not exist"] == "names the nearest"
    assert "--cache-ttl" in refused(demo, point, "--cache-tll", 5)
    (point / "file").touch()
    assert OWN["a mountpoint with files in it"] == "refused; `-o nonempty`"
    assert "-o nonempty" in refused(demo, point)


def test_a_second_mount_says_what_is_there(
    demo: Path, mounted: Callable[..., Path], tmp_path: Path
) -> None:
    assert OWN["already mounted there"] == "refused, and says what is there"
    point = mounted(demo)
    assert f"{point} is already mounted: {demo}" in refused(tmp_path, point)


def test_writing_is_asked_for(demo: Path, mounted: Callable[..., Path]) -> None:
    assert OWN["writing"] == "with `--read-write`"
    with pytest.raises(OSError, match=os.strerror(errno.EROFS)):
        (mounted(demo) / "new").touch()
