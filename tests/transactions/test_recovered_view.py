"""What somebody sees who looks at a store in which a process died in the middle of a commit."""

import json
import os
from pathlib import Path

import pytest
from builders.commits import files_of
from builders.fake_stores import MemoryStore
from builders.folders import write_files
from builders.journals import TEMPORARY, leave_journal
from msgspec.structs import replace

from zarrfuse.errors import NotFound
from zarrfuse.stores.base import OWN_NAME, Entry, Kind, read
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions import recovered_view
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.journal import Journal, Part, key_of, name_of, text_of
from zarrfuse.transactions.recovered_view import RolledForward, rolled_forward


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """A chunk of which one part has been moved, one replaces another, one is deleted, two are new."""
    write_files(tmp_path, {"a/0": b"new0", "a/1": b"old1", "a/2": b"old2", "b/x": b"else"})
    parts = {"a/0": b"", "a/1": b"new1", "a/2": None, "a/3": b"new3", "a/deep/er/4": b"new4"}
    leave_journal(tmp_path, "a", parts)
    (tmp_path / TEMPORARY / "0").unlink()  # moved already
    return tmp_path


EXPECTED = {
    "a/0": b"new0",
    "a/1": b"new1",
    "a/3": b"new3",
    "a/deep/er/4": b"new4",
    "b/x": b"else",
}


def test_listings_and_files_are_as_if_the_commit_had_come_to_its_end(left: Path) -> None:
    store = rolled_forward(LocalStore(str(left)))
    assert files_of(store) == EXPECTED
    assert [entry.name for entry in store.scan("")] in (["a", "b"], ["b", "a"])
    assert sorted(store.list("a")) == ["0", "1", "3", "deep"]


def test_names_are_told_with_their_new_sizes(left: Path) -> None:
    (left / "a/1").write_bytes(b"longer than the new one")
    store = rolled_forward(LocalStore(str(left)))
    assert store.stat("a/1").size == store.list("a")["1"].size == 4
    assert replace(store.stat("a/3"), access=None) == Entry(
        "3", Kind.FILE, 4, os.stat(left / TEMPORARY / "3").st_mtime_ns
    )
    assert store.stat("a/deep").kind is store.stat("a/deep/er").kind is Kind.FOLDER
    for key in ("a/2", "a/5", "a/deep/x"):
        with pytest.raises(NotFound):
            store.stat(key)
        with pytest.raises(NotFound):
            store.open(key)


def test_who_writes_has_the_same_picture_and_writes_what_is_stored(left: Path) -> None:
    store = rolled_forward(WritableLocalStore(str(left)))
    assert store.in_place
    assert files_of(store) == EXPECTED
    store.rename(f"{TEMPORARY}1", "a/1")
    assert (left / "a/1").read_bytes() == b"new1"
    assert files_of(store) == EXPECTED


def test_a_journal_that_is_gone_is_not_believed(left: Path) -> None:
    store = rolled_forward(LocalStore(str(left)))
    assert read(store, "a/1") == b"new1"
    (left / key_of("a")).unlink()  # given up: the temporary parts are still there
    stored = {"a/0": b"new0", "a/1": b"old1", "a/2": b"old2", "b/x": b"else"}
    assert files_of(store) == stored


def test_a_journal_that_has_just_been_left_is_seen_when_it_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovered_view, "LOOK_EVERY_S", 1e9)  # never again by itself
    write_files(tmp_path, {"a/0": b"old", "a/1": b"old"})
    store = rolled_forward(LocalStore(str(tmp_path)))
    assert isinstance(store, RolledForward)
    assert read(store, "a/0") == b"old"
    leave_journal(tmp_path, "a", {"a/0": b"new", "a/1": b"new"})
    store.look("a")
    assert read(store, "a/1") == b"new"
    leave_journal(tmp_path, "a", {"a/0": None, "a/1": b"newer"})  # within one tick of the clock
    store.look("a")
    assert files_of(store) == {"a/1": b"newer"}
    (tmp_path / key_of("a")).unlink()
    store.look("a")
    assert files_of(store) == {"a/0": b"old", "a/1": b"old"}


def test_without_waiting_the_journals_are_not_read(left: Path) -> None:
    store = rolled_forward(LocalStore(str(left)))
    with pytest.raises(BlockingIOError):
        store.stat("a/1", wait=False)
    store.stat("a/1")
    assert store.stat("a/1", wait=False).size == 4


def test_a_store_that_never_changes_is_itself(tmp_path: Path) -> None:
    store = MemoryStore({}, permanent=True)
    assert rolled_forward(store) is store


def test_a_store_has_one_picture_of_it(tmp_path: Path) -> None:
    stored, other = LocalStore(str(tmp_path)), LocalStore(str(tmp_path))
    store = rolled_forward(stored)
    assert rolled_forward(store) is rolled_forward(stored) is store
    assert rolled_forward(other) is not store


def test_a_store_that_is_no_folder_has_journals_too() -> None:
    journal = Journal("a", (Part("a/0", f"{TEMPORARY}0"), Part("a/1", None)))
    files = {"a/1": b"old", f"{TEMPORARY}0": b"new", key_of("a"): text_of(journal)}
    store = rolled_forward(MemoryStore(files))
    assert read(store, "a/0") == b"new"
    with pytest.raises(NotFound):
        store.stat("a/1")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b"[" * 100_000,
        json.dumps({"zarrfuse_journal": 2, "key": "a", "parts": []}).encode(),
        json.dumps({"zarrfuse_journal": 1, "key": "b", "parts": []}).encode(),
        json.dumps({"zarrfuse_journal": 1, "key": "a", "parts": 1}).encode(),
        json.dumps({"zarrfuse_journal": 1, "key": "a", "parts": [None]}).encode(),
        *(
            text_of(Journal("a", (Part(key, None),)))
            for key in (
                "",
                "/",
                "../a",
                "a/../../b",
                "a//b",
                "/etc/passwd",
                "a\0",
                ".zarrfuse/lock",
            )
        ),
        *(
            text_of(Journal("a", (Part("a/0", temporary),)))
            for temporary in ("", "b", "../b", ".zarrfuse/w-1", ".zarrfuse/w-1/../../b", "/b")
        ),
        text_of(Journal("a", (Part("a/0", None), Part("a/0", None)))),
    ],
)
def test_a_journal_that_cannot_be_understood_or_leads_elsewhere_says_nothing(
    text: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_files(tmp_path, {"a/0": b"old", "b": b"secret", f"{OWN_NAME}/{name_of('a')}": text})
    store = rolled_forward(LocalStore(str(tmp_path)))
    assert files_of(store) == {"a/0": b"old", "b": b"secret"}
    assert name_of("a") in caplog.text


def test_a_folder_of_our_own_that_is_a_file_is_no_obstacle(tmp_path: Path) -> None:
    write_files(tmp_path, {"a/0": b"old", OWN_NAME: b"mine"})
    store = rolled_forward(LocalStore(str(tmp_path)))
    assert files_of(store) == {"a/0": b"old"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_commit_that_root_finishes_leaves_files_to_who_they_belong_to(left: Path) -> None:
    for path in (left / "a", left / "a/1"):
        os.chown(path, 12345, 12346)
    (left / "a/1").chmod(0o640)
    store = WritableLocalStore(str(left))
    for name, key in (("1", "a/1"), ("3", "a/3")):  # as a commit does before its journal
        store.dress(f"{TEMPORARY}{name}", key)
    shown = rolled_forward(LocalStore(str(left))).stat("a/1").access
    commits = Commits(store)
    commits.recover()
    commits.close()
    assert shown == (0o640, 12345, 12346)
    for name, mode in (("a/1", 0o640), ("a/3", 0o644)):
        status = (left / name).stat()
        assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (12345, 12346, mode)
