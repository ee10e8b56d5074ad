"""close(2) that fails, as it may of files of a network: it changes nothing about what was done."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders.commit_stores import StepStore
from builders.commits import store_bytes
from builders.folders import write_files

from zarrfuse.stores.base import OWN_NAME, Reader
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.spool import Target

OLD = {"c/0.a": b"old", "c/0.b": b"old", "c/0": b"old"}


class FailingReader:
    """A reader that is closed, and says that it could not be."""

    def __init__(self, inner: Reader) -> None:
        self.inner = inner
        self.is_closed = False
        self.size, self.mtime_ns = inner.size, inner.mtime_ns
        self.readinto = inner.readinto
        self.fileno: Callable[[], int] = inner.fileno  # type: ignore[attr-defined]

    def close(self) -> None:
        self.inner.close()
        self.is_closed = True
        raise OSError(errno.EIO, os.strerror(errno.EIO))


class FailingStore(StepStore):
    """A store whose readers cannot be closed without an error."""

    def __init__(self, inner: WritableLocalStore) -> None:
        super().__init__(inner, lambda call, key: None)
        self.opened: list[FailingReader] = []

    def open(self, key: str, *, wait: bool = True) -> Reader:
        self.opened.append(FailingReader(self.inner.open(key, wait=wait)))
        return self.opened[-1]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FailingStore]:
    """Such a store with a chunk in three parts."""
    write_files(tmp_path, OLD)
    store = FailingStore(WritableLocalStore(str(tmp_path)))
    yield store
    assert all(reader.is_closed for reader in store.opened)
    store.close()
    assert not (tmp_path / OWN_NAME).exists()


def test_a_chunk_is_deleted(store: FailingStore, tmp_path: Path) -> None:
    commits = Commits(store)
    commits.delete("c/0", list(OLD))
    commits.close()
    assert not os.listdir(tmp_path / "c")


def test_a_file_becomes_a_chunk(store: FailingStore, tmp_path: Path) -> None:
    write_files(tmp_path, {"c/tmp": b"newest"})
    commits = Commits(store)
    targets = [Target(key, 2 * at, 2 * at + 2) for at, key in enumerate(OLD)]
    commits.store_file("c/0", targets, "c/tmp")
    commits.close()
    assert [(tmp_path / key).read_bytes() for key in OLD] == [b"ne", b"we", b"st"]
    assert not (tmp_path / "c/tmp").exists()


def test_a_chunk_that_cannot_be_stored_is_put_back(store: FailingStore, tmp_path: Path) -> None:
    commits = Commits(store)

    def fail(call: str, key: str) -> None:
        if call == "rename" and moved.append(key) is None and len(moved) == 3:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    moved: list[str] = []
    store.step = fail
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        store_bytes(commits, "c/0", dict.fromkeys(OLD, b"new"))
    commits.close()
    assert {(tmp_path / key).read_bytes() for key in OLD} == {b"old"}


def test_a_chunk_is_stored(store: FailingStore, tmp_path: Path) -> None:
    commits = Commits(store)
    store_bytes(commits, "c/0", dict.fromkeys(OLD, b"new"))
    commits.close()
    assert {(tmp_path / key).read_bytes() for key in OLD} == {b"new"}
