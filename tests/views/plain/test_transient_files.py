"""Files of the `plain` view that no stored folder can hold live in memory until they are chunks."""

import errno
from typing import Any

import pytest
from builders.documents import array, suffix_keys, v2_keys
from builders.readers import read_range
from builders.view_writing import create
from builders.views import folder_at
from disks import Disk

from zarrfuse.errors import Exists, NotEmpty, NotFound, NotSupported
from zarrfuse.stores.access import Change
from zarrfuse.stores.base import Reader
from zarrfuse.views.plain.files import StoredFile, TransientFile


@pytest.fixture
def flat(disk: Any) -> Disk:
    return disk({"a/zarr.json": array(keys=v2_keys())})  # type: ignore[no-any-return]


def test_a_loose_file_is_shared_by_all_who_have_it_open(flat: Disk) -> None:
    folder = folder_at(flat.view, "a/c/0")
    writer = create(folder, "x", exclusive=True)
    assert writer.is_live
    reader = folder.open("x")
    writer.write(b"abc", 2)
    assert read_range(reader, 0, reader.size) == b"\0\0abc"
    assert folder.lookup("x").size == folder.list()["x"].size == 5
    other = folder.write("x")
    other.truncate(3)
    assert writer.size == 3
    folder.remove("x")
    assert folder.list() == {}
    assert read_range(writer, 0, 3) == b"\0\0a"
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
    kind = TransientFile if source == "a/c/0/x" else StoredFile
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
    assert read_range(reader, 0, 7) == b"old one"
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
