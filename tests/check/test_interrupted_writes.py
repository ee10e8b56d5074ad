"""Writes that were interrupted: `check` tells of them, and `check --repair` finishes them."""

from pathlib import Path

import pytest
from builders.documents import array, concat_parts, group
from builders.folders import write_keys, zip_folder
from builders.journals import leave_journal
from builders.mounts import zarrfuse

from zarrfuse.check import findings
from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits

FOUND = (
    "error: c/0/0: a write was interrupted; zarrfuse check --repair finishes it "
    "[zarrfuse design, Writing]"
)


def members() -> bytes:
    """An array of one chunk in two parts, the first of two bytes."""
    return array((2, 2), transformers=[concat_parts((".a", 2), ".b")])


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    """The first part is new and of the size of now, the second is old."""
    data = tmp_path / "data"
    write_keys(
        data, {"zarr.json": members(), "c/0/0.a": b"12", "c/0/0.b": b"old, and of another size"}
    )
    leave_journal(data, "c/0/0", {"c/0/0.a": b"12", "c/0/0.b": b"34"})
    (data / OWN_NAME / "w-dead/0").unlink()
    return data


def test_one_is_an_error_and_nothing_else_is_said_of_the_chunk(interrupted: Path) -> None:
    done = zarrfuse("check", interrupted, "--deep", check=False)
    assert (done.returncode, done.stdout) == (1, FOUND + "\n")


def test_checking_an_interrupted_write_changes_nothing(interrupted: Path) -> None:
    before = sorted(interrupted.rglob("*"))
    list(findings(str(interrupted), deep=True))
    assert sorted(interrupted.rglob("*")) == before


def test_repair_finishes_it_and_leaves_nothing(interrupted: Path) -> None:
    done = zarrfuse("check", interrupted, "--repair", check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines()[0] == "zarrfuse: finished an interrupted write"
    assert (interrupted / "c/0/0.b").read_bytes() == b"34"
    assert not (interrupted / OWN_NAME).exists()


def test_repair_of_what_is_whole_changes_nothing(demo: Path) -> None:
    before = sorted(demo.rglob("*"))
    done = zarrfuse("check", demo, "--repair")
    assert done.stderr.startswith("zarrfuse: nothing is wrong")
    assert sorted(demo.rglob("*")) == before


def test_a_zip_cannot_be_repaired(interrupted: Path, tmp_path: Path) -> None:
    zip_folder(interrupted, tmp_path / "data.zip")
    done = zarrfuse("check", tmp_path / "data.zip", "--repair", check=False)
    assert done.returncode == 2
    assert f"{tmp_path / 'data.zip'} is a zip file, which can't be repaired" in done.stderr


def test_what_a_living_process_keeps_is_no_finding(tmp_path: Path) -> None:
    write_keys(tmp_path, {"zarr.json": group()})
    commits = Commits(WritableLocalStore(str(tmp_path)))
    spool = commits.spool()
    assert (tmp_path / OWN_NAME).exists()
    assert list(findings(str(tmp_path))) == []
    assert zarrfuse("check", tmp_path, "--repair").returncode == 0
    assert spool.key is not None
    assert (tmp_path / spool.key).exists()
    spool.close()
    commits.close()
