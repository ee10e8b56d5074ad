"""A working copy behaves as a file of its own, and is stored whole."""

import os
import tempfile
from pathlib import Path

import pytest
from builders.commits import files_of
from builders.fake_stores import MemoryReader
from builders.readers import read_all
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from zarrfuse.stores.access import Change
from zarrfuse.stores.base import OWN_NAME, Reader, read
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.spool import Target, nameless_spool
from zarrfuse.transactions.working_copy import WorkingCopy

offsets = st.integers(0, 40)
steps = st.one_of(
    st.tuples(st.just("write"), offsets, st.binary(max_size=20)),
    st.tuples(st.just("truncate"), offsets),
    st.tuples(st.just("store"), st.booleans()),
    st.tuples(st.just("reopen"), st.booleans()),
)


def store(
    commits: Commits, copy: WorkingCopy, *, parts: int = 1, start: int = 5, sync: bool = False
) -> None:
    """Store the chunk `c` as `c/0`, and if there are more parts, its first bytes as that."""
    with copy.to_store(sync=sync) as (spool, options):
        cut = min(start, spool.size)
        targets = [Target("c/0", 0, spool.size)]
        if parts > 1:
            targets = [Target("c/0", 0, cut), Target("c/1", cut, spool.size)]
        commits.store_spool("c", targets, spool, options)


class Joined(Reader):
    """The parts of the chunk as one file."""

    def __init__(self, commits: Commits) -> None:
        data = b"".join(read(commits.store, key) for key in sorted(files_of(commits.store, "c")))
        self._inner = MemoryReader(data)
        self.size = len(data)
        self.mtime_ns = 7

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        self._inner.readinto(buffer, offset)

    def close(self) -> None:
        """Nothing is held."""


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from([1, 2]), st.booleans(), st.lists(steps, max_size=12))
def test_a_working_copy_is_as_a_bytearray_and_what_is_stored_as_a_copy_of_it(
    parts: int, elsewhere: bool, actions: list[tuple[object, ...]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        commits = Commits(WritableLocalStore(folder), tempfile.gettempdir() if elsewhere else None)
        copy, model, stored, changed = WorkingCopy(commits), bytearray(), None, True
        for action in actions:
            match action:
                case ("write", int(offset), bytes(data)):
                    copy.write(data, offset)
                    if data and offset > len(model):
                        model.extend(bytes(offset - len(model)))
                    model[offset : offset + len(data)] = data
                    changed = True
                case ("truncate", int(size)):
                    copy.truncate(size)
                    del model[size:]
                    model.extend(bytes(size - len(model)))
                    changed = True
                case ("store", bool(sync)):
                    store(commits, copy, parts=parts, sync=sync)
                    stored, changed = bytes(model), False
                case ("reopen", bool(by_file)) if stored is not None:
                    copy.close()
                    is_one = by_file and parts == 1
                    base = commits.store.open("c/0") if is_one else Joined(commits)
                    model = bytearray(read_all(base))
                    copy, changed = WorkingCopy(commits, base), False
            assert copy.changed is changed
            assert copy.size == len(model)
            assert read_all(copy) == model
            if stored is not None:
                assert read_all(Joined(commits)) == stored
        copy.close()
        commits.close()
        assert not (Path(folder) / OWN_NAME).exists()


@pytest.fixture
def commits(tmp_path: Path) -> Commits:
    """Commits on a store with one chunk in one part."""
    (tmp_path / "c").mkdir()
    (tmp_path / "c/0").write_bytes(b"old")
    return Commits(WritableLocalStore(str(tmp_path)))


def test_nothing_is_copied_before_the_first_change(commits: Commits, tmp_path: Path) -> None:
    copy = WorkingCopy(commits, commits.store.open("c/0"))
    assert (read_all(copy), copy.changed) == (b"old", False)
    assert not (tmp_path / OWN_NAME).exists()
    copy.write(b"N", 0)
    assert (tmp_path / "c/0").read_bytes() == b"old"
    assert (read_all(copy), copy.changed) == (b"Nld", True)
    store(commits, copy)
    assert not copy.changed
    assert (tmp_path / "c/0").read_bytes() == b"Nld"
    copy.close()
    commits.close()


def test_what_is_stored_is_not_changed_with_the_copy_that_goes_on(commits: Commits) -> None:
    copy = WorkingCopy(commits)
    copy.write(b"first", 0)
    store(commits, copy)
    reader = commits.store.open("c/0")
    copy.write(b"SECON", 0)
    assert (read_all(reader), read_all(copy)) == (b"first", b"SECON")
    copy.close()
    assert read(commits.store, "c/0") == b"first"
    commits.close()


def test_a_copy_is_stored_under_whatever_name_it_has_by_then(commits: Commits) -> None:
    copy = WorkingCopy(commits, commits.store.open("c/0"))
    for key in ("a", "b"):
        copy.write(key.encode(), 0)
        with copy.to_store() as (spool, _):
            commits.store_spool(key, [Target(key, 0, spool.size)], spool)
    copy.close()
    assert {key: read(commits.store, key) for key in ("a", "b", "c/0")} == {
        "a": b"ald",
        "b": b"bld",
        "c/0": b"old",
    }
    commits.close()


def test_after_an_error_it_is_as_before_and_still_changed(commits: Commits) -> None:
    copy = WorkingCopy(commits, is_new=True)
    copy.write(b"new", 0)
    with pytest.raises(OSError, match="full"), copy.to_store():
        raise OSError(28, "full")
    assert (read_all(copy), copy.changed, copy.is_new) == (b"new", True, True)
    assert read(commits.store, "c/0") == b"old"
    commits.store.remove("c/0")
    store(commits, copy)
    assert (copy.changed, copy.is_new) == (False, False)
    assert read(commits.store, "c/0") == b"new"
    copy.close()
    commits.close()


@pytest.mark.parametrize("parts", [1, 2])
def test_a_time_that_is_set_is_stored_before_and_after_the_bytes(
    commits: Commits, parts: int
) -> None:
    copy = WorkingCopy(commits)
    copy.write(b"1234567", 0)
    for time_ns in (3_000_000_000, 4_000_000_000):
        copy.change(Change(time_ns))
        store(commits, copy, parts=parts)
        assert copy.mtime_ns == time_ns
        assert {e.mtime_ns for e in commits.store.list("c").values()} == {time_ns}
    copy.change(Change(5_000_000_000))
    copy.write(b"x", 0)  # changed now, and not then
    store(commits, copy, parts=parts)
    assert commits.store.stat("c/0").mtime_ns > 10**18
    copy.close()
    commits.close()


def test_what_was_not_stored_is_lost_when_it_is_closed(commits: Commits, tmp_path: Path) -> None:
    copy = WorkingCopy(commits)
    copy.write(b"new", 0)
    copy.close()
    copy.close()
    commits.close()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["0", "c"]
    assert (tmp_path / "c/0").read_bytes() == b"old"


def test_a_spool_elsewhere_has_no_name(tmp_path: Path) -> None:
    spool = nameless_spool(str(tmp_path))
    os.write(spool.fd, b"1234")
    assert spool.size == 4
    assert list(tmp_path.iterdir()) == []
    spool.close()
