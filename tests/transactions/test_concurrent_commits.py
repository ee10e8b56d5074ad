"""What goes on at the same time: commits while the store is closed, readers, other processes."""

import errno
import os
import threading
from pathlib import Path

import pytest
from builders.commit_stores import KeysStore, StepStore
from builders.commits import files_of, recovered, store_bytes
from builders.fake_stores import MemoryReader
from builders.folders import write_files

from zarrfuse.errors import Corrupt, Denied, NotSupported, TimedOut
from zarrfuse.stores.base import OWN_NAME, Reader
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions import commits as commits_module
from zarrfuse.transactions import journal as journals
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.journal import Journal, Part, key_of, text_of
from zarrfuse.transactions.local_workspace import LocalWorkspace
from zarrfuse.transactions.spool import Spool, Target
from zarrfuse.transactions.working_copy import WorkingCopy

OLD = {"c/0": b"old", "c/1": b"old"}
NEW = {"c/0": b"new", "c/1": b"new"}


def test_closing_takes_nothing_from_under_a_commit_of_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits_module, "CLOSE_WAITS_S", 0.0)
    write_files(tmp_path, OLD)
    has_begun, may_go_on = threading.Event(), threading.Event()

    def step(call: str, key: str) -> None:
        if call == "rename" and not has_begun.is_set():  # of the journal
            has_begun.set()
            may_go_on.wait()

    commits = Commits(StepStore(WritableLocalStore(str(tmp_path)), step))
    thread = threading.Thread(target=store_bytes, args=(commits, "c", NEW))
    thread.start()
    has_begun.wait()
    commits.close()
    may_go_on.set()
    thread.join()
    assert {key: (tmp_path / key).read_bytes() for key in NEW} == NEW
    commits.close()
    assert recovered(tmp_path) == NEW


def test_a_temporary_part_that_is_gone_is_an_error_and_the_old_chunk_stays(tmp_path: Path) -> None:
    write_files(tmp_path, OLD)
    inner = WritableLocalStore(str(tmp_path))
    renamed: list[str] = []

    def step(call: str, key: str) -> None:
        if call == "rename":
            renamed.append(key)
            if len(renamed) == 3:  # the journal, the first part, the second
                inner.remove(key)

    commits = Commits(StepStore(inner, step))
    with pytest.raises(Corrupt):
        store_bytes(commits, "c", NEW)
    commits.close()
    assert recovered(tmp_path) == OLD


def test_the_folder_is_deleted_without_keeping_off_who_holds_a_lock(tmp_path: Path) -> None:
    class Workspace(LocalWorkspace):
        def _delete_unused(self) -> None:
            """As a commit would do it that holds a lock which is waited for."""
            made.append(self.temporary())

    made: list[str] = []
    workspace = Workspace(WritableLocalStore(str(tmp_path)).own)
    workspace.close()
    assert len(made) == 1


def test_bytes_are_written_before_the_lock_is_taken(tmp_path: Path) -> None:
    taken: list[bool] = []

    def step(call: str, key: str) -> None:
        if call in ("put", "edit"):
            try:
                with commits.locks.exclusive("c", timeout_s=0):
                    taken.append(False)
            except TimedOut:
                taken.append(True)

    commits = Commits(StepStore(WritableLocalStore(str(tmp_path)), step))
    store_bytes(commits, "c", NEW)
    commits.close()
    assert taken == [False, False, True]  # two parts and the journal


# -- what outlives the machine


def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The files that are synced from now on, by inode."""
    inodes: list[int] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        inodes.append(os.fstat(fd).st_ino)
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    return inodes


def test_a_file_that_was_not_changed_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, {"c": b"old"})
    store = WritableLocalStore(str(tmp_path))
    commits = Commits(store)
    copy = WorkingCopy(commits, store.open("c"))
    inodes = synced(monkeypatch)
    copy.sync()
    assert inodes == [(tmp_path / "c").stat().st_ino]
    copy.close()


def test_what_was_stored_without_a_sync_is_synced_when_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = Commits(WritableLocalStore(str(tmp_path)))
    copy = WorkingCopy(commits)
    copy.write(b"new", 0)
    inodes = synced(monkeypatch)
    with copy.to_store() as (spool, _):
        commits.store_spool("c", [Target("c", 0, spool.size)], spool)
    assert (tmp_path / "c").stat().st_ino not in inodes
    copy.sync()
    assert (tmp_path / "c").stat().st_ino in inodes
    copy.close()
    commits.close()


def test_what_is_copied_from_a_spool_elsewhere_is_synced_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    commits = Commits(WritableLocalStore(str(tmp_path / "data")), str(tmp_path))
    inodes = synced(monkeypatch)
    store_bytes(commits, "c", {"c": b"new"}, sync=False)
    assert (tmp_path / "data/c").stat().st_ino in inodes
    commits.close()


# -- the size while a copy takes the place of another


def test_the_size_is_never_that_of_what_was_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    class Base(MemoryReader):
        def close(self) -> None:
            seen.append(copy.size)

    commits = Commits(WritableLocalStore(str(tmp_path)))
    copy = WorkingCopy(commits, Base(b"1234"))
    copy.write(b"5", 0)
    with copy.to_store() as (spool, _):
        commits.store_spool("c", [Target("c", 0, spool.size)], spool)
    close = Spool.close

    def closing(spool: Spool) -> None:
        close(spool)
        seen.append(copy.size)

    monkeypatch.setattr(Spool, "close", closing)
    copy.write(b"6", 0)
    assert seen == [4, 4]
    copy.close()
    commits.close()


# -- journals that are no use


class DeniedStore(WritableLocalStore):
    """One journal may not be read."""

    def open(self, key: str, *, wait: bool = True) -> Reader:
        """See `base.Store`."""
        if key == key_of("denied"):
            raise Denied(f"{key} may not be read")
        return super().open(key, wait=wait)


def test_a_journal_that_may_not_be_read_stays_with_all_parts_and_others_are_done(
    tmp_path: Path,
) -> None:
    folder = f"{OWN_NAME}/w-1"
    denied = Journal("denied", (Part("denied/0", f"{folder}/0"),))
    other = Journal("other", (Part("other/0", f"{folder}/1"),))
    write_files(tmp_path, {f"{folder}/0": b"0", f"{folder}/1": b"1"})
    write_files(tmp_path, {key_of(each.key): text_of(each) for each in (denied, other)})
    commits = Commits(DeniedStore(str(tmp_path)))
    commits.recover()
    commits.close()
    assert (tmp_path / "other/0").read_bytes() == b"1"
    assert (tmp_path / folder / "0").read_bytes() == b"0"
    assert recovered(tmp_path) == {"denied/0": b"0", "other/0": b"1"}


def test_a_key_that_cannot_be_encoded_makes_a_journal_corrupt() -> None:
    journal = Journal("c", (Part("\ud800", None),))
    store = KeysStore({key_of("c"): text_of(journal)})
    with pytest.raises(Corrupt):
        journals.load(store, journals.name_of("c"))


def test_a_journal_too_large_to_be_read_is_not_put(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "_LARGEST", 100)
    store = KeysStore(OLD)
    commits = Commits(store)
    with pytest.raises(NotSupported):
        store_bytes(commits, "c", NEW)
    commits.close()
    assert store.files == OLD


@pytest.mark.parametrize("what", ["write", "sync"])
def test_of_a_journal_that_cannot_be_written_nothing_is_left(tmp_path: Path, what: str) -> None:
    def fail(call: str, key: str) -> None:
        if call == what:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / OWN_NAME).mkdir()
    inner = WritableLocalStore(str(tmp_path))
    journal = Journal("c", (Part("c/1", f"{OWN_NAME}/w-1/0"),))
    with pytest.raises(OSError, match="No space"):
        journals.put(StepStore(inner, fail), journal, f"{OWN_NAME}/new")
    inner.close()
    assert not list((tmp_path / OWN_NAME).iterdir())


# -- two processes and one chunk in a store without locks


def test_a_journal_that_another_process_put_meanwhile_is_done_first() -> None:
    inner = KeysStore(OLD)
    theirs = Journal("c", (Part("c/1", f"{OWN_NAME}/w-1/0"), Part("c/2", f"{OWN_NAME}/w-1/1")))
    others = {f"{OWN_NAME}/w-1/0": b"1", f"{OWN_NAME}/w-1/1": b"2", key_of("c"): text_of(theirs)}

    def step(call: str, key: str) -> None:
        if call == "put" and key == key_of("c"):
            inner.files.update(others)
            others.clear()

    commits = Commits(StepStore(inner, step))
    store_bytes(commits, "c", NEW)
    commits.close()
    assert inner.files == NEW | {"c/2": b"2"}


def test_a_journal_of_another_process_is_not_deleted_with_ours() -> None:
    inner = KeysStore(OLD)
    theirs = text_of(Journal("c", (Part("c/0", f"{OWN_NAME}/w-1/0"),)))

    def after(call: str, key: str) -> None:
        if call == "rename":
            inner.files[key_of("c")] = theirs

    commits = Commits(StepStore(inner, lambda call, key: None, after))
    store_bytes(commits, "c", NEW)
    commits.close()
    assert inner.files == NEW | {key_of("c"): theirs}


def test_a_commit_gives_up_when_others_store_the_chunk_all_the_time() -> None:
    inner = KeysStore(OLD)
    theirs = text_of(Journal("c", (Part("d", None),)))

    def step(call: str, key: str) -> None:
        if call == "put" and key == key_of("c"):
            inner.files[key_of("c")] = theirs

    commits = Commits(StepStore(inner, step))
    with pytest.raises(OSError) as caught:
        store_bytes(commits, "c", NEW)
    assert caught.value.errno == errno.EBUSY
    commits.close()
    assert files_of(inner) == OLD
