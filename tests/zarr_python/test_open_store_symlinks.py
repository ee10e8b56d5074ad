"""Symlinks in the source of `zarrfuse.open_store`: followed inside, denied outside."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import zarr
from builders.folders import write_keys
from hypothesis import given, settings
from hypothesis import strategies as st
from opened_stores import listed, read

import zarrfuse
from zarrfuse import caching
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.keys import Keys
from zarrfuse.views.raw.view import RawFolder
from zarrfuse.zarr_python.store import PlainStore


def test_symlinks_inside_the_source_are_followed(parts: Path) -> None:
    (parts / "deep").mkdir()
    (parts / "deep/linked").symlink_to("../a")
    (parts / "deep/again").symlink_to("linked")
    (parts / "absolute").symlink_to(parts / "a")
    (parts / "copy.txt").symlink_to("README.txt")
    store = zarrfuse.open_store(parts)
    for path in ("deep/linked", "deep/again", "absolute"):
        assert zarr.open_array(store, path=path)[0].tolist() == [1, 2, 0, 0]
    assert listed(store.list_prefix("deep/linked/")) == [
        *("deep/linked/c/0/0", "deep/linked/c/1/1", "deep/linked/zarr.json")
    ]
    assert listed(store.list_dir("deep")) == ["again", "linked"]
    assert read(store, "copy.txt") == b"read me"


def test_symlinks_in_circles_end(parts: Path) -> None:
    (parts / "up").symlink_to(".")
    (parts / "a/up").symlink_to("..")
    (parts / "one").symlink_to("two")
    (parts / "two").symlink_to("one")
    (parts / "nowhere").symlink_to("missing")
    store = zarrfuse.open_store(parts)
    assert listed(store.list()) == listed(zarrfuse.open_store(parts).list())
    assert len(listed(store.list())) == 5
    assert read(store, "up/up/a/up/README.txt") == b"read me"
    assert read(store, "nowhere/x") is None
    assert listed(store.list_dir("")) == ["README.txt", "a", "up", "zarr.json"]


def test_a_symlink_out_of_the_source_is_denied(parts: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (parts / "secret").symlink_to(tmp_path / "secret")
    (parts / "outside").symlink_to(tmp_path)
    store = zarrfuse.open_store(parts)
    with pytest.raises(PermissionError, match="leads out of"):
        read(store, "secret")
    with pytest.raises(PermissionError, match="leads out of"):
        read(store, "outside/secret")
    assert "outside/secret" not in listed(store.list())
    assert listed(store.list_dir("")) == ["README.txt", "a", "outside", "secret", "zarr.json"]


def test_a_folder_that_became_a_symlink_is_noticed(tmp_path: Path) -> None:
    write_keys(tmp_path, {"old/file": b"old", "new/file": b"new"})
    stored = LocalStore(str(tmp_path))
    found = Keys(RawFolder(stored), ttl_s=0)
    assert found.lookup("old/file").mtime_ns != found.lookup("new/file").mtime_ns
    shutil.rmtree(tmp_path / "old")
    (tmp_path / "old").symlink_to("new")
    assert found.lookup("old/file").mtime_ns == found.lookup("new/file").mtime_ns
    stored.close()


def test_no_folder_on_the_way_is_older_than_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_keys(tmp_path, {"run1/a/file": b"1", "run2/a/file": b"22"})
    now = began = caching.now()
    monkeypatch.setattr(caching, "time", SimpleNamespace(monotonic=lambda: now))
    (tmp_path / "current").symlink_to("run1")
    stored = LocalStore(str(tmp_path))
    found = Keys(RawFolder(stored), ttl_s=1)
    assert list(found.names("current")) == ["a"]
    (tmp_path / "current").unlink()
    (tmp_path / "current").symlink_to("run2")
    now = began + 0.9
    assert found.lookup("current/a/file").size == 1
    now = began + 1.1
    assert found.lookup("current/a/file").size == 2
    stored.close()


@settings(deadline=None)
@given(st.text("a./", max_size=12))
def test_no_key_leads_out_of_the_source(parts_store: PlainStore, key: str) -> None:
    assert read(parts_store, key) is None
