"""A call of the system that fails once leaves no open descriptor, and nothing in the store."""

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from builders.commits import files_of, store_bytes
from builders.folders import write_files
from builders.processes import open_files

from zarrfuse.errors import ZarrfuseError
from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions import ofd
from zarrfuse.transactions.commits import Commits

MOST_CALLS = 400
OWNER = 12345
CALLS = (
    *("open", "mkdir", "unlink", "rename", "rmdir", "link", "fstat", "stat", "listdir", "dup"),
    *("fsync", "fchmod", "fchown", "copy_file_range", "pwrite", "utime", "getxattr", "removexattr"),
)
OLD = {"c/0.a": b"old", "c/0": b"old"}
NEW = {"c/0.a": b"new", "c/0": b"new"}


def put(commits: Commits) -> None:
    fd = os.memfd_create("bytes")
    try:
        os.write(fd, b"new")
        commits.store.put("c/put", fd, 0, 3)
    finally:
        os.close(fd)


WAYS: dict[str, Callable[[Commits], None]] = {
    "parts": lambda commits: store_bytes(commits, "c/0", NEW),
    "whole": lambda commits: store_bytes(commits, "d/0", {"d/0": b"new"}, sync=True),
    "edit": lambda commits: commits.store.edit("c/file", create=True).close(),
    "put": put,
    "delete": lambda commits: commits.delete("c/0", list(OLD)),
}


class Faults:
    """Lets the call number `at` (from 0) fail; `is_on` while calls are counted."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.count = 0
        self.is_on = False

    def is_now(self) -> bool:
        """Count a call; whether it is the one."""
        self.count += self.is_on
        return self.is_on and self.count == self.at + 1


def before(faults: Faults, call: Callable[..., Any]) -> Callable[..., Any]:
    """A call that is not done when it fails."""

    def failing(*arguments: Any, **options: Any) -> Any:
        if faults.is_now():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return call(*arguments, **options)

    return failing


def closing(faults: Faults, close: Callable[[int], None]) -> Callable[[int], None]:
    """Closes a descriptor, and fails all the same where it is one of a file: folders have no flush."""

    def failing(fd: int) -> None:
        is_file = stat.S_ISREG(os.fstat(fd).st_mode)
        close(fd)
        if is_file and faults.is_now():
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    return failing


def check(way: str, faults: Faults, root: Path) -> tuple[bool, set[str]]:
    """Do it while a call fails: the chunk is whole, nothing of ours is left.

    Whether it was told that it is done, and what is stored.
    """
    write_files(root, OLD)
    if os.geteuid() == 0:  # who gives away what is new
        os.chown(root / "c", OWNER, OWNER)
    opened = open_files()
    is_done = False
    store = WritableLocalStore(str(root))
    commits = Commits(store)
    faults.is_on = True
    with suppress(OSError, ZarrfuseError):
        WAYS[way](commits)
        is_done = True
    faults.is_on = False
    commits.close()
    assert not (root / OWN_NAME).exists(), list((root / OWN_NAME).rglob("*"))
    found = files_of(store)
    assert {key: data for key, data in found.items() if key in OLD} in (OLD, NEW, {})
    store.close()
    assert open_files() == opened
    return is_done, set(found)


@pytest.mark.parametrize("way", WAYS)
def test_a_failing_call_leaves_a_whole_chunk_and_nothing_open(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(MOST_CALLS):
        faults = Faults(number)
        with monkeypatch.context() as patched:
            for name in CALLS:
                patched.setattr(os, name, before(faults, getattr(os, name)))
            patched.setattr(ofd, "lock", before(faults, ofd.lock))
            is_done, found = check(way, faults, tmp_path / str(number))
        if way in ("edit", "put"):
            assert is_done == (found != set(OLD))
        if faults.count <= number:
            assert is_done
            return
    raise AssertionError("it has no end")


@pytest.mark.parametrize("way", WAYS)
def test_a_descriptor_is_closed_and_tells_of_an_error(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(MOST_CALLS):
        faults = Faults(number)
        with monkeypatch.context() as patched:
            patched.setattr(os, "close", closing(faults, os.close))
            check(way, faults, tmp_path / str(number))
        if faults.count <= number:
            return
    raise AssertionError("it has no end")


def test_a_failing_close_leaves_a_whole_chunk_and_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(MOST_CALLS):
        write_files(tmp_path / str(number), OLD)
        faults = Faults(number)
        commits = Commits(WritableLocalStore(str(tmp_path / str(number))))
        store_bytes(commits, "c/0", NEW)
        with monkeypatch.context() as patched:
            patched.setattr(os, "close", closing(faults, os.close))
            faults.is_on = True
            commits.close()
            faults.is_on = False
        assert os.listdir(tmp_path / str(number)) == ["c"]
        if faults.count <= number:
            return
    raise AssertionError("it has no end")
