"""A process that dies at any step of a commit: the chunk is wholly old or new, and nothing is left."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from builders.commit_stores import Steps, StepStore
from builders.commits import recovered, seen
from builders.folders import write_files
from children import DIED, ENDED, die, in_child
from commit_cases import AFTER_ANOTHER, CASES, Case
from sampling import Sample

from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.recovered_view import rolled_forward

MOST_STEPS = 400
EVERY = 3
"""Of so many steps one is tried by default."""
CALLS = ("open", "os.", "fcntl.fcntl")
"""What Python tells its audit hooks of calls of the system that change names, open, or lock."""


def check_steps(
    case: Case, tmp_path: Path, child: Callable[[Path, Steps], None], steps: Iterable[int]
) -> None:
    """Run a child that dies at step n, for these n; old or new is there each time, then only new."""
    before = True
    for step in steps:
        root = tmp_path / str(step)
        root.mkdir()
        write_files(root, case.old)
        code = in_child(lambda step=step, root=root: child(root, Steps(step, die)))  # type: ignore[misc]
        assert code in (ENDED, DIED)
        now = seen(root)
        assert now == case.new or (before and now == case.old)
        before = now == case.old
        assert recovered(root) == now
        if code == ENDED:
            assert now == case.new
            return
    raise AssertionError("it has no end")


@pytest.mark.parametrize("case", [*CASES, AFTER_ANOTHER], ids=lambda case: case.name)
def test_a_process_dies_at_a_step_of_the_store(case: Case, tmp_path: Path, sample: Sample) -> None:
    def child(root: Path, steps: Steps) -> None:
        commits = Commits(rolled_forward(StepStore(WritableLocalStore(str(root)), steps)))
        case.act(commits)
        commits.close()

    check_steps(case, tmp_path, child, sample.steps(MOST_STEPS, every=EVERY))


@pytest.mark.parametrize("case", [*CASES, AFTER_ANOTHER], ids=lambda case: case.name)
def test_a_process_dies_at_a_call_of_the_system(case: Case, tmp_path: Path, sample: Sample) -> None:
    def child(root: Path, steps: Steps) -> None:
        commits = Commits(rolled_forward(WritableLocalStore(str(root))))

        def hook(event: str, _: object) -> None:
            if event.startswith(CALLS):
                steps(event, "")

        sys.addaudithook(hook)
        case.act(commits)
        commits.close()

    check_steps(case, tmp_path, child, sample.steps(MOST_STEPS, every=EVERY))


@pytest.mark.parametrize("case", [CASES[2], CASES[8], CASES[11]], ids=lambda case: case.name)
def test_who_recovers_dies_at_a_call_of_the_system(
    case: Case, tmp_path: Path, sample: Sample
) -> None:
    """A journal that is half done, and a recovery that is half done."""

    def killed_half_way(root: Path) -> None:
        second_move = Steps(1, die)

        def step(call: str, key: str) -> None:
            if call in ("rename", "remove") and any((root / OWN_NAME).glob("*.journal")):
                second_move(call, key)

        case.act(Commits(StepStore(WritableLocalStore(str(root)), step)))

    def child(root: Path, steps: Steps) -> None:
        commits = Commits(WritableLocalStore(str(root)))

        def hook(event: str, _: object) -> None:
            if event.startswith(CALLS):
                steps(event, "")

        sys.addaudithook(hook)
        commits.recover()
        commits.close()

    for step in sample.steps(MOST_STEPS, every=EVERY):
        root = tmp_path / str(step)
        root.mkdir()
        write_files(root, case.old)
        assert in_child(lambda root=root: killed_half_way(root)) == DIED  # type: ignore[misc]
        assert list((root / OWN_NAME).glob("*.journal"))
        code = in_child(lambda root=root, step=step: child(root, Steps(step, die)))  # type: ignore[misc]
        assert code in (ENDED, DIED)
        assert seen(root) == case.new
        if code == ENDED:
            assert not (root / OWN_NAME).exists()
            return
        assert recovered(root) == case.new
    raise AssertionError("it has no end")
