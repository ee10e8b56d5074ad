"""Journals that nobody will ever do: `check` tells of them, `check --repair` deletes them."""

from pathlib import Path

import pytest
from builders.documents import array, concat_parts, group
from builders.folders import write_keys
from builders.journals import leave_journal
from builders.mounts import zarrfuse

from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.journal import key_of
from zarrfuse.views.chunks.journals import judge_of

NEW = {"a/c/0/0.a": b"12", "a/c/0/0.b": b"34"}


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """A store with an array, and a chunk that a killed process was storing."""
    members = array((2, 2), transformers=[concat_parts((".a", 2), ".b")])
    write_keys(tmp_path / "data", {"zarr.json": group(), "a/zarr.json": members})
    leave_journal(tmp_path / "data", "a/c/0/0", NEW)
    return tmp_path / "data"


def test_one_of_an_array_that_was_deleted_stays_until_repair_deletes_it_with_its_parts(
    left: Path,
) -> None:
    (left / "a/zarr.json").unlink()
    store = WritableLocalStore(str(left))
    commits = Commits(store, judge=judge_of(store))
    commits.recover()
    commits.close()
    store.close()
    assert (left / OWN_NAME / "w-dead/0").exists()
    found = zarrfuse("check", left, check=False)
    assert (found.returncode, "zarrfuse check --repair deletes it" in found.stdout) == (1, True)
    done = zarrfuse("check", left, "--repair", check=False)
    problem = "is of no array whose chunks are stored in parts"
    assert done.stderr.splitlines()[0] == (
        f"zarrfuse: the journal {key_of('a/c/0/0')} of a/c/0/0 {problem}: the interrupted "
        "write is deleted"
    )
    assert done.returncode == 0
    assert not (left / OWN_NAME).exists()


def test_one_of_an_array_that_cannot_be_loaded_stays(left: Path) -> None:
    document = (left / "a/zarr.json").read_bytes()
    (left / "a/zarr.json").write_bytes(document[:-5])
    done = zarrfuse("check", left, "--repair", check=False)
    assert done.returncode == 1
    assert (left / key_of("a/c/0/0")).exists()
    (left / "a/zarr.json").write_bytes(document)
    assert zarrfuse("check", left, "--repair").returncode == 0
    assert {key: (left / key).read_bytes() for key in NEW} == NEW


def test_a_folder_with_the_name_of_a_journal_is_none(tmp_path: Path) -> None:
    (tmp_path / key_of("c")).mkdir(parents=True)
    commits = Commits(WritableLocalStore(str(tmp_path)))
    commits.spool().close()
    commits.close()
    assert [path.name for path in (tmp_path / OWN_NAME).iterdir()] == [
        key_of("c").rpartition("/")[2]
    ]
