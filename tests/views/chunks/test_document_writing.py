"""Documents written in the `chunks` view are stored verbatim, and what they say is seen at once."""

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from builders.documents import array, concat_parts, group, v2_array, v2_keys
from builders.view_writing import create, link, open_to_write, put, remove, rename
from builders.views import content_of, folder_at, names_in
from writable_chunks import HEAD_AND_TAIL, MTIME_NS

from zarrfuse.errors import Exists, NotSupported
from zarrfuse.spec.node import ArrayNode


def test_a_document_is_stored_whole_and_verbatim(view: Any, tmp_path: Path) -> None:
    root = view({"a/zarr.json": array()})
    writer = open_to_write(root, "a/zarr.json")
    assert not writer.is_live
    writer.truncate(0)
    writer.write(b"{ not JSON", 0)
    assert content_of(root, "a/zarr.json") == array()
    writer.store()
    writer.close()
    assert (tmp_path / "store/a/zarr.json").read_bytes() == b"{ not JSON"
    assert "error" in folder_at(root, "a").facts(None).to_json()


def test_a_document_is_seen_at_once(view: Any, tmp_path: Path) -> None:
    root = view({"zarr.json": group(), "a/zarr.json": array((1, 4))})
    chunks = folder_at(root, "a/c/0")  # which knows its nodes by now
    chunks.create("0").close()
    for length in (2, 3, 4, 5, 6, 7, 8, 9) * 3:
        put(root, "a/zarr.json", array((length, 4)))
        # As long as before, and, as if the clock had stood still, as old.
        os.utime(tmp_path / "store/a/zarr.json", ns=(MTIME_NS, MTIME_NS))
        loaded = folder_at(root, "a").loaded()
        assert loaded is not None
        assert isinstance(loaded.node, ArrayNode)
        assert loaded.node.shape == (length, 4)
        facts = chunks.parent.parent.loaded()
        assert facts is not None
        assert isinstance(facts.node, ArrayNode)
        assert facts.node.shape == (length, 4)


def test_what_is_a_chunk_changes_with_the_document(view: Any, stored: Any) -> None:
    root = view({})
    root.make_folder("a")
    folder = root.child("a")
    with closing(create(folder, "0.0")) as ordinary:
        assert ordinary.is_live
    put(root, "a/zarr.json", array(keys=v2_keys(), transformers=HEAD_AND_TAIL))
    put(root, "a/0.0", b"abCDxyz")
    writer = open_to_write(root, "a/0.0")
    writer.write(b"!", 2)
    put(root, "a/zarr.json", array(keys=v2_keys(), transformers=[concat_parts(("", 1), ".rest")]))
    writer.store()
    writer.close()
    assert stored() == {
        "a/0.0.head": b"ab",
        "a/0.0": b"a",
        "a/0.0.tail": b"xyz",
        "a/0.0.rest": b"b!Dxyz",
    }
    remove(root, "a/zarr.json")
    assert names_in(root, "a") == {"0.0.head", "0.0", "0.0.tail", "0.0.rest"}


def test_attributes_of_zarr_v2_are_seen_at_once(view: Any) -> None:
    root = view({".zarray": v2_array(), ".zattrs": b'{"a": 1}'})
    for number in range(10):
        put(root, ".zattrs", b'{"a": %d}' % number)
        loaded = root.loaded()
        assert loaded is not None
        assert loaded.node is not None
        assert loaded.node.attributes == {"a": number}
    remove(root, ".zattrs")
    loaded = root.loaded()
    assert loaded is not None
    assert loaded.node is not None
    assert loaded.node.attributes == {}


def test_what_is_inherited_and_referred_to_is_seen_at_once(view: Any) -> None:
    def tiered(*slow: str) -> bytes:
        configuration = {"slow-arrays": slow}
        return group(
            extensions=[{"name": "example.tiered-storage", "configuration": configuration}]
        )

    parent = {"name": "example.parent-ref", "configuration": {"reference": "../other"}}
    root = view(
        {
            "zarr.json": group(),
            "a/zarr.json": array(),
            "other/zarr.json": tiered("x"),
            "b/zarr.json": array(extensions=[parent]),
        }
    )
    a, b = folder_at(root, "a"), folder_at(root, "b")
    assert (a.tier(), b.tier()) == (None, None)
    put(root, "zarr.json", tiered("a"))
    assert a.tier() == "slow"
    put(root, "other/zarr.json", tiered("../b"))
    loaded = b.loaded()
    assert loaded is not None
    assert loaded.error is not None  # the path must lead below, so the reference is refused
    put(root, "zarr.json", group())
    assert a.tier() is None


def test_documents_are_renamed_and_linked(view: Any, tmp_path: Path) -> None:
    root = view({"c/0/0": b"x"})
    put(root, "zarr.1f.partial", array())
    link(root, "zarr.1f.partial", "zarr.json")
    assert root.loaded() is not None
    with pytest.raises(Exists):
        link(root, "zarr.1f.partial", "zarr.json")
    remove(root, "zarr.1f.partial")
    with pytest.raises(NotSupported, match=r"zarr.json is a document, which has one name"):
        link(root, "zarr.json", "copy.json")
    assert rename(root, "zarr.json", "zarr.json~")
    assert root.loaded() is None
    assert rename(root, "zarr.json~", "zarr.json")
    assert root.loaded() is not None


def test_a_node_that_comes_under_the_name_of_another_is_seen_at_once(
    view: Any, tmp_path: Path
) -> None:
    root = view({"a/zarr.json": array((1, 4)), "b/zarr.json": array((2, 4))})
    for folder in ("a", "b"):
        os.utime(tmp_path / "store" / folder / "zarr.json", ns=(MTIME_NS, MTIME_NS))
    a = root.child("a")
    assert a.facts(None).to_json()["shape"] == [1, 4]
    assert rename(root, "a", "old")
    assert rename(root, "b", "a")
    assert a.facts(None).to_json()["shape"] == [2, 4]
