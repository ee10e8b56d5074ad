"""The `plain` view shows core Zarr v3, whatever is stored."""

import errno
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

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
from builders.fake_stores import MTIME_NS, FailingStore, ForwardingStore, MemoryStore
from builders.folders import write_keys
from builders.views import content_of, folder_at, tree_of, view_of
from hypothesis import example, given
from hypothesis import strategies as st

from zarrfuse.errors import Corrupt, Denied, NotFound, NotSupported
from zarrfuse.spec.chunk_keys import DefaultEncoding, parse_chunk_key_encoding
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.stores.base import Kind, Store
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.base import Folder
from zarrfuse.views.choice import open_view
from zarrfuse.views.chunks.view import ChunksView
from zarrfuse.views.nodes import Loaded
from zarrfuse.views.plain import nodes as plain_nodes
from zarrfuse.views.plain.chunks import PlainChunks
from zarrfuse.views.plain.nodes import refusal

FOREVER = float("inf")


view = partial(view_of, "plain")


def others(root: Folder) -> dict[str, bytes | None]:
    """Every path but the `zarr.json`, which must be readable as plain ones."""
    shown = tree_of(root)
    for path in [path for path in shown if path.rpartition("/")[2] == "zarr.json"]:
        document = json.loads(shown.pop(path) or b"")
        assert document["zarr_format"] == 3
        if document["node_type"] == "array":
            assert document["chunk_key_encoding"] == default_keys()
            assert document["storage_transformers"] == []
        assert "extensions" not in document
    return shown


NESTED = suffix_keys("/data.bin")


@pytest.mark.parametrize(
    "keys, stored",
    [
        (default_keys(), "c/0/1"),
        (default_keys("."), "c.0.1"),
        (v2_keys("."), "0.1"),
        (v2_keys("/"), "0/1"),
        (suffix_keys(".tiff"), "c/0/1.tiff"),
        (suffix_keys(".tiff", default_keys(".")), "c.0.1.tiff"),
        (suffix_keys(".tiff", v2_keys("/")), "0/1.tiff"),
        (NESTED, "c/0/1/data.bin"),
        (suffix_keys("x/y/z.bin", v2_keys("/")), "0/1x/y/z.bin"),
        (suffix_keys(".d/data.bin", v2_keys(".")), "0.1.d/data.bin"),
    ],
)
def test_a_chunk_is_under_its_default_key(keys: dict[str, Any], stored: str) -> None:
    root = view({"a/zarr.json": array(keys=keys), f"a/{stored}": b"data", "a/notes.txt": b"n"})
    assert others(root) == {"a/c/0/1": b"data", "a/notes.txt": b"n"}
    with pytest.raises(NotFound):
        folder_at(root, "a/c/0").lookup("0")
    with pytest.raises(NotFound):
        folder_at(root, "a/c/0").open("0")


def test_parts_are_merged_under_the_default_key() -> None:
    parts = [concat_parts(".head", "", ".tail")]
    root = view(
        {
            "zarr.json": array(keys=suffix_keys(".tiff"), transformers=parts),
            "c/0/1.tiff.head": b"a",
            "c/0/1.tiff": b"bb",
            "c/0/1.tiff.tail": b"c",
            "c/1/1.tiff": b"only one",
        }
    )
    folder = folder_at(root, "c/0")
    assert list(folder.list()) == ["1"]
    assert content_of(root, "c/0/1") == b"abbc"
    with pytest.raises(Corrupt, match=r"part `\.head` is missing"):
        content_of(root, "c/1/1")


@pytest.mark.parametrize("ndim", [1, 3])
@pytest.mark.parametrize("separator", ["/", "."])
@pytest.mark.parametrize("encoding", [default_keys, v2_keys])
def test_any_number_of_dimensions(encoding: Any, separator: str, ndim: int) -> None:
    keys = parse_chunk_key_encoding(encoding(separator))
    coords = [(0,) * ndim, (1,) * ndim, (1, *(0,) * (ndim - 1))]
    stored = {keys.encode(c): str(c).encode() for c in coords}
    root = view({"zarr.json": array((4,) * ndim, keys=encoding(separator)), **stored})
    assert others(root) == {"/".join(map(str, ("c", *c))): str(c).encode() for c in coords}


@pytest.mark.parametrize(
    "keys, stored",
    [
        (default_keys(), "c"),
        (v2_keys(), "0"),
        (suffix_keys(".tiff"), "c.tiff"),
        (NESTED, "c/data.bin"),
    ],
)
def test_the_chunk_of_a_scalar_is_c(keys: dict[str, Any], stored: str) -> None:
    root = view({"zarr.json": array((), keys=keys), stored: b"one"})
    assert others(root) == {"c": b"one"}
    assert root.facts("c").to_json()["stored_key"] == stored
    empty = view({"zarr.json": array((), keys=keys)})
    assert others(empty) == {}
    with pytest.raises(NotFound):
        empty.lookup("c")


def test_other_files_stay_unless_they_lie_in_the_way() -> None:
    root = view(
        {
            "zarr.json": array(keys=suffix_keys(".tiff")),
            ".zattrs": b"{}",
            ".zarray": b"{}",
            "c/README": b"r",
            "c/0/1.tiff": b"chunk",
            "c/0/0": b"in the way of a chunk",
            "c/0/notes.txt": b"n",
            "c/0/.zmetadata": b"?",
            "c/0/7.tiff": b"outside the grid",
            "c/5/0.tiff": b"outside the grid",
            "c/0/more/x": b"x",
            "d/c/x": b"deeper",
        }
    )
    assert others(root) == {
        "c/README": b"r",
        "c/0/1": b"chunk",
        "c/0/notes.txt": b"n",
        "c/0/7.tiff": b"outside the grid",
        "c/5/0.tiff": b"outside the grid",
        "c/0/more/x": b"x",
        "d/c/x": b"deeper",
    }
    for hidden in ("c/0/0", "c/0/1.tiff", "c/0/.zmetadata", ".zattrs", ".zarray", "c/1/1"):
        folder, _, name = hidden.rpartition("/")
        with pytest.raises(NotFound):
            folder_at(root, folder).lookup(name)
        with pytest.raises(NotFound):
            folder_at(root, folder).open(name)


@pytest.mark.parametrize("stored", ["0/0", "0.0"])
def test_a_stored_c_that_holds_no_chunks_lies_in_the_way(stored: str) -> None:
    keys = v2_keys(stored[1])
    root = view({"zarr.json": array(keys=keys), stored: b"chunk", "c/x": b"x", "z": b"z"})
    assert others(root) == {"c/0/0": b"chunk", "z": b"z"}
    for name in ("0", "0.0"):
        with pytest.raises(NotFound):
            root.lookup(name)
    with pytest.raises(NotFound):
        root.child("c").lookup("x")
    with pytest.raises(NotFound):
        root.child("0").open("0")


def test_an_array_without_chunks_shows_no_folder_of_chunks() -> None:
    for keys in (default_keys(), v2_keys("."), v2_keys("/")):
        assert others(view({"a/zarr.json": array(keys=keys), "a/x": b"x"})) == {"a/x": b"x"}


@pytest.mark.parametrize("path", ["c/0/0", "c/0/0/0", "s/c", "c/0/0/x"])
def test_a_chunk_is_no_folder(path: str) -> None:
    root = view(
        {"zarr.json": array(), "c/0/0": b"0", "s/zarr.json": array((), keys=v2_keys()), "s/0": b"s"}
    )
    with pytest.raises(NotFound):
        folder_at(root, path).list()
    with pytest.raises(NotFound):
        folder_at(root, path).lookup("0")


def test_groups_and_folders_are_as_they_are() -> None:
    keys = {
        "zarr.json": group(attributes={"a": 1}),
        "README.txt": b"read me",
        "c/0/1": b"no chunk",
        "g/a/zarr.json": array(keys=v2_keys()),
        "g/a/1.0": b"chunk",
        "empty/": b"",
    }
    assert others(view(keys)) == {
        "README.txt": b"read me",
        "c/0/1": b"no chunk",
        "g/a/c/1/0": b"chunk",
        "empty": None,
    }


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
    reason = "a/.zarray: the codec 'zlib' is none of Zarr v3"
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
        (array(codecs=["gzip"]), "a/zarr.json: codecs: none of them makes bytes of an array"),
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


# -- what it costs


class Counted(ForwardingStore):
    """Counts calls; what is asked without waiting is not at hand if `cold`."""

    def __init__(self, inner: Store, *, cold: bool = False) -> None:
        super().__init__(inner)
        self.calls: list[tuple[str, str]] = []
        self._cold = cold

    def before(self, call: str, key: str, wait: bool) -> None:
        if self._cold and not wait:
            raise BlockingIOError(errno.EAGAIN, "not at hand")
        if call not in ("scanned", "close", "readinto"):
            self.calls.append((call, key))


def test_listing_a_chunk_folder_looks_into_no_other() -> None:
    keys = {f"c/{z}/{y}/{x}.bin": b"1" for z in range(3) for y in range(3) for x in range(3)}
    store = Counted(MemoryStore({"zarr.json": array((6, 6, 6), keys=suffix_keys(".bin")), **keys}))
    root = open_view("plain", store, FOREVER)
    assert list(folder_at(root, "c/1").list()) == ["0", "1", "2"]
    assert [key for call, key in store.calls if call == "scan"] == ["c/1"]
    assert [key for call, key in store.calls if call == "open"] == ["zarr.json"]


def test_a_folder_of_many_chunks_costs_no_call_for_each() -> None:
    many = 100_000
    keys = {f"c/0/{x}.bin": b"1" for x in range(many)}
    document = array((2, 2 * many), keys=suffix_keys(".bin"))
    store = Counted(MemoryStore({"zarr.json": document, **keys}))
    root = open_view("plain", store, FOREVER)
    assert len(folder_at(root, "c/0").list()) == many
    assert len(store.calls) < 20


def test_a_tree_of_flat_keys_is_listed_with_two_listings() -> None:
    keys = {f"{y}.{x}": b"1" for y in range(50) for x in range(50)}
    store = Counted(MemoryStore({"zarr.json": array((100, 100), keys=v2_keys()), **keys}))
    root = open_view("plain", store, FOREVER)
    assert len(others(root)) == 2500
    assert [key for call, key in store.calls if call == "scan"] == ["", ""]


def test_a_chunk_under_a_flat_key_is_found_without_a_listing() -> None:
    store = Counted(MemoryStore({"zarr.json": array(keys=v2_keys()), "1.0": b"chunk"}))
    root = open_view("plain", store, FOREVER)
    assert root.lookup("c").kind is root.child("c").lookup("1").kind is Kind.FOLDER
    assert content_of(root, "c/1/0") == b"chunk"
    assert "scan" not in {call for call, _ in store.calls}


def test_what_is_not_at_hand_is_not_waited_for() -> None:
    keys = {"a/zarr.json": array(keys=v2_keys()), "a/1.0": b"chunk"}
    root = open_view("plain", Counted(MemoryStore(keys), cold=True), 0)
    for path in ("a/zarr.json", "a/c", "a/c/1", "a/c/1/0", "a/1.0"):
        folder, _, name = path.rpartition("/")
        with pytest.raises(BlockingIOError):
            folder_at(root, folder).lookup(name, wait=False)
        with pytest.raises(BlockingIOError):
            folder_at(root, folder).open(name, wait=False)


def test_who_must_not_wait_does_not_judge_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its document may be 64 MiB of fill value. Here it is asked for while a thread is at it."""
    root = view({"zarr.json": array(), "c/0/0": b"1234"}, FOREVER)
    judged = []

    def judging(loaded: Loaded) -> str | None:
        judged.append(loaded)
        with pytest.raises(BlockingIOError):
            root.lookup("c", wait=False)
        return refusal(loaded)

    monkeypatch.setattr(plain_nodes, "refusal", judging)
    assert root.lookup("c") == root.lookup("c", wait=False)
    assert len(judged) == 1


def test_a_document_that_was_written_is_at_hand() -> None:
    root = view({"a/zarr.json": array()}, FOREVER).child("a")
    with pytest.raises(BlockingIOError):
        root.lookup("zarr.json", wait=False)
    entry = root.lookup("zarr.json")
    assert root.lookup("zarr.json", wait=False) == entry
    assert entry.mtime_ns == MTIME_NS


# -- links


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Path]:
    """A folder that is a store."""
    store = tmp_path / "store"
    store.mkdir()
    yield store


def test_links_hold_chunks_like_folders(local: Path) -> None:
    write_keys(local, {"a/zarr.json": array(keys=suffix_keys(".x")), "data/0/1.x": b"chunk"})
    (local / "a/c").symlink_to("../data")
    (local / "a/l").symlink_to("../data")
    (local / "a/out").symlink_to("/")
    root = open_view("plain", LocalStore(str(local)), 0)
    folder = root.child("a")
    assert folder.list()["c"].kind is folder.lookup("c").kind is Kind.FOLDER
    assert content_of(root, "a/c/0/1") == b"chunk"
    assert set(folder_at(root, "a/c/0").list()) == {"1"}
    assert folder.lookup("l").kind is Kind.LINK
    assert folder.readlink("l") == "../data"
    assert folder.lookup("out").denied


def test_chunk_folders_out_of_reach_are_shown_and_denied(local: Path) -> None:
    write_keys(local, {"a/zarr.json": array(), "a/c/0/0": b"0", "b/zarr.json": array()})
    (local / "a/c/1").symlink_to("/usr")
    (local / "b/c").symlink_to("/usr")
    root = open_view("plain", LocalStore(str(local)), 0)
    for path, name in (("a/c", "1"), ("b", "c")):
        assert folder_at(root, path).list()[name].denied
        assert folder_at(root, path).lookup(name).denied
    for path in ("a/c/1", "b/c/0"):
        with pytest.raises(Denied):
            folder_at(root, path).lookup("0")


def test_a_link_beside_chunks_leads_where_it_led(local: Path) -> None:
    write_keys(local, {"zarr.json": array(), "c/0/1": b"chunk", "data/x": b"x"})
    (local / "c/0/l").symlink_to("../../data")
    (local / "c/0/0").symlink_to("/etc/passwd")
    root = open_view("plain", LocalStore(str(local)), 0)
    assert folder_at(root, "c/0").readlink("l") == "../../data"
    assert folder_at(root, "c/0").lookup("0").denied
    assert folder_at(root, "c/0").list()["0"].denied
    assert os.fspath(local)


@pytest.mark.parametrize(
    "link, to, shown_in, expected",
    [
        ("a/0/l", "../../data", "a/c/0", "../../../data"),
        ("a/0/l", "../1", "a/c/0", "../1"),
        ("a/0/l", "../more", "a/c/0", "../../more"),
        ("a/0/l", "more", "a/c/0", "more"),
        ("a/l", "1", "a", "c/1"),
        ("a/l", "0/more", "a", "c/0/more"),
        ("a/l", "more", "a", "more"),
        ("a/l", ".", "a", "."),
        ("a/0/l", "../..", "a/c/0", "../../.."),
        ("a/0/l", "../../.data", "a/c/0", "../../../.data"),
        ("a/0/l", "./nothing", "a/c/0", "nothing"),
        ("a/more/l", "../0", "a/more", "../c/0"),
    ],
)
def test_a_link_leads_to_where_its_target_is_shown(
    local: Path, link: str, to: str, shown_in: str, expected: str
) -> None:
    """Of keys `0/1` the folders of chunks are shown a step further down, and what is in them too."""
    keys = {"a/zarr.json": array(keys=v2_keys("/")), "a/0/1": b"chunk", "a/1/0": b"chunk"}
    write_keys(
        local, {**keys, "data/x": b"x", ".data/x": b"x", "a/more/x": b"x", "a/0/more/x": b"x"}
    )
    (local / link).symlink_to(to)
    folder = folder_at(open_view("plain", LocalStore(str(local)), 0), shown_in)
    assert folder.list()["l"].kind is folder.lookup("l").kind is Kind.LINK
    assert folder.readlink("l") == expected


# -- side by side


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


# -- encodings from elsewhere


@dataclass(frozen=True)
class Reversed(DefaultEncoding):
    """The last coordinate first: a stored folder holds chunks of many folders that are shown."""

    def encode(self, coords: Sequence[int]) -> str:
        return super().encode(coords[::-1]).removeprefix("c/") if coords else "x/y"

    def decode(self, key: str, ndim: int) -> tuple[int, ...] | None:
        if not ndim:
            return () if key == "x/y" else None
        coords = super().decode(f"c/{key}", ndim)
        return None if coords is None else coords[::-1]


@pytest.mark.parametrize("shape", [(4, 6), (6,), ()])
def test_an_encoding_from_elsewhere_is_shown_like_any_other(shape: tuple[int, ...]) -> None:
    node = parse_v3(array(shape))
    assert isinstance(node, ArrayNode)
    node = replace(node, chunk_keys=Reversed())
    coords = list(product(*map(range, node.grid_shape)))
    stored = {f"a/{node.chunk_key(c)}": str(c).encode() for c in coords}
    store = MemoryStore({"a/zarr.json": array(shape), "a/x.txt": b"x", "a/0/x": b"x", **stored})
    chunks_view = ChunksView(store, 0)
    folder = chunks_view.root.child("a")
    chunks = PlainChunks(chunks_view, folder, node)
    shown = {entry.name: entry.kind for entry in chunks.scan_array()}
    assert shown["c"] is (Kind.FOLDER if shape else Kind.FILE)
    assert shown["x.txt"] is Kind.FILE
    assert chunks.top().kind is shown["c"]
    found = [()]
    for _ in shape:
        found = [(*c, int(entry.name)) for c in found for entry in chunks.scan(c)]
    assert sorted(found) == coords
    for c in coords:
        reader = chunks.open_chunk(c)
        assert reader.size == len(str(c))
        assert chunks.facts(c).to_json()["stored_key"] == node.chunk_key(c)
    assert chunks.is_taken(node.chunk_key((0,) * len(shape)), Kind.FILE)


# -- any array

encodings = st.recursive(
    st.sampled_from([default_keys("/"), default_keys("."), v2_keys("/"), v2_keys(".")]),
    lambda inner: st.builds(suffix_keys, st.sampled_from([".tiff", "x", "/data", ".a/b.c"]), inner),
    max_leaves=1,
)


@st.composite
def arrays(draw: st.DrawFn) -> tuple[bytes, dict[tuple[int, ...], str]]:
    """A document, and the stored keys of some of its chunks by their coordinates."""
    shape = draw(st.lists(st.integers(0, 40), max_size=4))
    chunk_shape = [draw(st.integers(1, 8)) for _ in shape]
    keys = draw(encodings)
    document = array(shape, chunk_shape, keys=keys)
    node = parse_v3(document)
    assert isinstance(node, ArrayNode)
    if 0 in node.grid_shape:
        return document, {}
    one = st.tuples(*(st.integers(0, count - 1) for count in node.grid_shape))
    return document, {coords: node.chunk_key(coords) for coords in draw(st.sets(one, max_size=12))}


@given(arrays(), st.sampled_from([0.0, FOREVER]))
def test_the_chunks_shown_are_the_chunks_stored(
    stored: tuple[bytes, dict[tuple[int, ...], str]], ttl_s: float
) -> None:
    document, keys = stored
    chunks = {f"a/{key}": str(coords).encode() for coords, key in keys.items()}
    root = view({"a/zarr.json": document, "a/x.txt": b"x", **chunks}, ttl_s)
    assert others(root) == {
        "a/x.txt": b"x",
        **{"/".join(map(str, ("a/c", *c))): str(c).encode() for c in keys},
    }
    for coords, key in keys.items():
        folder, _, name = "/".join(map(str, ("a/c", *coords))).rpartition("/")
        facts = folder_at(root, folder).facts(name).to_json()
        assert facts["chunk_coords"] == list(coords)
        assert facts["stored_key"] == key


segments = st.sampled_from(
    [
        "c",
        "0",
        "1",
        "7",
        "00",
        "0.1",
        "c.0.1",
        "0.tiff",
        "1.tiff",
        "0x",
        "x",
        "data",
        ".zattrs",
        "n",
    ]
)


@given(
    st.sampled_from([(), (4,), (4, 4), (4, 4, 4)]),
    encodings,
    st.sets(st.lists(segments, min_size=1, max_size=5).map("/".join), max_size=15),
)
@example((4, 4), suffix_keys("x", v2_keys("/")), {"0/0x/n"})  # a folder under a chunk's key
def test_whatever_else_is_stored_the_chunks_shown_are_those_stored(
    shape: tuple[int, ...], keys: dict[str, Any], names: set[str]
) -> None:
    document = array(shape, keys=keys)
    node = parse_v3(document)
    assert isinstance(node, ArrayNode)
    files = {name for name in names if not any(other.startswith(f"{name}/") for other in names)}
    root = view({"zarr.json": document, **{name: name.encode() for name in files}})
    shown = tree_of(root)
    stored = {c: name for name in files if (c := node.chunk_at(name)) is not None}
    decode = parse_chunk_key_encoding(default_keys()).decode
    chunks = {
        coords: data.decode()
        for path, data in shown.items()
        if data is not None
        and (coords := decode(path, node.ndim)) is not None
        and all(n < count for n, count in zip(coords, node.grid_shape, strict=True))
    }
    assert chunks == stored
    assert ".zattrs" not in shown


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
