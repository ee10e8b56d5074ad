"""`zarrfuse.open_store(..., read_only=False)`: what zarr-python writes lands split, suffixed and whole."""

import errno
import json
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import xarray
import zarr
from builders.documents import array, concat_parts, group, suffix_keys, v2_array
from builders.folders import stored_files, write_keys, zip_folder
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import _collect_aiterator, sync

import zarrfuse
from zarrfuse.errors import Exists
from zarrfuse.stores.base import OWN_NAME
from zarrfuse.zarr_python.store import PlainStore

PARTS = {
    "zarr.json": group(),
    "a/zarr.json": array(
        keys=suffix_keys(".bin"), transformers=[concat_parts((".head", 1), "", (".tail", 1))]
    ),
    "a/c/0/0.bin.head": b"\1",
    "a/c/0/0.bin": b"\2\3",
    "a/c/0/0.bin.tail": b"\4",
    "README.txt": b"read me",
}
"""A chunk of four, of three parts."""


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """A group with an array in parts."""
    folder = tmp_path / "data"
    write_keys(folder, PARTS)
    return folder


@pytest.fixture
def store(parts: Path) -> Iterator[PlainStore]:
    """It, to be written."""
    with zarrfuse.open_store(parts, read_only=False) as store:
        yield store


def buffer(data: bytes):
    return default_buffer_prototype().buffer.from_bytes(data)


def put(store: PlainStore, key: str, data: bytes) -> None:
    sync(store.set(key, buffer(data)))


def read(store: PlainStore, key: str) -> bytes | None:
    found = sync(store.get(key, default_buffer_prototype()))
    return None if found is None else found.to_bytes()


def folders(folder: Path) -> set[str]:
    """Every folder, but for that of our own."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_dir()}
    return {path for path in found if path.split("/")[0] != OWN_NAME}


def _same(found: bytes | None, expected: bytes) -> bool:
    """Whether these are the same bytes, or the same document."""
    assert found is not None
    return found == expected or json.loads(found) == json.loads(expected)


# -- what is stored --------------------------------------------------------------------------


def test_chunks_that_zarr_python_writes_land_in_their_parts(store: PlainStore, parts: Path) -> None:
    opened = zarr.open_array(store, path="a", mode="r+")
    opened[:] = np.arange(1, 17, dtype="uint8").reshape(4, 4)
    chunks = {
        "0/0": [1, 2, 5, 6],
        "0/1": [3, 4, 7, 8],
        "1/0": [9, 10, 13, 14],
        "1/1": [11, 12, 15, 16],
    }
    expected = {key: data for key, data in PARTS.items() if not key.startswith("a/c/")}
    for key, values in chunks.items():
        expected[f"a/c/{key}.bin.head"] = bytes(values[:1])
        expected[f"a/c/{key}.bin"] = bytes(values[1:3])
        expected[f"a/c/{key}.bin.tail"] = bytes(values[3:])
    assert stored_files(parts) == expected
    assert opened[:].tolist() == np.arange(1, 17).reshape(4, 4).tolist()


def test_chunk_that_does_not_fit_its_parts_is_refused_and_the_old_one_stays(
    store: PlainStore, parts: Path
) -> None:
    with pytest.raises(OSError) as caught:
        put(store, "a/c/0/0", b"x")
    assert caught.value.errno == errno.EINVAL
    assert "a: chunk c/0/0.bin" in str(caught.value)
    assert stored_files(parts) == PARTS
    assert read(store, "a/c/0/0") == b"\1\2\3\4"


def test_chunk_is_deleted_with_all_its_parts_and_the_folders_that_are_empty_then(
    store: PlainStore, parts: Path
) -> None:
    sync(store.delete("a/c/0/0"))
    assert stored_files(parts) == {
        key: data for key, data in PARTS.items() if not key.startswith("a/c/")
    }
    assert folders(parts) == {"a"}
    assert read(store, "a/c/0/0") is None
    sync(store.delete("a/c/0/0"))
    sync(store.delete("a/c/0"))
    sync(store.delete("none/such/key"))


def test_array_is_deleted_with_all_that_it_hid(store: PlainStore, parts: Path) -> None:
    (parts / "a/c/0/0").write_bytes(b"hidden: the name of a chunk in the plain view")
    (parts / "a/c/1").mkdir()
    (parts / "a/c/1/1.bin.tail").write_bytes(b"the only part of its chunk")
    sync(store.delete_dir("a"))
    assert stored_files(parts) == {"zarr.json": PARTS["zarr.json"], "README.txt": b"read me"}
    assert folders(parts) == set()


def test_node_that_is_not_understood_can_be_deleted(store: PlainStore, parts: Path) -> None:
    (parts / "a/zarr.json").write_bytes(b"{")
    sync(store.delete_dir("a/"))
    assert set(stored_files(parts)) == {"zarr.json", "README.txt"}
    assert folders(parts) == set()


def test_array_can_be_overwritten_by_another(store: PlainStore, parts: Path) -> None:
    made = zarr.create_array(
        store, name="a", shape=(3,), chunks=(2,), dtype="int8", compressors=None, overwrite=True
    )
    made[:] = [1, 2, 3]
    assert set(stored_files(parts)) == {"zarr.json", "README.txt", "a/zarr.json", "a/c/0", "a/c/1"}
    assert zarr.open_array(store, path="a", mode="r")[:].tolist() == [1, 2, 3]


def test_array_at_the_root_can_be_overwritten_by_another(tmp_path: Path) -> None:
    write_keys(tmp_path, {"zarr.json": array(keys=suffix_keys(".bin")), "c/0/0.bin": b"1234"})
    with zarrfuse.open_store(tmp_path, read_only=False) as store:
        made = zarr.create_array(
            store, shape=(3,), chunks=(2,), dtype="uint8", compressors=None, overwrite=True
        )
        made[:] = [1, 2, 3]
        assert set(stored_files(tmp_path)) == {"zarr.json", "c/0", "c/1"}


def test_everything_can_be_deleted(store: PlainStore, parts: Path) -> None:
    sync(store.clear())
    assert stored_files(parts) == {}
    assert folders(parts) == set()
    zarr.create_group(store)
    assert set(stored_files(parts)) == {"zarr.json"}


def test_symlinks_are_deleted_and_not_followed(
    store: PlainStore, parts: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").write_bytes(b"outside")
    (parts / "b").mkdir()
    (parts / "b/in").symlink_to("../a")
    (parts / "b/out").symlink_to("../../outside")
    sync(store.delete_dir("b"))
    (parts / "linked").symlink_to("a")
    sync(store.delete_dir("linked"))
    assert stored_files(parts) == PARTS
    assert (tmp_path / "outside").read_bytes() == b"outside"


def test_resized_array_keeps_its_parts_and_is_seen_at_once(store: PlainStore, parts: Path) -> None:
    opened = zarr.open_array(store, path="a", mode="r+")
    opened.resize((6, 4))
    opened[4:, :2] = 9
    assert (parts / "a/c/2/0.bin").read_bytes() == b"\x09\x09"
    again = zarr.open_array(store, path="a", mode="r")
    assert again.shape == (6, 4)
    assert again[4:, :2].tolist() == [[9, 9], [9, 9]]
    opened.resize((0, 4))
    assert set(stored_files(parts)) == {"zarr.json", "README.txt", "a/zarr.json"}


def test_files_that_zarr_knows_nothing_of_are_stored_as_they_are(
    store: PlainStore, parts: Path
) -> None:
    put(store, "README.txt", b"")
    put(store, "notes/deep/text", b"text")
    assert stored_files(parts) == {**PARTS, "README.txt": b"", "notes/deep/text": b"text"}
    sync(store.delete("notes/deep/text"))
    assert folders(parts) == {"a", "a/c", "a/c/0"}


def test_chunks_of_zarr_v2_are_stored(store: PlainStore, parts: Path) -> None:
    write_keys(parts, {"v2/.zarray": v2_array()})
    put(store, "v2/c/0/1", b"\1\2\3\4")
    assert read(store, "v2/c/0/1") == b"\1\2\3\4"
    assert set(stored_files(parts)) - set(PARTS) == {"v2/.zarray", "v2/0.1"}


def test_xarray_writes_and_reads_back(tmp_path: Path) -> None:
    store = zarrfuse.open_store(tmp_path / "made.zarr", read_only=False)
    dataset = xarray.Dataset({"v": (("y", "x"), np.arange(12.0).reshape(3, 4))})
    dataset.to_zarr(store, zarr_format=3, consolidated=False)
    dataset.to_zarr(store, zarr_format=3, consolidated=False, append_dim="y", mode="a")
    read_back = xarray.open_zarr(store, consolidated=False)
    assert read_back["v"].shape == (6, 4)
    assert (read_back["v"].values[3:] == dataset["v"].values).all()
    store.close()


# -- whole or not at all, by many --------------------------------------------------------------


@pytest.mark.parametrize("key", ["README.txt", "new/file", "a/c/0/0", "a/c/1/1"])
def test_of_many_who_set_one_key_one_is_whole_and_readers_see_none_half(
    store: PlainStore, parts: Path, key: str
) -> None:
    size = 4 if "c/" in key else 100_000
    put(store, key, bytes([200]) * size)
    done = threading.Event()
    mixed = []

    def watch() -> None:
        while not done.is_set():
            data = store.get_sync(key)
            found = b"" if data is None else data.to_bytes()
            if found != found[:1] * size:
                mixed.append(found[:10])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with ThreadPoolExecutor(4) as threads:
            calls = [
                threads.submit(store.set_sync, key, buffer(bytes([number]) * size))
                for number in range(60)
            ]
            for call in calls:
                call.result()
    finally:
        done.set()
        watcher.join()
    assert mixed == []
    data = read(store, key)
    assert data is not None
    assert data == data[:1] * size
    assert data[0] < 60


@pytest.mark.parametrize("key", ["new/file", "a/c/1/1", "new/zarr.json"])
def test_of_many_who_set_what_is_not_there_one_does(store: PlainStore, key: str) -> None:
    together = threading.Barrier(4)

    def attempt(number: int) -> bytes | None:
        data = group(attributes={"by": number}) if "json" in key else bytes([number]) * 4
        together.wait()
        try:
            store.ensure_open().store(key, memoryview(data), new=True)
        except Exists:
            return None
        return data

    for _ in range(20):
        with ThreadPoolExecutor(4) as threads:
            stored = [data for data in threads.map(attempt, range(4)) if data is not None]
        assert len(stored) == 1
        sync(store.set_if_not_exists(key, buffer(b"late")))
        assert _same(read(store, key), stored[0])
        sync(store.delete(key))


def test_a_key_is_set_where_others_have_just_deleted_a_folder(
    store: PlainStore, parts: Path
) -> None:
    put(store, "deep/er/0", b"x")
    shutil.rmtree(parts / "deep")
    put(store, "deep/other/1", b"y")
    assert (parts / "deep/other/1").read_bytes() == b"y"


def test_keys_are_set_while_others_delete_the_folders_around_them(store: PlainStore) -> None:
    def change(number: int) -> None:
        key = f"deep/er/{number % 2}"
        put(store, key, b"x")
        sync(store.delete(key))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(change, range(100)))
    assert sync(store.is_empty("deep"))


WRITE = """
import pickle, sys
import numpy, zarr
store = pickle.loads(bytes.fromhex(sys.argv[1]))
row = int(sys.argv[2])
opened = zarr.open_array(store, path="a", mode="r+")
for value in range(20):
    opened[2 * row : 2 * row + 2] = 10 * row + value % 10
    sys.stdin.readline() if value == 0 else None
"""


def test_processes_write_one_array_at_once(store: PlainStore, parts: Path) -> None:
    pickled = pickle.dumps(store).hex()
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITE, pickled, str(row)], stdin=subprocess.PIPE)
        for row in range(2)
    ]
    for writer in writers:
        writer.communicate(b"\n", timeout=100)
    assert [writer.returncode for writer in writers] == [0, 0]
    values = zarr.open_array(store, path="a", mode="r")[:]
    assert values.tolist() == [[9] * 4, [9] * 4, [19] * 4, [19] * 4]
    assert (parts / "a/c/1/1.bin").read_bytes() == bytes([19, 19])


def test_child_that_was_forked_writes_too(store: PlainStore, parts: Path) -> None:
    put(store, "before", b"before")
    child = multiprocessing.get_context("fork").Process(
        target=store.set_sync, args=("a/c/0/0", buffer(b"fork"))
    )
    child.start()
    child.join(60)
    assert child.exitcode == 0
    put(store, "after", b"after")
    assert read(store, "a/c/0/0") == b"fork"
    assert (parts / "after").read_bytes() == b"after"


# -- errors --------------------------------------------------------------------------------------


def test_keys_of_our_own_are_refused(store: PlainStore, parts: Path) -> None:
    for key in (f"{OWN_NAME}/x", OWN_NAME):
        with pytest.raises(PermissionError, match="its own files"):
            put(store, key, b"")
    with pytest.raises(PermissionError):
        sync(store.delete(f"{OWN_NAME}/lock"))
    with pytest.raises(PermissionError):
        sync(store.delete_dir(OWN_NAME))
    assert stored_files(parts) == PARTS


def test_key_below_a_file_is_refused(store: PlainStore) -> None:
    with pytest.raises(NotADirectoryError):
        put(store, "README.txt/x", b"")
    with pytest.raises(IsADirectoryError):
        put(store, "a", b"")
    with pytest.raises(ValueError, match="is a file"):
        sync(store.delete_dir("README.txt"))
    sync(store.delete("README.txt/x"))
    sync(store.delete_dir("README.txt/x"))
    assert read(store, "README.txt") == b"read me"


@pytest.mark.parametrize("key", ["a//b", "/a", "../out", "a/../b", "./x", "x/"])
def test_key_that_is_no_path_below_the_source_is_refused(
    store: PlainStore, parts: Path, key: str
) -> None:
    with pytest.raises(FileNotFoundError):
        put(store, key, b"")
    assert stored_files(parts) == PARTS


def test_symlink_that_leads_out_is_not_written_through(
    store: PlainStore, parts: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (parts / "out").symlink_to("../outside")
    with pytest.raises(PermissionError):
        put(store, "out/x", b"")
    assert list((tmp_path / "outside").iterdir()) == []


def test_node_that_is_not_understood_takes_no_chunks(store: PlainStore, parts: Path) -> None:
    write_keys(parts, {"bad/zarr.json": array(extensions=[{"name": "example.unheard-of"}])})
    with pytest.raises(OSError) as caught:
        put(store, "bad/c/0/0", b"\1\2\3\4")
    assert caught.value.errno == errno.ENOTSUP
    assert set(stored_files(parts)) - set(PARTS) == {"bad/zarr.json"}


def test_only_buffers_are_stored(store: PlainStore) -> None:
    with pytest.raises(TypeError, match="a Buffer"):
        sync(store.set("x", b"bytes"))  # type: ignore[arg-type]


# -- life ----------------------------------------------------------------------------------------


def test_folder_that_is_not_there_is_made(tmp_path: Path) -> None:
    store = zarrfuse.open_store(tmp_path / "made.zarr", read_only=False)
    zarr.create_array(store, shape=(2,), chunks=(1,), dtype="int8")[:] = [1, 2]
    assert zarr.open_array(tmp_path / "made.zarr", mode="r")[:].tolist() == [1, 2]
    store.close()
    with pytest.raises(FileNotFoundError):
        zarrfuse.open_store(tmp_path / "no/such/folder", read_only=False)


def test_what_cannot_be_written_is_refused_with_a_sentence(parts: Path, tmp_path: Path) -> None:
    zip_folder(parts, tmp_path / "data.zip")
    (tmp_path / "file").touch()
    for source in ("data.zip", "file", "new.zip"):
        with pytest.raises(OSError, match="can't be written: open it with read_only=True"):
            zarrfuse.open_store(tmp_path / source, read_only=False)
    assert not (tmp_path / "new.zip").exists()
    assert (
        zarr.open_array(zarrfuse.open_store(tmp_path / "data.zip"), path="a", mode="r")[0, 0] == 1
    )


def test_store_that_is_only_read_writes_nothing(parts: Path) -> None:
    store = zarrfuse.open_store(parts)
    opened = zarr.open_array(store, path="a", mode="r")
    with pytest.raises(ValueError, match="read-only"):
        zarr.open_array(store, path="a", mode="r+")
    with pytest.raises(ValueError, match="read-only"):
        opened[:] = 1
    assert stored_files(parts) == PARTS
    assert not (parts / OWN_NAME).exists()


def test_store_is_pickled_with_its_right_to_write(store: PlainStore) -> None:
    copied = pickle.loads(pickle.dumps(store))
    assert copied == store
    assert not copied.read_only
    put(copied, "README.txt", b"copied")
    assert read(store, "README.txt") == b"copied"
    copied.close()
    assert pickle.loads(pickle.dumps(store.with_read_only(True))).read_only


def test_reader_of_the_same_source_is_made_for_mode_r(store: PlainStore) -> None:
    opened = zarr.open_array(store, path="a", mode="r")
    assert opened.read_only
    assert opened[0, 0] == 1


def test_nothing_of_ours_is_left_when_the_store_is_closed(parts: Path) -> None:
    store = zarrfuse.open_store(parts, read_only=False)
    assert not (parts / OWN_NAME).exists()
    zarr.open_array(store, path="a", mode="r+")[:] = 7
    put(store, "file", b"file")
    store.close()
    assert not (parts / OWN_NAME).exists()
    put(store, "file", b"again")
    assert (parts / "file").read_bytes() == b"again"
    store.close()
    assert sorted(os.listdir(parts)) == ["README.txt", "a", "file", "zarr.json"]


def test_own_folder_is_listed_by_nobody(store: PlainStore, parts: Path) -> None:
    put(store, "a/c/1/1", b"1234")
    assert (parts / OWN_NAME).exists()
    assert not any(key.startswith(OWN_NAME) for key in sync(_collect_aiterator(store.list())))
    assert OWN_NAME not in sync(_collect_aiterator(store.list_dir("")))


def test_folder_that_was_deleted_and_made_anew_is_written(store: PlainStore, parts: Path) -> None:
    put(store, "file", b"old")
    os.rename(parts, parts.with_name("old"))
    write_keys(parts, {"zarr.json": group()})
    put(store, "file", b"new")
    assert (parts / "file").read_bytes() == b"new"
    assert (parts.with_name("old") / "file").read_bytes() == b"old"
