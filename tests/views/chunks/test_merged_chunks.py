"""The `chunks` view merges the parts of a chunk under its key and shows all else as it is stored."""

import json
import os
from collections.abc import Sequence
from typing import Any

import pytest
from builders.documents import array, concat_parts, default_keys, group, suffix_keys, v2_keys
from builders.folders import NEWEST_NS
from builders.processes import open_files
from builders.readers import read_clipped
from builders.views import content_of, folder_at, names_in, tree_of
from viewers import Viewer

from zarrfuse.errors import Denied, NotFound
from zarrfuse.stores.base import Kind

PARTS = [concat_parts(".head", "", ".tail")]
SPLIT = {
    "zarr.json": group(),
    "README.txt": b"read me",
    "OME/METADATA.ome.xml": b"<OME/>",
    "a/zarr.json": array(keys=suffix_keys(".tiff"), transformers=PARTS),
    "a/c/0/1.tiff.tail": b"cc",
    "a/c/0/1.tiff": b"bbbb",
    "a/c/0/1.tiff.head": b"a",
    "a/c/1/0.tiff.head": b"1",
    "a/c/1/0.tiff": b"",
    "a/c/1/0.tiff.tail": b"3",
}


def test_parts_are_one_file_under_the_key_of_the_chunk(on_every_store: Viewer) -> None:
    assert tree_of(on_every_store(SPLIT)) == {
        "zarr.json": SPLIT["zarr.json"],
        "README.txt": b"read me",
        "OME/METADATA.ome.xml": b"<OME/>",
        "a/zarr.json": SPLIT["a/zarr.json"],
        "a/c/0/1.tiff": b"abbbbcc",
        "a/c/1/0.tiff": b"13",
    }


def test_a_merged_file_has_the_summed_size_and_the_newest_time(on_a_folder: Viewer) -> None:
    folder = folder_at(on_a_folder(dict(list(SPLIT.items())[:7])), "a/c/0")
    entry = folder.lookup("1.tiff")
    assert (entry.kind, entry.size) == (Kind.FILE, 7)
    assert entry.mtime_ns // 1_000_000 == NEWEST_NS // 1_000_000  # the rest tells of all parts
    assert folder.list()["1.tiff"] == entry
    reader = folder.open("1.tiff")
    assert (reader.size, reader.mtime_ns) == (7, entry.mtime_ns)
    reader.close()


def test_a_part_is_not_found_under_its_own_key(on_every_store: Viewer) -> None:
    folder = folder_at(on_every_store(SPLIT), "a/c/0")
    for call in (folder.lookup, folder.open, folder.facts):
        with pytest.raises(NotFound):
            call("1.tiff.tail")


def test_a_chunk_without_any_part_is_not_there(on_every_store: Viewer) -> None:
    folder = folder_at(on_every_store(SPLIT), "a/c/0")
    for call in (folder.lookup, folder.open, folder.facts):
        with pytest.raises(NotFound):
            call("0.tiff")


def test_keys_that_are_no_chunks_of_the_grid_stay_files_with_their_parts(
    on_every_store: Viewer,
) -> None:
    strays = {
        "a/c/0/2.tiff": b"behind the edge",
        "a/c/0/2.tiff.tail": b"its tail",
        "a/c/0/01.tiff": b"no number",
        "a/c/0/1.tif": b"another suffix",
        "a/c/0/1.tiff.tail.tail": b"two tails",
        "a/c/0/.tail": b"only a tail",
        "a/c/0/1.tiff/notes.txt": b"",
        "a/notes.txt": b"notes",
        "a/c.tail": b"",
        "a/d/0/1.tiff": b"elsewhere",
    }
    del strays["a/c/0/1.tiff/notes.txt"]  # a file stands there
    shown = tree_of(on_every_store({**SPLIT, **strays}))
    assert {key: shown[key] for key in strays} == strays
    assert shown["a/c/0/1.tiff"] == b"abbbbcc"


FLAT: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "default with dots": (default_keys("."), 2, "c.0.1", "c.0.2"),
    "suffix behind dots": (suffix_keys(".tiff", default_keys(".")), 2, "c.0.1.tiff", "c.0.2.tiff"),
    "v2": (v2_keys(), 2, "0.1", "0.2"),
    "v2 with slashes": (v2_keys("/"), 2, "0/1", "0/2"),
    "scalar": (default_keys(), 0, "c", "c/0"),
    "scalar with a suffix": (suffix_keys(".tiff"), 0, "c.tiff", "c"),
    "scalar, v2": (v2_keys(), 0, "0", "1"),
    "suffix in a folder": (suffix_keys("/image.tiff"), 2, "c/0/1/image.tiff", "c/0/2/image.tiff"),
    "suffix of a suffix": (suffix_keys(".gz", suffix_keys(".tiff")), 1, "c/1.tiff.gz", "c/1.tiff"),
}


@pytest.mark.parametrize("layout", FLAT)
def test_every_key_encoding_is_merged(on_a_folder: Viewer, layout: str) -> None:
    keys, ndim, chunk, stray = FLAT[layout]
    stored = {
        "zarr.json": array([4] * ndim, keys=keys, transformers=PARTS),
        f"{chunk}.head": b"1",
        chunk: b"2",
        f"{chunk}.tail": b"3",
        f"{stray}.tail": b"stays",
    }
    if stray.startswith(f"{chunk}/"):
        del stored[f"{stray}.tail"]
    shown = tree_of(on_a_folder(stored))
    expected = {key: stored[key] for key in ("zarr.json", f"{stray}.tail") if key in stored}
    assert shown == {**expected, chunk: b"123"}


@pytest.mark.parametrize(
    ("suffixes", "shown_folders"),
    [
        ((".d/head", "", ".d/deep/tail"), {"c/0.d", "c/0.d/deep"}),
        (("/head", "/main", "/deep/tail"), set()),
        (("/0/x", "/1/x"), set()),
    ],
)
def test_parts_in_sub_folders_are_merged_beside_them(
    on_every_store: Viewer, suffixes: Sequence[str], shown_folders: set[str]
) -> None:
    parts = {f"c/0{suffix}": suffix.encode() for suffix in suffixes}
    stored = {
        "zarr.json": array([4], transformers=[concat_parts(*suffixes)]),
        **parts,
        "c/README.txt": b"read me",
    }
    root = on_every_store(stored)
    entry = root.child("c").list()["0"]
    assert (entry.kind, entry.size) == (Kind.FILE, sum(map(len, parts.values())))
    assert root.child("c").lookup("0") == entry
    assert content_of(root, "c/0") == b"".join(parts.values())
    shown = tree_of(root)
    assert {key for key, data in shown.items() if data is not None} == {
        "zarr.json",
        "c/0",
        "c/README.txt",
    }
    assert {key for key, data in shown.items() if data is None} <= shown_folders


def test_stacked_transformers_split_each_part_again(on_every_store: Viewer) -> None:
    stacked = [concat_parts("", ".index"), concat_parts(".a", ".b")]
    stored = {
        "zarr.json": array([4], transformers=stacked),
        "c/0.a": b"1",
        "c/0.b": b"2",
        "c/0.index.a": b"3",
        "c/0.index.b": b"4",
        "c/0.index": b"none of its parts is called so",
    }
    root = on_every_store(stored)
    assert content_of(root, "c/0") == b"1234"
    assert names_in(root, "c") == {"0", "0.index"}


def test_ten_thousand_parts_are_one_file(on_a_folder: Viewer) -> None:
    suffixes = [f".{index:05}" for index in range(10_000)]
    stored = {f"c/0{suffix}": suffix.encode() for suffix in suffixes}
    root = on_a_folder({"zarr.json": array([4], transformers=[concat_parts(*suffixes)]), **stored})
    whole = b"".join(stored.values())
    assert names_in(root, "c") == {"0"}
    reader = root.child("c").open("0")
    assert reader.size == len(whole) == 60_000
    for offset, size in ((0, 60_000), (59_999, 1), (29_998, 13)):
        assert read_clipped(reader, offset, size) == whole[offset : offset + size]
    reader.close()


def test_a_chunk_of_many_parts_holds_no_descriptors(on_a_folder: Viewer) -> None:
    suffixes = [f".{index:03}" for index in range(100)]
    stored = {f"c/0{suffix}": b"x" for suffix in suffixes}
    root = on_a_folder({"zarr.json": array([4], transformers=[concat_parts(*suffixes)]), **stored})
    before = len(open_files())
    readers = [root.child("c").open("0") for _ in range(50)]
    assert len(open_files()) == before
    for reader in readers:
        reader.close()


def test_open_files_are_given_back_when_a_chunk_cannot_be_opened(on_a_folder: Viewer) -> None:
    root = on_a_folder({**SPLIT, "a/c/0/0.tiff": b"only the main part"})
    os.symlink("/etc/passwd", f"{store_of(root)}/a/c/0/0.tiff.tail")
    before = len(open_files())
    for _ in range(10):
        with pytest.raises(Denied):
            folder_at(root, "a/c/0").open("0.tiff")
    assert len(open_files()) == before


def store_of(root: Any) -> str:
    folder: str = root._view.store.root.path
    return folder


# -- facts


def test_facts_of_a_chunk_tell_where_it_is_in_the_array_and_in_the_store(
    on_a_folder: Viewer,
) -> None:
    facts = folder_at(on_a_folder(SPLIT), "a/c/0").facts("1.tiff").to_json()
    expected = {
        "view": "chunks",
        "path": "a/c/0/1.tiff",
        "kind": "file",
        "size": 7,
        "node": "a",
        "node_type": "array",
        "shape": [4, 4],
        "chunk_shape": [2, 2],
        "data_type": "uint8",
        "fill_value": 0,
        "dimension_names": ["d0", "d1"],
        "key": "c/0/1.tiff",
        "chunk_coords": [0, 1],
        "parts": [
            {"key_suffix": ".head", "key": "a/c/0/1.tiff.head", "stored_size": 1},
            {"key_suffix": "", "key": "a/c/0/1.tiff", "stored_size": 4},
            {"key_suffix": ".tail", "key": "a/c/0/1.tiff.tail", "stored_size": 2},
        ],
    }
    assert {key: facts[key] for key in expected} == expected
    assert "error" not in facts
    json.dumps(facts)


def test_facts_of_a_folder_are_those_of_its_node(on_a_folder: Viewer) -> None:
    root = on_a_folder(SPLIT)
    assert root.child("a").facts(None).to_json()["node_type"] == "array"
    assert root.facts(None).to_json()["node_type"] == "group"
    assert folder_at(root, "a/c").facts(None).to_json() == {"view": "chunks", "path": "a/c"}


def test_facts_of_a_file_that_is_no_chunk_have_no_coordinates(on_a_folder: Viewer) -> None:
    facts = on_a_folder(SPLIT).facts("README.txt").to_json()
    assert (facts["kind"], facts["size"]) == ("file", 7)
    assert "chunk_coords" not in facts
