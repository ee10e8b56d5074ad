"""A chunk that lacks a part is listed, and an error that names the part when it is read."""

import errno
import logging
from pathlib import Path

import pytest
from builders.documents import array, concat_parts
from builders.readers import read_clipped
from builders.views import content_of, folder_at, names_in
from viewers import Viewer

from zarrfuse.errors import Corrupt, NotFound, errno_of

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
    on_every_store: Viewer, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    stored, problem = BROKEN[case]
    keys = {f"img/c/0{suffix}": data for suffix, data in stored.items()}
    root = on_every_store({"img/zarr.json": array([4], transformers=SIZED), **keys})
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


def test_parts_that_are_all_empty_but_one_missing_cannot_be_opened(on_a_folder: Viewer) -> None:
    root = on_a_folder({"zarr.json": array([4], transformers=[concat_parts("", ".x")]), "c/0": b""})
    with pytest.raises(Corrupt, match=r"`\.x` is missing"):
        root.child("c").open("0")


def test_a_folder_in_the_place_of_a_part_is_a_missing_part(on_every_store: Viewer) -> None:
    stored = {
        "zarr.json": array([4], transformers=[concat_parts("", ".x")]),
        "c/0": b"main",
        "c/0.x/file": b"",
    }
    reader = on_every_store(stored).child("c").open("0")
    with pytest.raises(Corrupt, match=r"`\.x` is missing"):
        read_clipped(reader, 0, 1)
    reader.close()


def test_a_folder_in_the_place_of_a_nested_part_makes_no_chunk(on_every_store: Viewer) -> None:
    stored = {
        "zarr.json": array([4], transformers=[concat_parts("", ".d/i")]),
        "c/0.d/i/file": b"",
    }
    folder = on_every_store(stored).child("c")
    assert set(folder.list()) == {"0.d"}
    with pytest.raises(NotFound):
        folder.lookup("0")


def test_a_chunk_is_whole_again_once_its_part_is_there(on_a_folder: Viewer, tmp_path: Path) -> None:
    root = on_a_folder(
        {"zarr.json": array([4], transformers=SIZED), "c/0.head": b"11", "c/0": b"2"}
    )
    with pytest.raises(Corrupt):
        content_of(root, "c/0")
    (tmp_path / "store/c/0.tail").write_bytes(b"3333")
    assert content_of(root, "c/0") == b"1123333"
    assert "error" not in root.child("c").facts("0").to_json()


def test_a_file_under_the_key_of_a_chunk_that_is_none_of_its_parts_is_not_shown(
    on_every_store: Viewer,
) -> None:
    stored = {
        "zarr.json": array([4], transformers=[concat_parts(".a", ".b")]),
        "c/0": b"foreign",
        "c/1": b"foreign",
        "c/1.a": b"1",
        "c/1.b": b"2",
    }
    root = on_every_store(stored)
    assert names_in(root, "c") == {"1"}
    assert content_of(root, "c/1") == b"12"
    for call in (root.child("c").lookup, root.child("c").open):
        with pytest.raises(NotFound):
            call("0")
