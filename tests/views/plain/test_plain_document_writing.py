"""A `zarr.json` written in the `plain` view is translated back: stored keys and transformers stay.

The sequences are those by which editors and zarr-python save a file.
"""

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from builders.documents import array, concat_parts, group, suffix_keys, v2_keys
from builders.fake_stores import MemoryStore
from builders.readers import read_range
from builders.view_writing import create, fill, open_to_write
from builders.views import FOREVER, folder_at
from disks import STORED, Disk

from zarrfuse.errors import Contradiction, Exists, NotFound, NotSupported
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.spec.plain import document
from zarrfuse.stores.access import Change
from zarrfuse.stores.base import Kind
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits
from zarrfuse.views.choice import open_view
from zarrfuse.views.chunks.view import ChunksView
from zarrfuse.views.plain.writing import PlainWriting


def changed(shown: bytes, **changes: Any) -> bytes:
    return json.dumps(json.loads(shown) | changes, indent=2).encode()


def save_in_place(at: Disk, path: str, data: bytes) -> None:
    folder, name = at.at(path)
    fill(open_to_write(folder, name, truncate=True), data)


def save_over_a_part(at: Disk, path: str, data: bytes) -> None:
    folder, name = at.at(path)
    writer = open_to_write(folder, name)
    try:
        assert read_range(writer, 0, writer.size) == at.read(path)
        writer.write(data, 0)
        writer.truncate(len(data))
        writer.store()
    finally:
        writer.close()


def save_by_replacing(at: Disk, path: str, data: bytes) -> None:
    at.write(f"{path}.3f2a.partial", data)
    assert at.replace(f"{path}.3f2a.partial", path) is False


def save_with_a_backup(at: Disk, path: str, data: bytes) -> None:
    shown = at.read(path)
    at.replace(path, f"{path}~")
    assert at.read(f"{path}~") == shown
    at.write(path, data)
    at.remove(f"{path}~")


def save_by_renaming_behind_a_backup(at: Disk, path: str, data: bytes) -> None:
    at.write(f"{path}.new", data)
    at.replace(path, f"{path}~")
    at.replace(f"{path}.new", path)
    at.remove(f"{path}~")


def save_anew(at: Disk, path: str, data: bytes) -> None:
    at.remove(path)
    at.write(path, data, exclusive=True)


def save_by_linking(at: Disk, path: str, data: bytes) -> None:
    at.remove(path)
    at.write(f"{path}.3f2a.partial", data)
    at.link(f"{path}.3f2a.partial", path)
    at.remove(f"{path}.3f2a.partial")


SAVES = [
    save_in_place,
    save_over_a_part,
    save_by_replacing,
    save_with_a_backup,
    save_by_renaming_behind_a_backup,
    save_anew,
    save_by_linking,
]


@pytest.mark.parametrize("save", SAVES)
def test_a_document_keeps_its_keys_and_transformers(disk: Any, save: Any) -> None:
    at = disk({"a/zarr.json": STORED, "a/c/0/1.tiff.head": b"ab"})
    for changes in ({"shape": [8, 2]}, {"attributes": {"x": 1}}, {"dimension_names": [None, "y"]}):
        shown = at.read("a/zarr.json")
        save(at, "a/zarr.json", changed(shown, **changes))
        before = json.loads(shown)
        assert json.loads(at.read("a/zarr.json")) == before | changes
        written = at.members("a/zarr.json")
        for member in ("chunk_key_encoding", "storage_transformers", "extensions"):
            assert written[member] == json.loads(STORED)[member]
    assert sorted(at.stored()) == ["a/c/0/1.tiff.head", "a/zarr.json"]
    at.write("a/c/3/0", b"0123456789")
    assert at.stored()["a/c/3/0.tiff"] == b"2345678"
    with pytest.raises(NotSupported):
        at.write("a/c/3/0.tiff", b"")


@pytest.mark.parametrize("save", [save_in_place, save_over_a_part, save_by_replacing])
@pytest.mark.parametrize(
    "changes",
    [
        {"data_type": "uint16"},
        {"chunk_key_encoding": v2_keys()},
        {"storage_transformers": [concat_parts("")]},
        {"zarr_format": 2},
    ],
)
def test_a_document_that_contradicts_is_refused(disk: Any, save: Any, changes: Any) -> None:
    at = disk({"a/zarr.json": STORED})
    shown = at.read("a/zarr.json")
    with pytest.raises(Contradiction, match=r"^a/zarr\.json: ") as raised:
        save(at, "a/zarr.json", changed(shown, **changes))
    assert raised.value.errno == errno.EINVAL
    assert at.stored()["a/zarr.json"] == STORED
    assert at.read("a/zarr.json") == shown


@pytest.mark.parametrize("save", [save_anew, save_with_a_backup, save_by_linking])
def test_in_place_of_a_document_that_was_deleted_a_new_array_is_stored(
    disk: Any, save: Any
) -> None:
    at = disk({"a/zarr.json": STORED})
    new = changed(at.read("a/zarr.json"), data_type="uint16")
    save(at, "a/zarr.json", new)
    assert at.stored()["a/zarr.json"] == new
    at.write("a/c/0/1", b"01")
    assert at.stored()["a/c/0/1"] == b"01"


def test_an_array_in_a_folder_that_was_deleted_is_new(disk: Any) -> None:
    at = disk({"a/zarr.json": STORED, "b/zarr.json": STORED})
    shown = at.read("a/zarr.json")
    at.remove_tree("a")
    at.write("a/zarr.json", shown)
    assert at.stored()["a/zarr.json"] == shown
    at.remove("b/zarr.json")
    at.view.rename("b", at.view, "d")
    at.write("b/zarr.json", shown)
    at.write("d/zarr.json", shown)
    assert at.stored() == dict.fromkeys(["a/zarr.json", "b/zarr.json", "d/zarr.json"], shown)


@pytest.mark.parametrize("keys", [suffix_keys(".tiff"), v2_keys()])
def test_an_array_in_a_folder_that_was_emptied_is_new(disk: Any, keys: Any) -> None:
    at = disk({"zarr.json": array(keys=keys), "README": b"", "s/x": b""})
    shown = at.read("zarr.json")
    at.write("c/0/1", b"0")
    at.remove("c/0/1")
    at.remove("zarr.json")
    at.remove("README")
    at.write("zarr.json", shown)
    assert at.members("zarr.json")["chunk_key_encoding"] == keys
    for path in list(at.view.list()):
        if at.view.lookup(path).kind is Kind.FOLDER:
            at.remove_tree(path)
        else:
            at.remove(path)
    at.write("zarr.json", shown)
    assert at.stored() == {"zarr.json": shown}
    at.remove("zarr.json")
    at.write("zarr.json", shown)
    assert at.stored() == {"zarr.json": shown}


def test_the_last_bytes_of_deleted_documents_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("zarrfuse.views.plain.writing._BYTES_REMEMBERED", 10)
    writing = PlainWriting(ChunksView(MemoryStore({}), FOREVER))
    for folder, text in (("a", b"1234"), ("b", b"1234"), ("a", b"123456"), ("c/d", b"12")):
        writing.remember(folder, text)
    found = {folder: writing.remembered(folder) for folder in ("a", "b", "c/d")}
    assert found == {"a": b"123456", "b": None, "c/d": b"12"}
    writing.forget_below("c")
    assert writing.remembered("c/d") is None
    writing.remember("", b"1")
    writing.forget_below("")
    assert writing.remembered("a") is None
    assert writing.remembered("") is None


def test_new_arrays_are_stored_as_they_are_given(disk: Any) -> None:
    at = disk({})
    at.write("g/zarr.json", group())
    at.write("g/a/zarr.json.3f2a.partial", STORED)
    # It is shown with other bytes than it has under its first name.
    assert at.replace("g/a/zarr.json.3f2a.partial", "g/a/zarr.json") is False
    at.write("g/b/zarr.json.3f2a.partial", array())
    at.link("g/b/zarr.json.3f2a.partial", "g/b/zarr.json")
    at.remove("g/b/zarr.json.3f2a.partial")
    assert at.stored() == {
        "g/zarr.json": group(),
        "g/a/zarr.json": STORED,
        "g/b/zarr.json": array(),
    }
    assert at.read("g/a/zarr.json") == document(parse_v3(STORED), STORED)
    at.write("g/a/c/1/1", b"0123456789")
    at.write("g/b/c/1/1", b"0123456789")
    assert at.stored()["g/a/c/1/1.tiff"] == b"2345678"
    assert at.stored()["g/b/c/1/1"] == b"0123456789"
    with pytest.raises(Exists):
        at.write("g/b/zarr.json", b"", exclusive=True)


def test_chunks_may_be_written_before_their_array(disk: Any) -> None:
    at = disk({})
    at.write("a/c/0/1", b"0123456789")
    assert at.read("a/c/0/1") == b"0123456789"
    at.write("a/zarr.json", array())
    assert at.read("a/c/0/1") == b"0123456789"
    assert at.names() == {"a/zarr.json", "a/c/0/1"}


def test_consolidated_metadata_are_stored_with_the_keys_and_transformers(disk: Any) -> None:
    at = disk({"zarr.json": group(), "a/zarr.json": STORED})
    metadata = {"a": json.loads(at.read("a/zarr.json"))}
    consolidated = {"kind": "inline", "must_understand": False, "metadata": metadata}
    save_by_replacing(
        at, "zarr.json", changed(at.read("zarr.json"), consolidated_metadata=consolidated)
    )
    found = at.members("zarr.json")["consolidated_metadata"]["metadata"]
    assert found == {"a": json.loads(STORED)}
    assert json.loads(at.read("zarr.json"))["consolidated_metadata"] == consolidated


def test_a_document_that_is_refused_is_written_anew_only_once_it_is_deleted(disk: Any) -> None:
    stored = {"a/zarr.json": b"{", "b/zarr.json": changed(STORED, codecs=[{"name": "gzip"}])}
    at = disk(stored)
    at.write("new", STORED)
    for path in ("a", "b"):
        folder = folder_at(at.view, path)
        with pytest.raises(NotFound):
            at.read(f"{path}/zarr.json")
        for refused in (
            lambda folder=folder: folder.write("zarr.json"),
            lambda folder=folder: folder.create("zarr.json"),
            lambda folder=folder: at.view.rename("new", folder, "zarr.json"),
        ):
            with pytest.raises(NotSupported, match="it can be deleted, and then written anew"):
                refused()
        assert at.stored()[f"{path}/zarr.json"] == stored[f"{path}/zarr.json"]
        folder.remove("zarr.json")
    at.write("a/zarr.json", array(keys=v2_keys()))
    assert at.stored()["a/zarr.json"] == array(keys=v2_keys())
    at.write("b/zarr.json", STORED)
    assert at.stored()["b/zarr.json"] == STORED
    at.write("a/c/0/1", b"0")
    assert at.stored()["a/0.1"] == b"0"


def test_an_empty_document_can_be_written(disk: Any) -> None:
    at = disk({"a/zarr.json": b""})
    save_in_place(at, "a/zarr.json", STORED)
    assert at.stored()["a/zarr.json"] == STORED


def test_the_time_of_a_document_is_set(disk: Any) -> None:
    at = disk({"a/zarr.json": STORED})
    folder = folder_at(at.view, "a")
    folder.change("zarr.json", Change(mtime_ns=1_000_000_000))
    assert folder.lookup("zarr.json").mtime_ns == 1_000_000_000
    writer = open_to_write(folder, "zarr.json")
    writer.change(Change(2_000_000_000))
    writer.store()
    writer.close()
    assert folder.lookup("zarr.json").mtime_ns == 2_000_000_000
    at.view.change("a", Change(mtime_ns=3_000_000_000))
    assert at.view.lookup("a").mtime_ns == 3_000_000_000


def test_who_created_a_document_can_store_it_again_when_only_syncing_failed(tmp_path: Path) -> None:
    store = FailingSync(str(tmp_path))
    commits = Commits(store)
    for view in ("plain", "chunks"):
        root = open_view(view, store, FOREVER, commits=commits)
        root.make_folder(view)
        writer = create(root.child(view), "zarr.json", exclusive=True)
        writer.write(array(), 0)
        store.fails = True
        with pytest.raises(OSError, match="sync"):
            writer.store(sync=True)
        assert (tmp_path / view / "zarr.json").read_bytes() == array()
        store.fails = False
        assert writer.store(sync=True)
        writer.close()
    commits.close()
    store.close()


class FailingSync(WritableLocalStore):
    """While `fails`, folders cannot be synced."""

    fails = False

    def sync_folder(self, key: str) -> None:
        if self.fails:
            raise OSError(errno.EIO, "no sync")
        super().sync_folder(key)
