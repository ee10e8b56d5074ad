"""A private copy behaves as a file of its own, and is stored whole."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes import MemoryReader
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples
from writing.stores import files_of

from zarrfuse.stores.base import OWN_NAME, Reader, read
from zarrfuse.stores.local_writing import WritableLocalStore
from zarrfuse.writing.commits import Commits, Target
from zarrfuse.writing.spool import Spool, nameless_spool
from zarrfuse.writing.spooled import SpooledWriter

offsets = st.integers(0, 40)
steps = st.one_of(
    st.tuples(st.just("write"), offsets, st.binary(max_size=20)),
    st.tuples(st.just("truncate"), offsets),
    st.tuples(st.just("store"), st.booleans()),
    st.tuples(st.just("reopen"), st.booleans()),
)


def storing_in(
    commits: Commits, parts: int, *, start: int = 5
) -> Callable[[Spool, int | None, bool], None]:
    """Stores the chunk `c` as `c/0`, and if there are more, its first bytes as that."""

    def storing(spool: Spool, mtime_ns: int | None, sync: bool) -> None:
        cut = min(start, spool.size)
        targets = [Target("c/0", 0, spool.size)]
        if parts > 1:
            targets = [Target("c/0", 0, cut), Target("c/1", cut, spool.size)]
        commits.store_spool("c", targets, spool, mtime_ns=mtime_ns, sync=sync)

    return storing


class Joined:
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


def contents(reader: Reader) -> bytes:
    """All its bytes."""
    buffer = bytearray(reader.size)
    reader.readinto(memoryview(buffer), 0)
    return bytes(buffer)


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from([1, 2]), st.booleans(), st.lists(steps, max_size=12))
def test_it_is_as_a_bytearray_and_what_is_stored_as_a_copy_of_it(
    parts: int, elsewhere: bool, actions: list[tuple[object, ...]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        commits = Commits(WritableLocalStore(folder), tempfile.gettempdir() if elsewhere else None)
        storing = storing_in(commits, parts)
        writer, model, stored, changed = SpooledWriter(commits, storing), bytearray(), None, True
        for action in actions:
            match action:
                case ("write", int(offset), bytes(data)):
                    writer.write(data, offset)
                    if data and offset > len(model):
                        model.extend(bytes(offset - len(model)))
                    model[offset : offset + len(data)] = data
                    changed = True
                case ("truncate", int(size)):
                    writer.truncate(size)
                    del model[size:]
                    model.extend(bytes(size - len(model)))
                    changed = True
                case ("store", bool(sync)):
                    assert writer.store(sync=sync) is changed
                    stored, changed = bytes(model), False
                case ("reopen", bool(by_file)) if stored is not None:
                    writer.close()

                    def base(by_file: bool = by_file) -> Reader:
                        is_one = by_file and parts == 1
                        return commits.store.open("c/0") if is_one else Joined(commits)

                    model = bytearray(contents(base()))
                    writer, changed = SpooledWriter(commits, storing, base=base), False
            assert writer.changed is changed
            assert writer.size == len(model)
            assert contents(writer) == model
            if stored is not None:
                assert contents(Joined(commits)) == stored
        writer.close()
        commits.close()
        assert not (Path(folder) / OWN_NAME).exists()


@pytest.fixture
def commits(tmp_path: Path) -> Commits:
    """Commits on a store with one chunk in one part."""
    (tmp_path / "c").mkdir()
    (tmp_path / "c/0").write_bytes(b"old")
    return Commits(WritableLocalStore(str(tmp_path)))


def test_nothing_is_copied_before_the_first_change(commits: Commits, tmp_path: Path) -> None:
    writer = SpooledWriter(commits, storing_in(commits, 1), base=lambda: commits.store.open("c/0"))
    assert (contents(writer), writer.changed, writer.store()) == (b"old", False, False)
    assert not (tmp_path / OWN_NAME).exists()
    writer.write(b"N", 0)
    assert (tmp_path / "c/0").read_bytes() == b"old"
    assert (contents(writer), writer.changed, writer.store()) == (b"Nld", True, True)
    assert (tmp_path / "c/0").read_bytes() == b"Nld"
    writer.close()
    commits.close()


def test_who_opened_before_keeps_the_old_bytes_when_it_changes_after_it_was_stored(
    commits: Commits,
) -> None:
    writer = SpooledWriter(commits, storing_in(commits, 1))
    writer.write(b"first", 0)
    writer.store()
    reader = commits.store.open("c/0")
    writer.write(b"SECON", 0)
    assert (contents(reader), contents(writer)) == (b"first", b"SECON")
    writer.close()
    assert read(commits.store, "c/0") == b"first"
    commits.close()


def test_after_an_error_it_is_as_before_and_still_changed(commits: Commits) -> None:
    fails = True

    def storing(spool: Spool, mtime_ns: int | None, sync: bool) -> None:
        if fails:
            raise OSError(28, "full")
        storing_in(commits, 1)(spool, mtime_ns, sync)

    stored: list[bool] = []
    writer = SpooledWriter(commits, storing, on_store=lambda: stored.append(True))
    writer.write(b"new", 0)
    with pytest.raises(OSError, match="full"):
        writer.store()
    assert (contents(writer), writer.changed, stored) == (b"new", True, [])
    assert read(commits.store, "c/0") == b"old"
    fails = False
    assert writer.store()
    assert (writer.changed, stored) == (False, [True])
    assert read(commits.store, "c/0") == b"new"
    writer.close()
    commits.close()


@pytest.mark.parametrize("parts", [1, 2])
def test_a_time_that_is_set_is_stored_before_and_after_the_bytes(
    commits: Commits, parts: int
) -> None:
    writer = SpooledWriter(commits, storing_in(commits, parts))
    writer.write(b"1234567", 0)
    for time_ns in (3_000_000_000, 4_000_000_000):
        writer.set_mtime(time_ns)
        writer.store()
        assert writer.mtime_ns == time_ns
        assert {e.mtime_ns for e in commits.store.list("c").values()} == {time_ns}
    writer.set_mtime(5_000_000_000)
    writer.write(b"x", 0)  # changed now, and not then
    writer.store()
    assert commits.store.stat("c/0").mtime_ns > 10**18
    writer.close()
    commits.close()


def test_a_time_that_is_set_of_what_never_changed_is_passed_on(commits: Commits) -> None:
    told: list[int] = []
    writer = SpooledWriter(
        commits,
        storing_in(commits, 1),
        base=lambda: commits.store.open("c/0"),
        touch=told.append,
    )
    writer.set_mtime(3)
    assert (told, writer.changed) == ([3], False)
    writer.close()
    commits.close()


def test_what_was_not_stored_is_lost_when_it_is_closed(commits: Commits, tmp_path: Path) -> None:
    writer = SpooledWriter(commits, storing_in(commits, 1))
    writer.write(b"new", 0)
    writer.close()
    writer.close()
    commits.close()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["0", "c"]
    assert (tmp_path / "c/0").read_bytes() == b"old"


def test_a_spool_elsewhere_has_no_name(tmp_path: Path) -> None:
    spool = nameless_spool(str(tmp_path))
    os.write(spool.fd, b"1234")
    assert spool.size == 4
    assert list(tmp_path.iterdir()) == []
    spool.close()
