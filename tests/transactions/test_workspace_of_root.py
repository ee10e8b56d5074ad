"""What root's daemon left when it was killed, in a store that somebody else owns."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.commits import store_bytes
from builders.folders import write_files
from builders.other_users import DONE, OWNER, as_user, public_folder

from zarrfuse.errors import Denied
from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits

NEW = {"c/0": b"new", "c/1": b"new"}


@pytest.fixture
def data() -> Iterator[Path]:
    """Another user's folder with the workspace of root."""
    with public_folder() as folder:
        root = folder / "data"
        write_files(root, {f"{OWN_NAME}/w-1/0": b"", f"{OWN_NAME}/lock": b""})
        (root / OWN_NAME).chmod(0o700)
        os.chown(root, OWNER, OWNER)
        yield root


def test_its_owner_is_told_what_to_do_and_that_helps(data: Path) -> None:
    def refused() -> None:
        commits = Commits(WritableLocalStore(str(data)))
        with pytest.raises(Denied) as caught:
            commits.recover()
        assert str(caught.value) == (
            f"{data}/{OWN_NAME} belongs to user 0, not to user {OWNER}, who runs this process: what is "
            f"in {OWN_NAME} is neither used nor deleted. If no program is writing, run zarrfuse check "
            f"--repair as user 0, or rename {data}/{OWN_NAME}"
        )

    def store() -> None:
        commits = Commits(WritableLocalStore(str(data)))
        commits.recover()
        store_bytes(commits, "c", NEW)
        commits.close()

    def rename_and_store() -> None:
        (data / OWN_NAME).rename(data / "left")
        store()

    assert as_user(OWNER, refused) == DONE
    assert as_user(OWNER, rename_and_store) == DONE
    (data / "left").rename(data / OWN_NAME)
    commits = Commits(WritableLocalStore(str(data)))
    commits.recover()  # as `zarrfuse check --repair` does
    commits.close()
    assert as_user(OWNER, store) == DONE
    assert not (data / OWN_NAME).exists()
