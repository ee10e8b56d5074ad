"""Which journals are believed: those that name no more than the parts of a chunk, by the metadata."""

import logging
import os
from pathlib import Path

import pytest
from builders.commits import files_of
from builders.documents import array, concat_parts, group
from builders.folders import write_files, write_keys
from builders.journals import leave_journal
from builders.mounts import zarrfuse

import zarrfuse as package
from zarrfuse.stores.base import OWN_NAME, Reader
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions import journal as journals
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.journal import key_of
from zarrfuse.transactions.recovered_view import rolled_forward
from zarrfuse.transactions.spool import Target
from zarrfuse.views.chunks.journals import judge_of

OTHERS = {
    "zarr.json": group(),
    "README": b"mine",
    "a/zarr.json": array((4, 4), transformers=[concat_parts((".a", 2), ".b")]),
    "a/c/0/1.a": b"ot",
    "a/c/0/1.b": b"her",
    "a/c/0/notes": b"mine",
    "whole/zarr.json": array((4, 4)),
    "whole/c/0/0": b"whole",
}
CHUNK = {"a/c/0/0.a": b"ol", "a/c/0/0.b": b"d"}

FORGED = {
    "a file elsewhere": ("a/c/0/0", {"a/c/0/0.a": b"xx", "README": None}),
    "a file elsewhere that is replaced": ("a/c/0/0", {"a/c/0/0.a": b"xx", "README": b"x"}),
    "a part of another chunk": ("a/c/0/0", {"a/c/0/0.a": b"xx", "a/c/0/1.a": None}),
    "the document": ("a/c/0/0", {"a/zarr.json": b"{}"}),
    "a file beside it that is replaced": ("a/c/0/0", {"a/c/0/notes": b"x"}),
    "two files beside it": ("a/c/0/0", {"a/c/0/notes": None, "a/c/0/more": None}),
    "a chunk that is none": ("a/c/9/9", {"a/c/9/9.a": b"xx"}),
    "a chunk of one part": ("whole/c/0/0", {"whole/c/0/0": None}),
    "no array": ("README", {"README": None}),
    "an array that is not there": ("none/c/0/0", {"none/c/0/0.a": b"x"}),
    "parts of two other chunks": ("a/c/0/0", {"a/c/0/1.a": None, "a/c/1/1.b": None}),
    "a chunk of another array": ("a/c/0/0", {"whole/c/0/0": None, "a/c/0/1.b": None}),
    "another chunk, to be stored": ("a/c/0/0", {"a/c/0/1.a": b"x", "a/c/0/1.b": None}),
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_keys(tmp_path / "data", OTHERS | CHUNK)
    return tmp_path / "data"


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_journal_that_names_more_than_parts_of_its_chunk_is_neither_done_nor_shown_nor_deleted(
    data: Path, forged: tuple[str, dict[str, bytes | None]], caplog: pytest.LogCaptureFixture
) -> None:
    key, parts = forged
    leave_journal(data, key, parts)
    store = WritableLocalStore(str(data))
    assert files_of(rolled_forward(store, judge_of(store))) == OTHERS | CHUNK
    commits = Commits(store, judge=judge_of(store))
    commits.recover()
    commits.close()
    assert files_of(store) == OTHERS | CHUNK
    assert (data / key_of(key)).exists()
    assert {path.name for path in (data / OWN_NAME).glob("w-dead/*")} == {
        str(number) for number, part in enumerate(parts.values()) if part is not None
    }
    said = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(said) == 2  # who looks, and who finishes
    assert all(f"the journal {key_of(key)} of {key} " in each for each in said)
    store.close()


def test_a_journal_of_the_parts_and_of_the_file_that_became_the_chunk_is_done(data: Path) -> None:
    write_files(data, {"a/c/0/0.3f2a.partial": b"neww"})
    leave_journal(
        data, "a/c/0/0", {"a/c/0/0.a": b"ne", "a/c/0/0.b": b"ww", "a/c/0/0.3f2a.partial": None}
    )
    new = OTHERS | {"a/c/0/0.a": b"ne", "a/c/0/0.b": b"ww"}
    store = WritableLocalStore(str(data))
    assert files_of(rolled_forward(store, judge_of(store))) == new
    commits = Commits(store, judge=judge_of(store))
    commits.recover()
    commits.close()
    assert files_of(store) == new
    assert not (data / OWN_NAME).exists()
    store.close()


def test_a_journal_that_renames_a_chunk_of_the_array_is_done(data: Path) -> None:
    moved = {"a/c/0/1.a": b"ne", "a/c/0/1.b": b"ww"}
    leave_journal(data, "a/c/0/1", {**moved, **dict.fromkeys(CHUNK)})
    store = WritableLocalStore(str(data))
    assert files_of(rolled_forward(store, judge_of(store))) == OTHERS | moved
    commits = Commits(store, judge=judge_of(store))
    commits.recover()
    commits.close()
    assert files_of(store) == OTHERS | moved
    store.close()


def test_what_this_process_leaves_is_always_believed(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a chunk that a file from another folder becomes: that is deleted behind the journal."""
    write_files(data, {"elsewhere": b"1234", "a/c/0/0.partial": b"1234"})
    store = WritableLocalStore(str(data))
    judge = judge_of(store)
    commits = Commits(store, judge=judge)
    seen: list[str | None] = []
    put = journals.put

    def judged(store: object, journal: journals.Journal, *arguments: object) -> None:
        seen.append(judge(journal))
        put(store, journal, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(journals, "put", judged)
    targets = [Target("a/c/0/0.a", 0, 2), Target("a/c/0/0.b", 2, 4)]
    for source in ("elsewhere", "a/c/0/0.partial"):
        commits.store_file("a/c/0/0", targets, source)
        assert not (data / source).exists()
    commits.delete("a/c/0/0", list(CHUNK))
    assert seen == [None] * 3
    commits.close()
    store.close()


def test_who_stores_the_chunk_anew_replaces_such_a_journal(data: Path) -> None:
    leave_journal(data, "a/c/0/0", {"a/c/0/0.a": b"xx", "README": None})
    store = WritableLocalStore(str(data))
    commits = Commits(store, judge=judge_of(store))
    spool = commits.spool()
    os.write(spool.fd, b"1234")
    targets = [Target("a/c/0/0.a", 0, 2), Target("a/c/0/0.b", 2, 4)]
    commits.store_spool("a/c/0/0", targets, spool)
    spool.close()
    commits.recover()
    commits.close()
    assert files_of(store) == OTHERS | {"a/c/0/0.a": b"12", "a/c/0/0.b": b"34"}
    assert not (data / OWN_NAME).exists()
    store.close()


# -- all who open a store


def test_check_says_so_and_repair_deletes_it_and_does_nothing_of_it(data: Path) -> None:
    leave_journal(data, "a/c/0/0", {"a/c/0/0.a": b"xx", "README": None})
    for arguments in ((), ("--repair",)):
        done = zarrfuse("check", data, *arguments, check=False)
        assert "names README, which is no part of that chunk" in done.stdout + done.stderr
        assert (data / "README").read_bytes() == b"mine"
        assert (data / "a/c/0/0.a").read_bytes() == b"ol"
    assert not (data / OWN_NAME).exists()


@pytest.mark.parametrize("read_only", [True, False])
def test_open_store_does_not_believe_it(data: Path, read_only: bool) -> None:
    leave_journal(data, "a/c/0/0", {"a/c/0/0.a": b"xx", "README": None})
    store = package.open_store(data, read_only=read_only)
    keys = store.ensure_open()
    for key, expected in (("README", b"mine"), ("a/c/0/0", b"old")):
        reader = keys.open(key)
        assert read_all(reader) == expected
    store.close()


def read_all(reader: Reader) -> bytes:
    buffer = bytearray(reader.size)
    reader.readinto(memoryview(buffer), 0)
    reader.close()
    return bytes(buffer)
