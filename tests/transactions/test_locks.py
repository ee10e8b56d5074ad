"""Locks of chunks, between threads and between processes, for who writes."""

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from builders.commit_stores import KeysStore
from builders.commits import store_bytes

from zarrfuse.errors import TimedOut
from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions import locks as locks_module
from zarrfuse.transactions import ofd
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.locks import is_locked


@pytest.fixture
def commits(tmp_path: Path) -> Iterator[Commits]:
    """Commits with a workspace that is there."""
    commits = Commits(WritableLocalStore(str(tmp_path)))
    commits.spool().close()
    yield commits
    commits.close()


@contextmanager
def held_by_child(root: Path) -> Iterator[None]:
    """Another process holds the lock of the chunk `c`."""
    ready, done = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            commits = Commits(WritableLocalStore(str(root)))
            with commits.locks.exclusive("c"):
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
    own = WritableLocalStore(str(tmp_path)).own
    with held_by_child(tmp_path):
        with pytest.raises(TimedOut), commits.locks.exclusive("c", timeout_s=0):
            pass
        with commits.locks.exclusive("another", timeout_s=0):
            pass
        assert is_locked(own, "c")
        assert not is_locked(own, "another")
    with commits.locks.exclusive("c", timeout_s=0):
        pass
    assert not is_locked(own, "c")


@pytest.mark.parametrize("by", ["process", "thread"])
def test_who_waits_long_says_so_once_and_for_what_and_gives_up(
    tmp_path: Path, by: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(locks_module, "SAID_AFTER_S", 0.02)
    commits = Commits(WritableLocalStore(str(tmp_path)), timeout_s=0.2)
    held = held_by_child(tmp_path) if by == "process" else held_by_thread(commits)
    with held, caplog.at_level(logging.WARNING):
        with pytest.raises(TimedOut, match=f"the lock of c, by {tmp_path}/.zarrfuse/lock"):
            store_bytes(commits, "c", {"c/0": b"1", "c/1": b"2"})
        assert [each.getMessage() for each in caplog.records] == [
            f"waiting for another process, which holds the lock of c, by {tmp_path}/.zarrfuse/lock"
        ]
    store_bytes(commits, "c", {"c/0": b"1", "c/1": b"2"})
    commits.close()
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


@contextmanager
def held_by_thread(commits: Commits) -> Iterator[None]:
    """Another thread holds the lock of the chunk `c`."""
    ready, done = threading.Event(), threading.Event()

    def hold() -> None:
        with commits.locks.exclusive("c"):
            ready.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    ready.wait()
    try:
        yield
    finally:
        done.set()
        thread.join()


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
    with (
        commits.locks.exclusive("c"),
        pytest.raises(TimedOut),
        other.locks.exclusive("c", timeout_s=0),
    ):
        pass
    other.close()


def test_a_store_that_is_no_folder_has_locks_in_this_process_only() -> None:
    locks = Commits(KeysStore({})).locks
    with locks.exclusive("c"), pytest.raises(TimedOut), locks.exclusive("c", timeout_s=0):
        pass


def test_a_lock_file_that_has_been_deleted_is_no_lock(tmp_path: Path) -> None:
    first = Commits(WritableLocalStore(str(tmp_path)))
    with first.locks.exclusive("c"):
        pass
    (tmp_path / OWN_NAME / "lock").unlink()
    second = Commits(WritableLocalStore(str(tmp_path)))
    second.spool().close()
    with (
        second.locks.exclusive("c"),
        pytest.raises(TimedOut),
        first.locks.exclusive("c", timeout_s=0),
    ):
        pass
    first.close()
    second.close()
    assert not (tmp_path / OWN_NAME).exists()


def test_a_file_system_without_locks_is_written_to_and_said_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_locks(*arguments: object, **options: object) -> None:
        raise ofd.NoLocksHere

    monkeypatch.setattr(ofd, "lock", no_locks)
    monkeypatch.setattr("zarrfuse.transactions.workspace._said_no_locks", False)
    commits = Commits(WritableLocalStore(str(tmp_path)))
    store_bytes(commits, "c", {"c/0": b"1", "c/1": b"2"})
    commits.close()
    assert len([each for each in caplog.records if "no locks" in each.message]) == 1
    assert (tmp_path / "c/0").read_bytes() == b"1"
    assert not (tmp_path / OWN_NAME).exists()


def test_a_child_process_has_locks_of_its_own(commits: Commits) -> None:
    with commits.locks.exclusive("c"):
        pid = os.fork()
        if pid == 0:
            try:
                with commits.locks.exclusive("c", timeout_s=0):
                    os._exit(0)
            except TimedOut:
                os._exit(7)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
