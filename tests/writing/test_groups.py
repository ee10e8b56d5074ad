"""Members of a group who store in one folder that all of them may write, whoever of them comes first."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from writing.stores import store_bytes
from writing.strangers import DONE, OWNER, STRANGER, as_user, public_folder

from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local_writing import WritableLocalStore
from zarrfuse.writing.commits import Commits

GROUP = 54321


@pytest.fixture
def data() -> Iterator[Path]:
    """A folder that a group may write, without setgid."""
    with public_folder() as folder:
        root = folder / "data"
        root.mkdir()
        os.chown(root, OWNER, GROUP)
        root.chmod(0o775)
        yield root


def commits_of(root: Path) -> Commits:
    return Commits(WritableLocalStore(str(root)))


@pytest.mark.parametrize("first", [0, OWNER])
def test_members_store_together_where_new_files_do_not_get_the_group_of_their_folder(
    data: Path, first: int
) -> None:
    def be_killed() -> None:
        commits_of(data).spool()

    def store() -> None:
        commits = commits_of(data)
        commits.recover()
        store_bytes(commits, "a", {"a.0": b"1", "a.1": b"2"})
        commits.close()

    assert as_user(first, be_killed, groups=[GROUP]) == DONE
    own = (data / OWN_NAME).stat()
    assert (own.st_uid, own.st_gid, own.st_mode & 0o7777) == (first, GROUP, 0o2770)
    assert as_user(STRANGER, store, groups=[GROUP]) == DONE
    assert sorted(path.name for path in data.iterdir()) == ["a.0", "a.1"]


def test_who_owns_the_folder_and_is_not_in_its_group_keeps_the_workspace_to_himself(
    data: Path,
) -> None:
    assert as_user(OWNER, lambda: commits_of(data).spool()) == DONE
    own = (data / OWN_NAME).stat()
    assert (own.st_gid, own.st_mode & 0o7777) == (OWNER, 0o700)
