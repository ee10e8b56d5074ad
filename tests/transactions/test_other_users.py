"""What other users can do to who stores in a folder that they may write, or own: nothing."""

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.commit_stores import StepStore
from builders.commits import files_of, store_bytes
from builders.folders import files_below, write_files
from builders.journals import TEMPORARY, leave_journal
from builders.other_users import DENIED, DONE, OWNER, STRANGER, as_user, public_folder

from zarrfuse.errors import Denied, NotFound
from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.journal import Journal, Part, key_of, text_of
from zarrfuse.transactions.recovered_view import rolled_forward
from zarrfuse.transactions.spool import Target

OLD = {"c/0": b"old", "c/1": b"old"}
NEW = {"c/0": b"new", "c/1": b"new"}


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that all users can reach."""
    with public_folder() as folder:
        yield folder


@pytest.fixture
def shared(public: Path) -> Path:
    """Root's folder, in which everybody may make names, with a chunk of root's, and a file."""
    root = public / "data"
    root.mkdir()
    write_files(root, OLD | {"mine": b"private"})
    (root / "mine").chmod(0o600)
    root.chmod(0o1777)
    return root


@pytest.fixture
def owned(public: Path) -> Path:
    """Another user's folder with a chunk."""
    root = public / "data"
    root.mkdir()
    write_files(root, OLD)
    for path in (root, root / "c", root / "c/0", root / "c/1"):
        os.chown(path, OWNER, OWNER)
    return root


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def forge(root: Path, parts: dict[str, bytes | None], key: str = "c") -> None:
    """Put a journal there, as a killed process would have left it."""
    leave_journal(root, key, parts)


FORGED: dict[str, bytes | None] = {"c/0": b"forged", "c/1": None, "mine": None}


# -- who may put a journal there


def test_a_journal_of_a_stranger_is_neither_done_nor_deleted(
    shared: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert as_user(STRANGER, lambda: forge(shared, FORGED)) == DONE
    before = files_below(shared)
    commits = Commits(WritableLocalStore(str(shared)))
    with pytest.raises(Denied, match=f"{shared}/.zarrfuse belongs to user {STRANGER}"):
        commits.recover()
    for parts in (NEW, {"c/0": b"new"}):
        with pytest.raises(Denied):
            store_bytes(commits, "c", parts)
    with pytest.raises(Denied):
        commits.delete("c", list(OLD))
    commits.close()
    assert files_below(shared) == before
    told = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert len({each.getMessage() for each in told}) == 1
    assert f"{shared}/.zarrfuse belongs to user {STRANGER}" in told[0].getMessage()


def test_what_a_stranger_forged_is_not_shown(
    shared: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert as_user(STRANGER, lambda: forge(shared, FORGED)) == DONE
    store = rolled_forward(LocalStore(str(shared)))
    for _ in range(3):
        assert files_of(store) == OLD | {"mine": b"private"}
    store.close()
    assert len([each for each in caplog.records if each.levelno == logging.WARNING]) == 1


def test_a_workspace_that_is_a_symlink_is_not_used(shared: Path, public: Path) -> None:
    elsewhere = public / "elsewhere"
    elsewhere.mkdir(mode=0o777)
    elsewhere.chmod(0o777)
    assert as_user(STRANGER, lambda: (shared / OWN_NAME).symlink_to(elsewhere)) == DONE
    commits = Commits(WritableLocalStore(str(shared), follow_symlinks=True))
    for use in (commits.recover, commits.spool, lambda: store_bytes(commits, "c", NEW)):
        with pytest.raises(Denied, match="symlink"):
            use()
    commits.close()
    assert list(elsewhere.iterdir()) == []
    assert (shared / OWN_NAME).is_symlink()


def test_a_folder_where_anybody_can_replace_the_workspace_is_not_written(shared: Path) -> None:
    shared.chmod(0o777)
    commits = Commits(WritableLocalStore(str(shared)))
    for use in (commits.recover, commits.spool, lambda: store_bytes(commits, "c", NEW)):
        with pytest.raises(Denied, match="may be written by everybody, and is not sticky"):
            use()
    commits.close()
    assert files_below(shared) == OLD | {"mine": b"private"}


@pytest.mark.parametrize("what", ["", "w-dead", "journal"])
def test_what_others_may_write_does_not_count(shared: Path, what: str) -> None:
    forge(shared, {"c/0": b"new0", "c/1": b"new1"})
    path = shared / (key_of("c") if what == "journal" else f"{OWN_NAME}/{what}")
    path.chmod(mode(path) | 0o002)
    before = files_below(shared)
    commits = Commits(WritableLocalStore(str(shared)))
    if what:
        commits.recover()
    else:
        with pytest.raises(Denied):
            commits.recover()
    commits.close()
    after = files_below(shared)
    assert {key: after[key] for key in before if not key.startswith(OWN_NAME)} == OLD | {
        "mine": b"private"
    }
    assert key_of("c") in after


def test_root_finishes_what_the_owner_of_the_store_left_and_others_do_not(owned: Path) -> None:
    os.chmod(owned, 0o1777)
    assert as_user(OWNER, lambda: forge(owned, {"c/0": b"new", "c/1": b"new"})) == DONE

    def recover() -> None:
        Commits(WritableLocalStore(str(owned))).recover()

    def refused() -> None:
        with pytest.raises(Denied, match=f"belongs to user {OWNER}, not to user {STRANGER}"):
            recover()

    assert as_user(STRANGER, refused) == DONE
    recover()
    assert files_of(LocalStore(str(owned))) == NEW


# -- while something is stored


def test_nobody_can_look_at_or_replace_what_is_being_stored(shared: Path) -> None:
    tried: list[int] = []

    def attack() -> None:
        tried.extend(
            as_user(STRANGER, act)
            for act in (
                lambda: os.listdir(shared / OWN_NAME),
                lambda: os.rename(shared / OWN_NAME, shared / "theirs"),
                lambda: os.open(shared / OWN_NAME / "lock", os.O_RDONLY),
                (shared / folder / "1").read_bytes,
                lambda: os.rename(shared / folder / "1", shared / "theirs"),
                lambda: os.rename(shared / folder, shared / "theirs"),
            )
        )

    def step(call: str, key: str) -> None:
        nonlocal folder
        folder = key.rpartition("/")[0]
        if call == "rename" and not tried:
            assert {mode(shared / OWN_NAME), mode(shared / folder)} == {0o700}
            private = [OWN_NAME / Path("lock"), f"{folder}/alive", f"{folder}/3"]
            assert {mode(shared / each) for each in private} == {0o600}
            attack()

    folder = ""
    commits = Commits(StepStore(WritableLocalStore(str(shared)), step))
    store_bytes(commits, "c", NEW)
    commits.close()
    assert tried == [DENIED] * 6
    assert files_below(shared) == NEW | {"mine": b"private"}


def test_the_spool_of_a_private_chunk_is_private_and_the_chunk_keeps_its_mode(
    shared: Path,
) -> None:
    (shared / "c/0").chmod(0o600)
    (shared / "c/1").chmod(0o664)
    commits = Commits(WritableLocalStore(str(shared)))
    spool = commits.spool()
    assert spool.key is not None
    assert mode(shared / spool.key) == 0o600
    assert as_user(STRANGER, (shared / spool.key).read_bytes) == DENIED
    spool.close()
    for parts in (NEW, {"c/0": b"newer"}, {"c/2": b"one"}, {"c/3": b"of", "c/4": b"two"}):
        store_bytes(commits, "c", parts)
    commits.close()
    umask = os.umask(0)
    os.umask(umask)
    new = 0o666 & ~umask
    modes = [mode(shared / f"c/{number}") for number in range(5)]
    assert modes == [0o600, 0o664, new, new, new]


@pytest.mark.parametrize("parts", [1, 2])
def test_what_the_owner_of_the_store_takes_away_meanwhile_is_stored_all_the_same(
    owned: Path, parts: int
) -> None:
    """Root stores in a folder of somebody who moves the workspace away and puts his own there."""

    def attack(folder: str) -> None:
        (owned / OWN_NAME / folder).rename(owned / "taken")
        (owned / OWN_NAME / folder).mkdir()
        for number in range(10):
            (owned / OWN_NAME / folder / str(number)).write_bytes(b"theirs")

    (owned / OWN_NAME).mkdir()
    os.chown(owned / OWN_NAME, OWNER, OWNER)
    commits = Commits(WritableLocalStore(str(owned)))
    spool = commits.spool()
    os.write(spool.fd, b"newnew"[: 3 * parts])
    folder = str(spool.key).split("/")[1]
    assert as_user(OWNER, lambda: attack(folder)) == DENIED  # root's folder
    os.chown(owned / OWN_NAME / folder, OWNER, OWNER)  # as if it were not
    assert as_user(OWNER, lambda: attack(folder)) == DONE
    targets = [Target(f"c/{number}", 3 * number, 3 * number + 3) for number in range(parts)]
    commits.store_spool("c", targets, spool)
    spool.close()
    commits.close()
    assert [(owned / target.key).read_bytes() for target in targets] == [b"new"] * parts


def test_recovery_changes_nothing_through_a_symlink(owned: Path, public: Path) -> None:
    secret = public / "secret"
    secret.write_bytes(b"secret")
    secret.chmod(0o600)
    (owned / "c/0").chmod(0o666)

    def forge_link() -> None:
        forge(owned, {"c/0": b"", "c/1": b"new"})
        (owned / TEMPORARY / "0").unlink()
        (owned / TEMPORARY / "0").symlink_to(secret)

    assert as_user(OWNER, forge_link) == DONE
    commits = Commits(WritableLocalStore(str(owned)))
    commits.recover()
    commits.close()
    assert mode(secret) == 0o600
    assert not (owned / "c/0").is_symlink()
    assert (owned / TEMPORARY / "0").is_symlink()  # neither used nor deleted


def test_a_second_name_of_somebody_elses_file_does_not_get_another_mode(
    owned: Path, public: Path
) -> None:
    secret = public / "secret"
    secret.write_bytes(b"secret")
    secret.chmod(0o600)
    (owned / "c/0").chmod(0o666)
    as_user(OWNER, lambda: forge(owned, {"c/0": b"", "c/1": b"new"}))
    (owned / TEMPORARY / "0").unlink()
    os.link(secret, owned / TEMPORARY / "0")  # where the system lets everybody do that
    commits = Commits(WritableLocalStore(str(owned)))
    commits.recover()
    commits.close()
    assert mode(secret) == 0o600


@pytest.mark.parametrize("count", [1, 2])
def test_a_chunk_does_not_get_the_rights_of_who_stores_it(owned: Path, count: int) -> None:
    """Root's file with bytes of somebody's, which runs as root."""
    (owned / "c/0").chmod(0o6777)
    commits = Commits(WritableLocalStore(str(owned)))
    store_bytes(commits, "c", {f"c/{number}": b"#!/bin/sh" for number in range(count)})
    commits.close()
    assert mode(owned / "c/0") == 0o777


def test_a_part_that_will_belong_to_somebody_else_is_found_before_it_is_moved(shared: Path) -> None:
    """It has the mode, and may have the owner, with which it will be stored."""
    (shared / "c/0").chmod(0o666)
    found: list[int] = []

    def step(call: str, key: str) -> None:
        if call == "rename" and not found:  # of the journal
            part = f"{key.rpartition('/')[0]}/1"
            assert mode(shared / part) == 0o666
            os.chown(shared / part, OWNER, OWNER)
            found.extend(store.stat(part).size for store in (commits.store, other))

    other = LocalStore(str(shared))
    commits = Commits(StepStore(WritableLocalStore(str(shared)), step))
    store_bytes(commits, "c", NEW)
    commits.close()
    other.close()
    assert found == [3, 3]
    assert files_below(shared) == NEW | {"mine": b"private"}


# -- locks


def test_a_stranger_cannot_lock(shared: Path) -> None:
    commits = Commits(WritableLocalStore(str(shared)), timeout_s=1)
    commits.spool().close()
    for flags in (os.O_RDONLY, os.O_RDWR):
        lock = shared / OWN_NAME / "lock"
        assert as_user(STRANGER, lambda: os.open(lock, flags)) == DENIED  # noqa: B023
    store_bytes(commits, "c", NEW)
    commits.close()


def test_a_lock_file_that_is_a_symlink_is_not_opened(shared: Path, public: Path) -> None:
    write_files(shared, {f"{OWN_NAME}/w-1/0": b""})
    (shared / OWN_NAME / "lock").symlink_to(public / "made")
    commits = Commits(WritableLocalStore(str(shared)))
    with pytest.raises(Denied, match="lock is a symlink"):
        store_bytes(commits, "c", NEW)
    commits.close()
    assert not (public / "made").exists()


# -- a group


GROUP = 54321


@pytest.fixture
def of_group(public: Path) -> Path:
    """A folder that a group writes together."""
    root = public / "data"
    root.mkdir()
    write_files(root, OLD)
    for path in (root, root / "c", root / "c/0", root / "c/1"):
        os.chown(path, OWNER, GROUP)
        path.chmod(0o2775 if path.is_dir() else 0o664)
    return root


def test_a_group_stores_together_and_finishes_what_a_member_left(of_group: Path) -> None:
    first, second = OWNER, STRANGER

    def leave() -> None:
        os.umask(0o022)
        commits = Commits(WritableLocalStore(str(of_group)))
        commits.spool()
        assert mode(of_group / OWN_NAME) == 0o2770
        assert {mode(path) for path in (of_group / OWN_NAME).glob("w-*")} == {0o2770}
        files = [path for path in (of_group / OWN_NAME).rglob("*") if path.is_file()]
        assert {mode(path) for path in files} == {0o660}
        folder = next((of_group / OWN_NAME).glob("w-*"))
        (folder / "7").write_bytes(b"new")
        (folder / "8").write_bytes(b"new")
        parts = tuple(Part(f"c/{n}", f"{OWN_NAME}/{folder.name}/{n + 7}") for n in range(2))
        write_files(of_group, {key_of("c"): text_of(Journal("c", parts))})

    def finish() -> None:
        os.umask(0o022)
        commits = Commits(WritableLocalStore(str(of_group)))
        commits.recover()
        assert files_of(commits.store) == NEW
        store_bytes(commits, "c", OLD)
        commits.close()

    assert as_user(first, leave, groups=[GROUP]) == DONE
    assert as_user(second, finish, groups=[GROUP]) == DONE
    assert files_below(of_group) == OLD


def test_what_is_not_of_the_group_does_not_count(of_group: Path) -> None:
    (of_group / OWN_NAME).mkdir()
    os.chown(of_group / OWN_NAME, STRANGER, STRANGER)

    def refused() -> None:
        with pytest.raises(Denied, match=f"belongs to user {STRANGER}"):
            Commits(WritableLocalStore(str(of_group))).recover()

    assert as_user(OWNER, refused, groups=[GROUP]) == DONE


# -- the root


def replaced_by_link(root: Path, outside: Path) -> None:
    """As the owner of a store may do."""
    root.rename(root.with_name("gone"))
    root.symlink_to(outside)


@pytest.fixture
def outside(public: Path) -> Path:
    """A folder that nobody but root may write."""
    write_files(public / "outside", {"c/0": b"secret", "c/1": b"secret"})
    return public / "outside"


def test_the_workspace_is_made_where_the_files_are(
    owned: Path, public: Path, outside: Path
) -> None:
    commits = Commits(WritableLocalStore(str(owned)))
    replaced_by_link(owned, outside)
    store_bytes(commits, "c", NEW)
    spool = commits.spool()
    assert not (outside / OWN_NAME).exists()
    assert (public / "gone" / OWN_NAME).exists()
    spool.close()
    commits.close()
    assert files_below(outside) == {"c/0": b"secret", "c/1": b"secret"}
    assert files_below(public / "gone") == NEW


def test_a_root_that_was_deleted_for_a_symlink_is_not_followed(owned: Path, outside: Path) -> None:
    commits = Commits(WritableLocalStore(str(owned)))
    for path in sorted(owned.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    owned.rmdir()
    owned.symlink_to(outside)
    for change in (
        commits.spool,
        lambda: store_bytes(commits, "c", NEW),
        lambda: commits.delete("c", list(NEW)),
        lambda: files_of(commits.store),
    ):
        with pytest.raises(NotFound):
            change()
    commits.close()
    assert files_below(outside) == {"c/0": b"secret", "c/1": b"secret"}
