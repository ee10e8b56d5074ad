"""A zip as a whole: what is no zip, Zip64, and a zip that changes under a mount."""

import errno
import gc
import os
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from builders.processes import open_files
from builders.readers import read_range
from crafted_zips import TEXT, central_record, patch, write

from zarrfuse.errors import SourceError, Stale, errno_of
from zarrfuse.stores.base import opened, read
from zarrfuse.stores.zip.store import ZipStore

# -- what is no zip


@pytest.mark.parametrize("cut", [1, 10, 22, 30, 300])
def test_truncated_zip_is_refused_by_name(tmp_path, cut):
    path = write(tmp_path / "cut.zip", {f"c/{i}": b"x" * 100 for i in range(20)})
    os.truncate(path, os.path.getsize(path) - cut)
    with pytest.raises(SourceError, match=r"cut\.zip"):
        ZipStore(path)


@pytest.mark.parametrize("data", [b"", b"not a zip at all", b"PK\x05\x06", b"PK\x03\x04" * 100])
def test_no_zip_is_refused_by_name(tmp_path, data):
    (tmp_path / "no.zip").write_bytes(data)
    with pytest.raises(SourceError, match=r"no\.zip is not a whole zip file"):
        ZipStore(str(tmp_path / "no.zip"))


def test_missing_zip_folder_and_fifo_are_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo.zip")
    (tmp_path / "folder.zip").mkdir()
    with pytest.raises(SourceError, match=r"none\.zip does not exist"):
        ZipStore(str(tmp_path / "none.zip"))
    for name in ("fifo.zip", "folder.zip"):
        with pytest.raises(SourceError, match=name):
            ZipStore(str(tmp_path / name))


def test_refused_zip_leaves_no_descriptor(tmp_path):
    (tmp_path / "no.zip").write_bytes(b"nothing")
    gc.collect()  # what failed tests before this one still hold through their tracebacks
    before = open_files()
    for name in ("no.zip", "none.zip", ""):
        with pytest.raises(SourceError):
            ZipStore(str(tmp_path / name))
    assert open_files() == before


def test_broken_central_directory_is_refused(tmp_path):
    path = write(tmp_path / "a.zip", {"a": b"1", "b": b"2"})
    patch(path, central_record(path, "b"), b"XX")
    with pytest.raises(SourceError, match=r"a\.zip is not a whole zip file"):
        ZipStore(path)


def test_name_that_claims_utf_8_and_is_not_refuses_the_zip(tmp_path):
    path = write(tmp_path / "a.zip", {"aé": b"1"})
    at = central_record(path, "aé") + 46
    patch(path, at, b"a\xff\xff")
    with pytest.raises(SourceError, match=r"a\.zip"):
        ZipStore(path)


def test_empty_zip_is_an_empty_store(tmp_path):
    store = ZipStore(write(tmp_path / "a.zip", {}))
    assert store.list("") == {}
    assert store.permanent


# -- size


def test_zip64_fields_and_records(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(zipfile, "ZIP64_LIMIT", 10)
        patched.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 2)
        path = write(tmp_path / "a.zip", {f"c/{i}": bytes([i]) * 100 for i in range(10)})
    assert b"PK\x06\x06" in Path(path).read_bytes()
    store = ZipStore(path)
    for i in range(10):
        assert read(store, f"c/{i}") == bytes([i]) * 100


def test_zip64_local_header_alone(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive, archive.open("a", "w", force_zip64=True) as member:
        member.write(b"contents")
    assert read(ZipStore(str(path)), "a") == b"contents"


def test_member_behind_4_gib(tmp_path):
    path = tmp_path / "a.zip"
    with path.open("wb") as file:
        file.truncate(5 * 2**30)  # a hole
    write(path, {"far": TEXT}, mode="a")
    write(path, {"deflated": TEXT}, zipfile.ZIP_DEFLATED, mode="a")
    store = ZipStore(str(path))
    assert read(store, "far") == read(store, "deflated") == TEXT


def test_zip_behind_another_file(tmp_path):
    plain = write(tmp_path / "plain.zip", {"a": TEXT})
    path = tmp_path / "a.zip"
    path.write_bytes(b"#!/bin/sh\nexit 1\n" * 10 + Path(plain).read_bytes())
    assert read(ZipStore(str(path)), "a") == TEXT


def test_the_tree_of_names_takes_little_memory(tmp_path):
    count = 20_000
    names = (f"v.zarr/0/c/{i // 10_000}/{i // 100 % 100}/{i % 100}.tiff" for i in range(count))
    path = write(tmp_path / "a.zip", dict.fromkeys(names, b"x"))
    tracemalloc.start()
    store = ZipStore(path)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(store.list("v.zarr/0/c/1/0")) == 100
    assert kept / count < 120  # bytes: 120 MB for 1,000,000
    assert peak / count < 300


# -- the zip changes


def test_zip_written_in_place_is_stale(tmp_path):
    path = write(tmp_path / "a.zip", {"a": b"1234", "b": b"5678"})
    store = ZipStore(path)
    assert read(store, "a") == b"1234"
    write(Path(path), {"a": b"new contents, longer"})
    with pytest.raises(Stale, match=r"a\.zip was changed") as caught:
        store.open("a")
    assert errno_of(caught.value) == errno.ESTALE
    assert store.stat("a").size == 4  # from memory


def test_zip_touched_is_stale(tmp_path):
    path = write(tmp_path / "a.zip", {"a": b"1234"})
    store = ZipStore(path)
    os.utime(path, ns=(1, 1))
    with pytest.raises(Stale):
        store.open("a")


def test_zip_rewritten_under_an_open_compressed_member_is_stale_not_corrupt(tmp_path):
    path = write(tmp_path / "a.zip", {"a": TEXT}, zipfile.ZIP_DEFLATED)
    with opened(ZipStore(path), "a") as reader:
        write(Path(path), {"other": b"\xff" * 9000})
        with pytest.raises(Stale):
            read_range(reader, 0, 10)


def test_zip_renamed_over_goes_on_being_served(tmp_path):
    path = write(tmp_path / "a.zip", {"a": b"old", "d": TEXT}, zipfile.ZIP_DEFLATED)
    store = ZipStore(path)
    os.replace(write(tmp_path / "new.zip", {"a": b"newer"}), path)
    assert read(store, "a") == b"old"
    assert read(store, "d") == TEXT
    assert read(ZipStore(path), "a") == b"newer"


# -- end


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_open_reader_outlives_its_store(tmp_path, method):
    gc.collect()  # what failed tests before this one still hold through their tracebacks
    before = open_files()
    store = ZipStore(write(tmp_path / "a.zip", {"a": TEXT}, method))
    reader = store.open("a")
    store.close()
    assert read_range(reader, 0, len(TEXT)) == TEXT
    with pytest.raises(OSError):
        store.space()
    reader.close()
    with pytest.raises(OSError):
        read_range(reader, 0, 1)
    del reader
    assert open_files() == before
