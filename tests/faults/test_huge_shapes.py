"""What a listing costs does not depend on how large an array is: sizes are arithmetic."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from list_huge import HUGE, SIDE

MOST_MIB = 64
GUARD_S = 240  # it takes 5 s; on a busy machine ten times that

Answers = dict[tuple[str, str], tuple[Any, int]]


@pytest.fixture(scope="module")
def answers() -> Answers:
    """By array and question: the answer, and by how many MiB the process has grown for it."""
    script = Path(__file__).with_name("list_huge.py")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, timeout=GUARD_S, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert b"MemoryError" not in done.stderr
    return {(name, asked): (answer, mib) for name, asked, answer, mib in json.loads(done.stdout)}


@pytest.mark.parametrize("name", HUGE)
def test_listing_and_looking_up_takes_little_memory(answers: Answers, name: str) -> None:
    grown = {asked: mib for (of, asked), (_, mib) in answers.items() if of == name}
    assert len(grown) == 5
    assert max(grown.values()) < MOST_MIB, grown


def test_array_of_2_to_the_60_bytes_has_a_size_in_each_format(answers: Answers) -> None:
    pixels = SIDE * SIDE
    for name in ("tiny chunks", "tiny chunks, flat keys", "one chunk"):
        sizes, _ = answers[name, "images"]
        assert sizes["root.npy"] == pixels + 4096
        assert pixels < sizes["root.tiff"] < pixels + (8 << 20)


def test_array_that_is_larger_than_a_file_can_be_has_no_whole_file(answers: Answers) -> None:
    for name in ("beyond 2^63", "a chunk beyond 2^63", "lengths beyond 2^63"):
        assert answers[name, "images"][0].keys() <= {"zarr.json", "c", "root.png"}
