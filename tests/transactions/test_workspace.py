"""The folder of our own: made when needed, deleted by its last user, cleaned after who died."""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from builders.commits import commits_of, files_of, store_bytes
from builders.fake_stores import MemoryStore
from builders.folders import write_files
from children import DIED, die, in_child

from zarrfuse.errors import Denied, NotFound, NotSupported
from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local.own_folder import new_file
from zarrfuse.transactions import local_workspace
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.journal import Journal, Part, key_of, text_of
from zarrfuse.transactions.spool import Target, nameless_spool


def test_nothing_is_made_before_it_is_needed(tmp_path: Path) -> None:
    commits = commits_of(tmp_path)
    commits.recover()
    assert list(tmp_path.iterdir()) == []
    commits.close()
    assert list(tmp_path.iterdir()) == []


def test_the_last_user_deletes_it(tmp_path: Path) -> None:
    first, second = commits_of(tmp_path), commits_of(tmp_path)
    store_bytes(first, "c", {"c/0": b"1", "c/1": b"2"})
    store_bytes(second, "c", {"c/0": b"3", "c/1": b"4"})
    first.close()
    assert (tmp_path / OWN_NAME / "lock").exists()
    assert len(list((tmp_path / OWN_NAME).glob("w-*"))) == 1
    store_bytes(second, "c", {"c/0": b"5", "c/1": b"6"})
    second.close()
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_a_workspace_is_made_again_after_it_was_deleted(tmp_path: Path) -> None:
    for _ in range(2):
        commits = commits_of(tmp_path)
        store_bytes(commits, "c", {"c/0": b"1", "c/1": b"2"})
        commits.close()
        assert not (tmp_path / OWN_NAME).exists()


def test_nothing_is_made_behind_the_end(tmp_path: Path) -> None:
    commits = commits_of(tmp_path)
    spool = nameless_spool(None)
    commits.close()
    with pytest.raises(OSError, match="closed"):
        commits.spool()
    with pytest.raises(OSError, match="closed"):
        commits.store_spool("c", [Target("c/0", 0, 0)], spool)
    spool.close()
    commits.close()
    assert list(tmp_path.iterdir()) == []


def test_the_end_waits_for_a_spool_that_is_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def slow(*arguments: Any) -> int:
        begun.set()
        assert may_end.wait(20)
        return new_file(*arguments)

    commits = commits_of(tmp_path)
    store_bytes(commits, "c", {"c/0": b"1", "c/1": b"2"})  # the workspace is there
    monkeypatch.setattr(local_workspace, "new_file", slow)
    with ThreadPoolExecutor() as pool:
        spool = pool.submit(commits.spool)
        assert begun.wait(20)
        end = pool.submit(commits.close)
        with pytest.raises(TimeoutError):
            end.result(0.1)
        assert (tmp_path / OWN_NAME / "lock").exists()
        may_end.set()
        end.result(20)
        spool.result().close()
    assert not (tmp_path / OWN_NAME).exists()


def test_a_workspace_is_made_again_when_somebody_deleted_the_whole_store(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    commits = commits_of(root)
    store_bytes(commits, "c", {"c/0": b"1", "c/1": b"2"})
    for path in sorted(root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    root.rmdir()
    with pytest.raises(NotFound):
        commits.spool()
    root.mkdir()
    store_bytes(commits, "c", {"c/0": b"3", "c/1": b"4"})
    commits.close()
    assert sorted(path.name for path in root.rglob("*")) == ["0", "1", "c"]


def test_what_a_process_that_died_left_is_deleted_and_what_lives_stays(tmp_path: Path) -> None:
    def child() -> None:
        os.write(commits_of(tmp_path).spool().fd, b"1234")
        die()

    living = commits_of(tmp_path)
    spool = living.spool()
    assert in_child(child) == DIED
    assert len(list((tmp_path / OWN_NAME).glob("w-*/0"))) == 2
    third = commits_of(tmp_path)
    third.recover()
    third.close()
    assert len(list((tmp_path / OWN_NAME).glob("w-*/0"))) == 1
    os.write(spool.fd, b"x")
    spool.close()
    living.close()
    assert list(tmp_path.iterdir()) == []


def test_recovering_leaves_alone_what_this_process_is_at(tmp_path: Path) -> None:
    commits = commits_of(tmp_path)
    spool = commits.spool()
    commits.recover()
    os.write(spool.fd, b"12")
    commits.store_spool("c", [Target("c/0", 0, 2)], spool)
    spool.close()
    commits.close()
    assert (tmp_path / "c/0").read_bytes() == b"12"


def test_temporary_parts_that_a_journal_names_stay_with_it(tmp_path: Path) -> None:
    write_files(
        tmp_path, {"c/0": b"old", f"{OWN_NAME}/w-1/0": b"new", f"{OWN_NAME}/w-2/0": b"lost"}
    )
    journal = Journal("c", (Part("c/0", f"{OWN_NAME}/w-1/0"),))
    write_files(tmp_path, {key_of("c"): text_of(journal)})
    commits = commits_of(tmp_path)
    store_bytes(commits, "d", {"d/0": b"", "d/1": b""})
    commits.close()
    assert (tmp_path / OWN_NAME / "w-1/0").read_bytes() == b"new"
    commits.recover()
    assert not (tmp_path / OWN_NAME).exists()
    assert (tmp_path / "c/0").read_bytes() == b"new"


def test_a_journal_that_cannot_be_understood_is_deleted_with_all_it_may_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_files(tmp_path, {"c/0": b"old", f"{OWN_NAME}/w-1/0": b"new", key_of("c"): b"?"})
    commits = commits_of(tmp_path)
    commits.recover()
    assert "cannot be understood" in caplog.text
    assert "it is deleted" in caplog.text
    commits.close()
    assert files_of(commits.store) == {"c/0": b"old"}
    assert not (tmp_path / OWN_NAME).exists()


def test_a_journal_that_cannot_be_understood_is_replaced_with_its_chunk(tmp_path: Path) -> None:
    write_files(tmp_path, {"c/0": b"old", key_of("c"): b"?"})
    commits = commits_of(tmp_path)
    store_bytes(commits, "c", {"c/0": b"1", "c/1": b"2"})
    commits.close()
    assert files_of(commits.store) == {"c/0": b"1", "c/1": b"2"}
    assert not (tmp_path / OWN_NAME).exists()


def test_a_journal_of_another_version_stays_with_all_it_may_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = json.dumps({"zarrfuse_journal": 2, "key": "c"}).encode()
    write_files(tmp_path, {"c/0": b"old", f"{OWN_NAME}/w-1/0": b"new", key_of("c"): text})
    commits = commits_of(tmp_path)
    commits.recover()
    assert "is of another version of zarrfuse" in caplog.text
    with pytest.raises(NotSupported):
        store_bytes(commits, "c", {"c/0": b"1", "c/1": b"2"})
    commits.close()
    assert (tmp_path / key_of("c")).read_bytes() == text
    assert (tmp_path / OWN_NAME / "w-1/0").read_bytes() == b"new"


def test_a_journal_of_another_version_keeps_nothing_that_is_newer(tmp_path: Path) -> None:
    write_files(tmp_path, {key_of("c"): json.dumps({"zarrfuse_journal": 2, "key": "c"}).encode()})
    journal = tmp_path / key_of("c")
    for day, name in enumerate(("w-0", "w-1", "w-2")):
        write_files(tmp_path, {f"{OWN_NAME}/{name}/{file}": b"" for file in ("alive", "0")})
        times = (journal.stat().st_atime, journal.stat().st_mtime + (2 * day - 2) * 86400)
        os.utime(tmp_path / OWN_NAME / name / "alive", times)
    commits = commits_of(tmp_path)
    commits.recover()
    commits.close()
    left = {path.relative_to(tmp_path / OWN_NAME).as_posix() for path in journal.parent.rglob("*")}
    assert left >= {"w-0/0", "w-1/0", journal.name}
    assert "w-2" not in left


def test_a_mount_leaves_nothing_beside_a_journal_of_another_version(tmp_path: Path) -> None:
    write_files(tmp_path, {key_of("c"): json.dumps({"zarrfuse_journal": 2, "key": "c"}).encode()})
    for _ in range(2):
        commits = commits_of(tmp_path)
        commits.recover()
        commits.spool().close()
        commits.close()
        assert list((tmp_path / OWN_NAME).glob("w-*")) == []


def test_what_else_lies_in_the_folder_stays(tmp_path: Path) -> None:
    write_files(tmp_path, {f"{OWN_NAME}/mine": b"1"})
    commits = commits_of(tmp_path)
    store_bytes(commits, "c", {"c/0": b"1", "c/1": b"2"})
    commits.close()
    assert [path.name for path in (tmp_path / OWN_NAME).iterdir()] == ["mine"]


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_is_no_folder_is_not_followed(kind: str, tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    if kind == "link":
        (root / OWN_NAME).symlink_to(elsewhere)
    else:
        (root / OWN_NAME).write_bytes(b"")
    commits = commits_of(root)
    for use in (commits.spool, commits.recover):
        with pytest.raises(Denied):
            use()
    commits.close()
    assert list(elsewhere.iterdir()) == []


def test_processes_that_come_and_go_find_and_leave_it_in_order(tmp_path: Path) -> None:
    """Each makes it, uses it and deletes it, many times; in the end nothing is left."""

    def child() -> None:
        for n in range(20):
            commits = commits_of(tmp_path)
            store_bytes(commits, "c", {"c/0": b"%d" % n, "c/1": b"%d" % n})
            commits.close()

    children = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            try:
                child()
                os._exit(0)
            finally:
                os._exit(1)
        children.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0, 0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_a_store_without_a_folder_keeps_what_is_young(tmp_path: Path) -> None:
    removed: list[str] = []

    class Memory(MemoryStore):
        in_place = False

        def remove(self, key: str) -> None:
            removed.append(key)

    commits = Commits(Memory({f"{OWN_NAME}/w-1/0": b"", f"{OWN_NAME}/w-2/0": b""}))  # type: ignore[arg-type]
    commits.recover()  # all is as old as MTIME_NS
    commits.close()
    assert removed == [f"{OWN_NAME}/w-1/0", f"{OWN_NAME}/w-2/0"]
