"""The `plain` view shows every chunk whole under its `default` key, whatever is stored."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from builders.documents import array, concat_parts, default_keys, group, suffix_keys, v2_keys
from builders.fake_stores import MemoryStore
from builders.folders import write_keys
from builders.views import content_of, folder_at
from core_documents import others, view

from zarrfuse.errors import Corrupt, Denied, NotFound
from zarrfuse.spec.chunk_keys import DefaultEncoding, parse_chunk_key_encoding
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.stores.base import Kind
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.choice import open_view
from zarrfuse.views.chunks.view import ChunksView
from zarrfuse.views.plain.chunks import PlainChunks

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
