"""What is synced has its owner and mode already, and so has the folder of our own its name."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders.commits import store_bytes
from builders.folders import write_files

from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")

OWNER, GROUP = 12345, 12346
CHANGES = ("fchown", "fchmod", "fsync")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The changes of files and the syncs, in order, with the inode of each."""
    told: list[tuple[str, int]] = []

    def telling(name: str) -> Callable[..., Any]:
        call = getattr(os, name)

        def tell(fd: int, *arguments: Any) -> None:
            told.append((name, os.fstat(fd).st_ino))
            call(fd, *arguments)

        return tell

    for name in CHANGES:
        monkeypatch.setattr(os, name, telling(name))
    return told


@pytest.fixture
def commits(tmp_path: Path) -> Commits:
    """Those of somebody else's folder with a chunk."""
    write_files(tmp_path, {"c/0.a": b"old", "c/0": b"old", "c/1": b"old"})
    for path in tmp_path.rglob("*"):
        os.chown(path, OWNER, GROUP)
    for path in (tmp_path / "c").iterdir():
        path.chmod(0o640)
    os.chown(tmp_path, OWNER, GROUP)
    return Commits(WritableLocalStore(str(tmp_path)))


@pytest.mark.parametrize("keys", [("c/0.a", "c/0"), ("c/1",), ("c/2",)])
def test_owner_and_mode_are_synced(
    keys: tuple[str, ...], commits: Commits, calls: list[tuple[str, int]], tmp_path: Path
) -> None:
    store_bytes(commits, keys[-1], dict.fromkeys(keys, b"new"), sync=True)
    for key in keys:
        status = (tmp_path / key).stat()
        assert status.st_uid == OWNER
        done = [call for call, inode in calls if inode == status.st_ino]
        assert set(done) == set(CHANGES)
        assert done[-1] == "fsync"
    commits.close()


def test_the_name_of_our_own_folder_is_synced_once(
    commits: Commits, calls: list[tuple[str, int]], tmp_path: Path
) -> None:
    synced = ("fsync", tmp_path.stat().st_ino)
    for _ in range(2):
        store_bytes(commits, "c/0", {"c/0.a": b"new", "c/0": b"new"})
    assert (tmp_path / OWN_NAME).is_dir()
    assert calls.count(synced) == 1
    commits.close()
