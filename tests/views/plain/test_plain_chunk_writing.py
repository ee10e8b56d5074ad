"""Chunks written in the `plain` view land in the store under their stored keys, split into their parts.

The sequences are those of real writers: zarr-python's `LocalStore` (a file `0.3f2a.partial` that
replaces the chunk, or is linked to it and unlinked), `rm -r`.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from builders.documents import array, concat_parts, default_keys, suffix_keys, v2_array, v2_keys
from builders.fake_stores import MemoryStore
from builders.view_writing import open_to_write
from builders.views import folder_at
from disks import STORED, THREE, Disk

from zarrfuse.errors import (
    Exists,
    IsAFolder,
    NotEmpty,
    NotFound,
    NotSupported,
    PartsDoNotFit,
    ReadOnly,
)
from zarrfuse.stores.access import Change
from zarrfuse.views.choice import open_view

NESTED = suffix_keys("/data.bin")
LAYOUTS: list[tuple[dict[str, Any], list[dict[str, Any]], dict[str, tuple[int, int | None]]]] = [
    (default_keys(), [], {"c/0/1": (0, None)}),
    (default_keys("."), [], {"c.0.1": (0, None)}),
    (v2_keys(), [], {"0.1": (0, None)}),
    (v2_keys("/"), [], {"0/1": (0, None)}),
    (suffix_keys(".tiff"), [], {"c/0/1.tiff": (0, None)}),
    (suffix_keys(".tiff", v2_keys()), [], {"0.1.tiff": (0, None)}),
    (NESTED, [], {"c/0/1/data.bin": (0, None)}),
    (suffix_keys("/data.bin", v2_keys()), [], {"0.1/data.bin": (0, None)}),
    (default_keys(), [concat_parts(".bin")], {"c/0/1.bin": (0, None)}),
    (default_keys(), [concat_parts(("", 4), ".rest")], {"c/0/1": (0, 4), "c/0/1.rest": (4, None)}),
    (
        suffix_keys(".tiff"),
        THREE,
        {"c/0/1.tiff.head": (0, 2), "c/0/1.tiff": (2, -1), "c/0/1.tiff.tail": (-1, None)},
    ),
    (v2_keys(), THREE, {"0.1.head": (0, 2), "0.1": (2, -1), "0.1.tail": (-1, None)}),
    (v2_keys("/"), THREE, {"0/1.head": (0, 2), "0/1": (2, -1), "0/1.tail": (-1, None)}),
    (NESTED, THREE, {"c/0/1/data.bin.head": (0, 2), "c/0/1/data.bin": (2, -1)}),
]


def split(data: bytes, parts: Mapping[str, tuple[int, int | None]]) -> dict[str, bytes]:
    """What is stored of a chunk in the array `a`."""
    return {f"a/{key}": data[start:stop] for key, (start, stop) in parts.items()}


@pytest.mark.parametrize(("keys", "transformers", "parts"), LAYOUTS)
class TestChunks:
    """Chunks under their default keys, in every layout."""

    @pytest.fixture
    def at(self, disk: Any, keys: Any, transformers: Any) -> Disk:
        return disk({"a/zarr.json": array(keys=keys, transformers=transformers)})  # type: ignore[no-any-return]

    def check(self, at: Disk, data: bytes | None, parts: Mapping[str, Any]) -> None:
        """Nothing but the chunk is stored and shown, or nothing at all."""
        stored = at.stored()
        del stored["a/zarr.json"]
        if data is None:
            assert stored == {}
            assert at.names("a") == {"zarr.json"}
            return
        expected = split(data, parts)
        assert {key: stored.get(key) for key in expected} == expected
        assert len(b"".join(stored.values())) == len(data)
        assert at.read("a/c/0/1") == data
        assert at.names("a") == {"zarr.json", "c/0/1"}

    def test_a_chunk_is_created_replaced_and_deleted(self, at: Disk, parts: Any) -> None:
        assert at.names("a") == {"zarr.json"}
        for data in (b"0123456789", b"abcdef"):
            at.write("a/c/0/1", data)
            self.check(at, data, parts)
        at.remove("a/c/0/1")
        self.check(at, None, parts)
        with pytest.raises(NotFound):
            at.read("a/c/0/1")

    def test_a_temporary_file_replaces_a_chunk(self, at: Disk, parts: Any) -> None:
        for data in (b"0123456789", b"abcdef"):
            at.write("a/c/0/1.3f2a.partial", data)
            assert at.read("a/c/0/1.3f2a.partial") == data
            assert "c/0/1.3f2a.partial" in at.names("a")
            at.replace("a/c/0/1.3f2a.partial", "a/c/0/1")
            self.check(at, data, parts)

    def test_a_temporary_file_is_linked_to_a_chunk_that_is_new(self, at: Disk, parts: Any) -> None:
        at.write("a/c/0/1.3f2a.partial", b"0123456789")
        at.link("a/c/0/1.3f2a.partial", "a/c/0/1")
        at.remove("a/c/0/1.3f2a.partial")
        self.check(at, b"0123456789", parts)
        at.write("a/c/0/1.3f2a.partial", b"abcdef")
        with pytest.raises(Exists):
            at.link("a/c/0/1.3f2a.partial", "a/c/0/1")
        at.remove("a/c/0/1.3f2a.partial")
        self.check(at, b"0123456789", parts)

    def test_a_chunk_is_changed_in_the_middle(self, at: Disk, parts: Any) -> None:
        at.write("a/c/0/1", b"0123456789")
        folder, name = at.at("a/c/0/1")
        writer = open_to_write(folder, name)
        assert not writer.is_live
        writer.write(b"xy", 3)
        assert at.read("a/c/0/1") == b"0123456789"
        assert writer.store()
        writer.close()
        self.check(at, b"012xy56789", parts)

    def test_a_chunk_gets_another_name(self, at: Disk, parts: Any) -> None:
        at.write("a/c/1/0", b"0123456789")
        at.make_folders("a/c/0")
        at.replace("a/c/1/0", "a/c/0/1")
        self.check(at, b"0123456789", parts)
        at.replace("a/c/0/1", "a/kept")
        assert at.read("a/kept") == b"0123456789"
        assert at.names("a") == {"zarr.json", "kept"}
        at.replace("a/kept", "a/c/0/1")
        self.check(at, b"0123456789", parts)

    def test_an_array_is_deleted(self, at: Disk, parts: Any) -> None:
        at.write("a/c/0/1", b"0123456789")
        at.write("a/c/1/1", b"0123456789")
        at.write("a/c/0/0.__lock", b"")
        at.remove_tree("a")
        assert at.stored() == {}
        assert list(at.root.glob("a")) == []

    def test_times_of_chunks_are_set(self, at: Disk, parts: Any) -> None:
        at.write("a/c/0/1", b"0123456789")
        folder, name = at.at("a/c/0/1")
        folder.change(name, Change(mtime_ns=1_000_000_000))
        assert folder.lookup(name).mtime_ns == 1_000_000_000
        assert folder.list()[name].mtime_ns == 1_000_000_000

    def test_exclusive_creation_fails_where_there_is_a_chunk(self, at: Disk, parts: Any) -> None:
        at.write("a/c/0/1", b"0123456789", exclusive=True)
        with pytest.raises(Exists):
            at.write("a/c/0/1", b"abcdef", exclusive=True)

    def test_folders_between_chunks_can_be_made_and_deleted(self, at: Disk, parts: Any) -> None:
        at.make_folders("a/c/0")
        folder = folder_at(at.view, "a")
        with pytest.raises(Exists):
            folder.make_folder("c")
        at.write("a/c/0/1", b"0123456789")
        with pytest.raises(NotEmpty):
            folder_at(at.view, "a/c").remove_folder("0")
        with pytest.raises(NotSupported):
            folder.rename("c", folder, "d")
        with pytest.raises(NotSupported):
            folder_at(at.view, "a/c").rename("0", folder, "d")
        with pytest.raises(IsAFolder):
            folder.create("c")
        with pytest.raises(NotSupported):
            folder_at(at.view, "a/c/0").make_folder("0")
        at.remove("a/c/0/1")
        folder_at(at.view, "a/c").remove_folder("0")
        folder.remove_folder("c")
        folder.sync()


def test_the_one_chunk_of_a_scalar_is_written(disk: Any) -> None:
    for number, (keys, stored) in enumerate(
        [(default_keys(), "c"), (v2_keys(), "0"), (suffix_keys(".x"), "c.x")]
    ):
        at = disk({f"{number}/zarr.json": array((), keys=keys)})
        at.write(f"{number}/c", b"1")
        assert at.stored()[f"{number}/{stored}"] == b"1"
        at.write(f"{number}/c.3f2a.partial", b"2")
        at.replace(f"{number}/c.3f2a.partial", f"{number}/c")
        assert at.read(f"{number}/c") == b"2"
        at.remove_tree(f"{number}")


def test_bytes_that_do_not_fit_the_parts_leave_the_old_chunk(disk: Any) -> None:
    at = disk({"a/zarr.json": array(keys=suffix_keys(".tiff"), transformers=THREE)})
    at.write("a/c/0/1", b"0123456789")
    with pytest.raises(PartsDoNotFit):
        at.write("a/c/0/1", b"01")
    at.write("a/c/0/1.partial", b"01")
    with pytest.raises(PartsDoNotFit):
        at.replace("a/c/0/1.partial", "a/c/0/1")
    assert at.read("a/c/0/1") == b"0123456789"
    assert at.read("a/c/0/1.partial") == b"01"


# -- Zarr v2


def test_chunks_of_an_array_of_zarr_v2_are_written_and_its_document_is_not(disk: Any) -> None:
    at = disk({"a/.zarray": v2_array(), "a/.zattrs": b'{"x": 1}', "a/0.0": b"0"})
    shown = at.read("a/zarr.json")
    at.write("a/c/0/1", b"1")
    assert at.stored()["a/0.1"] == b"1"
    folder = folder_at(at.view, "a")
    at.write("a/new", shown)
    for refused in (
        lambda: folder.write("zarr.json"),
        lambda: folder.create("zarr.json"),
        lambda: folder.create(".zattrs"),
        lambda: folder.create("0.0"),
        lambda: folder.rename("new", folder, "zarr.json"),
        lambda: folder.rename("zarr.json", folder, "other"),
    ):
        with pytest.raises(NotSupported):
            refused()
    assert at.stored()["a/.zarray"] == v2_array()
    at.remove_tree("a")
    assert at.stored() == {}


def test_metadata_of_zarr_v2_beside_a_document_go_with_the_folder(disk: Any) -> None:
    at = disk({"a/zarr.json": STORED, "a/.zattrs": b"{}"})
    at.remove_tree("a")
    assert at.stored() == {}


def test_a_folder_in_which_something_is_hidden_is_not_empty(disk: Any) -> None:
    at = disk({"a/zarr.json": array(keys=suffix_keys(".x")), "a/c/0/1": b"?", "a/c/0/1.x": b"0"})
    assert at.names("a") == {"zarr.json", "c/0/1"}
    with pytest.raises(NotEmpty):
        at.remove_tree("a")
    assert at.stored()["a/c/0/1"] == b"?"


def test_without_leave_to_write_every_change_is_refused() -> None:
    root = open_view("plain", MemoryStore({"a/zarr.json": array(), "a/c/0/1": b"0", "x": b""}), 0)
    folder, chunks = folder_at(root, "a"), folder_at(root, "a/c/0")
    for refused in (
        lambda: folder.create("zarr.json"),
        lambda: chunks.create("1"),
        lambda: chunks.write("1"),
        lambda: chunks.remove("1"),
        lambda: chunks.create("1.partial"),
        lambda: root.rename("x", root, "y"),
        lambda: root.rename("a", root, "b"),
        lambda: root.link("x", root, "y"),
        lambda: root.make_folder("y"),
        lambda: root.remove_folder("a"),
        lambda: root.change("x", Change(mtime_ns=0)),
        lambda: chunks.change("1", Change(mtime_ns=0)),
    ):
        with pytest.raises(ReadOnly):
            refused()
