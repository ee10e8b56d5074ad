"""Commits as they go well: what is stored, replaced, deleted, and that nothing else is left."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.commits import files_of, store_bytes
from builders.folders import write_files

from zarrfuse.errors import Exists, NotFound
from zarrfuse.stores.access import Change
from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.recovered_view import rolled_forward
from zarrfuse.transactions.spool import StoreOptions, Target


@pytest.fixture(params=["workspace", "spool-dir"])
def commits(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Commits]:
    """Commits on an empty local store, with spool files in either place."""
    (tmp_path / "data").mkdir()
    (tmp_path / "spool").mkdir()
    store = rolled_forward(WritableLocalStore(str(tmp_path / "data")))
    spool_dir = None if request.param == "workspace" else str(tmp_path / "spool")
    commits = Commits(store, spool_dir)
    yield commits
    commits.close()
    store.close()
    assert not (tmp_path / "data" / OWN_NAME).exists()
    assert list((tmp_path / "spool").iterdir()) == []


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_chunk_is_stored_in_its_parts_and_replaced(commits: Commits, count: int) -> None:
    for text in (b"old", b"newer"):
        parts = {f"a/c/0/{part}": text + bytes([part]) for part in range(count)}
        store_bytes(commits, "a/c/0", parts)
        assert files_of(commits.store) == parts


def test_parts_in_folders_of_their_own_are_stored(commits: Commits) -> None:
    parts = {"a/c/0/0.head": b"1", "a/c/0/0/body": b"2", "x/y/z": b""}
    store_bytes(commits, "a/c/0/0", parts)
    assert files_of(commits.store) == parts


def test_names_that_are_not_text_are_stored(commits: Commits) -> None:
    odd = os.fsdecode(b"\xff")
    parts = {f"{odd}/0": b"1", f"{odd}/1": b"2"}
    store_bytes(commits, odd, parts)
    assert files_of(commits.store) == parts


@pytest.mark.parametrize("count", [1, 2])
def test_a_new_chunk_replaces_nothing(commits: Commits, count: int) -> None:
    parts = {f"c/{part}": b"old" for part in range(count)}
    store_bytes(commits, "c", {"c/0": b"old"}, new=True)
    with pytest.raises(Exists):
        store_bytes(commits, "c", dict.fromkeys(parts, b"new"), new=True)
    assert files_of(commits.store) == {"c/0": b"old"}


@pytest.mark.parametrize("count", [1, 2])
def test_the_time_that_was_set_is_stored(commits: Commits, count: int) -> None:
    spool = commits.spool()
    os.write(spool.fd, b"1234")
    cuts = [(0, 4)] if count == 1 else [(0, 1), (1, 4)]
    targets = [Target(f"c/{start}", start, stop) for start, stop in cuts]
    commits.store_spool("c", targets, spool, StoreOptions(mtime_ns=12_000_000_345))
    spool.close()
    assert [commits.store.stat(each.key).mtime_ns for each in targets] == [12_000_000_345] * count


def test_a_spool_that_is_given_is_the_stored_file_and_stays_when_closed(tmp_path: Path) -> None:
    commits = Commits(WritableLocalStore(str(tmp_path)))
    spool = commits.spool()
    os.write(spool.fd, b"1234")
    commits.store_spool("c/0", [Target("c/0", 0, 4)], spool, StoreOptions(sync=True))
    assert spool.is_given
    assert os.fstat(spool.fd).st_ino == (tmp_path / "c/0").stat().st_ino
    spool.close()
    commits.close()
    assert (tmp_path / "c/0").read_bytes() == b"1234"


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("keep", [True, False])
def test_a_stored_file_becomes_a_chunk(commits: Commits, count: int, keep: bool) -> None:
    store_bytes(commits, "tmp", {"tmp": b"123"})
    commits.store.change("tmp", Change(mtime_ns=5_000_000_000))
    store_bytes(commits, "c", {f"c/{part}": b"old" for part in range(count)})
    cuts = [(0, 3)] if count == 1 else [(0, 1), (1, 2), (2, 3)]
    targets = [Target(f"c/{n}", *cut) for n, cut in enumerate(cuts)]
    commits.store_file("c", targets, "tmp", keep=keep)
    expected = {target.key: b"123"[target.start : target.stop] for target in targets}
    assert files_of(commits.store) == expected | ({"tmp": b"123"} if keep else {})
    assert commits.store.stat("c/0").mtime_ns == 5_000_000_000


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("keep", [True, False])
def test_a_stored_file_that_becomes_a_new_chunk_replaces_nothing(
    commits: Commits, count: int, keep: bool
) -> None:
    files = {"tmp": b"12", "c/0": b"old"}
    for key, data in files.items():
        store_bytes(commits, key, {key: data})
    cuts = [(0, 2)] if count == 1 else [(0, 1), (1, 2)]
    targets = [Target(f"c/{n}", *cut) for n, cut in enumerate(cuts)]
    with pytest.raises(Exists):
        commits.store_file("c", targets, "tmp", keep=keep, new=True)
    assert files_of(commits.store) == files


def test_deleting_passes_over_what_is_absent_and_wants_something_to_delete(
    commits: Commits, tmp_path: Path
) -> None:
    write_files(tmp_path / "data", {"c/0": b"", "c/1": b"", "c/2": b"", "d": b""})
    commits.delete("c", ["c/0", "c/7"])
    commits.delete("c", ["c/0", "c/1", "c/2"])
    assert files_of(commits.store) == {"d": b""}
    with pytest.raises(NotFound):
        commits.delete("c", ["c/1", "c/2"])
    commits.delete("d", ["d"])
    with pytest.raises(NotFound):
        commits.delete("d", ["d"])


def test_a_replaced_chunk_is_still_read_by_who_opened_it(commits: Commits) -> None:
    store_bytes(commits, "c", {"c/0": b"old", "c/1": b"old"})
    reader = commits.store.open("c/1")
    store_bytes(commits, "c", {"c/0": b"new", "c/1": b"new"})
    buffer = bytearray(3)
    reader.readinto(memoryview(buffer), 0)
    reader.close()
    assert buffer == b"old"
