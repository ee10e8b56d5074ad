"""Ranges of the bytes of an array: any slice, chunks decoded ahead, and each once."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from math import prod
from pathlib import Path

import numpy as np
import pytest
import zarr
from builders.fake_stores import ForwardingStore
from builders.readers import read_range
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from zarrfuse.stores.base import Reader, Store
from zarrfuse.stores.cache import ByteCache
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.chunks.view import ChunksView
from zarrfuse.views.images.decode import DecodedArray, Decoder
from zarrfuse.views.images.pixels import Pixels
from zarrfuse.views.images.stored_bytes import ArrayFiles

KIB, MIB = 1 << 10, 1 << 20


class _CountedReader:
    """Tells its store when it has read."""

    def __init__(self, inner: Reader, told: Callable[[], None]) -> None:
        self._inner = inner
        self._told = told
        self.size = inner.size
        self.mtime_ns = inner.mtime_ns

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        self._inner.readinto(buffer, offset, wait=wait)
        self._told()

    def close(self) -> None:
        self._inner.close()


class Counting(ForwardingStore):
    """Counts how often each chunk is read."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.lock = threading.Lock()
        self.read: Counter[str] = Counter()
        self.delay_s = 0.0
        self.permanent = True  # nothing is looked at again

    def before(self, call: str, key: str, wait: bool) -> None:
        if call == "open" and key.startswith("c/"):
            if not wait and self.delay_s:
                raise BlockingIOError("slow")
            time.sleep(self.delay_s)

    def open(self, key: str, *, wait: bool = True) -> Reader:
        reader = super().open(key, wait=wait)

        def told() -> None:
            with self.lock:
                self.read[key] += 1

        return _CountedReader(reader, told) if key.startswith("c/") else reader


Opener = Callable[..., tuple[DecodedArray, Counting]]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    """Writes an array and opens it: (array, store)."""
    decoders: list[Decoder] = []

    def open_array(
        values: np.ndarray, cache_bytes: int = 64 * MIB, **options: object
    ) -> tuple[DecodedArray, Counting]:
        path = tmp_path / str(len(decoders))
        options = {"compressors": None, **options}
        stored = zarr.create_array(path, shape=values.shape, dtype=values.dtype, **options)
        stored[...] = values
        store = Counting(LocalStore(str(path)))
        view = ChunksView(store, 1.0)
        decoders.append(Decoder(view, ByteCache(cache_bytes)))
        folder = view.root
        loaded = folder.loaded()
        assert loaded is not None
        return decoders[-1].array(ArrayFiles(view, folder, loaded)), store

    yield open_array
    for decoder in decoders:
        decoder.close()


def _values(*shape: int, dtype: str = "u1") -> np.ndarray:
    return np.random.default_rng(2).integers(1, 250, shape).astype(dtype)


def _settled(pixels: Pixels, array: DecodedArray) -> None:
    """Wait until nothing is decoded ahead any more."""
    deadline = time.monotonic() + 30
    while array.blocks.is_busy:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    time.sleep(0.02)


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_any_range_is_that_slice_of_the_bytes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    ndim = data.draw(st.integers(0, 4))
    shape = tuple(data.draw(st.integers(1, 7)) for _ in range(ndim))
    chunks = tuple(data.draw(st.integers(1, 5)) for _ in range(ndim))
    dtype = data.draw(st.sampled_from(["u1", "<i2", "f4", "c16", "?"]))
    path = tmp_path_factory.mktemp("any")
    stored = zarr.create_array(
        path / "a", shape=shape, chunks=chunks or "auto", dtype=dtype, fill_value=1
    )
    filled = tuple(slice(0, data.draw(st.integers(0, n))) for n in shape)
    stored[filled] = _values(*stored[filled].shape).astype(dtype)
    view = ChunksView(LocalStore(str(path / "a")), 1.0)
    decoder = Decoder(view, ByteCache(data.draw(st.sampled_from([0, 100, MIB]))))
    loaded = view.root.loaded()
    assert loaded is not None
    array = decoder.array(ArrayFiles(view, view.root, loaded))
    corners = [sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2))) for n in shape]
    box = tuple(slice(a, b) for a, b in corners)
    whole = data.draw(st.booleans())
    expected = np.asarray(stored[...] if whole else stored[box]).tobytes()
    pixels = Pixels(array, None if whole else box, 5, ahead=data.draw(st.booleans()))
    assert (pixels.size, pixels.mtime_ns) == (len(expected), 5)
    for _ in range(4):
        start = data.draw(st.integers(0, len(expected)))
        count = data.draw(st.integers(0, len(expected) - start))
        assert read_range(pixels, start, count) == expected[start : start + count]
    pixels.close()
    decoder.close()


def test_without_waiting_what_is_decoded_is_given(opened: Opener) -> None:
    values = _values(64, 100, dtype="u2")
    array, store = opened(values, chunks=(16, 30))
    pixels = Pixels(array, None, 0, ahead=True)
    with pytest.raises(BlockingIOError):
        read_range(pixels, 7, 400, wait=False)
    assert read_range(pixels, 7, 400) == values.tobytes()[7:407]
    assert read_range(pixels, 3, 1000, wait=False) == values.tobytes()[3:1003]
    assert set(store.read) == {"c/0/0", "c/0/1", "c/0/2", "c/0/3"}


def _in_order(pixels: Pixels, expected: bytes, request: int, threads: int = 3) -> None:
    """Read all of it as the kernel does: several requests under way, which overtake one another."""
    offsets = iter(range(0, pixels.size, request))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                offset = next(offsets, None)
            if offset is None:
                return
            count = min(request, pixels.size - offset)
            try:
                found = read_range(pixels, offset, count, wait=False)
            except BlockingIOError:
                found = read_range(pixels, offset, count)
            assert found == expected[offset : offset + count]

    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work) for _ in range(threads)]:
            done.result(60)


@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (512, 512)},
        {"chunks": (64, 64)},
        {"chunks": (100, 3000)},
        {"chunks": (256, 256), "shards": (1024, 1024)},
    ],
)
def test_what_is_read_in_order_is_decoded_once(options: dict[str, object], opened: Opener) -> None:
    values = _values(4096, 3000)
    array, store = opened(values, **options)
    pixels = Pixels(array, None, 0, ahead=True)
    _in_order(pixels, values.tobytes(), 128 * KIB)
    if "shards" not in options:
        assert set(store.read.values()) == {1}
        counts = [-(-n // c) for n, c in zip(values.shape, array.unit_shape, strict=True)]
        assert len(store.read) == counts[0] * counts[1]


def test_chunks_are_decoded_before_they_are_asked_for(opened: Opener) -> None:
    values = _values(16 * 1024, 1024)
    array, store = opened(values, chunks=(256, 1024))
    pixels = Pixels(array, None, 0, ahead=True)
    for offset in range(0, 4 * MIB, 256 * KIB):
        read_range(pixels, offset, 256 * KIB)
    _settled(pixels, array)
    assert len(store.read) > 32
    assert read_range(pixels, 4 * MIB, MIB, wait=False) == values.tobytes()[4 * MIB : 5 * MIB]


@pytest.mark.parametrize("order", ["random", "backwards", "strided", "in order, not ahead"])
def test_nothing_more_is_decoded_when_reads_are_in_no_order(order: str, opened: Opener) -> None:
    values = _values(32, 1024, 1024)
    array, store = opened(values, chunks=(1, 256, 256))
    pixels = Pixels(array, None, 0, ahead="not ahead" not in order)
    rows = list(range(0, 32 * 1024, 64))
    if order == "random":
        random.Random(3).shuffle(rows)
    elif order == "backwards":
        rows.reverse()
    elif order == "strided":
        rows = rows[::16]
    needed = set()
    for row in rows[: len(rows) // 2]:
        read_range(pixels, row * 1024 + 300, 100)
        needed.add(f"c/{row // 1024}/{row % 1024 // 256}/1")
    _settled(pixels, array)
    assert set(store.read) == needed


def test_a_window_decodes_only_its_chunks(opened: Opener) -> None:
    values = _values(4096, 4096, dtype="u2")
    array, store = opened(values, chunks=(512, 512))
    pixels = Pixels(array, None, 0, ahead=True)
    for row in range(600, 856):
        start = (row * 4096 + 700) * 2
        assert read_range(pixels, start, 512) == values[row, 700:956].tobytes()
    _settled(pixels, array)
    assert set(store.read) == {"c/1/1"}


def test_nothing_is_decoded_ahead_for_a_closed_file(opened: Opener) -> None:
    values = _values(32 * 1024, 1024)
    array, store = opened(values, chunks=(1024, 1024))
    pixels = Pixels(array, None, 0, ahead=True)
    go = threading.Event()
    for _ in range(16):  # all threads that decode ahead have something else to do
        array.blocks._shared.threads.submit(go.wait, 20)
    for offset in range(0, 4 * MIB, MIB):
        read_range(pixels, offset, MIB)
    pixels.close()
    assert array.blocks.is_busy
    go.set()
    _settled(pixels, array)
    assert sorted(store.read) == [f"c/{row}/0" for row in range(4)]


def test_a_slab_larger_than_the_cache_is_not_decoded_for_each_plane(opened: Opener) -> None:
    depth, chunks = 8, 32 * 32
    values = _values(depth, 4096, 1024)  # 32 MiB, all of it one slab of chunks
    array, store = opened(values, cache_bytes=16 * MIB, chunks=(depth, 128, 32))
    pixels = Pixels(array, None, 0, ahead=True)
    _in_order(pixels, values.tobytes(), 256 * KIB, threads=2)
    assert len(store.read) == chunks
    assert store.read.total() < 0.7 * depth * chunks


def test_a_slab_that_fits_is_decoded_once(opened: Opener) -> None:
    values = _values(8, 2048, 1024)
    array, store = opened(values, cache_bytes=40 * MIB, chunks=(8, 128, 128))
    _in_order(Pixels(array, None, 0, ahead=True), values.tobytes(), 256 * KIB)
    assert set(store.read.values()) == {1}


def _asked(array: DecodedArray, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes are asked for ahead, each time."""
    asked: list[int] = []
    monkeypatch.setattr(
        array,
        "decode_ahead",
        lambda low, high, _: asked.append(prod(b - a for a, b in zip(low, high, strict=True))),
    )
    return asked


def test_chunks_are_looked_up_ahead_seldom_and_not_too_far(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    array, _ = opened(np.zeros((96 * 1024, 1024), "u1"), 1024 * MIB, chunks=(1024, 1024))
    asked = _asked(array, monkeypatch)
    pixels = Pixels(array, None, 0, ahead=True)
    for offset in range(0, 10 * MIB, 256 * KIB):
        read_range(pixels, offset, 256 * KIB)
    assert asked == [32 * MIB]
    for offset in range(10 * MIB, pixels.size, 256 * KIB):
        read_range(pixels, offset, 256 * KIB)
    assert len(asked) < 12
    assert sum(asked) == pixels.size - 3 * MIB


def test_of_deep_chunks_so_much_is_asked_for_as_fits_when_it_is_decoded(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    array, _ = opened(np.zeros((8, 2048, 2048), "u1"), 16 * MIB, chunks=(4, 256, 256))
    asked = _asked(array, monkeypatch)
    pixels = Pixels(array, None, 0, ahead=True)
    for offset in range(0, 3 * MIB, 128 * KIB):
        read_range(pixels, offset, 128 * KIB)
    assert 0 < sum(asked) * 4 <= 16 * MIB // 4


def test_what_waits_to_be_decoded_ahead_is_bounded(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zarrfuse.views.images.blocks._BLOCK_BYTES", 1)
    array, _ = opened(np.zeros((300, 8), "u1"), chunks=(1, 8))
    threads, go = array.blocks._shared.threads, threading.Event()
    for _ in range(16):
        threads.submit(go.wait, 20)
    before = threads.waiting
    for _ in range(2):
        array.decode_ahead((0, 0), (300, 8), lambda: True)
    waiting = threads.waiting
    go.set()
    assert before < waiting <= 64
