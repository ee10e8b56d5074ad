"""A local store of which fstat(2) fails has no descriptor open afterwards."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from builders.processes import open_files

from zarrfuse.stores.base import OWN_NAME
from zarrfuse.stores.local.store import LocalStore

WAYS: dict[str, Callable[[LocalStore], object]] = {
    "open": lambda store: store.open("a"),
    "stat": lambda store: store.stat("a"),
    "stat of a link": lambda store: store.stat("link"),
    "list": lambda store: store.list(""),
    "open in the folder of our own": lambda store: store.open(f"{OWN_NAME}/a"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_call_that_fails_leaves_nothing_open(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("a", f"{OWN_NAME}/a"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(b"1")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / OWN_NAME).chmod(0o700)
    store = LocalStore(str(tmp_path))
    before, fstat, calls = open_files(), os.fstat, []

    def failing(fd: int) -> os.stat_result:
        calls.append(fd)
        if len(calls) == number:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return fstat(fd)

    for number in range(1, 20):
        calls.clear()
        with monkeypatch.context() as patched:
            patched.setattr(os, "fstat", failing)
            try:
                opened = WAYS[way](store)
            except OSError:
                opened = None
        if hasattr(opened, "close"):
            opened.close()
        assert open_files() == before
        if len(calls) < number:
            break
    assert number > 1
    store.close()
