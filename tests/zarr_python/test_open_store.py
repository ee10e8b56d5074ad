"""What a program gets from `zarrfuse.open_store`, what it costs, and how it fails."""

import asyncio
import errno
import threading
from pathlib import Path

import numpy as np
import pytest
import zarr
from builders.concat_parts_examples import HEADER, write_header_example
from builders.documents import array, concat_parts, suffix_keys
from builders.fake_stores import ForwardingReader, ForwardingStore
from builders.folders import write_keys, zip_folder
from hypothesis import given
from hypothesis import strategies as st
from opened_stores import listed, read
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

import zarrfuse
from zarrfuse.stores.base import Reader, Store
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views import keys as keys_module
from zarrfuse.views.keys import Keys
from zarrfuse.views.raw.view import RawFolder
from zarrfuse.zarr_python import keys as keys_store
from zarrfuse.zarr_python import store as plain_store
from zarrfuse.zarr_python.store import PlainStore


class Counting(ForwardingStore):
    """Counts the bytes that are read of each key, the calls, and what was opened and not closed."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.bytes: dict[str, int] = {}
        self.calls: list[tuple[str, str]] = []

    def before(self, call: str, key: str, wait: bool) -> None:
        """Only of calls that may wait: what is not at hand is asked for twice."""
        self.calls.append((call, key))

    def open(self, key: str, *, wait: bool = True) -> Reader:
        """See `base.Store`."""
        self.before("open", key, wait)
        return CountingReader(self, key, self.inner.open(key, wait=wait))


class CountingReader(ForwardingReader):
    """Adds what it reads to the store's count."""

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `base.Reader`."""
        super().readinto(buffer, offset, wait=wait)
        counted = self._store.bytes
        counted[self._key] = counted.get(self._key, 0) + len(buffer)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Counting]:
    """Every store that is opened during the test, counting."""
    stores: list[Counting] = []
    real = plain_store.open_stored

    def opened(source: str, **options: bool) -> Counting:
        stores.append(Counting(real(source, **options)))
        return stores[-1]

    monkeypatch.setattr(plain_store, "open_stored", opened)
    return stores


# -- what is read


def test_zarr_python_reads_what_is_stored_in_parts(parts: Path) -> None:
    opened = zarr.open(zarrfuse.open_store(parts))
    assert opened["a"][:].tolist() == [[1, 2, 0, 0], [3, 4, 0, 0], [0, 0, 5, 6], [0, 0, 7, 8]]


def test_zarr_python_alone_cannot(parts: Path) -> None:
    with pytest.raises(ValueError, match="storage transformers"):
        zarr.open_array(parts / "a", mode="r")


def test_a_zip_file_is_a_source(parts: Path, tmp_path: Path) -> None:
    zip_folder(parts, tmp_path / "data.zip")
    store = zarrfuse.open_store(tmp_path / "data.zip")
    assert zarr.open_array(store, path="a")[0].tolist() == [1, 2, 0, 0]


def test_v2_arrays_are_read_as_v3(tmp_path: Path) -> None:
    data = np.arange(20, dtype=">i4").reshape(4, 5)
    zarr.create_array(tmp_path / "v2", data=data, chunks=(2, 2), zarr_format=2, order="F")
    opened = zarr.open_array(zarrfuse.open_store(tmp_path), path="v2")
    assert opened.metadata.zarr_format == 3
    assert np.array_equal(opened[:], data)


@pytest.mark.parametrize(
    "key",
    [
        *("missing", "missing/zarr.json", "a", "a/c", "a/c/0/1", "a/c/0/0.bin", "a/c/0/0.bin.head"),
        *("", "/", "/zarr.json", "/a/zarr.json", "a//zarr.json", "a/", "zarr.json/x", "zarr.json/"),
        *("../data/zarr.json", "./zarr.json", "a/../zarr.json"),
    ],
)
def test_what_is_no_key_is_none(parts: Path, key: str) -> None:
    store = zarrfuse.open_store(parts)
    assert read(store, key) is None
    assert not sync(store.exists(key))
    with pytest.raises(FileNotFoundError):
        sync(store.getsize(key))


RANGES = st.one_of(
    st.builds(RangeByteRequest, st.integers(0, 6), st.integers(0, 8)),
    st.builds(OffsetByteRequest, st.integers(0, 6)),
    st.builds(SuffixByteRequest, st.integers(0, 6)),
)


@given(byte_range=RANGES)
def test_a_range_is_that_slice_of_the_merged_chunk(
    parts_store: PlainStore, byte_range: ByteRequest
) -> None:
    chunk = b"\1\2\3\4"
    match byte_range:
        case RangeByteRequest(start, end):
            expected = chunk[start:end]
        case OffsetByteRequest(start):
            expected = chunk[start:]
        case SuffixByteRequest(count):
            expected = chunk[max(0, 4 - count) :]
    assert read(parts_store, "a/c/0/0", byte_range) == expected
    assert parts_store.get_sync("a/c/0/0", byte_range=byte_range).to_bytes() == expected


@pytest.mark.parametrize("byte_range", [RangeByteRequest(-1, 3), OffsetByteRequest(-2)])
def test_a_range_before_the_start_is_refused(
    parts_store: PlainStore, byte_range: ByteRequest
) -> None:
    with pytest.raises(ValueError, match="Unexpected byte_range"):
        read(parts_store, "a/c/0/0", byte_range)


# -- listings


def test_keys_are_those_of_the_plain_view(parts: Path) -> None:
    store = zarrfuse.open_store(parts)
    chunks = ["a/c/0/0", "a/c/1/1"]
    assert listed(store.list()) == sorted(["README.txt", "zarr.json", "a/zarr.json", *chunks])
    assert listed(store.list_prefix("a/c")) == chunks
    assert listed(store.list_prefix("a/c/1")) == ["a/c/1/1"]
    assert listed(store.list_prefix("a/c/1/")) == ["a/c/1/1"]
    assert listed(store.list_prefix("RE")) == ["README.txt"]
    assert listed(store.list_prefix("b/")) == []
    assert listed(store.list_prefix("/")) == listed(store.list_prefix("/a")) == []
    assert listed(store.list_dir("a")) == ["c", "zarr.json"]
    assert listed(store.list_dir("a/c/")) == ["0", "1"]
    assert listed(store.list_dir("a/c/0/0")) == []
    assert sync(store.getsize("a/c/0/0")) == 4


def test_the_first_key_is_there_before_all_folders_are_listed(
    tmp_path: Path, counted: list[Counting]
) -> None:
    write_keys(tmp_path, {f"{number:03}/file": b"" for number in range(300)})
    store = zarrfuse.open_store(tmp_path)

    async def first() -> str:
        async for key in store.list():
            return key
        raise AssertionError("nothing was listed")

    assert asyncio.run(first()).endswith("/file")
    scans = [key for call, key in counted[0].calls if call == "scan"]
    assert len(scans) < 200


def test_size_and_presence_are_told_without_reading(parts: Path, counted: list[Counting]) -> None:
    store = zarrfuse.open_store(parts)
    assert sync(store.getsize("a/c/0/0")) == 4
    assert sync(store.exists("a/c/0/0"))
    assert not any("/c/" in key for key in counted[0].bytes)


# -- what it costs


def test_only_the_bytes_of_the_inner_chunks_that_are_asked_for_are_read(
    tmp_path: Path, counted: list[Counting]
) -> None:
    expected = write_header_example(tmp_path)
    opened = zarr.open_array(zarrfuse.open_store(tmp_path))
    region = np.s_[7600:7700, 5200:5900]  # in two inner chunks of the shard at 1, 1
    assert np.array_equal(opened[region], expected[region])
    chunks = {key: count for key, count in counted[0].bytes.items() if key.startswith("c/")}
    assert chunks == {"c/1/1": 2 * 500 * 500, "c/1/1.index": 1604}
    assert len(HEADER) == 64  # which nobody read


def test_metadata_is_not_read_again_for_each_chunk(
    tmp_path: Path, counted: list[Counting], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_store, "FOLDER_TTL_S", 100.0)
    chunks = {f"a/c/{row}/{column}.bin": b"1234" for row in range(10) for column in range(10)}
    document = array(shape=(20, 20), keys=suffix_keys(".bin"))
    write_keys(tmp_path, {"a/zarr.json": document, **chunks})
    opened = zarr.open_array(zarrfuse.open_store(tmp_path), path="a")
    counted[0].calls.clear()
    assert opened[:].sum() == sum(b"1234") * 100
    assert not [key for call, key in counted[0].calls if call == "open" and "json" in key]
    assert len([key for call, key in counted[0].calls if call == "open"]) <= 200
    # One look at each folder of chunks: that it is one, and that it is no node.
    stats = {key for call, key in counted[0].calls if call == "stat"}
    assert all(key.count("/") <= 3 for key in stats)


def test_no_more_folders_are_kept_than_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys_module, "_FOLDERS_KEPT", 5)
    write_keys(tmp_path, {f"{number}/below/file": b"%d" % number for number in range(20)})
    stored = LocalStore(str(tmp_path))
    found = Keys(RawFolder(stored), ttl_s=100)
    for number in range(20):
        assert found.lookup(f"{number}/below/file").size == len(str(number))
    assert len(found._folders) == 5
    stored.close()


def test_large_reads_do_not_keep_the_event_loop(parts: Path, monkeypatch) -> None:
    threads: set[str] = set()
    real = PlainStore._read

    def noted(self, *arguments, **named):
        found = real(self, *arguments, **named)
        threads.add(threading.current_thread().name)
        return found

    monkeypatch.setattr(PlainStore, "_read", noted)
    store = zarrfuse.open_store(parts)

    async def read_twice() -> None:
        await store.get("a/c/0/0", default_buffer_prototype())
        await store.get("a/c/0/0", default_buffer_prototype())

    asyncio.run(read_twice())
    assert "MainThread" in threads  # at hand the second time
    threads.clear()
    monkeypatch.setattr(keys_store, "_AT_ONCE", 3)
    asyncio.run(read_twice())
    assert "MainThread" not in threads


# -- errors


def test_a_chunk_that_lacks_a_part_is_an_error_that_names_it(parts: Path) -> None:
    (parts / "a/c/0/0.bin.tail").unlink()
    opened = zarr.open_array(zarrfuse.open_store(parts), path="a")
    with pytest.raises(OSError, match=r"a: chunk c/0/0.bin: .*\.tail") as raised:
        opened[:2, :2]
    assert raised.value.errno == errno.EIO
    assert opened[2:, 2:].tolist() == [[5, 6], [7, 8]]


def test_a_part_that_goes_while_it_is_read_is_no_absent_chunk(
    parts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [f".p{number}" for number in range(20)]  # more parts than are held open
    write_keys(
        parts / "b",
        {
            "zarr.json": array((20,), (20,), transformers=[concat_parts(*many)]),
            **{f"c/0{suffix}": b"x" for suffix in many},
        },
    )
    store = zarrfuse.open_store(parts)
    real = Keys.open

    def opened(self, key: str, *, wait: bool = True) -> Reader:
        reader = real(self, key, wait=wait)
        if key == "b/c/0":
            (parts / "b/c/0.p7").unlink(missing_ok=True)
        return reader

    monkeypatch.setattr(Keys, "open", opened)
    with pytest.raises(OSError, match="b/c/0 changed while it was read") as raised:
        read(store, "b/c/0")
    assert raised.value.errno == errno.ESTALE


def test_a_node_that_must_not_be_loaded_is_skipped_and_the_log_says_why(
    parts: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_keys(parts / "bad", {"zarr.json": array(cells={"must_understand": True}), "c/0/0": b""})
    store = zarrfuse.open_store(parts)
    for opener in (zarr.open, zarr.open_array, zarr.open_group):
        with pytest.raises(FileNotFoundError):
            opener(store, path="bad", mode="r")
    assert "bad/zarr.json" in caplog.text
    assert "cells" in caplog.text
    with pytest.raises(OSError, match=r"bad/zarr\.json: .*cells") as raised:
        read(store, "bad/c/0")
    assert raised.value.errno == errno.ENOTSUP
    group = zarr.open_group(store, mode="r")
    with pytest.warns(UserWarning, match="bad is not recognized"):
        assert "bad" not in dict(group.members())
    assert zarr.open_group(store, mode="r")["a"][0, 0] == 1


def test_a_source_that_is_not_there_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        zarrfuse.open_store(tmp_path / "nothing")
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="neither a folder nor a"):
        zarrfuse.open_store(tmp_path / "file")
