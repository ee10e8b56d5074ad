"""What is read of a store for a range of bytes: the chunks it needs, of shards the inner ones alone."""

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr
from builders.documents import array, group
from builders.fake_stores import ForwardingStore
from builders.folders import write_keys
from builders.images_view import images, pyramid
from builders.readers import read_range
from builders.threads import in_threads
from builders.views import content_of, folder_at, opened, view_of
from zarr.codecs import ZstdCodec

from zarrfuse.stores.base import Reader, Store
from zarrfuse.stores.cache import ByteCache
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.base import Folder


@dataclass
class Watched:
    """A reader that takes down which bytes are read."""

    inner: Reader
    ranges: list[tuple[int, int]]
    size: int = field(init=False)
    mtime_ns: int = field(init=False)

    def __post_init__(self) -> None:
        self.size, self.mtime_ns = self.inner.size, self.inner.mtime_ns

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `base.Reader`."""
        self.inner.readinto(buffer, offset, wait=wait)
        self.ranges.append((offset, offset + len(buffer)))

    def close(self) -> None:
        """See `base.Reader`."""
        self.inner.close()


class WatchedStore(ForwardingStore):
    """Takes down which bytes are read of each chunk."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.chunks: dict[str, list[tuple[int, int]]] = {}
        self.gate = threading.Event()
        self.gate.set()

    def open(self, key: str, *, wait: bool = True) -> Reader:
        """See `base.Store`."""
        reader = self.inner.open(key, wait=wait)
        if "/c/" not in key:
            return reader
        if not self.gate.is_set():
            if not wait:
                raise BlockingIOError
            assert self.gate.wait(20)
        return Watched(reader, self.chunks.setdefault(key, []))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WatchedStore]:
    """Of what is written into a folder of the test."""
    watched = WatchedStore(LocalStore(str(tmp_path)))
    yield watched
    watched.close()


view = partial(view_of, "images", ttl_s=float("inf"), root_name="root")


SHAPE = (64, 80)


def written(folder: Path, **options: Any) -> "np.ndarray[Any, Any]":
    values = np.random.default_rng(5).integers(0, 60_000, SHAPE).astype("u2")
    made = zarr.create_array(folder, name="a", shape=SHAPE, dtype="u2", **options)
    made[...] = values
    return values


def pixels_begin(root: Folder, ending: str, values: "np.ndarray[Any, Any]") -> int:
    return content_of(root, f"a/a.{ending}").index(values.tobytes())


def index_of(shard: bytes, location: str, count: int) -> tuple[tuple[int, int], Any]:
    """Where the index of a shard is, and the byte range of each of `count` inner chunks."""
    size = 16 * count + 4
    start = 0 if location == "start" else len(shard) - size
    pairs = np.frombuffer(shard[start : start + size - 4], "<u8").reshape(count, 2)
    return (start, start + size), [(int(at), int(at + length)) for at, length in pairs]


@pytest.mark.parametrize("ending", ["npy", "tiff"])
@pytest.mark.parametrize("location", ["start", "end"])
def test_of_a_shard_only_the_index_and_the_inner_chunks_are_read(
    tmp_path: Path, store: WatchedStore, location: str, ending: str
) -> None:
    shards = {"shape": (32, 40), "index_location": location}
    values = written(tmp_path, chunks=(8, 10), shards=shards, compressors=[ZstdCodec()])
    begin = pixels_begin(images(LocalStore(str(tmp_path))), ending, values)
    with opened(view(store), f"a/a.{ending}") as reader:
        # Row 41, columns 45 to 64: inner chunks (1, 0) to (1, 2) of the shard c/1/1.
        found = read_range(reader, begin + (41 * 80 + 45) * 2, 40)
    assert found == values[41, 45:65].tobytes()
    assert store.chunks.keys() == {"a/c/1/1"}
    index, inner = index_of((tmp_path / "a/c/1/1").read_bytes(), location, 16)
    allowed = [index, *inner[4:7]]
    for start, stop in store.chunks["a/c/1/1"]:
        assert any(low <= start and stop <= high for low, high in allowed), (start, stop)
    assert {inner[4], inner[5], inner[6]} <= set(store.chunks["a/c/1/1"])


@pytest.mark.parametrize("ending", ["npy", "tiff"])
def test_a_range_reads_the_chunks_it_touches_and_no_other(
    tmp_path: Path, store: WatchedStore, ending: str
) -> None:
    values = written(tmp_path, chunks=(10, 16))
    plain = images(LocalStore(str(tmp_path)))
    begin = pixels_begin(plain, ending, values)
    size = len(content_of(plain, f"a/a.{ending}"))
    for offset, count, touched in (
        (0, begin, set()),  # the header
        (begin + (29 * 80 + 79) * 2 + 1, 2, {"2/4", "3/0"}),  # halves of two elements
        (begin, 1, {"0/0"}),
        (begin + values.nbytes - 1, 1, {"6/4"}),
        (begin + values.nbytes, size - begin - values.nbytes, set()),  # what stands behind
        (begin + 80 * 2 * 9, 80 * 2 * 2, {f"{row}/{n}" for row in (0, 1) for n in range(5)}),
    ):
        cache = ByteCache(1 << 20)
        store.chunks.clear()
        with opened(view(store, cache=cache), f"a/a.{ending}") as reader:
            read_range(reader, offset, count)
        assert store.chunks.keys() == {f"a/c/{chunk}" for chunk in touched}
        decoded = cache.status()["bytes"]
        assert decoded == sum(_bytes_of(chunk) for chunk in touched)


def _bytes_of(chunk: str) -> int:
    row, column = map(int, chunk.split("/"))
    return (min((row + 1) * 10, 64) - row * 10) * (min((column + 1) * 16, 80) - column * 16) * 2


def test_a_chunk_file_reads_its_chunk_alone(tmp_path: Path, store: WatchedStore) -> None:
    values = written(tmp_path, chunks=(10, 16))
    assert content_of(view(store), "a/c/6/4.tiff").count(values[60:, 64:].tobytes()) == 1
    assert store.chunks.keys() == {"a/c/6/4"}


def test_a_tile_of_a_pyramid_reads_the_inner_chunks_it_needs(
    tmp_path: Path, store: WatchedStore
) -> None:
    pyramid(tmp_path)
    with opened(view(store), "p/p.ome.tiff") as reader:
        data = _Lazy(reader)
        with tifffile.TiffFile(data) as file:
            assert store.chunks == {}
            page = file.series[0].levels[1].pages[2]
            offset, count = page.dataoffsets[0], page.databytecounts[0]
        read_range(reader, offset, count)
    assert store.chunks.keys() == {f"p/s1/c/2/{y}/{x}" for y in range(3) for x in range(3)}


class _Lazy:
    """A file object over a reader."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        rest = max(0, self._reader.size - self._at)
        data = read_range(self._reader, self._at, rest if size < 0 else min(size, rest))
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(memoryview(buffer)))
        memoryview(buffer)[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._reader.size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        pass


FILES: Mapping[str, dict[str, Any]] = {
    "chunk": {"chunks": (64, 80)},
    "shard": {"chunks": (64, 80), "shards": (64, 80)},
}


@pytest.mark.parametrize("kind", FILES)
def test_twenty_threads_that_want_one_chunk_have_it_decoded_once(
    tmp_path: Path, store: WatchedStore, kind: str
) -> None:
    values = written(tmp_path, **FILES[kind])
    begin = pixels_begin(images(LocalStore(str(tmp_path))), "tiff", values)
    cache = ByteCache(1 << 20)
    root = view(store, cache=cache)
    store.gate.clear()
    threading.Timer(0.3, store.gate.set).start()

    def work(number: int) -> None:
        path = ("a/a.tiff", "a/a.npy", "a/c/0/0.tiff")[number % 3]
        with opened(root, path) as reader:
            if number % 3:
                read_range(reader, 0, reader.size)
            else:
                assert read_range(reader, begin + number * 160, 160) == values[number].tobytes()

    in_threads(20, work)
    assert (cache.status()["misses"], cache.status()["values"]) == (1, 1)
    whole_reads = [r for r in store.chunks["a/c/0/0"] if r[1] - r[0] > 1000]
    assert len(whole_reads) == 1


# -- in order

MIB = 1 << 20


def rows(folder: Path, mebibytes: int, group_extensions: tuple[Any, ...] = ()) -> None:
    """An array `a` of so many rows of 1 MiB, each of which is a chunk."""
    extensions = [dict(extension) for extension in group_extensions]
    members = {"extensions": extensions} if extensions else {}
    write_keys(
        folder,
        {
            "zarr.json": group(**members),
            "a/zarr.json": array((mebibytes, MIB), (1, MIB)),
            **{f"a/c/{row}/0": bytes([row]) * MIB for row in range(mebibytes)},
        },
    )


def settled(store: WatchedStore) -> int:
    """How many chunks have been read, as soon as no more are."""
    count = -1
    while count != len(store.chunks):
        count = len(store.chunks)
        time.sleep(0.3)
    return count


@pytest.mark.parametrize("ending", ["npy", "tiff"])
def test_what_is_read_ahead_is_at_most_a_quarter_of_the_cache(
    tmp_path: Path, store: WatchedStore, ending: str
) -> None:
    rows(tmp_path, 48)
    others = set(threading.enumerate())
    cache = ByteCache(16 * MIB)
    root = view(store, cache=cache)
    with opened(root, f"a/a.{ending}") as reader:
        for at in range(0, 8 * MIB, MIB // 4):
            read_range(reader, at, MIB // 4)
            assert len(store.chunks) * MIB <= at + MIB // 4 + MIB + 4 * MIB
        assert 8 < settled(store) <= 8 + 4 + 1
        ahead = [t for t in set(threading.enumerate()) - others if "zarrfuse-ahead" in t.name]
        assert 0 < len(ahead) <= 4
        for at in range(8 * MIB, reader.size - MIB, MIB):
            read_range(reader, at, MIB)
            assert cache.status()["bytes"] <= 16 * MIB
    assert {len(ranges) for ranges in store.chunks.values()} == {1}


def test_nothing_is_read_ahead_of_an_array_on_slow_storage(
    tmp_path: Path, store: WatchedStore
) -> None:
    tiers = {"name": "example.tiered-storage", "configuration": {"slow-arrays": ["a"]}}
    rows(tmp_path, 24, ({**tiers, "must_understand": False},))
    root = view(store, cache=ByteCache(64 * MIB))
    assert "a.png" not in folder_at(root, "a").list()
    for ending in ("npy", "tiff"):
        with opened(root, f"a/a.{ending}") as reader:
            for at in range(0, 8 * MIB, MIB // 2):
                read_range(reader, at, MIB // 2)
            assert settled(store) == 8
