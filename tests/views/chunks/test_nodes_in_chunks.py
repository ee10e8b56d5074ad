"""Which nodes the `chunks` view finds, and what it shows of one that must not be loaded."""

import errno
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from builders.documents import array, concat_parts, group, v2_array
from builders.readers import read_clipped
from builders.views import content_of, folder_at, names_in, tree_of
from viewers import Viewer

from zarrfuse.errors import NotSupported, errno_of


def test_a_node_below_an_array_has_its_own_chunks(on_every_store: Viewer) -> None:
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
    shown = tree_of(
        on_every_store({key: data for key, data in stored.items() if key != "c/zarr.json"})
    )
    assert shown["c/0"] == b"12"
    assert shown["below/c/0"] == b"34"
    assert shown["below/c/0.i"] == b"a file here"


def test_a_node_in_the_folder_of_chunks_takes_what_is_below_it(on_a_folder: Viewer) -> None:
    stored = {
        "zarr.json": array([4], transformers=[concat_parts("", ".i")]),
        "c/zarr.json": group(),
        "c/0": b"1",
        "c/0.i": b"2",
    }
    assert tree_of(on_a_folder(stored)) == stored


@pytest.mark.parametrize("parts", [None, [concat_parts("")], [concat_parts(("", 3))]])
def test_an_array_stored_in_one_piece_is_shown_as_it_is(
    on_every_store: Viewer, parts: Sequence[Mapping[str, Any]] | None
) -> None:
    stored = {"zarr.json": array([4], transformers=parts or ()), "c/0": b"one", "c/1": b"two"}
    assert tree_of(on_every_store(stored)) == stored


def test_arrays_of_zarr_v2_are_nodes(on_every_store: Viewer) -> None:
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
    root = on_every_store(stored)
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
    on_every_store: Viewer, case: str
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
    root = on_every_store(stored)
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
    on_a_folder: Viewer, caplog: pytest.LogCaptureFixture
) -> None:
    root = on_a_folder({"bad/zarr.json": b"{", "bad/c/0": b"chunk"})
    bad = root.child("bad")
    for _ in range(3):
        bad.list()
        bad.facts(None).to_json()
        with pytest.raises(NotSupported):
            bad.child("c").open("0")
    assert len([r for r in caplog.records if "bad/zarr.json" in r.getMessage()]) == 1


def test_a_group_that_must_not_be_loaded_has_files_that_open(on_every_store: Viewer) -> None:
    root = on_every_store(
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


def test_a_node_is_loaded_anew_when_its_document_is_rewritten(
    on_a_folder: Viewer, tmp_path: Path
) -> None:
    root = on_a_folder({"a/zarr.json": b"{", "a/c/0": b"1", "a/c/0.i": b"2"})
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


def test_a_document_larger_than_any_sane_one_is_not_read(
    on_a_folder: Viewer, tmp_path: Path
) -> None:
    root = on_a_folder({"a/zarr.json": group(), "a/c/0": b"1"})
    with (tmp_path / "store/a/zarr.json").open("wb") as document:
        document.truncate(200 << 20)
    assert "209715200 bytes" in root.child("a").facts(None).to_json()["error"]
    assert root.child("a").lookup("zarr.json").size == 200 << 20
    reader = root.child("a").open("zarr.json")
    assert read_clipped(reader, 1 << 20, 3) == b"\0\0\0"
    reader.close()


def test_folders_without_metadata_are_folders(on_every_store: Viewer) -> None:
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
    shown = tree_of(on_every_store(stored))
    assert shown.pop("experiment/one.zarr/c/0") == b"12"
    del stored["experiment/one.zarr/c/0"], stored["experiment/one.zarr/c/0.i"]
    assert shown == stored


def test_a_folder_named_as_a_document_makes_no_node(on_every_store: Viewer) -> None:
    stored = {"zarr.json/file": b"x", "c/0": b"y"}
    assert tree_of(on_every_store(stored)) == stored
