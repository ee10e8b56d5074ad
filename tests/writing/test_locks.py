"""Locks of chunks, between threads and between processes, and for who only reads."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes import MemoryStore
from writing.stores import store_bytes

from zarrfuse.errors import Stale
from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local import LocalStore
from zarrfuse.stores.local_writing import WritableLocalStore
from zarrfuse.writing import ofd
from zarrfuse.writing.commits import Commits
from zarrfuse.writing.locks import Locks


@pytest.fixture
def commits(tmp_path: Path) -> Iterator[Commits]:
    """Commits with a workspace that is there."""
    commits = Commits(WritableLocalStore(str(tmp_path)))
    commits.spool().close()
    yield commits
    commits.close()


@contextmanager
def held_by_child(root: Path, *, exclusive: bool) -> Iterator[None]:
    """Another process holds the lock of the chunk `c`."""
    ready, done = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            commits = Commits(WritableLocalStore(str(root)))
            lock = commits.locks.exclusive if exclusive else commits.locks.locked
            commits.spool().close()
            with lock("c"):
                os.write(ready[1], b"1")
                os.close(done[1])
                os.read(done[0], 1)
            commits.close()
        finally:
            os._exit(0)
    assert os.read(ready[0], 1) == b"1"
    try:
        yield
    finally:
        os.write(done[1], b"1")
        os.waitpid(pid, 0)
        for fd in (*ready, *done):
            os.close(fd)


def test_a_chunk_that_another_process_writes_is_waited_for(
    commits: Commits, tmp_path: Path
) -> None:
    for locks in (commits.locks, Locks(LocalStore(str(tmp_path)))):
        with held_by_child(tmp_path, exclusive=True):
            with pytest.raises(BlockingIOError), locks.locked("c", wait=False):
                pass
            with locks.locked("another"):
                pass
        with locks.locked("c"):
            pass


def test_readers_share_a_chunk_and_keep_out_who_writes(commits: Commits, tmp_path: Path) -> None:
    with held_by_child(tmp_path, exclusive=False):
        with commits.locks.locked("c"), Locks(LocalStore(str(tmp_path))).locked("c"):
            pass
        with pytest.raises(BlockingIOError), commits.locks.exclusive("c", wait=False):
            pass
    with commits.locks.exclusive("c", wait=False):
        pass


def test_threads_keep_each_other_out(commits: Commits) -> None:
    inside, most = 0, 0
    guard = threading.Lock()

    def work() -> None:
        nonlocal inside, most
        for _ in range(50):
            with commits.locks.exclusive("c"):
                with guard:
                    inside += 1
                    most = max(most, inside)
                with guard:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_two_users_in_one_process_keep_each_other_out(commits: Commits, tmp_path: Path) -> None:
    other = Commits(WritableLocalStore(str(tmp_path)))
    with commits.locks.exclusive("c"):
        with pytest.raises(BlockingIOError), other.locks.exclusive("c", wait=False):
            pass
        with pytest.raises(BlockingIOError), other.locks.locked("c", wait=False):
            pass
    other.close()


def test_who_only_reads_makes_nothing(tmp_path: Path) -> None:
    locks = Locks(LocalStore(str(tmp_path)))
    with locks.locked("c"), locks.locked("d"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_no_folder_has_locks_in_this_process_only() -> None:
    locks = Locks(MemoryStore({}))
    with locks.locked("c"), pytest.raises(BlockingIOError), locks.locked("c", wait=False):
        pass


def test_who_reads_while_the_first_writer_comes_has_to_look_again(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.list("")
    for wait, error in ((True, Stale), (False, BlockingIOError)):
        locks = Locks(store)
        commits = Commits(WritableLocalStore(str(tmp_path)))
        with pytest.raises(error), locks.locked("c", wait=wait):
            commits.spool().close()
        with locks.locked("c"):
            pass
        commits.close()


def test_a_lock_file_that_has_been_deleted_is_no_lock(tmp_path: Path) -> None:
    first = Commits(WritableLocalStore(str(tmp_path)))
    reader = Locks(LocalStore(str(tmp_path)))
    first.spool().close()
    with reader.locked("c"):
        pass
    first.close()
    second = Commits(WritableLocalStore(str(tmp_path)))
    with (
        second.locks.exclusive("c"),
        pytest.raises(BlockingIOError),
        reader.locked("c", wait=False),
    ):
        pass
    second.close()


def test_a_lock_file_that_may_not_be_opened_is_no_obstacle_for_who_reads(
    commits: Commits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = Locks(LocalStore(str(tmp_path)))
    real = os.open

    def denied(path: str, *arguments: int, **options: int) -> int:
        if str(path).endswith("/lock"):
            raise PermissionError(13, "denied")
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", denied)
    for wait in (True, False):
        with locks.locked("c", wait=wait):
            pass


def test_a_file_system_without_locks_is_written_to_and_said_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_locks(*arguments: object, **options: object) -> None:
        raise ofd.NoLocksHere

    monkeypatch.setattr(ofd, "lock", no_locks)
    monkeypatch.setattr("zarrfuse.writing.workspace._said_no_locks", False)
    commits = Commits(WritableLocalStore(str(tmp_path)))
    store_bytes(commits, "c", {"c/0": b"1", "c/1": b"2"})
    with Locks(LocalStore(str(tmp_path))).locked("c"):
        pass
    commits.close()
    assert len([each for each in caplog.records if "no locks" in each.message]) == 1
    assert (tmp_path / "c/0").read_bytes() == b"1"
    assert not (tmp_path / OWN_NAME).exists()


def test_a_child_process_has_locks_of_its_own(commits: Commits) -> None:
    with commits.locks.exclusive("c"):
        pid = os.fork()
        if pid == 0:
            try:
                with commits.locks.exclusive("c", wait=False):
                    os._exit(0)
            except BlockingIOError:
                os._exit(7)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
