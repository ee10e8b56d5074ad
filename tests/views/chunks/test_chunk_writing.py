"""A chunk that is written in the `chunks` view is split into its parts, whole or not at all."""

import errno
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from builders.documents import array, concat_parts, group, suffix_keys, v2_array, v2_keys
from builders.folders import write_keys
from builders.readers import read_range
from builders.view_writing import create, link, open_to_write, put, remove, rename
from builders.views import content_of, folder_at, is_there, names_in
from writable_chunks import ARRAY, CHUNK, MTIME_NS

from zarrfuse.errors import (
    Corrupt,
    Exists,
    IsAFolder,
    NotEmpty,
    NotFound,
    NotSupported,
    PartsDoNotFit,
    ReadOnly,
    errno_of,
)
from zarrfuse.stores.access import Change
from zarrfuse.stores.base import Kind
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.chunks.view import ChunksView

BROKEN = array(codecs="none")


# -- chunks are split


def test_a_chunk_lands_in_its_parts(view: Any, stored: Any) -> None:
    root = view(ARRAY)
    put(root, "c/1/0", b"abCDEFGxyz")
    assert stored() == {"c/1/0.head": b"ab", "c/1/0": b"CDEFG", "c/1/0.tail": b"xyz"}
    assert content_of(root, "c/1/0") == b"abCDEFGxyz"
    assert names_in(root, "c/1") == {"0"}


@pytest.mark.parametrize(
    ("document", "key", "data", "expected"),
    [
        (array(), "c/0/1", b"chunk", {"c/0/1": b"chunk"}),
        (array(keys=v2_keys()), "0.1", b"chunk", {"0.1": b"chunk"}),
        (array(keys=suffix_keys(".tiff")), "c/0/1.tiff", b"II*", {"c/0/1.tiff": b"II*"}),
        (array(()), "c", b"x", {"c": b"x"}),
        (array((), transformers=[concat_parts(("", 1), ".t")]), "c", b"xyz", {"c": b"x", "c.t": b"yz"}),
        (array((4,), transformers=[concat_parts(".only")]), "c/0", b"xyz", {"c/0.only": b"xyz"}),
        (
            array((4,), transformers=[concat_parts("", ("/data.tiff", 1))], keys=v2_keys("/")),
            "0",
            b"",
            None,
        ),
        (
            array((4,), transformers=[concat_parts(("/head", 1), "/data.tiff")]),
            "c/1",
            b"xyz",
            {"c/1/head": b"x", "c/1/data.tiff": b"yz"},
        ),
        (
            array((4,), transformers=[concat_parts("", (".d/deep/tail", 1))]),
            "c/1",
            b"xyz",
            {"c/1": b"xy", "c/1.d/deep/tail": b"z"},
        ),
        (
            array((4,), transformers=[concat_parts((".a", 3), ".b"), concat_parts((".x", 1), ".y")]),
            "c/0",
            b"12345678",
            {"c/0.a.x": b"1", "c/0.a.y": b"23", "c/0.b.x": b"4", "c/0.b.y": b"5678"},
        ),
        (
            array((4,), transformers=[concat_parts(("", 0), ".rest")]),
            "c/0",
            b"",
            {"c/0": b"", "c/0.rest": b""},
        ),
    ],
)  # fmt: skip
def test_a_chunk_of_every_layout_is_stored_replaced_and_deleted(
    view: Any,
    stored: Any,
    document: bytes,
    key: str,
    data: bytes,
    expected: dict[str, bytes] | None,
) -> None:
    root = view({"a/zarr.json": document})
    if expected is None:
        with pytest.raises(PartsDoNotFit):
            put(root, f"a/{key}", data)
        assert stored() == {}
        return
    put(root, f"a/{key}", data, sync=True)
    assert stored() == {f"a/{key}": value for key, value in expected.items()}
    assert content_of(root, f"a/{key}") == data
    remove(root, f"a/{key}")
    assert stored() == {}
    assert not is_there(root, f"a/{key}")
    put(root, f"a/{key}", data)
    assert content_of(root, f"a/{key}") == data


def test_a_chunk_of_zarr_v2(view: Any, stored: Any) -> None:
    root = view({".zarray": v2_array()})
    put(root, "0.1", b"chunk")
    put(root, "0.9", b"no chunk")
    assert {key: data for key, data in stored().items() if key != ".zarray"} == {
        "0.1": b"chunk",
        "0.9": b"no chunk",
    }
    with closing(create(root, "1.1")) as chunk:
        assert not chunk.is_live
    with closing(open_to_write(root, "0.9")) as ordinary:
        assert ordinary.is_live


def test_until_it_is_stored_others_see_the_old_chunk(view: Any, stored: Any) -> None:
    root = view({**ARRAY, **CHUNK})
    writer = open_to_write(root, "c/0/0")
    assert (writer.is_live, writer.changed) == (False, False)
    writer.write(b"XY", 2)
    assert writer.changed
    assert read_range(writer, 0, writer.size) == b"abXYefg"
    assert content_of(root, "c/0/0") == b"abcdefg"
    assert stored() == CHUNK
    assert writer.store()
    assert content_of(root, "c/0/0") == b"abXYefg"
    assert not writer.store()
    writer.truncate(6)
    assert writer.store(sync=True)
    writer.close()
    assert stored() == {"c/0/0.head": b"ab", "c/0/0": b"X", "c/0/0.tail": b"Yef"}


def test_what_was_never_changed_is_not_stored(view: Any, stored: Any) -> None:
    root = view({**ARRAY, **CHUNK})
    writer = open_to_write(root, "c/0/0")
    assert not writer.store()
    writer.close()
    assert stored() == CHUNK


def test_what_is_not_stored_is_lost(view: Any, stored: Any) -> None:
    root = view(ARRAY)
    writer = create(root, "c/0/0")
    writer.write(b"12345", 0)
    assert not is_there(root, "c/0/0")
    writer.close()
    assert stored() == {}


def test_bytes_that_do_not_fit_leave_the_old_chunk(view: Any, stored: Any) -> None:
    root = view({"a/zarr.json": ARRAY["zarr.json"], **{f"a/{key}": CHUNK[key] for key in CHUNK}})
    before = stored()
    for _ in range(2):
        writer = create(root, "a/c/0/0")
        writer.write(b"1234", 0)
        with pytest.raises(PartsDoNotFit, match=r"^a: chunk c/0/0: a chunk of 4 bytes") as raised:
            writer.store()
        assert errno_of(raised.value) == errno.EINVAL
        assert writer.changed
        writer.close()
    assert stored() == before


def test_what_did_not_fit_can_be_made_to_fit(view: Any, stored: Any) -> None:
    root = view(ARRAY)
    writer = create(root, "c/0/0")
    with pytest.raises(PartsDoNotFit):
        writer.store()
    writer.write(b"12345", 0)
    assert writer.store()
    writer.close()
    assert stored() == {"c/0/0.head": b"12", "c/0/0": b"", "c/0/0.tail": b"345"}


def test_two_parts_of_open_size_cannot_be_written(view: Any, stored: Any) -> None:
    root = view(
        {"zarr.json": array(transformers=[concat_parts("", ".t")]), "c/0/0": b"1", "c/0/0.t": b"2"}
    )
    before = stored()
    put(root, "c/0/0.tmp", b"x")
    refused: list[Callable[[], object]] = [
        lambda: create(root, "c/0/1"),
        lambda: open_to_write(root, "c/0/0"),
        lambda: open_to_write(root, "c/0/0", truncate=True),
        lambda: rename(root, "c/0/0.tmp", "c/0/1"),
        lambda: link(root, "c/0/0.tmp", "c/0/1"),
    ]
    for call in refused:
        with pytest.raises(NotSupported, match=r"the root array: 2 parts .* are of open size"):
            call()
    remove(root, "c/0/0.tmp")
    assert stored() == before
    remove(root, "c/0/0")  # which needs no splitting
    assert stored() == {}


def test_two_writers_the_last_to_store_wins(view: Any, stored: Any) -> None:
    root = view({**ARRAY, **CHUNK})
    first, second = open_to_write(root, "c/0/0", truncate=True), create(root, "c/0/0")
    first.write(b"11111111", 0)
    second.write(b"222222222222", 0)
    second.store()
    first.store()
    assert stored() == {"c/0/0.head": b"11", "c/0/0": b"111", "c/0/0.tail": b"111"}
    second.write(b"3", 11)
    second.store()
    assert content_of(root, "c/0/0") == b"222222222223"
    first.close()
    second.close()


@pytest.mark.parametrize("count", [1, 3, 17, 100])
def test_a_reader_from_before_keeps_the_old_bytes(view: Any, count: int) -> None:
    parts = [(f".{number}", 1) for number in range(count - 1)]
    root = view({"zarr.json": array((4,), transformers=[concat_parts("", *parts)])})
    old, new = b"o" * (count + 4), b"n" * (count + 5)
    put(root, "c/0", old)
    reader = folder_at(root, "c").open("0")
    put(root, "c/0", new)
    assert read_range(reader, 0, reader.size) == old
    remove(root, "c/0")
    assert read_range(reader, 0, reader.size) == old
    reader.close()


def test_parts_that_may_not_all_be_held_open_are_opened_when_they_are_read(view: Any) -> None:
    parts = [(f".{number}", 1) for number in range(1200)]
    root = view({"zarr.json": array((4,), transformers=[concat_parts(*parts)])})
    data = os.urandom(1200)
    put(root, "c/0", data)
    assert content_of(root, "c/0") == data
    with pytest.raises(BlockingIOError):
        folder_at(root, "c").open("0", wait=False)


def test_the_time_that_was_set_is_that_of_all_parts(view: Any, tmp_path: Path) -> None:
    root = view(ARRAY)
    writer = create(root, "c/0/0")
    writer.write(b"123456", 0)
    writer.change(Change(MTIME_NS))
    writer.store()
    assert folder_at(root, "c/0").lookup("0").mtime_ns == MTIME_NS
    writer.change(Change(MTIME_NS + 5))
    writer.store()
    writer.close()
    assert {path.stat().st_mtime_ns for path in (tmp_path / "store/c/0").iterdir()} == {
        MTIME_NS + 5
    }
    folder_at(root, "c/0").change("0", Change(mtime_ns=MTIME_NS))
    assert {path.stat().st_mtime_ns for path in (tmp_path / "store/c/0").iterdir()} == {MTIME_NS}
    writer = open_to_write(root, "c/0/0")
    writer.change(Change(MTIME_NS + 7))
    writer.store()
    writer.close()
    assert folder_at(root, "c/0").lookup("0").mtime_ns == MTIME_NS + 7


def test_a_chunk_that_is_not_whole_can_only_be_written_anew(view: Any, stored: Any) -> None:
    root = view({**ARRAY, "c/0/0": b"main", "c/0/0.tail": b"xyz"})
    writer = open_to_write(root, "c/0/0")
    with pytest.raises(Corrupt, match=r"part `.head` is missing"):
        writer.write(b"x", 0)
    writer.close()
    writer = open_to_write(root, "c/0/0", truncate=True)
    writer.write(b"abCDxyz", 0)
    writer.store()
    writer.close()
    assert stored() == {"c/0/0.head": b"ab", "c/0/0": b"CD", "c/0/0.tail": b"xyz"}


def test_exclusive_creation_of_a_chunk_refuses_one_that_is_there(view: Any) -> None:
    root = view({**ARRAY, **CHUNK})
    with pytest.raises(Exists):
        create(root, "c/0/0", exclusive=True)
    with pytest.raises(Exists):
        create(root, "zarr.json", exclusive=True)
    first = create(root, "c/0/1", exclusive=True)
    second = create(root, "c/0/1", exclusive=True)  # nobody else sees the first one yet
    for writer in (first, second):
        writer.write(b"12345", 0)
    first.store()
    with pytest.raises(Exists):
        second.store()
    first.write(b"9", 0)
    first.store()
    for writer in (first, second):
        writer.close()
    with pytest.raises(Exists):
        create(root, "c/0/1", exclusive=True)
    assert content_of(root, "c/0/1") == b"92345"


def test_writing_what_is_not_there(view: Any) -> None:
    root = view(ARRAY)
    for path in ("c/0/0", "a/zarr.json", "README"):
        for truncate in (False, True):
            with pytest.raises(NotFound):
                open_to_write(root, path, truncate=truncate)
        with pytest.raises(NotFound):
            remove(root, path)


def test_a_folder_under_the_name_of_a_chunk(view: Any, stored: Any) -> None:
    root = view({**ARRAY, "c/0/0/inside": b"x"})
    with pytest.raises(IsAFolder):
        create(root, "c/0/0")
    with pytest.raises(IsAFolder):
        remove(root, "c/0/0")
    put(root, "c/0/tmp", b"12345")
    with pytest.raises(IsAFolder):
        rename(root, "c/0/tmp", "c/0/0")
    assert stored() == {"c/0/0/inside": b"x", "c/0/tmp": b"12345"}


def test_what_else_lies_in_the_folder_of_a_chunk_stays(view: Any, stored: Any) -> None:
    document = array((4,), transformers=[concat_parts("/data.tiff")])
    root = view({"zarr.json": document, "c/0/data.tiff": b"x", "c/0/other": b"y"})
    remove(root, "c/0")
    assert stored() == {"c/0/other": b"y"}
    assert folder_at(root, "c").lookup("0").kind is Kind.FOLDER
    put(root, "c/0", b"again")
    assert stored() == {"c/0/data.tiff": b"again", "c/0/other": b"y"}


# -- hidden names


def test_a_part_by_its_own_name_cannot_be_written(view: Any, stored: Any) -> None:
    root = view({**ARRAY, **CHUNK, "other": b"12345"})
    before = stored()
    refused: list[Callable[[str], object]] = [
        lambda name: create(root, f"c/0/{name}"),
        lambda name: open_to_write(root, f"c/0/{name}"),
        lambda name: rename(root, "other", f"c/0/{name}"),
        lambda name: rename(root, "c/0/0", f"c/0/{name}"),
        lambda name: rename(root, "c/0", f"c/0/{name}"),
        lambda name: link(root, "other", f"c/0/{name}"),
        lambda name: folder_at(root, "c/0").make_folder(name),
    ]
    for call in refused:
        for name in ("0.head", "1.tail"):
            with pytest.raises(NotSupported, match=rf"^c/0/{name} is a part of the chunk c/0/"):
                call(name)
    for call in (
        lambda: remove(root, "c/0/0.head"),
        lambda: rename(root, "c/0/0.head", "c/0/x"),
        lambda: link(root, "c/0/0.head", "c/0/x"),
        lambda: folder_at(root, "c/0").change("0.head", Change(mtime_ns=MTIME_NS)),
    ):
        with pytest.raises(NotFound):
            call()
    assert stored() == before


def test_a_hidden_file_under_the_key_of_a_chunk_is_no_obstacle(view: Any, stored: Any) -> None:
    document = array((4,), transformers=[concat_parts((".a", 1), ".b")])
    root = view({"zarr.json": document, "c/0": b"stale"})
    assert names_in(root, "c") == set()
    put(root, "c/0", b"123")
    assert stored() == {"c/0": b"stale", "c/0.a": b"1", "c/0.b": b"23"}
    remove(root, "c/0")
    assert stored() == {"c/0": b"stale"}
    with pytest.raises(NotFound):
        remove(root, "c/0")
    with pytest.raises(NotEmpty):
        root.remove_folder("c")


# -- nodes that must not be loaded


def test_below_a_node_that_must_not_be_loaded_only_documents_are_written(
    view: Any, stored: Any
) -> None:
    root = view({"a/zarr.json": BROKEN, "a/c/0/0": b"x", "a/other": b"y", "tmp": b"z"})
    before = stored()
    refused: list[Callable[[], object]] = [
        lambda: create(root, "a/c/0/1"),
        lambda: create(root, "a/README"),
        lambda: open_to_write(root, "a/other"),
        lambda: open_to_write(root, "a/c/0/0", truncate=True),
        lambda: remove(root, "a/c/0/0"),
        lambda: rename(root, "tmp", "a/c/0/1"),
        lambda: rename(root, "a/other", "other"),
        lambda: link(root, "tmp", "a/tmp"),
        lambda: link(root, "a/other", "tmp2"),
        lambda: folder_at(root, "a").make_folder("d"),
    ]
    for call in refused:
        with pytest.raises(NotSupported, match=r"^a/zarr.json: codecs"):
            call()
    assert stored() == before
    put(root, "a/zarr.json", array())
    assert content_of(root, "a/c/0/0") == b"x"
    put(root, "a/c/0/1", b"new")
    put(root, "a/zarr.json", BROKEN)
    with pytest.raises(NotSupported):
        create(root, "a/c/1/1")
    remove(root, "a/zarr.json")
    put(root, "a/c/0/2", b"of no array")
    assert rename(root, "a", "b")


def test_below_a_group_that_must_not_be_loaded_files_are_written(view: Any, stored: Any) -> None:
    root = view({"zarr.json": group(wrong=1)})
    put(root, "README", b"x")
    assert stored() == {"README": b"x"}


def test_an_ordinary_file_is_shared_and_live(view: Any) -> None:
    root = view({"zarr.json": array(), "README": b"12345"})
    reader = root.open("README")
    with closing(open_to_write(root, "README")) as writer:
        assert writer.is_live
        writer.write(b"678", 5)
        assert reader.size == 8
        assert read_range(reader, 0, 8) == b"12345678"
    reader.close()


def test_a_view_without_commits_cannot_be_written(tmp_path: Path) -> None:
    write_keys(tmp_path, {**ARRAY, **CHUNK, "x": b""})
    store = LocalStore(str(tmp_path))
    root = ChunksView(store, 0).root
    refused: list[Callable[[], object]] = [
        lambda: create(root, "c/0/0"),
        lambda: open_to_write(root, "x"),
        lambda: remove(root, "x"),
        lambda: rename(root, "x", "y"),
        lambda: link(root, "x", "y"),
        lambda: root.make_folder("d"),
        lambda: root.remove_folder("c"),
        lambda: root.change("x", Change(mtime_ns=0)),
    ]
    for call in refused:
        with pytest.raises(ReadOnly):
            call()
    root.sync()
    store.close()
