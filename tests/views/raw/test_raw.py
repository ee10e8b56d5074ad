"""The `raw` view shows every key of a store as it is stored."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders.documents import array, concat_parts, group
from builders.folders import write_keys
from builders.stores import local, zip_deflated, zip_stored
from builders.views import tree_of

from zarrfuse.errors import Denied, NotAFolder, NotFound
from zarrfuse.stores.base import Kind, Store
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.raw.view import RawFolder

KEYS = {
    "zarr.json": group(),
    "README.txt": b"read me",
    "a/zarr.json": array(transformers=[concat_parts("", ".index")]),
    "a/c/0/0": b"main",
    "a/c/0/0.index": b"index",
    "a/c/9/9.index": b"outside of the grid",
    "broken/zarr.json": b"{",
    "broken/c/0": b"kept",
}


@pytest.fixture(params=[local, zip_stored, zip_deflated])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RawFolder]:
    write_keys(tmp_path / "store", KEYS)
    make: Callable[[Path], Store] = request.param
    store = make(tmp_path / "store")
    yield RawFolder(store)
    store.close()


def test_every_key_is_shown_byte_for_byte(root: RawFolder) -> None:
    assert tree_of(root) == KEYS


def test_a_name_looked_up_is_the_name_listed(root: RawFolder) -> None:
    for folder in (root, root.child("a"), root.child("a").child("c").child("0")):
        for name, entry in folder.list().items():
            assert folder.lookup(name) == entry


def test_what_is_not_there_is_not_found(root: RawFolder) -> None:
    for call in (root.lookup, root.open, root.facts):
        with pytest.raises(NotFound):
            call("nothing")
    with pytest.raises(NotFound):
        root.child("nothing").list()
    with pytest.raises((NotAFolder, NotFound)):
        root.child("README.txt").list()


def test_facts_tell_view_path_kind_and_size(root: RawFolder) -> None:
    assert root.child("a").facts("zarr.json").to_json() == {
        "view": "raw",
        "path": "a/zarr.json",
        "kind": "file",
        "size": len(KEYS["a/zarr.json"]),
    }
    assert root.child("a").facts(None).to_json() == {"view": "raw", "path": "a", "kind": "folder"}
    assert root.facts(None).to_json() == {"view": "raw", "path": "", "kind": "folder"}


def test_links_are_those_of_the_store(tmp_path: Path) -> None:
    write_keys(tmp_path / "store", KEYS)
    os.symlink("a/c", tmp_path / "store" / "inside")
    os.symlink("/etc", tmp_path / "store" / "outside")
    store = LocalStore(str(tmp_path / "store"))
    root = RawFolder(store)
    assert root.list()["inside"].kind is Kind.LINK
    assert root.readlink("inside") == "a/c"
    assert root.list()["outside"].denied
    with pytest.raises(Denied):
        root.child("outside").list()
    store.close()
