"""Chunks, files and folders that get another name in the `chunks` view."""

from pathlib import Path
from typing import Any

import pytest
from builders.documents import array, concat_parts, group
from builders.view_writing import link, put, remove, rename
from builders.views import content_of, folder_at, names_in
from writable_chunks import ARRAY, CHUNK, HEAD_AND_TAIL, MTIME_NS, files

from zarrfuse.errors import (
    Corrupt,
    Elsewhere,
    Exists,
    IsAFolder,
    NotAFolder,
    NotEmpty,
    NotSupported,
    PartsDoNotFit,
)
from zarrfuse.stores.access import Change
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.chunks.view import ChunksView


def test_a_file_that_gets_the_name_of_a_chunk_is_split(view: Any, stored: Any) -> None:
    root = view({**ARRAY, **CHUNK})
    put(root, "c/0/0.3f2a.partial", b"abCDEFxyz")
    folder_at(root, "c/0").change("0.3f2a.partial", Change(mtime_ns=MTIME_NS))
    assert not rename(root, "c/0/0.3f2a.partial", "c/0/0")
    assert stored() == {"c/0/0.head": b"ab", "c/0/0": b"CDEF", "c/0/0.tail": b"xyz"}
    assert folder_at(root, "c/0").lookup("0").mtime_ns == MTIME_NS
    put(root, "c/0/tmp", b"1234")
    with pytest.raises(PartsDoNotFit, match="the root array: chunk c/0/0: a chunk of 4 bytes"):
        rename(root, "c/0/tmp", "c/0/0")
    assert content_of(root, "c/0/tmp") == b"1234"
    assert content_of(root, "c/0/0") == b"abCDEFxyz"
    put(root, "c/0/other", b"123456")
    with pytest.raises(Exists):
        rename(root, "c/0/other", "c/0/0", replace=False)
    assert not rename(root, "c/0/other", "c/0/1", replace=False)
    assert stored()["c/0/1.head"] == b"12"


def test_a_file_that_becomes_a_chunk_of_one_part_is_the_same_file(
    view: Any, tmp_path: Path
) -> None:
    root = view({"zarr.json": array(), "c/0/0": b"old"})
    put(root, "c/0/tmp", b"new")
    inode = (tmp_path / "store/c/0/tmp").stat().st_ino
    assert rename(root, "c/0/tmp", "c/0/0")
    assert (tmp_path / "store/c/0/0").stat().st_ino == inode
    assert rename(root, "c/0/0", "c/0/0")
    assert content_of(root, "c/0/0") == b"new"


def test_a_chunk_in_parts_that_gets_another_name_is_copied(view: Any, stored: Any) -> None:
    root = view({**ARRAY, **CHUNK, "b/zarr.json": array((4,)), "b/c/1": b"old"})
    folder_at(root, "c/0").change("0", Change(mtime_ns=MTIME_NS))
    assert not rename(root, "c/0/0", "saved")
    assert stored() == {"saved": b"abcdefg", "b/c/1": b"old"}
    assert root.lookup("saved").mtime_ns == MTIME_NS
    assert not rename(root, "saved", "c/0/1")
    with pytest.raises(Exists):
        rename(root, "c/0/1", "b/c/1", replace=False)
    assert not rename(root, "c/0/1", "b/c/1")
    assert stored() == {"b/c/1": b"abcdefg"}
    assert rename(root, "b/c/1", "b/c/0")
    assert not rename(root, "b/c/0", "c/0/0")
    assert stored() == CHUNK
    put(root, "b/c/0", b"1234")
    with pytest.raises(PartsDoNotFit):
        rename(root, "b/c/0", "c/0/0")
    assert stored() == {**CHUNK, "b/c/0": b"1234"}


def test_a_chunk_that_does_not_fit_another_array_stays(view: Any, stored: Any) -> None:
    other = array((4,), transformers=[concat_parts(("", 1), (".b", 1))])
    root = view({**ARRAY, **CHUNK, "b/zarr.json": other})
    with pytest.raises(PartsDoNotFit, match=r"^b: chunk c/0: a chunk of 7 bytes"):
        rename(root, "c/0/0", "b/c/0")
    assert stored() == CHUNK


def test_a_chunk_that_is_not_whole_cannot_be_copied(view: Any, stored: Any) -> None:
    root = view({**ARRAY, "c/0/0": b"main", "c/0/0.tail": b"xyz"})
    with pytest.raises(Corrupt):
        rename(root, "c/0/0", "c/0/1")
    assert stored() == {"c/0/0": b"main", "c/0/0.tail": b"xyz"}


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_chunk_in_parts_is_renamed_without_copying(
    view: Any, stored: Any, tmp_path: Path, is_replaced: bool
) -> None:
    old = {"c/0/1.head": b"ol", "c/0/1": b"d", "c/0/1.tail": b"old"} if is_replaced else {}
    root = view({**ARRAY, **CHUNK, **old})
    inodes = [(tmp_path / "store" / key).stat().st_ino for key in CHUNK]
    assert rename(root, "c/0/0", "c/0/1")
    moved = {key.replace("0/0", "0/1"): data for key, data in CHUNK.items()}
    assert stored() == moved
    assert [(tmp_path / "store" / key).stat().st_ino for key in moved] == inodes
    assert names_in(root, "c/0") == {"1"}


def test_a_chunk_in_parts_is_not_renamed_to_one_that_must_not_be_there(
    view: Any, stored: Any
) -> None:
    root = view({**ARRAY, **CHUNK, "c/0/1.tail": b"xyz"})
    before = stored()
    with pytest.raises(Exists):
        rename(root, "c/0/0", "c/0/1", replace=False)
    assert stored() == before


def test_a_part_in_a_folder_of_its_own_is_renamed(view: Any, tmp_path: Path) -> None:
    root = view(
        {"zarr.json": array((4,), transformers=[concat_parts("/data.tiff")]), "c/0/data.tiff": b"x"}
    )
    assert rename(root, "c/0", "c/1")
    assert names_in(root, "c") == {"1"}
    assert rename(root, "c/1", "other.tiff")
    assert files(tmp_path / "store") == {"other.tiff": b"x"}
    assert names_in(root, "c") == set()


def test_ordinary_files_are_renamed_and_linked(view: Any, stored: Any) -> None:
    root = view({**ARRAY, "a": b"1", "b": b"2"})
    with pytest.raises(Exists):
        rename(root, "a", "b", replace=False)
    assert rename(root, "a", "b")
    link(root, "b", "c2")
    with pytest.raises(Exists):
        link(root, "b", "c2")
    assert stored() == {"b": b"1", "c2": b"1"}


def test_a_link_makes_a_chunk_that_must_be_new(view: Any, stored: Any) -> None:
    root = view({**ARRAY, "tmp": b"1234567"})
    folder_at(root, "").make_folder("c")
    root.child("c").make_folder("0")
    link(root, "tmp", "c/0/0")
    with pytest.raises(Exists):
        link(root, "tmp", "c/0/0")
    remove(root, "tmp")
    assert stored() == {"c/0/0.head": b"12", "c/0/0": b"34", "c/0/0.tail": b"567"}
    with pytest.raises(NotSupported, match="c/0/0 is a chunk, which has one name"):
        link(root, "c/0/0", "copy")
    with pytest.raises(IsAFolder):
        link(root, "c", "d")


def test_folders_are_made_renamed_and_removed(view: Any, stored: Any) -> None:
    root = view({"zarr.json": group(), "g/a/zarr.json": array(transformers=HEAD_AND_TAIL)})
    put(root, "g/a/c/0/0", b"1234567")
    known = folder_at(root, "g/a/c/0")
    assert set(known.list()) == {"0"}
    with pytest.raises(NotEmpty):
        root.remove_folder("g")
    with pytest.raises(NotAFolder):
        folder_at(root, "g/a").remove_folder("zarr.json")
    root.make_folder("h")
    with pytest.raises(Exists):
        root.make_folder("h")
    with pytest.raises(Exists):
        rename(root, "g", "h", replace=False)
    assert rename(root, "g", "h")
    assert content_of(root, "h/a/c/0/0") == b"1234567"
    assert folder_at(root, "g/a").loaded() is None
    with pytest.raises(NotAFolder):
        rename(root, "h", "zarr.json")
    with pytest.raises(NotAFolder):
        rename(root, "h/a", "h/a/c/0/0")
    root.make_folder("e")
    root.make_folder("f")
    folder_at(root, "f").make_folder("in")
    with pytest.raises(NotEmpty):
        rename(root, "e", "f")
    root.change("e", Change(mtime_ns=MTIME_NS))
    assert root.lookup("e").mtime_ns == MTIME_NS
    root.remove_folder("e")
    root.sync()
    folder_at(root, "h/a/c").sync()
    assert names_in(root) == {"zarr.json", "f", "h"}


def test_between_views_nothing_is_renamed(view: Any, tmp_path: Path) -> None:
    root = view({**ARRAY, "x": b""})
    other = ChunksView(LocalStore(str(tmp_path / "store")), 0).root
    with pytest.raises(Elsewhere):
        root.rename("x", other, "y")
    with pytest.raises(Elsewhere):
        root.link("x", other, "y")
