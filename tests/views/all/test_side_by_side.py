"""All views of a store side by side, each in a folder of its own."""

import errno

import pytest
from builders.documents import array, v2_keys
from builders.fake_stores import FailingStore, MemoryStore
from builders.views import content_of, folder_at

from zarrfuse.errors import NotFound
from zarrfuse.stores.base import Kind
from zarrfuse.views.choice import open_view


def test_a_folder_of_the_root_is_had_without_asking_the_store() -> None:
    """The mount asks for it where it must not wait."""

    def fails(call: str, key: str) -> BaseException | None:
        return OSError(errno.EIO, "no answer")

    root = open_view("all", FailingStore(MemoryStore({}), fails), 0)
    assert root.child("plain").path == "plain"


def test_all_views_side_by_side() -> None:
    keys = {"zarr.json": array(keys=v2_keys()), "0.1": b"chunk"}
    root = open_view("all", MemoryStore(keys), 0)
    assert set(root.list()) == {"raw", "chunks", "plain", "images"}
    assert root.lookup("").kind is root.lookup("raw").kind is Kind.FOLDER
    assert content_of(root, "raw/0.1") == content_of(root, "chunks/0.1") == b"chunk"
    assert content_of(root, "plain/c/0/1") == b"chunk"
    assert content_of(root, "raw/zarr.json") == keys["zarr.json"]
    facts = folder_at(root, "plain/c/0").facts("1").to_json()
    assert (facts["view"], facts["path"]) == ("plain", "plain/c/0/1")
    assert root.child("chunks").facts(None).to_json()["path"] == "chunks"
    assert root.facts(None).to_json() == {"view": "all", "path": "", "kind": "folder"}
    assert root.facts("raw").to_json()["path"] == "raw"
    for refused in (root.lookup, root.open, root.readlink, root.facts, root.child):
        with pytest.raises(NotFound):
            refused("pictures")
