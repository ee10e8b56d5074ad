"""What the `plain` view shows of a node: its document, why it is refused, and its facts."""

import json
import os
from pathlib import Path

import pytest
from builders.documents import (
    array,
    concat_parts,
    default_keys,
    group,
    suffix_keys,
    v2_array,
    v2_keys,
)
from builders.folders import write_keys
from builders.views import FOREVER, content_of, folder_at, tree_of
from core_documents import others, view

from zarrfuse.errors import NotFound, NotSupported
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.stores.base import Kind
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.choice import open_view

# -- Zarr v2


def test_zarr_v2_is_shown_as_zarr_v3() -> None:
    root = view(
        {
            ".zgroup": b'{"zarr_format": 2}',
            ".zattrs": b'{"title": "t"}',
            ".zmetadata": b"{}",
            "a/.zarray": v2_array(),
            "a/.zattrs": b'{"_ARRAY_DIMENSIONS": ["y", "x"]}',
            "a/1.0": b"chunk",
        }
    )
    shown = tree_of(root)
    assert shown.keys() == {"zarr.json", "a/zarr.json", "a/c/1/0"}
    assert json.loads(shown["zarr.json"] or b"")["attributes"] == {"title": "t"}
    node = parse_v3(shown["a/zarr.json"] or b"")
    assert isinstance(node, ArrayNode)
    assert node.dimension_names == ("y", "x")
    assert [codec.name for codec in node.codecs] == ["bytes", "zstd"]
    assert root.child("a").facts("zarr.json").to_json()["zarr_format"] == 3


def test_zarr_v2_without_a_word_for_it_stays_and_says_why() -> None:
    stored = {
        ".zgroup": b'{"zarr_format": 2}',
        "a/.zarray": v2_array().replace(b"zstd", b"zlib"),
        "a/.zattrs": b"{}",
        "a/0.1": b"chunk",
    }
    root = view(stored)
    assert tree_of(root) == stored
    reason = "a/.zarray: the codec 'zlib' has no equivalent in Zarr v3"
    for name in (None, ".zarray", "0.1"):
        assert root.child("a").facts(name).to_json()["kept_as_v2"] == reason
    of_group = root.facts(".zgroup").to_json()["kept_as_v2"]
    assert of_group == f"the root group stays Zarr v2 as a whole: {reason}"
    assert root.child("a").facts("0.1").to_json()["chunk_coords"] == [0, 1]


# -- nodes that are refused


UNKNOWN = array(extensions=[{"name": "x.unknown"}])
UNFILLED = array().replace(b'"fill_value": 0, ', b"")


def test_a_refusal_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    root = view({"a/zarr.json": UNFILLED, "b/zarr.json": UNKNOWN}, FOREVER)
    for _ in range(3):
        for name in ("a", "b"):
            folder_at(root, name).list()
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "refused in plain: a/zarr.json: fill_value: is missing"
    assert said[1].startswith("not loaded: b/zarr.json")
    assert len(said) == 2


@pytest.mark.parametrize(
    "document, reason",
    [
        (UNKNOWN, "x.unknown must be understood"),
        (UNFILLED, "a/zarr.json: fill_value: is missing"),
        (array(codecs=["gzip"]), "a/zarr.json: codecs: must include an array->bytes codec"),
        (b"{", "is not JSON"),
    ],
)
def test_a_refused_node_says_why_and_its_child_nodes_work(document: bytes, reason: str) -> None:
    root = view(
        {
            "a/zarr.json": document,
            "a/c/0/0": b"chunk",
            "a/below/zarr.json": array(keys=v2_keys()),
            "a/below/0.0": b"chunk below",
        }
    )
    assert set(root.child("a").list()) == {"zarr.json", "c", "below"}
    with pytest.raises(NotFound, match=reason):
        content_of(root, "a/zarr.json")
    with pytest.raises(NotSupported, match=reason):
        content_of(root, "a/c/0/0")
    assert others(root.child("a").child("below")) == {"a/below/c/0/0": b"chunk below"}
    assert reason in root.child("a").facts(None).to_json()["error"]
    assert reason in folder_at(root, "a/c/0").facts("0").to_json()["error"]


def test_a_refused_group_keeps_only_its_document_back() -> None:
    root = view(
        {
            "zarr.json": group(extensions=["x.unknown"]),
            "x": b"x",
            "a/zarr.json": array(),
            "a/c/0/0": b"0",
        }
    )
    with pytest.raises(NotFound, match=r"x\.unknown"):
        root.open("zarr.json")
    assert content_of(root, "x") == b"x"
    assert content_of(root, "a/c/0/0") == b"0"


def test_a_refused_node_of_zarr_v2_keeps_its_document_back() -> None:
    root = view({"a/.zarray": b"{}", "a/0": b"?", "a/.zattrs": b"{}"})
    for name in (".zarray", ".zattrs"):
        with pytest.raises(NotFound, match=r"a/\.zarray: zarr_format: is missing"):
            root.child("a").open(name)
    with pytest.raises(NotSupported):
        root.child("a").open("0")


# -- what is known


def test_facts_are_those_of_the_rewritten_node_and_of_the_stored_chunk() -> None:
    parts = [concat_parts("", (".tail", 1))]
    document = array(keys=suffix_keys(".tiff"), transformers=parts)
    root = view({"a/zarr.json": document, "a/c/0/1.tiff": b"bb", "a/c/0/1.tiff.tail": b"c"})
    told = root.child("a").facts("zarr.json").to_json()
    assert told["view"] == "plain"
    assert told["path"] == "a/zarr.json"
    assert told["size"] == len(content_of(root, "a/zarr.json"))
    assert told["chunk_key_encoding"] == default_keys()
    assert told["parts"] is None
    chunk = folder_at(root, "a/c/0").facts("1").to_json()
    assert chunk["path"] == "a/c/0/1"
    assert chunk["size"] == 3
    assert chunk["key"] == "c/0/1"
    assert chunk["stored_key"] == "c/0/1.tiff"
    assert chunk["chunk_coords"] == [0, 1]
    assert [part["stored_size"] for part in chunk["parts"]] == [2, 1]
    assert chunk["chunk_key_encoding"] == default_keys()
    assert folder_at(root, "a/c/0").facts(None).to_json() == {
        "view": "plain",
        "path": "a/c/0",
        "node": "a",
    }
    assert folder_at(root, "a/c").facts("0").to_json()["kind"] == "folder"
    with pytest.raises(NotFound):
        folder_at(root, "a/c/0").facts("0").to_json()


def test_what_extensions_tell_is_told_here_too() -> None:
    offset = {"name": "example.offset", "configuration": {"offset": [3, 4]}}
    root = view({"zarr.json": array(extensions=[offset]), "c/0/0": b"chunk"})
    assert root.facts("zarr.json").to_json()["origin"] == [3, 4]
    assert folder_at(root, "c/0").facts("0").to_json()["origin"] == [3, 4]
    assert "example" not in content_of(root, "zarr.json").decode()


def test_a_document_is_as_old_as_the_stored_one_and_follows_it(tmp_path: Path) -> None:
    write_keys(tmp_path, {"zarr.json": array(keys=v2_keys()), "0.0": b"x"})
    root = open_view("plain", LocalStore(str(tmp_path)), 0)
    before = root.lookup("zarr.json")
    assert before.mtime_ns == (tmp_path / "zarr.json").stat().st_mtime_ns
    assert "c" in root.list()
    write_keys(tmp_path, {"zarr.json": group(attributes={"a": 1})})
    assert set(root.list()) == {"zarr.json", "0.0"}
    assert json.loads(content_of(root, "zarr.json"))["attributes"] == {"a": 1}


def test_a_document_of_zarr_v2_is_as_old_as_its_newer_file(tmp_path: Path) -> None:
    write_keys(tmp_path, {".zarray": v2_array(), ".zattrs": b"{}"})
    root = open_view("plain", LocalStore(str(tmp_path)), 0)
    assert root.lookup("zarr.json").mtime_ns == (tmp_path / ".zattrs").stat().st_mtime_ns


def test_an_old_document_is_never_given_the_time_of_a_new_one(tmp_path: Path) -> None:
    """Whoever has cached it would else take it for the new one, as long as that stays the same."""
    write_keys(tmp_path, {"a/zarr.json": array((4, 4)), "v2/.zarray": v2_array()})
    write_keys(tmp_path, {"v2/.zattrs": b'{"a": 1}'})
    believing = open_view("plain", LocalStore(str(tmp_path)), FOREVER)
    folders = [believing.child(name) for name in ("a", "v2")]
    for folder in folders:  # looked at, but nobody has asked for the document
        with pytest.raises(NotFound):
            folder.lookup("nothing")
    write_keys(tmp_path, {"a/zarr.json": array((8, 8)), "v2/.zattrs": b'{"a": 2}'})
    os.utime(tmp_path / "a/zarr.json")
    os.utime(tmp_path / "v2/.zattrs")
    now = open_view("plain", LocalStore(str(tmp_path)), 0)
    for folder in folders:
        anew = now.child(folder.path)
        assert content_of(folder, "zarr.json") != content_of(anew, "zarr.json")
        before, after = folder.lookup("zarr.json"), anew.lookup("zarr.json")
        assert before.size == after.size
        assert before.mtime_ns != after.mtime_ns


def test_a_document_half_written_a_moment_ago_does_not_hide_the_folder(tmp_path: Path) -> None:
    write_keys(tmp_path, {"zarr.json": array(), "c/0/0": b"1234"})
    root = open_view("plain", LocalStore(str(tmp_path)), FOREVER)
    assert root.lookup("c").kind is Kind.FOLDER
    (tmp_path / "zarr.json").write_bytes(b"")
    assert set(root.list()) == {"zarr.json", "c"}
    assert json.loads(content_of(root, "zarr.json"))["shape"] == [4, 4]


def test_a_document_that_has_just_gone_does_not_hide_the_folder(tmp_path: Path) -> None:
    write_keys(tmp_path, {"zarr.json": array(), "c/0/0": b"1234"})
    root = open_view("plain", LocalStore(str(tmp_path)), FOREVER)
    assert root.lookup("c").kind is Kind.FOLDER
    (tmp_path / "zarr.json").unlink()
    assert set(root.list()) == {"c"}


def test_a_document_written_a_moment_ago_is_not_passed_on_as_it_is_stored(tmp_path: Path) -> None:
    root = open_view("plain", LocalStore(tmp_path), FOREVER)
    (tmp_path / "a").mkdir()
    folder = root.child("a")
    assert folder.list() == {}
    parts = [concat_parts("", (".index", 4))]
    write_keys(tmp_path, {"a/zarr.json": array(transformers=parts)})
    size = folder.lookup("zarr.json").size
    shown = content_of(root, "a/zarr.json")
    assert (len(shown), json.loads(shown)["storage_transformers"]) == (size, [])


def test_attributes_of_v2_are_read_again_when_they_change(tmp_path: Path) -> None:
    root = open_view("plain", LocalStore(tmp_path), 0)
    write_keys(tmp_path, {".zarray": v2_array(), ".zattrs": b'{"a": 1}'})
    assert json.loads(content_of(root, "zarr.json"))["attributes"] == {"a": 1}
    write_keys(tmp_path, {".zattrs": b'{"a": 1, "b": 2}'})
    assert json.loads(content_of(root, "zarr.json"))["attributes"] == {"a": 1, "b": 2}
