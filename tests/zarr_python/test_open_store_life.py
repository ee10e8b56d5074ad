"""A store of `zarrfuse.open_store` over time: closed, copied, shared; its source replaced or gone."""

import asyncio
import gc
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import zarr
from builders.folders import write_keys, zip_folder
from builders.mounts import wait_for
from builders.processes import open_files
from opened_stores import PARTS, listed, read
from zarr.abc.store import SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

import zarrfuse
from zarrfuse.stores.base import Reader
from zarrfuse.views.keys import Keys
from zarrfuse.zarr_python.store import PlainStore


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


def test_closing_lets_go_and_reading_opens_again(parts: Path) -> None:
    with zarrfuse.open_store(parts) as store:
        assert read(store, "README.txt") == b"read me"
        assert len(open_files(parts)) == 1
    assert len(open_files(parts)) == 0
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
    assert len(open_files(parts)) == 0


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
    wait_for(lambda: not gc.collect() and len(open_files(parts)) == 0)


def test_a_reader_is_closed_after_each_read(parts: Path) -> None:
    store = zarrfuse.open_store(parts)
    (parts / "a/c/1/1.bin.head").unlink()
    before = len(open_files(parts))
    for key in ("a/c/0/0", "README.txt"):
        read(store, key, SuffixByteRequest(1))
    with pytest.raises(OSError, match="head"):
        read(store, "a/c/1/1")
    with pytest.raises(TypeError, match="Unexpected byte_range"):
        read(store, "a/c/0/0", (0, 1))
    assert len(open_files(parts)) == before


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
    assert len(open_files(parts)) == 1


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
