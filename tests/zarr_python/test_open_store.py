"""`zarrfuse.open_store`: what a program gets from it, what it costs, and how it fails."""

import asyncio
import errno
import gc
import os
import pickle
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import zarr
from builders.concat_parts_examples import HEADER, write_header_example
from builders.documents import array, concat_parts, group, suffix_keys
from builders.fake_stores import ForwardingReader, ForwardingStore
from builders.folders import write_keys, zip_folder
from builders.mounts import wait_for
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    SuffixByteRequest,
)
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import _collect_aiterator, sync

import zarrfuse
from zarrfuse.stores.base import Reader, Store
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views import keys as keys_module
from zarrfuse.views.keys import Keys
from zarrfuse.views.raw.view import RawFolder
from zarrfuse.zarr_python import keys as keys_store
from zarrfuse.zarr_python import store as plain_store
from zarrfuse.zarr_python.store import PlainStore

PARTS = {
    "zarr.json": group(),
    "a/zarr.json": array(
        keys=suffix_keys(".bin"), transformers=[concat_parts((".head", 1), "", (".tail", 1))]
    ),
    "a/c/0/0.bin.head": b"\1",
    "a/c/0/0.bin": b"\2\3",
    "a/c/0/0.bin.tail": b"\4",
    "a/c/1/1.bin.head": b"\5",
    "a/c/1/1.bin": b"\6\7",
    "a/c/1/1.bin.tail": b"\x08",
    "README.txt": b"read me",
}
"""Two chunks of four, each of three parts."""


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
def parts(tmp_path: Path) -> Path:
    """A group with an array in parts."""
    folder = tmp_path / "data"
    write_keys(folder, PARTS)
    return folder


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


def listed(found) -> list[str]:
    """What an async iterator yields, sorted."""
    return sorted(sync(_collect_aiterator(found)))


def read(store: PlainStore, key: str, byte_range: ByteRequest | None = None) -> bytes | None:
    """The bytes under a key, or None."""
    found = sync(store.get(key, default_buffer_prototype(), byte_range))
    return None if found is None else found.to_bytes()


# -- what is read ----------------------------------------------------------------------------


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


@pytest.fixture(scope="module")
def parts_store(tmp_path_factory: pytest.TempPathFactory) -> PlainStore:
    """The array in parts, for tests that only read it."""
    folder = tmp_path_factory.mktemp("parts")
    write_keys(folder, PARTS)
    return zarrfuse.open_store(folder)


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


# -- listings ----------------------------------------------------------------------------------


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


# -- what it costs -----------------------------------------------------------------------------


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


# -- errors ------------------------------------------------------------------------------------


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


# -- symlinks ----------------------------------------------------------------------------------


def test_symlinks_inside_the_source_are_followed(parts: Path) -> None:
    (parts / "deep").mkdir()
    (parts / "deep/linked").symlink_to("../a")
    (parts / "deep/again").symlink_to("linked")
    (parts / "absolute").symlink_to(parts / "a")
    (parts / "copy.txt").symlink_to("README.txt")
    store = zarrfuse.open_store(parts)
    for path in ("deep/linked", "deep/again", "absolute"):
        assert zarr.open_array(store, path=path)[0].tolist() == [1, 2, 0, 0]
    assert listed(store.list_prefix("deep/linked/")) == [
        *("deep/linked/c/0/0", "deep/linked/c/1/1", "deep/linked/zarr.json")
    ]
    assert listed(store.list_dir("deep")) == ["again", "linked"]
    assert read(store, "copy.txt") == b"read me"


def test_symlinks_in_circles_end(parts: Path) -> None:
    (parts / "up").symlink_to(".")
    (parts / "a/up").symlink_to("..")
    (parts / "one").symlink_to("two")
    (parts / "two").symlink_to("one")
    (parts / "nowhere").symlink_to("missing")
    store = zarrfuse.open_store(parts)
    assert listed(store.list()) == listed(zarrfuse.open_store(parts).list())
    assert len(listed(store.list())) == 5
    assert read(store, "up/up/a/up/README.txt") == b"read me"
    assert read(store, "nowhere/x") is None
    assert listed(store.list_dir("")) == ["README.txt", "a", "up", "zarr.json"]


def test_a_symlink_out_of_the_source_is_denied(parts: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (parts / "secret").symlink_to(tmp_path / "secret")
    (parts / "outside").symlink_to(tmp_path)
    store = zarrfuse.open_store(parts)
    with pytest.raises(PermissionError, match="leads out of"):
        read(store, "secret")
    with pytest.raises(PermissionError, match="leads out of"):
        read(store, "outside/secret")
    assert "outside/secret" not in listed(store.list())
    assert listed(store.list_dir("")) == ["README.txt", "a", "outside", "secret", "zarr.json"]


def test_a_folder_that_became_a_symlink_is_noticed(tmp_path: Path) -> None:
    write_keys(tmp_path, {"old/file": b"old", "new/file": b"new"})
    stored = LocalStore(str(tmp_path))
    found = Keys(RawFolder(stored), ttl_s=0)
    assert found.lookup("old/file").mtime_ns != found.lookup("new/file").mtime_ns
    shutil.rmtree(tmp_path / "old")
    (tmp_path / "old").symlink_to("new")
    assert found.lookup("old/file").mtime_ns == found.lookup("new/file").mtime_ns
    stored.close()


def test_no_folder_on_the_way_is_older_than_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_keys(tmp_path, {"run1/a/file": b"1", "run2/a/file": b"22"})
    now = 0.0
    monkeypatch.setattr(keys_module, "time", SimpleNamespace(monotonic=lambda: now))
    (tmp_path / "current").symlink_to("run1")
    stored = LocalStore(str(tmp_path))
    found = Keys(RawFolder(stored), ttl_s=1)
    assert list(found.names("current")) == ["a"]
    (tmp_path / "current").unlink()
    (tmp_path / "current").symlink_to("run2")
    now = 0.9
    assert found.lookup("current/a/file").size == 1
    now = 1.1
    assert found.lookup("current/a/file").size == 2
    stored.close()


@settings(deadline=None)
@given(st.text("a./", max_size=12))
def test_no_key_leads_out_of_the_source(parts_store: PlainStore, key: str) -> None:
    assert read(parts_store, key) is None


# -- the life of a store -----------------------------------------------------------------------


def test_a_copy_by_pickle_reads_the_same(parts: Path) -> None:
    store = zarrfuse.open_store(parts)
    opened = pickle.loads(pickle.dumps(zarr.open_array(store, path="a")))
    assert opened[0].tolist() == [1, 2, 0, 0]
    assert opened.store == store
    assert opened.store is not store
    assert hash(opened.store) == hash(store)


def test_stores_are_equal_when_their_sources_are(parts: Path, monkeypatch) -> None:
    monkeypatch.chdir(parts.parent)
    assert zarrfuse.open_store("data") == zarrfuse.open_store(parts)
    assert zarrfuse.open_store(parts / "a") != zarrfuse.open_store(parts)
    assert zarrfuse.open_store(parts) != str(parts)
    store = zarrfuse.open_store("data")
    monkeypatch.chdir("/")
    store.close()
    assert read(store, "README.txt") == b"read me"


def test_many_threads_and_event_loops_share_a_store(parts: Path) -> None:
    store = PlainStore(parts)

    def read_all(_: int) -> bytes:
        async def gathered() -> list:
            return await asyncio.gather(
                *(store.get("a/c/0/0", default_buffer_prototype()) for _ in range(20))
            )

        return b"".join(found.to_bytes() for found in asyncio.run(gathered()))

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(read_all, range(24))) == {b"\1\2\3\4" * 20}


def open_descriptors(folder: Path) -> int:
    """How many descriptors of this process lead to a folder or into it."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith(str(folder))
        except FileNotFoundError:
            continue
    return found


def test_closing_lets_go_and_reading_opens_again(parts: Path) -> None:
    with zarrfuse.open_store(parts) as store:
        assert read(store, "README.txt") == b"read me"
        assert open_descriptors(parts) == 1
    assert open_descriptors(parts) == 0
    assert not store._is_open
    assert read(store, "README.txt") == b"read me"
    assert store._is_open
    store.close()
    store.close()


def test_a_read_that_is_under_way_ends_when_the_store_is_closed(
    parts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = zarrfuse.open_store(parts)
    real = Keys.open

    def opened(self, key: str, *, wait: bool = True) -> Reader:
        store.close()
        return real(self, key, wait=wait)

    monkeypatch.setattr(Keys, "open", opened)
    assert store.get_sync("a/c/0/0").to_bytes() == b"\1\2\3\4"
    gc.collect()
    assert open_descriptors(parts) == 0


def test_a_listing_that_is_under_way_ends_when_the_store_is_closed(parts: Path) -> None:
    store = zarrfuse.open_store(parts)

    async def close_within() -> list[str]:
        found = []
        async for key in store.list():
            store.close()
            found.append(key)
        return found

    assert len(asyncio.run(close_within())) == 5


def test_a_store_that_is_dropped_lets_go(parts: Path) -> None:
    store = zarrfuse.open_store(parts)
    assert read(store, "a/c/0/0") is not None
    del store
    # The thread that read may have the store in its hands for another moment.
    wait_for(lambda: not gc.collect() and open_descriptors(parts) == 0)


def test_a_reader_is_closed_after_each_read(parts: Path) -> None:
    store = zarrfuse.open_store(parts)
    (parts / "a/c/1/1.bin.head").unlink()
    before = open_descriptors(parts)
    for key in ("a/c/0/0", "README.txt"):
        read(store, key, SuffixByteRequest(1))
    with pytest.raises(OSError, match="head"):
        read(store, "a/c/1/1")
    with pytest.raises(TypeError, match="Unexpected byte_range"):
        read(store, "a/c/0/0", (0, 1))
    assert open_descriptors(parts) == before


def test_chunks_that_are_written_later_are_seen(parts: Path) -> None:
    store = zarrfuse.open_store(parts)
    assert read(store, "a/c/0/1") is None
    for suffix, data in ((".head", b"a"), ("", b"bc"), (".tail", b"d")):
        (parts / f"a/c/0/1.bin{suffix}").write_bytes(data)
    assert read(store, "a/c/0/1") == b"abcd"


def test_a_source_that_was_written_anew_is_opened_anew(parts: Path) -> None:
    store = zarrfuse.open_store(parts)
    opened = zarr.open_array(store, path="a")
    assert opened[0].tolist() == [1, 2, 0, 0]
    shutil.rmtree(parts)
    write_keys(parts, {**PARTS, "a/c/0/0.bin.head": b"\x09", "new": b""})
    assert opened[0].tolist() == [9, 2, 0, 0]
    assert sync(store.exists("new"))
    shutil.rmtree(parts)
    write_keys(parts, {"newer": b""})
    assert listed(store.list_dir("")) == listed(store.list()) == ["newer"]
    gc.collect()
    assert open_descriptors(parts) == 1


def test_a_source_that_is_gone_is_an_error_not_a_fill_value(parts: Path) -> None:
    store = zarrfuse.open_store(parts)
    opened = zarr.open_array(store, path="a")
    shutil.rmtree(parts)
    for ask in (
        lambda: opened[0],
        lambda: sync(store.exists("zarr.json")),
        lambda: listed(store.list()),
        lambda: listed(store.list_dir("a")),
    ):
        with pytest.raises(FileNotFoundError, match="does not exist"):
            ask()


def test_a_store_of_a_symlink_stays_with_the_folder_it_led_to(parts: Path, tmp_path: Path) -> None:
    """Else absent chunks would be those of another dataset."""
    (tmp_path / "current").symlink_to("data")
    store = zarrfuse.open_store(tmp_path / "current")
    write_keys(tmp_path / "other", {"a/c/0/1.bin": b"other"})
    (tmp_path / "current").unlink()
    (tmp_path / "current").symlink_to("other")
    assert read(store, "a/c/0/1") is None
    assert read(store, "a/c/0/0") == b"\1\2\3\4"


def test_a_zip_that_is_gone_is_read_as_it_was(parts: Path, tmp_path: Path) -> None:
    zip_folder(parts, tmp_path / "data.zip")
    store = zarrfuse.open_store(tmp_path / "data.zip")
    (tmp_path / "data.zip").unlink()
    assert read(store, "missing") is None
    assert read(store, "a/c/0/0") == b"\1\2\3\4"
