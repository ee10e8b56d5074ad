"""Readers of a chunk in several parts, who take no lock and may not look at journals: never a mix."""

import errno
import os
from pathlib import Path

import pytest
from builders.commit_stores import Steps, StepStore
from builders.commits import content_and_close, readers, store_bytes
from builders.folders import write_files
from builders.other_users import DONE, STRANGER, as_user, public_folder
from builders.processes import open_files
from commit_cases import CASES, Case

from zarrfuse.errors import Stale, ZarrfuseError
from zarrfuse.stores.base import Reader
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions import snapshot as snapshot_module
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.recovered_view import rolled_forward

OLD = {f"c/{part}": b"old" for part in range(3)}
NEW = {f"c/{part}": b"new" for part in range(3)}
MOST_STEPS = 200


@pytest.fixture
def no_naps(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not whole will not become so in these tests."""
    monkeypatch.setattr(snapshot_module, "_NAPS_S", (0.0,))


def seen(root: Path, keys: list[str]) -> list[bytes | None]:
    """What is opened of the parts, by who has no journals."""
    store = LocalStore(str(root))
    found = readers(store, "c", keys)
    store.close()
    return [None if each is None else content_and_close(each) for each in found]


def check_is_no_mix(root: Path, case: Case) -> None:
    keys = sorted(key for key in {**case.old, **case.new} if not key.endswith(".partial"))
    found = seen(root, keys)
    old, new = ([files.get(key) for key in keys] for files in (case.old, case.new))
    assert None in found or found in (old, new)  # nobody takes it for whole where one is missing


SEVERAL = [case for case in CASES if len(case.new) > 1 or len(case.old) > 1]


@pytest.mark.parametrize("fails", [False, True], ids=["it is stored", "a step fails"])
@pytest.mark.parametrize("case", SEVERAL, ids=lambda case: case.name)
def test_readers_see_no_mix_at_any_step(
    case: Case, fails: bool, tmp_path: Path, no_naps: None
) -> None:
    def fail() -> None:
        if fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    for number in range(MOST_STEPS):
        root = tmp_path / str(number)
        root.mkdir()
        write_files(root, case.old)
        steps = Steps(number, fail)

        def step(call: str, key: str, root: Path = root, steps: Steps = steps) -> None:
            check_is_no_mix(root, case)
            steps(call, key)

        inner = WritableLocalStore(str(root))
        commits = Commits(StepStore(inner, step))
        try:
            case.act(commits)
        except (OSError, ZarrfuseError):
            assert fails
        commits.close()
        check_is_no_mix(root, case)
        inner.close()
        if steps.count <= number or not fails:
            return
    raise AssertionError("it has no end")


class Meanwhile(LocalStore):
    """Between two opens others do something."""

    opens = 0

    def open(self, key: str, *, wait: bool = True) -> Reader:
        """See `base.Store`."""
        self.opens += 1
        self.between(self.opens)
        return super().open(key, wait=wait)

    def between(self, opens: int) -> None:
        """What is done before the open of that number."""


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_what_is_stored_while_it_is_opened_is_opened_again(tmp_path: Path, number: int) -> None:
    write_files(tmp_path, OLD)

    class Once(Meanwhile):
        def between(self, opens: int) -> None:
            if opens == number:
                commits = Commits(WritableLocalStore(str(tmp_path)))
                store_bytes(commits, "c", NEW)
                commits.close()

    before = len(open_files())
    store = Once(str(tmp_path))
    found = [content_and_close(each) for each in readers(store, "c", list(OLD)) if each is not None]
    assert found == list((OLD if number == 4 else NEW).values())
    store.close()
    assert store.opens == (3 if number in (1, 4) else 6)
    assert len(open_files()) <= before + 1  # the root of who has stored


def test_what_is_stored_all_the_time_is_given_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_module, "_CHANGES_TOLERATED", 5)
    write_files(tmp_path, OLD)
    commits = Commits(WritableLocalStore(str(tmp_path)))

    class Always(Meanwhile):
        def between(self, opens: int) -> None:
            if opens % 3 == 2:
                store_bytes(commits, "c", NEW)

    store = Always(str(tmp_path))
    with pytest.raises(Stale, match="again and again"):
        readers(store, "c", list(OLD))
    commits.close()
    store.close()


def test_a_stranger_reads_no_mix_while_it_is_stored() -> None:
    with public_folder() as root:
        write_files(root, OLD)

        def look() -> None:
            store = rolled_forward(LocalStore(str(root)))
            while not (root / "done").exists():
                found = [
                    None if each is None else content_and_close(each)
                    for each in readers(store, "c", list(OLD))
                ]
                assert len(set(found)) == 1

        pid = os.fork()
        if pid == 0:
            os._exit(as_user(STRANGER, look))
        commits = Commits(WritableLocalStore(str(root)))
        for number in range(100):
            store_bytes(commits, "c", dict.fromkeys(OLD, b"%d" % number))
        commits.close()
        (root / "done").touch()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == DONE
