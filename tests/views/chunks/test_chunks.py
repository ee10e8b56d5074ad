"""The `chunks` view merges the parts of a chunk under its key and shows all else as it is stored."""

import contextlib
import errno
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from builders.folders import NEWEST_NS, write_keys
from builders.readers import read_clipped
from builders.stores import local, zip_deflated, zip_stored
from builders.views import content_of, folder_at, names_in, tree_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sampling import examples

from zarrfuse.errors import Corrupt, Denied, NotFound, NotSupported, errno_of
from zarrfuse.stores.base import Kind, Store
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.base import Folder
from zarrfuse.views.chunks.view import ChunksView

FOREVER = float("inf")
Viewer = Callable[[Mapping[str, bytes]], Folder]


@pytest.fixture(params=[local, zip_stored, zip_deflated])
def every(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Viewer]:
    """`every(keys)`: the view's root over each kind of store of these keys."""
    yield from viewer(tmp_path / "store", request.param)


@pytest.fixture
def view(tmp_path: Path) -> Iterator[Viewer]:
    """`view(keys)`: the view's root over a folder of these keys, which is `tmp_path / "store"`."""
    yield from viewer(tmp_path / "store", local)


def viewer(root: Path, make: Callable[[Path], Store]) -> Iterator[Viewer]:
    stores = []

    def of(keys: Mapping[str, bytes]) -> Folder:
        root.mkdir(exist_ok=True)
        write_keys(root, keys)
        stores.append(make(root))
        return ChunksView(stores[-1], 0).root

    yield of
    for store in stores:
        store.close()


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


def test_parts_are_one_file_under_the_key_of_the_chunk(every: Viewer) -> None:
    assert tree_of(every(SPLIT)) == {
        "zarr.json": SPLIT["zarr.json"],
        "README.txt": b"read me",
        "OME/METADATA.ome.xml": b"<OME/>",
        "a/zarr.json": SPLIT["a/zarr.json"],
        "a/c/0/1.tiff": b"abbbbcc",
        "a/c/1/0.tiff": b"13",
    }


def test_a_merged_file_has_the_summed_size_and_the_newest_time(view: Viewer) -> None:
    folder = folder_at(view(dict(list(SPLIT.items())[:7])), "a/c/0")
    entry = folder.lookup("1.tiff")
    assert (entry.kind, entry.size) == (Kind.FILE, 7)
    assert entry.mtime_ns // 1_000_000 == NEWEST_NS // 1_000_000  # the rest tells of all parts
    assert folder.list()["1.tiff"] == entry
    reader = folder.open("1.tiff")
    assert (reader.size, reader.mtime_ns) == (7, entry.mtime_ns)
    reader.close()


def test_a_part_is_not_found_under_its_own_key(every: Viewer) -> None:
    folder = folder_at(every(SPLIT), "a/c/0")
    for call in (folder.lookup, folder.open, folder.facts):
        with pytest.raises(NotFound):
            call("1.tiff.tail")


def test_a_chunk_without_any_part_is_not_there(every: Viewer) -> None:
    folder = folder_at(every(SPLIT), "a/c/0")
    for call in (folder.lookup, folder.open, folder.facts):
        with pytest.raises(NotFound):
            call("0.tiff")


def test_keys_that_are_no_chunks_of_the_grid_stay_files_with_their_parts(every: Viewer) -> None:
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
    shown = tree_of(every({**SPLIT, **strays}))
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
def test_every_key_encoding_is_merged(view: Viewer, layout: str) -> None:
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
    shown = tree_of(view(stored))
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
    every: Viewer, suffixes: Sequence[str], shown_folders: set[str]
) -> None:
    parts = {f"c/0{suffix}": suffix.encode() for suffix in suffixes}
    stored = {
        "zarr.json": array([4], transformers=[concat_parts(*suffixes)]),
        **parts,
        "c/README.txt": b"read me",
    }
    root = every(stored)
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


def test_stacked_transformers_split_each_part_again(every: Viewer) -> None:
    stacked = [concat_parts("", ".index"), concat_parts(".a", ".b")]
    stored = {
        "zarr.json": array([4], transformers=stacked),
        "c/0.a": b"1",
        "c/0.b": b"2",
        "c/0.index.a": b"3",
        "c/0.index.b": b"4",
        "c/0.index": b"none of its parts is called so",
    }
    root = every(stored)
    assert content_of(root, "c/0") == b"1234"
    assert names_in(root, "c") == {"0", "0.index"}


def test_ten_thousand_parts_are_one_file(view: Viewer) -> None:
    suffixes = [f".{index:05}" for index in range(10_000)]
    stored = {f"c/0{suffix}": suffix.encode() for suffix in suffixes}
    root = view({"zarr.json": array([4], transformers=[concat_parts(*suffixes)]), **stored})
    whole = b"".join(stored.values())
    assert names_in(root, "c") == {"0"}
    reader = root.child("c").open("0")
    assert reader.size == len(whole) == 60_000
    for offset, size in ((0, 60_000), (59_999, 1), (29_998, 13)):
        assert read_clipped(reader, offset, size) == whole[offset : offset + size]
    reader.close()


def test_a_chunk_of_many_parts_holds_no_descriptors(view: Viewer) -> None:
    suffixes = [f".{index:03}" for index in range(100)]
    stored = {f"c/0{suffix}": b"x" for suffix in suffixes}
    root = view({"zarr.json": array([4], transformers=[concat_parts(*suffixes)]), **stored})
    before = len(os.listdir("/proc/self/fd"))
    readers = [root.child("c").open("0") for _ in range(50)]
    assert len(os.listdir("/proc/self/fd")) == before
    for reader in readers:
        reader.close()


def test_open_files_are_given_back_when_a_chunk_cannot_be_opened(view: Viewer) -> None:
    root = view({**SPLIT, "a/c/0/0.tiff": b"only the main part"})
    os.symlink("/etc/passwd", f"{store_of(root)}/a/c/0/0.tiff.tail")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        with pytest.raises(Denied):
            folder_at(root, "a/c/0").open("0.tiff")
    assert len(os.listdir("/proc/self/fd")) == before


def store_of(root: Any) -> str:
    folder: str = root._view.store.root.path
    return folder


# -- broken chunks -------------------------------------------------------------------------------

SIZED = [concat_parts((".head", 2), "", (".tail", 4))]
BROKEN = {
    "a missing head": ({"": b"xx", ".tail": b"4444"}, "`.head` is missing"),
    "a missing main part": ({".head": b"22", ".tail": b"4444"}, "the main part is missing"),
    "a missing tail": ({".head": b"22", "": b"xx"}, "`.tail` is missing"),
    "a short part": ({".head": b"2", "": b"xx", ".tail": b"4444"}, "`.head` has 1 bytes"),
    "a long part": ({".head": b"22", "": b"xx", ".tail": b"55555"}, "`.tail` has 5 bytes"),
    "an empty part": ({".head": b"22", "": b"xx", ".tail": b""}, "`.tail` has 0 bytes"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_chunk_that_is_not_whole_is_listed_and_names_the_part_when_read(
    every: Viewer, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    stored, problem = BROKEN[case]
    keys = {f"img/c/0{suffix}": data for suffix, data in stored.items()}
    root = every({"img/zarr.json": array([4], transformers=SIZED), **keys})
    folder = folder_at(root, "img/c")
    size = sum(map(len, stored.values()))
    assert {name: entry.size for name, entry in folder.list().items()} == {"0": size}
    assert folder.lookup("0").size == size
    reader = folder.open("0")
    assert reader.size == size
    for wait in (True, False):
        with pytest.raises(Corrupt) as raised:
            read_clipped(reader, 0, 1, wait=wait)
        assert problem in str(raised.value)
        assert errno_of(raised.value) == errno.EIO
    reader.close()
    assert problem in folder.facts("0").to_json()["error"]
    folder.open("0").close()
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 1, said
    assert problem in said[0]
    assert "img" in said[0]
    assert "c/0" in said[0]


def test_parts_that_are_all_empty_but_one_missing_cannot_be_opened(view: Viewer) -> None:
    root = view({"zarr.json": array([4], transformers=[concat_parts("", ".x")]), "c/0": b""})
    with pytest.raises(Corrupt, match=r"`\.x` is missing"):
        root.child("c").open("0")


def test_a_folder_in_the_place_of_a_part_is_a_missing_part(every: Viewer) -> None:
    stored = {
        "zarr.json": array([4], transformers=[concat_parts("", ".x")]),
        "c/0": b"main",
        "c/0.x/file": b"",
    }
    reader = every(stored).child("c").open("0")
    with pytest.raises(Corrupt, match=r"`\.x` is missing"):
        read_clipped(reader, 0, 1)
    reader.close()


def test_a_folder_in_the_place_of_a_nested_part_makes_no_chunk(every: Viewer) -> None:
    stored = {
        "zarr.json": array([4], transformers=[concat_parts("", ".d/i")]),
        "c/0.d/i/file": b"",
    }
    folder = every(stored).child("c")
    assert set(folder.list()) == {"0.d"}
    with pytest.raises(NotFound):
        folder.lookup("0")


def test_a_chunk_is_whole_again_once_its_part_is_there(view: Viewer, tmp_path: Path) -> None:
    root = view({"zarr.json": array([4], transformers=SIZED), "c/0.head": b"11", "c/0": b"2"})
    with pytest.raises(Corrupt):
        content_of(root, "c/0")
    (tmp_path / "store/c/0.tail").write_bytes(b"3333")
    assert content_of(root, "c/0") == b"1123333"
    assert "error" not in root.child("c").facts("0").to_json()


def test_a_file_under_the_key_of_a_chunk_that_is_none_of_its_parts_is_not_shown(
    every: Viewer,
) -> None:
    stored = {
        "zarr.json": array([4], transformers=[concat_parts(".a", ".b")]),
        "c/0": b"foreign",
        "c/1": b"foreign",
        "c/1.a": b"1",
        "c/1.b": b"2",
    }
    root = every(stored)
    assert names_in(root, "c") == {"1"}
    assert content_of(root, "c/1") == b"12"
    for call in (root.child("c").lookup, root.child("c").open):
        with pytest.raises(NotFound):
            call("0")


# -- nodes ---------------------------------------------------------------------------------------


def test_a_node_below_an_array_has_its_own_chunks(every: Viewer) -> None:
    stored = {
        "zarr.json": array([4], transformers=[concat_parts("", ".i")]),
        "c/0": b"1",
        "c/0.i": b"2",
        "below/zarr.json": array([4], transformers=[concat_parts(".x", ".y")]),
        "below/c/0.x": b"3",
        "below/c/0.y": b"4",
        "below/c/0.i": b"a file here",
        "c/zarr.json": group(),
        "below/folder/0.i": b"a file",
    }
    shown = tree_of(every({key: data for key, data in stored.items() if key != "c/zarr.json"}))
    assert shown["c/0"] == b"12"
    assert shown["below/c/0"] == b"34"
    assert shown["below/c/0.i"] == b"a file here"


def test_a_node_in_the_folder_of_chunks_takes_what_is_below_it(view: Viewer) -> None:
    stored = {
        "zarr.json": array([4], transformers=[concat_parts("", ".i")]),
        "c/zarr.json": group(),
        "c/0": b"1",
        "c/0.i": b"2",
    }
    assert tree_of(view(stored)) == stored


@pytest.mark.parametrize("parts", [None, [concat_parts("")], [concat_parts(("", 3))]])
def test_an_array_stored_in_one_piece_is_shown_as_it_is(
    every: Viewer, parts: Sequence[Mapping[str, Any]] | None
) -> None:
    stored = {"zarr.json": array([4], transformers=parts or ()), "c/0": b"one", "c/1": b"two"}
    assert tree_of(every(stored)) == stored


def test_arrays_of_zarr_v2_are_nodes(every: Viewer) -> None:
    stored = {
        ".zgroup": b'{"zarr_format": 2}',
        ".zattrs": b"{}",
        "a/.zarray": v2_array(),
        "a/.zattrs": b'{"unit": "um"}',
        "a/0.1": b"chunk",
        "a/9.9": b"stray",
        "b/.zarray": v2_array(separator="/"),
        "b/0/1": b"chunk",
    }
    root = every(stored)
    assert tree_of(root) == stored
    facts = root.child("a").facts("0.1").to_json()
    assert (facts["zarr_format"], facts["chunk_coords"]) == (2, [0, 1])
    assert folder_at(root, "b/0").facts("1").to_json()["chunk_coords"] == [0, 1]
    assert "chunk_coords" not in root.child("a").facts("9.9").to_json()
    assert root.facts(None).to_json()["node_type"] == "group"


UNLOADABLE = {
    "an unknown extension": array(
        [4], extensions=[{"name": "example.unheard", "must_understand": True}]
    ),
    "an unknown storage transformer": array([4], transformers=[{"name": "example.unheard"}]),
    "an unknown encoding of keys": array([4], keys={"name": "example.unheard"}),
    "broken JSON": b'{"zarr_format": 3, "node_type": "array"',
    "an empty document": b"",
    "no object": b"[]",
    "bytes that are no text": b"\xff\xfe\x00",
    "another format": b'{"zarr_format": 9, "node_type": "array"}',
}


@pytest.mark.parametrize("case", UNLOADABLE)
def test_a_node_that_must_not_be_loaded_keeps_its_document_and_its_child_nodes(
    every: Viewer, case: str
) -> None:
    stored = {
        "zarr.json": group(),
        "bad/zarr.json": UNLOADABLE[case],
        "bad/c/0": b"chunk",
        "bad/child/zarr.json": array([4], transformers=[concat_parts("", ".i")]),
        "bad/child/c/0": b"1",
        "bad/child/c/0.i": b"2",
        "good/zarr.json": array([4]),
        "good/c/0": b"fine",
    }
    root = every(stored)
    assert names_in(root, "bad") == {"zarr.json", "c", "child"}
    assert content_of(root, "bad/zarr.json") == stored["bad/zarr.json"]
    assert content_of(root, "bad/child/c/0") == b"12"
    assert content_of(root, "good/c/0") == b"fine"
    for _ in range(3):
        folder = folder_at(root, "bad/c")
        assert folder.lookup("0").size == 5
        with pytest.raises(NotSupported) as raised:
            folder.open("0")
        assert errno_of(raised.value) == errno.ENOTSUP
        assert (
            str(raised.value) == folder.facts("0").error == folder_at(root, "bad").facts(None).error
        )
    assert str(raised.value).startswith("bad/zarr.json")


def test_what_cannot_be_loaded_is_logged_once(
    view: Viewer, caplog: pytest.LogCaptureFixture
) -> None:
    root = view({"bad/zarr.json": b"{", "bad/c/0": b"chunk"})
    bad = root.child("bad")
    for _ in range(3):
        bad.list()
        bad.facts(None).to_json()
        with pytest.raises(NotSupported):
            bad.child("c").open("0")
    assert len([r for r in caplog.records if "bad/zarr.json" in r.getMessage()]) == 1


def test_a_group_that_must_not_be_loaded_has_files_that_open(every: Viewer) -> None:
    root = every(
        {
            "zarr.json": group(extensions=[{"name": "example.unheard"}]),
            "README.txt": b"read me",
            "OME/METADATA.ome.xml": b"<OME/>",
            "a/zarr.json": array([4], transformers=[concat_parts("", ".i")]),
            "a/c/0": b"1",
            "a/c/0.i": b"2",
        }
    )
    assert content_of(root, "README.txt") == b"read me"
    assert content_of(root, "OME/METADATA.ome.xml") == b"<OME/>"
    assert content_of(root, "a/c/0") == b"12"
    assert "example.unheard" in root.facts(None).to_json()["error"]


def test_a_node_is_loaded_anew_when_its_document_is_rewritten(view: Viewer, tmp_path: Path) -> None:
    root = view({"a/zarr.json": b"{", "a/c/0": b"1", "a/c/0.i": b"2"})
    chunks = folder_at(root, "a/c")
    with pytest.raises(NotSupported):
        chunks.open("0")
    assert set(chunks.list()) == {"0", "0.i"}
    (tmp_path / "store/a/zarr.json").write_bytes(array([4], transformers=[concat_parts("", ".i")]))
    assert set(chunks.list()) == {"0"}
    assert content_of(root, "a/c/0") == b"12"
    (tmp_path / "store/a/zarr.json").unlink()
    assert set(chunks.list()) == {"0", "0.i"}
    assert content_of(root, "a/c/0") == b"1"


def test_a_document_larger_than_any_sane_one_is_not_read(view: Viewer, tmp_path: Path) -> None:
    root = view({"a/zarr.json": group(), "a/c/0": b"1"})
    with (tmp_path / "store/a/zarr.json").open("wb") as document:
        document.truncate(200 << 20)
    assert "209715200 bytes" in root.child("a").facts(None).to_json()["error"]
    assert root.child("a").lookup("zarr.json").size == 200 << 20
    reader = root.child("a").open("zarr.json")
    assert read_clipped(reader, 1 << 20, 3) == b"\0\0\0"
    reader.close()


def test_folders_without_metadata_are_folders(every: Viewer) -> None:
    stored = {
        "experiment/one.zarr/zarr.json": array([4], transformers=[concat_parts("", ".i")]),
        "experiment/one.zarr/c/0": b"1",
        "experiment/one.zarr/c/0.i": b"2",
        "experiment/two.zarr/.zarray": v2_array(),
        "experiment/two.zarr/0.0": b"3",
        "experiment/c/0": b"4",
        "experiment/c/0.i": b"5",
        "notes.txt": b"6",
    }
    shown = tree_of(every(stored))
    assert shown.pop("experiment/one.zarr/c/0") == b"12"
    del stored["experiment/one.zarr/c/0"], stored["experiment/one.zarr/c/0.i"]
    assert shown == stored


def test_a_folder_named_as_a_document_makes_no_node(every: Viewer) -> None:
    stored = {"zarr.json/file": b"x", "c/0": b"y"}
    assert tree_of(every(stored)) == stored


# -- facts ---------------------------------------------------------------------------------------


def test_facts_of_a_chunk_tell_where_it_is_in_the_array_and_in_the_store(view: Viewer) -> None:
    facts = folder_at(view(SPLIT), "a/c/0").facts("1.tiff").to_json()
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


def test_facts_of_a_folder_are_those_of_its_node(view: Viewer) -> None:
    root = view(SPLIT)
    assert root.child("a").facts(None).to_json()["node_type"] == "array"
    assert root.facts(None).to_json()["node_type"] == "group"
    assert folder_at(root, "a/c").facts(None).to_json() == {"view": "chunks", "path": "a/c"}


def test_facts_of_a_file_that_is_no_chunk_have_no_coordinates(view: Viewer) -> None:
    facts = view(SPLIT).facts("README.txt").to_json()
    assert (facts["kind"], facts["size"]) == ("file", 7)
    assert "chunk_coords" not in facts


# -- properties ----------------------------------------------------------------------------------

few = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """(transformers of an array of one dimension, the parts of its chunk c/0 in order)."""
    suffixes = st.lists(
        st.sampled_from(["", ".a", ".b", ".tiff", ".d/a", ".d/b", ".e/f/g", "-x", "_"]),
        min_size=1,
        max_size=24,
        unique=True,
    )
    stack = draw(
        st.one_of(
            st.lists(suffixes, min_size=1, max_size=1),
            st.just([["", ".i"], [".x", ".y", ".z"]]),
            st.just([[".i", ".j"], ["", ".x"]]),
            st.just([[f".{index}x" for index in range(20)]]),
        )
    )
    stored = [""]
    for suffixes_ in stack:
        stored = [before + suffix for before in stored for suffix in suffixes_]
    data = {suffix: draw(st.binary(max_size=30)) for suffix in stored}
    transformers = [concat_parts(*suffixes_) for suffixes_ in stack]
    if len(stack) == 1:
        transformers = [
            concat_parts(*[(s, len(data[s])) if draw(st.booleans()) else s for s in stack[0]])
        ]
    return transformers, data


@few
@given(layouts(), st.lists(st.tuples(st.integers(0, 600), st.integers(0, 600)), max_size=8))
def test_any_range_of_a_merged_file_is_that_slice_of_the_parts(
    layout: tuple[list[dict[str, Any]], dict[str, bytes]], ranges: Sequence[tuple[int, int]]
) -> None:
    transformers, parts = layout
    with tempfile.TemporaryDirectory() as folder:
        write_keys(
            Path(folder),
            {
                "zarr.json": array([4], transformers=transformers),
                **{f"c/0{suffix}": data for suffix, data in parts.items()},
            },
        )
        store = LocalStore(folder)
        chunks = ChunksView(store, FOREVER).root.child("c")
        whole = b"".join(parts.values())
        assert chunks.list()["0"].size == len(whole)
        reader = chunks.open("0")
        assert reader.size == len(whole)
        for offset, size in [(0, len(whole)), *ranges]:
            assert read_clipped(reader, offset, size) == whole[offset : offset + size]
            try:
                at_hand = read_clipped(reader, offset, size, wait=False)
            except BlockingIOError:
                continue
            assert at_hand == whole[offset : offset + size]
        reader.close()
        store.close()


NAMES = ["0", "1", "2", "01", "c", "0.i", "1.i", "2.i", "0.i.i", "0.x", "0.d", "1.d", "i", "x"]
KINDS = ["file", "folder", "link to a file", "link to a folder", "link outside", "dangling", "fifo"]
CONFIGURATIONS = [
    [concat_parts("", ".i")],
    [concat_parts(".i", ".x")],
    [concat_parts("/i", "/x")],
    [concat_parts("", ".d/i", ".d/x")],
    [concat_parts("", ".i"), concat_parts(".x", "")],
    [],
]


@settings(max_examples=examples(200), deadline=None)
@given(
    st.sampled_from(CONFIGURATIONS),
    st.sampled_from([default_keys(), v2_keys()]),
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(KINDS), max_size=8),
    st.dictionaries(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(["i", "x", "0"])),
        st.sampled_from(KINDS),
        max_size=6,
    ),
)
def test_what_is_listed_can_be_looked_up_and_nothing_else(
    transformers: Sequence[Mapping[str, Any]],
    keys: Mapping[str, Any],
    kinds: Mapping[str, str],
    below: Mapping[tuple[str, str], str],
) -> None:
    with tempfile.TemporaryDirectory() as base:
        root = Path(base, "store")
        (root / "c").mkdir(parents=True)
        (root / "zarr.json").write_bytes(array([4], keys=keys, transformers=transformers))
        folder = root if keys["name"] == "v2" else root / "c"
        (root / "target.txt").write_bytes(b"target")
        (root / "elsewhere").mkdir()
        for name, kind in kinds.items():
            if not os.path.lexists(folder / name):
                make(folder / name, kind, root)
        for (name, inner), kind in below.items():
            if kinds.get(name) == "folder" and (folder / name).is_dir():
                make(folder / name / inner, kind, root)
        store = LocalStore(str(root))
        view = ChunksView(store, FOREVER).root
        shown = view if keys["name"] == "v2" else view.child("c")
        assert_agrees(shown)
        for name in kinds:
            if (folder / name).is_dir() and not (folder / name).is_symlink():
                assert_agrees(shown.child(name))
        store.close()


def make(path: Path, kind: str, root: Path) -> None:
    if kind == "file":
        path.write_bytes(path.name.encode())
    elif kind == "folder":
        path.mkdir()
    elif kind == "link to a file":
        path.symlink_to(root / "target.txt")
    elif kind == "link to a folder":
        path.symlink_to(root / "elsewhere")
    elif kind == "link outside":
        path.symlink_to("/etc/passwd")
    elif kind == "dangling":
        path.symlink_to("nothing")
    else:
        os.mkfifo(path)


def assert_agrees(folder: Folder) -> None:
    listed = folder.list()
    for name in {*NAMES, *listed, "zarr.json", "target.txt", "elsewhere"}:
        try:
            entry = folder.lookup(name)
        except NotFound:
            assert name not in listed, f"{name} is listed and not found"
            if folder.path == "" or name not in ("zarr.json", "target.txt", "elsewhere"):
                with pytest.raises(NotFound):
                    folder.open(name)
        else:
            assert name in listed
            assert entry == replace(listed[name], atime_ns=entry.atime_ns), name
            if entry.kind is Kind.FILE:
                with contextlib.suppress(Denied, Corrupt):
                    folder.open(name).close()


@few
@given(
    st.sampled_from(CONFIGURATIONS),
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["file", "folder"]), max_size=8),
)
def test_without_waiting_the_answer_is_the_same_or_there_is_none(
    transformers: Sequence[Mapping[str, Any]], kinds: Mapping[str, str]
) -> None:
    with tempfile.TemporaryDirectory() as base:
        root = Path(base)
        (root / "c").mkdir()
        (root / "zarr.json").write_bytes(array([4], transformers=transformers))
        for name, kind in kinds.items():
            make(root / "c" / name, kind, root)
        store = LocalStore(base)
        for name in NAMES:
            chunks = ChunksView(store, FOREVER).root.child("c")
            at_once = outcome(lambda chunks=chunks, name=name: chunks.lookup(name, wait=False))
            waited = outcome(lambda chunks=chunks, name=name: chunks.lookup(name))
            assert at_once in (waited, "BlockingIOError")
            warm = outcome(lambda chunks=chunks, name=name: chunks.lookup(name, wait=False))
            assert warm in (waited, "BlockingIOError")

            def opened(wait: bool, chunks: Folder = chunks, name: str = name) -> tuple[int, int]:
                reader = chunks.open(name, wait=wait)
                reader.close()
                return reader.size, reader.mtime_ns

            waited = outcome(lambda opened=opened: opened(True))
            assert outcome(lambda opened=opened: opened(False)) in (waited, "BlockingIOError")
        store.close()


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except Exception as error:
        return type(error).__name__
