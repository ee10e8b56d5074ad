"""A commit whose store fails at any step: the chunk is wholly old or new, for all who look."""

import errno
import os
from pathlib import Path

import pytest
from builders.commit_stores import KeysStore, Steps, StepStore
from builders.commits import files_of, recovered, seen, store_bytes
from builders.folders import write_files
from commit_cases import CASES, Case
from sampling import Sample

from zarrfuse.errors import ZarrfuseError
from zarrfuse.stores.base import OWN_NAME, WritableStore
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.journal import Journal, Part, key_of, text_of
from zarrfuse.transactions.recovered_view import rolled_forward

MOST_STEPS = 200
EVERY = 3
"""Of so many steps one is tried by default."""


def run(case: Case, wrapped: StepStore, *, close: bool = True) -> BaseException | None:
    """Do what the case does; what it raised."""
    commits = Commits(rolled_forward(wrapped))
    try:
        case.act(commits)
    except (OSError, ZarrfuseError) as error:
        return error
    finally:
        if close:
            commits.close()
    return None


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_failing_step_leaves_the_old_chunk_or_the_new(
    case: Case, when: str, tmp_path: Path, sample: Sample
) -> None:
    def fail() -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for step in sample.steps(MOST_STEPS, every=EVERY):
        root = tmp_path / str(step)
        root.mkdir()
        write_files(root, case.old)
        inner = WritableLocalStore(str(root))
        steps = Steps(step, fail)
        wrapped = StepStore(inner, steps) if when == "before" else StepStore(inner, nothing, steps)
        error = run(case, wrapped)
        now = seen(root)
        # A step that was done and says that it was not may be the last of all.
        assert now in ((case.old,) if error and when == "before" else (case.old, case.new))
        assert recovered(root) == now
        if error is None:
            assert now == case.new
        inner.close()
        if steps.count <= step:
            assert error is None
            break
    else:
        raise AssertionError("it has no end")


def nothing(call: str, key: str) -> None:
    """Let a step pass."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_all_steps_from_one_on_fail(case: Case, tmp_path: Path, sample: Sample) -> None:
    """As on a disk that is full, or has gone read-only."""
    for step in sample.steps(MOST_STEPS, every=EVERY):
        root = tmp_path / str(step)
        root.mkdir()
        write_files(root, case.old)
        inner = WritableLocalStore(str(root))
        count = 0

        def fail(call: str, key: str, step: int = step) -> None:
            nonlocal count
            count += 1
            if count > step:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        error = run(case, StepStore(inner, fail))
        now = seen(root)
        assert now in (case.old, case.new)
        assert recovered(root) == now
        inner.close()
        if count <= step:
            assert error is None
            assert now == case.new
            break
    else:
        raise AssertionError("it has no end")


def test_who_writes_sees_what_could_not_be_moved_until_the_next_commit_moves_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "c").mkdir()
    inner: WritableStore = WritableLocalStore(str(tmp_path))
    broken = True

    def fail(call: str, key: str) -> None:
        nonlocal moves
        if call == "rename" and not key.endswith("journal"):
            moves += 1
            # 1 is that of the journal, 2 the first part, 3 the second: it fails, and nothing can be
            # put back, either.
        if broken and moves > 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    moves = 0
    commits = Commits(rolled_forward(StepStore(inner, fail)))
    store_bytes(commits, "c", {"c/0": b"new", "c/1": b"new"})  # it counts
    assert files_of(commits.store) == {"c/0": b"new", "c/1": b"new"}
    assert not (tmp_path / "c/1").exists()
    broken = False
    store_bytes(commits, "c", {"c/0": b"newer"})
    assert files_of(commits.store) == {"c/0": b"newer", "c/1": b"new"}
    commits.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c"]


@pytest.mark.parametrize("when", ["before", "between", "after"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_failing_step_in_a_store_of_keys_leaves_the_old_chunk_or_the_new(
    case: Case, when: str, sample: Sample
) -> None:
    def fail() -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for step in sample.steps(MOST_STEPS, every=EVERY):
        inner = KeysStore(case.old)
        steps = Steps(step, fail)
        inner.between = steps if when == "between" else nothing
        wrapped = StepStore(
            inner, steps if when == "before" else nothing, steps if when == "after" else nothing
        )
        error = run(case, wrapped, close=False)
        now = files_of(rolled_forward(inner))
        renamed_one = case.name == "store file 1" and when == "between"  # both names, said in docs
        assert now in (case.old, case.new) or (renamed_one and now == case.old | case.new)
        if error is None:
            assert now == case.new
        inner.mtime_ns = 1  # as seen by who comes a day later
        later = Commits(inner)
        later.recover()
        later.close()
        assert files_of(inner) == now
        assert not [key for key in inner.files if key.startswith(OWN_NAME)]
        if steps.count <= step:
            assert error is None
            break
    else:
        raise AssertionError("it has no end")


def test_a_young_journal_in_a_store_of_keys_is_left_to_who_made_it() -> None:
    journal = Journal("c", (Part("c/0", f"{OWN_NAME}/w-1/0"),))
    inner = KeysStore({f"{OWN_NAME}/w-1/0": b"1", key_of("c"): text_of(journal)})
    commits = Commits(rolled_forward(inner))
    commits.recover()
    assert sorted(inner.files) == sorted([f"{OWN_NAME}/w-1/0", key_of("c")])
    store_bytes(commits, "c", {"c/1": b"2"})  # the same chunk
    assert inner.files == {"c/0": b"1", "c/1": b"2"}
    commits.close()
