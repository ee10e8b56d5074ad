"""What is sampled by default is drawn by the seed alone, and is all there with `--thorough`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sampling import Sample

FILE = """
import pytest

@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", range(30))
def test_one_of_many(case): pass

def test_that_is_alone(): pass
"""


@pytest.fixture
def run(tmp_path: Path):
    """`run(*arguments)` runs pytest on that file; the numbers of the cases that ran, and what it said."""
    (tmp_path / "test_it.py").write_text(FILE)

    def run(*arguments: str) -> tuple[set[int], str]:
        command = [sys.executable, "-m", "pytest", "-v", "-p", "sampling", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, *(arguments or ["test_it.py"])],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": str(Path(__file__).parent),
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            },
            capture_output=True,
            text=True,
            check=True,
        )
        return {int(case) for case in re.findall(r"many\[(\d+)\] PASSED", done.stdout)}, done.stdout

    return run


def test_the_same_seed_draws_the_same_cases_and_is_shown(run) -> None:
    drawn, said = run()
    assert len(drawn) == 10
    assert "11 passed, 20 deselected" in said
    seed = re.search(r"--sample-seed (\d+)", said)[1]
    assert run("--sample-seed", seed)[0] == drawn


def test_everything_is_run_when_asked_for(run) -> None:
    assert run("--thorough")[0] == set(range(30))
    assert run("test_it.py::test_one_of_many[7]")[0] == {7}


def test_the_steps_of_a_sample_are_so_many_apart_and_each_is_drawn_by_some_seed() -> None:
    drawn = [list(Sample(str(seed), thorough=False).steps(30, every=3)) for seed in range(50)]
    assert {len(steps) for steps in drawn} == {10}
    assert {step for steps in drawn for step in steps} == set(range(30))
    assert list(Sample("1", thorough=True).steps(30, every=3)) == list(range(30))


def test_a_sample_does_less_of_what_is_random() -> None:
    assert Sample("1", thorough=False).count(125, default=25) == 25
    assert Sample("1", thorough=True).count(125, default=25) == 125
