"""Writing in the `plain` view: what lands in the store, and what is shown then.

The sequences are those of real writers: zarr-python's `LocalStore` (a file `0.3f2a.partial` that
replaces the chunk, or is linked to it and unlinked), editors of `zarr.json`, `rm -r`.
"""

import errno
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from datasets import (
    array,
    concat_parts,
    default_keys,
    group,
    suffix_keys,
    v2_array,
    v2_keys,
    write_keys,
)
from fakes import MemoryStore
from reading import folder_at, read
from written_files import created, filled, opened_to_write

from zarrfuse.errors import (
    Contradiction,
    Exists,
    IsAFolder,
    NotEmpty,
    NotFound,
    NotSupported,
    PartsDoNotFit,
    ReadOnly,
)
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.spec.plain import document
from zarrfuse.stores.access import Change
from zarrfuse.stores.base import Kind, Reader
from zarrfuse.stores.local.writing import WritableLocalStore
from zarrfuse.transactions.commits import Commits
from zarrfuse.views.base import Folder
from zarrfuse.views.choice import open_view
from zarrfuse.views.chunks.view import ChunksView
from zarrfuse.views.plain.files import LooseFile, StoredFile
from zarrfuse.views.plain.writing import PlainWriting

FOREVER = float("inf")
OFFSET = {"name": "example.offset", "configuration": {"offset": [1, 2]}}


class Disk:
    """The view of a folder, used as programs use a disk. Nothing that was seen is looked up again
    by itself: what is written must be seen at once all the same."""

    def __init__(self, root: Path, view: Folder) -> None:
        self.root = root
        self.view = view

    def at(self, path: str) -> tuple[Folder, str]:
        folder, _, name = path.rpartition("/")
        return folder_at(self.view, folder), name

    def make_folders(self, path: str) -> None:
        folder = self.view
        for name in path.split("/") if path else ():
            try:
                if folder.lookup(name).kind is not Kind.FOLDER:
                    raise NotADirectoryError(name)
            except NotFound:
                folder.make_folder(name)
            folder = folder.child(name)

    def write(self, path: str, data: bytes, *, exclusive: bool = False) -> None:
        self.make_folders(path.rpartition("/")[0])
        folder, name = self.at(path)
        filled(created(folder, name, exclusive=exclusive), data)

    def read(self, path: str) -> bytes:
        folder, name = self.at(path)
        reader = folder.open(name)
        try:
            assert folder.lookup(name).size == reader.size
            return read(reader, 0, reader.size)
        finally:
            reader.close()

    def replace(self, path: str, new_path: str) -> bool:
        folder, name = self.at(path)
        to, new_name = self.at(new_path)
        return folder.rename(name, to, new_name)

    def link(self, path: str, new_path: str) -> None:
        folder, name = self.at(path)
        to, new_name = self.at(new_path)
        folder.link(name, to, new_name)

    def remove(self, path: str) -> None:
        folder, name = self.at(path)
        folder.remove(name)

    def remove_tree(self, path: str) -> None:
        """As `shutil.rmtree`."""
        for name, entry in folder_at(self.view, path).list().items():
            below = f"{path}/{name}"
            if entry.kind is Kind.FOLDER:
                self.remove_tree(below)
            else:
                self.remove(below)
        folder, name = self.at(path)
        folder.remove_folder(name)

    def names(self, path: str = "") -> set[str]:
        """Every file below a folder, by its path from there."""
        found = set()
        for name, entry in folder_at(self.view, path).list().items():
            if entry.kind is Kind.FOLDER:
                below = self.names(f"{path}/{name}" if path else name)
                found |= {f"{name}/{leaf}" for leaf in below}
            else:
                found.add(name)
        return found

    def stored(self) -> dict[str, bytes]:
        """Every file of the store, but for those that it keeps for itself."""
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file() and ".zarrfuse" not in path.parts
        }

    def members(self, path: str) -> dict[str, Any]:
        """The members of a stored document."""
        return dict(json.loads((self.root / path).read_bytes()))


@pytest.fixture
def stores() -> Iterator[list[Commits]]:
    opened: list[Commits] = []
    yield opened
    for commits in opened:
        commits.close()
        commits.store.close()


@pytest.fixture
def disk(tmp_path: Path, stores: list[Commits]) -> Any:
    """Makes a disk of these keys."""

    def made(keys: Mapping[str, bytes]) -> Disk:
        write_keys(tmp_path, keys)
        store = WritableLocalStore(str(tmp_path))
        stores.append(Commits(store))
        return Disk(tmp_path, open_view("plain", store, FOREVER, commits=stores[-1]))

    return made


NESTED = suffix_keys("/data.bin")
THREE = [concat_parts((".head", 2), "", (".tail", 1))]
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
        writer = opened_to_write(folder, name)
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


# -- documents -----------------------------------------------------------------------------------

STORED = array(keys=suffix_keys(".tiff"), transformers=THREE, extensions=[OFFSET])


def changed(shown: bytes, **changes: Any) -> bytes:
    return json.dumps(json.loads(shown) | changes, indent=2).encode()


def save_in_place(at: Disk, path: str, data: bytes) -> None:
    folder, name = at.at(path)
    filled(opened_to_write(folder, name, truncate=True), data)


def save_over_a_part(at: Disk, path: str, data: bytes) -> None:
    folder, name = at.at(path)
    writer = opened_to_write(folder, name)
    try:
        assert read(writer, 0, writer.size) == at.read(path)
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
    writer = opened_to_write(folder, "zarr.json")
    writer.change(Change(2_000_000_000))
    writer.store()
    writer.close()
    assert folder.lookup("zarr.json").mtime_ns == 2_000_000_000
    at.view.change("a", Change(mtime_ns=3_000_000_000))
    assert at.view.lookup("a").mtime_ns == 3_000_000_000


# -- Zarr v2 -------------------------------------------------------------------------------------


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


# -- files without a stored folder ---------------------------------------------------------------


@pytest.fixture
def flat(disk: Any) -> Disk:
    return disk({"a/zarr.json": array(keys=v2_keys())})  # type: ignore[no-any-return]


def test_a_loose_file_is_shared_by_all_who_have_it_open(flat: Disk) -> None:
    folder = folder_at(flat.view, "a/c/0")
    writer = created(folder, "x", exclusive=True)
    assert writer.is_live
    reader = folder.open("x")
    writer.write(b"abc", 2)
    assert read(reader, 0, reader.size) == b"\0\0abc"
    assert folder.lookup("x").size == folder.list()["x"].size == 5
    other = folder.write("x")
    other.truncate(3)
    assert writer.size == 3
    folder.remove("x")
    assert folder.list() == {}
    assert read(writer, 0, 3) == b"\0\0a"
    for file in (writer, reader, other):
        file.close()
    with pytest.raises(NotFound):
        folder.write("x")
    assert sorted(flat.stored()) == ["a/zarr.json"]


def test_a_loose_file_has_names_as_others_have(flat: Disk) -> None:
    flat.write("a/c/0/x", b"1")
    with pytest.raises(Exists):
        flat.write("a/c/0/x", b"2", exclusive=True)
    flat.link("a/c/0/x", "a/c/0/y")
    with pytest.raises(Exists):
        flat.link("a/c/0/x", "a/c/0/y")
    flat.write("a/c/0/y", b"2")
    assert flat.read("a/c/0/x") == b"2"
    flat.replace("a/c/0/x", "a/c/1/z")
    assert flat.names("a") == {"zarr.json", "c/0/y", "c/1/z"}
    flat.write("a/c/0/y", b"3")
    assert flat.read("a/c/1/z") == b"3"
    flat.replace("a/c/1/z", "a/kept")
    assert flat.stored()["a/kept"] == b"3"
    flat.replace("a/kept", "a/c/0/back")
    assert "a/kept" not in flat.stored()
    assert flat.read("a/c/0/back") == b"3"
    folder = folder_at(flat.view, "a/c/0")
    folder.change("back", Change(mtime_ns=1_000_000_000))
    assert folder.lookup("back").mtime_ns == 1_000_000_000
    with pytest.raises(NotEmpty):
        folder_at(flat.view, "a/c").remove_folder("0")
    with pytest.raises(NotSupported):
        folder.make_folder("sub")
    flat.view.rename("a", flat.view, "b")
    assert flat.read("b/c/0/back") == b"3"
    assert flat.names("b") == {"zarr.json", "c/0/y", "c/0/back"}


class FullSpools(Reader):
    """Readers of this file's bytes fail at the end, as a full disk does."""

    def __init__(self, reader: Reader) -> None:
        self.size = reader.size + 1
        self.mtime_ns = reader.mtime_ns
        self.close = reader.close

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        raise OSError(errno.ENOSPC, "the disk is full")


@pytest.mark.parametrize(("source", "target"), [("a/c/0/x", "a/kept"), ("a/kept", "a/c/0/x")])
def test_a_copy_over_another_file_is_one_step(
    flat: Disk, source: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flat.write(source, b"new")
    flat.write(target, b"old one")
    folder, name = flat.at(target)
    kind = LooseFile if source == "a/c/0/x" else StoredFile
    opened = kind.open
    with monkeypatch.context() as patched:
        patched.setattr(kind, "open", lambda self: FullSpools(opened(self)))
        with pytest.raises(OSError, match="full"):
            flat.replace(source, target)
    assert flat.read(target) == b"old one"
    assert flat.read(source) == b"new"
    reader = folder.open(name)
    flat.replace(source, target)
    assert flat.read(target) == b"new"
    assert read(reader, 0, 7) == b"old one"
    reader.close()
    with pytest.raises(NotFound):
        flat.read(source)


def test_metadata_and_chunks_under_stored_keys_have_no_place_between_chunks(disk: Any) -> None:
    at = disk(
        {"a/zarr.json": array(keys=suffix_keys(".x")), "b/zarr.json": array(keys=v2_keys("/"))}
    )
    at.make_folders("a/c/0")
    folder = folder_at(at.view, "a/c/0")
    for name in ("zarr.json", "1.x"):
        with pytest.raises(NotSupported):
            folder.create(name)
    with pytest.raises(NotSupported):
        folder_at(at.view, "b").create("0")
    with pytest.raises(NotSupported):
        folder_at(at.view, "b").make_folder("0")


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


def test_who_created_a_document_can_store_it_again_when_only_syncing_failed(tmp_path: Path) -> None:
    store = FailingSync(str(tmp_path))
    commits = Commits(store)
    for view in ("plain", "chunks"):
        root = open_view(view, store, FOREVER, commits=commits)
        root.make_folder(view)
        writer = created(root.child(view), "zarr.json", exclusive=True)
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
