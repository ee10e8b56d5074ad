"""A chunk whose renaming was interrupted is renamed later, and nothing that was stored since is lost."""

import os
from pathlib import Path

import pytest
from builders.commits import recovered, seen, store_bytes

from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.journal import Journal, Part, key_of, text_of

SUFFIXES = (".a", "", ".z")


def chunk(key: str, version: int) -> dict[str, bytes]:
    return {key + suffix: b"%s%d" % (suffix.encode(), version) for suffix in SUFFIXES}


def interrupted(root: Path, moved: int) -> None:
    """Leave what a process does that dies while it renames c/0 to c/1: so many parts are moved."""
    workspace = root / OWN_NAME / "w-dead"
    workspace.mkdir(parents=True, mode=0o700)
    (root / OWN_NAME).chmod(0o700)
    parts, old = [], []
    for number, suffix in enumerate(SUFFIXES):
        os.link(root / f"c/0{suffix}", workspace / str(number))
        parts.append(Part(f"c/1{suffix}", f"{OWN_NAME}/w-dead/{number}"))
        old.append(Part(f"c/0{suffix}", None, f"c/1{suffix}"))
    (root / key_of("c/1")).write_bytes(text_of(Journal("c/1", (*parts, *old))))
    (root / key_of("c/1")).chmod(0o600)
    for part in parts[:moved]:
        (root / str(part.temporary)).rename(root / part.key)


@pytest.mark.parametrize("moved", range(4))
def test_an_interrupted_rename_is_shown_as_done_and_finished(tmp_path: Path, moved: int) -> None:
    store(tmp_path, "c/0", 1)
    interrupted(tmp_path, moved)
    assert seen(tmp_path) == chunk("c/1", 1)
    assert recovered(tmp_path) == chunk("c/1", 1)


@pytest.mark.parametrize("moved", range(4))
def test_what_was_stored_under_the_old_name_since_is_kept(tmp_path: Path, moved: int) -> None:
    store(tmp_path, "c/0", 1)
    interrupted(tmp_path, moved)
    store(tmp_path, "c/0", 2)
    assert seen(tmp_path) == chunk("c/0", 2) | chunk("c/1", 1)
    assert recovered(tmp_path) == chunk("c/0", 2) | chunk("c/1", 1)


def store(root: Path, key: str, version: int) -> None:
    """By a process that finishes nothing of others."""
    writable = WritableLocalStore(str(root))
    commits = Commits(writable)
    store_bytes(commits, key, chunk(key, version))
    commits.close()
    writable.close()
