"""The lock file: made again when it is gone, and not used where others could hold locks of it."""

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from builders.commits import store_bytes
from builders.folders import write_files
from builders.other_users import DONE, OWNER, STRANGER, as_user, public_folder

from zarrfuse.errors import Denied, TimedOut
from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local import own_folder
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions import local_workspace, lock_file
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.journal import key_of

NEW = {"c/0": b"new", "c/1": b"new"}


def commits_of(root: Path) -> Commits:
    return Commits(WritableLocalStore(str(root)), timeout_s=5)


def test_one_that_was_deleted_is_made_again(tmp_path: Path) -> None:
    commits = commits_of(tmp_path)
    commits.spool().close()
    (tmp_path / OWN_NAME / "lock").unlink()
    store_bytes(commits, "c", NEW)
    assert (tmp_path / OWN_NAME / "lock").stat().st_mode & 0o777 == 0o600
    commits.close()
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_who_finds_no_folder_for_one_gives_up(tmp_path: Path) -> None:
    commits = Commits(WritableLocalStore(str(tmp_path)), timeout_s=0.05)
    commits.spool().close()
    (tmp_path / OWN_NAME).rename(tmp_path / "elsewhere")
    with pytest.raises(TimedOut):
        store_bytes(commits, "c", NEW)
    (tmp_path / "elsewhere").rename(tmp_path / OWN_NAME)
    commits.close()
    assert not (tmp_path / OWN_NAME).exists()


@contextmanager
def locked_by_stranger(*paths: Path) -> Iterator[None]:
    """Another user, who may read these files, holds a lock of all bytes of each."""
    ready, done = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(STRANGER)
            os.setuid(STRANGER)
            os.close(done[1])
            lock = struct.pack("hhqqi0q", fcntl.F_RDLCK, 0, 0, 0, 0)
            for path in paths:
                fcntl.fcntl(os.open(path, os.O_RDONLY), fcntl.F_OFD_SETLK, lock)
            os.write(ready[1], b"1")
            os.read(done[0], 1)
        finally:
            os._exit(0)
    os.close(ready[1])
    try:
        assert os.read(ready[0], 1) == b"1"
        yield
    finally:
        os.close(done[1])
        os.waitpid(pid, 0)
        os.close(ready[0])
        os.close(done[0])


@pytest.mark.parametrize("user", [0, OWNER])
def test_one_that_others_may_open_holds_up_nobody(user: int) -> None:
    """As it comes with a copied dataset."""

    def use() -> None:
        commits = commits_of(root)
        commits.recover()
        assert sorted(path.name for path in root.iterdir()) == []
        store_bytes(commits, "c", NEW)
        commits.close()

    with public_folder() as folder:
        root = folder / "data"
        write_files(root, {f"{OWN_NAME}/lock": b"", f"{OWN_NAME}/w-1/alive": b""})
        own = root / OWN_NAME
        for path in (root, own, own / "lock", own / "w-1", own / "w-1/alive"):
            os.chown(path, OWNER, OWNER)
        with locked_by_stranger(own / "lock", own / "w-1/alive"):
            assert as_user(user, use) == DONE
        assert sorted(path.name for path in root.iterdir()) == ["c"]


def test_a_file_system_that_does_not_keep_modes_has_one_lock_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of Windows: all files have the mode that was given when it was mounted."""
    make = own_folder.new_file

    def public_file(folder: int, name: str, flags: int) -> int:
        fd = make(folder, name, flags)
        os.fchmod(fd, 0o644)
        return fd

    for module in (lock_file, local_workspace):
        monkeypatch.setattr(module, "new_file", public_file)
    first, second = commits_of(tmp_path), commits_of(tmp_path)
    first.spool().close()
    lock = (tmp_path / OWN_NAME / "lock").stat().st_ino
    second.recover()
    store_bytes(second, "c", NEW)
    assert (tmp_path / OWN_NAME / "lock").stat().st_ino == lock
    assert len(list((tmp_path / OWN_NAME).glob("w-*"))) == 2
    second.close()
    first.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c"]


def test_a_mount_is_refused_where_one_of_somebody_else_would_refuse_each_write(
    tmp_path: Path,
) -> None:
    write_files(tmp_path, {f"{OWN_NAME}/lock": b""})
    os.chown(tmp_path / OWN_NAME / "lock", STRANGER, STRANGER)
    commits = commits_of(tmp_path)
    with pytest.raises(Denied, match=f"{OWN_NAME}/lock belongs to user {STRANGER}"):
        commits.recover()
    commits.close()
    assert (tmp_path / OWN_NAME / "lock").exists()


def test_a_folder_or_journal_of_somebody_else_is_left_alone_and_hinders_nobody(
    tmp_path: Path,
) -> None:
    others = [tmp_path / OWN_NAME / "w-dead", tmp_path / key_of("c")]
    others[0].mkdir(parents=True)
    others[1].write_bytes(b"")
    for path in others:
        os.chown(path, STRANGER, STRANGER)
    commits = commits_of(tmp_path)
    commits.recover()
    store_bytes(commits, "d", {"d/0": b"new", "d/1": b"new"})
    commits.close()
    assert all(path.exists() for path in others)
