"""What hostile metadata and impatient readers do to the `images` view: work and memory are bounded."""

import errno
import threading
import tracemalloc
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import pytest
from builders.documents import array
from builders.fake_stores import MemoryStore

from zarrfuse.errors import Corrupt, NotSupported
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.ome import picture_of
from zarrfuse.stores.base import Reader
from zarrfuse.stores.cache import ByteCache
from zarrfuse.stores.pool import Budget
from zarrfuse.views.base import Folder
from zarrfuse.views.choice import open_view
from zarrfuse.views.chunks.view import ChunksView
from zarrfuse.views.images import plane as planes
from zarrfuse.views.images import render
from zarrfuse.views.images.blocks import MOST_AT_ONCE
from zarrfuse.views.images.decode import DecodedArray, Decoder
from zarrfuse.views.images.render import plan
from zarrfuse.views.images.stored_bytes import ArrayFiles


def decoded(document: bytes, ttl_s: float = 60) -> DecodedArray:
    view = ChunksView(MemoryStore({"zarr.json": document}), ttl_s)
    loaded = view.root.loaded()
    assert loaded is not None
    return Decoder(view, ByteCache(1 << 28)).array(ArrayFiles(view, view.root, loaded))


def node_of(made: DecodedArray) -> ArrayNode:
    assert isinstance(made.loaded.node, ArrayNode)
    return made.loaded.node


def images(keys: Mapping[str, bytes]) -> Folder:
    return open_view("images", MemoryStore(keys), 0, root_name="root")


def last_bytes(reader: Reader, count: int) -> bytes:
    buffer = bytearray(count)
    reader.readinto(memoryview(buffer), reader.size - count)
    return bytes(buffer)


# -- chunks of one element


def test_few_tiny_chunks_are_asked_for_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = decoded(array((10**12,), (1,)))
    asked: list[int] = []
    monkeypatch.setattr(tiny.blocks, "_submit", lambda units, _: asked.append(len(units)))
    tracemalloc.start()
    tiny.decode_ahead((0,), (32 << 20,), lambda: True)
    tiny.cool([((0,), (32 << 20,))], [((32 << 20,), (64 << 20,))])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert asked == [MOST_AT_ONCE]
    assert peak < 16 << 20


def test_a_read_of_many_tiny_chunks_takes_a_few_of_them_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tiny = decoded(array((10**12,), (1,), fill_value=7))
    at_once: list[int] = []
    bring = tiny.blocks.bring

    def counted(units: Any, take: Any) -> None:
        at_once.append(len(units))
        bring(units, take)

    monkeypatch.setattr(tiny.blocks, "bring", counted)
    count = 3 * MOST_AT_ONCE + 5
    assert tiny.read((slice(10, 10 + count),)).tobytes() == b"\7" * count
    assert at_once == [MOST_AT_ONCE] * 3 + [5]


def test_the_event_loop_does_not_look_at_many_tiny_chunks() -> None:
    tiny = decoded(array((10**12,), (1,)))
    box = (slice(0, MOST_AT_ONCE + 1),)
    tiny.read(box)
    with pytest.raises(BlockingIOError):
        tiny.read(box, wait=False)
    tiny.read((slice(0, MOST_AT_ONCE),), wait=False)


def test_a_picture_of_tiny_chunks_reads_few_of_them() -> None:
    tiny = decoded(array((8000, 8000), (1, 1)))
    planned = plan(picture_of(node_of(tiny)), tiny)
    assert not planned.is_whole
    assert 0 < prod((planned.width, planned.height)) <= planes.MOST_UNITS


def test_absent_chunks_of_all_arrays_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zarrfuse.views.images.known_absent._MOST", 10)
    view = ChunksView(MemoryStore({f"{name}/zarr.json": array((100,), (1,)) for name in "abc"}), 60)
    decoder = Decoder(view, ByteCache(1 << 20))
    made = []
    for name in "abc":
        folder = view.root.child(name)
        loaded = folder.loaded()
        assert loaded is not None
        made.append(decoder.array(ArrayFiles(view, folder, loaded)))
        made[-1].read((slice(0, 100),))
    assert 0 < sum(len(each.blocks._absent._looked_at) for each in made) <= 10


# -- many pictures


def test_pictures_that_wait_for_their_turn_do_not_all_get_it_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(render, "_turns", Budget(2, patience_s=60))
    made = decoded(array((4, 4)))
    planned = plan(picture_of(node_of(made)), made)
    let_go, begun = threading.Event(), threading.Semaphore(0)

    def hang(*_: object) -> Any:
        begun.release()
        assert let_go.wait(30)
        return np.zeros((4, 4), np.uint8)

    monkeypatch.setattr(render, "_pixels", hang)
    threads = [threading.Thread(target=planned.render) for _ in range(6)]
    try:
        for thread in threads:
            thread.start()
        assert begun.acquire(timeout=30)
        assert begun.acquire(timeout=30)
        assert not begun.acquire(timeout=0.2)
    finally:
        let_go.set()
        for thread in threads:
            thread.join()


# -- headers larger than what is read of them


def test_open_files_do_not_hold_their_large_headers() -> None:
    folder = images({"a/zarr.json": array((1 << 13, 1, 1), (1, 1, 1))}).child("a")
    size = folder.open("a.tiff").size
    assert size > 1 << 20
    tracemalloc.start()
    readers = [folder.open("a.tiff") for _ in range(20)]
    ends = {last_bytes(reader, 1000) for reader in readers}
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(ends) == 1
    assert held < 3 * size
    for reader in readers:
        reader.close()


# -- broken fill values


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        ("uint8", [1, 2, 3]),
        ("uint8", []),
        ("uint8", [[[]]]),
        ("int16", 1.5),
        ("int16", 1 << 40),
        ("float32", "0x1"),
        ("float32", "0x7fc0000000"),
        ("float32", [1.0]),
        ("complex64", [1.0]),
        ("complex64", [1.0, 2.0, 3.0]),
        ("complex64", "ab"),
        ("r16", [1]),
        ("r16", "!!"),
    ],
)
def test_a_broken_fill_value_is_never_shown(data_type: str, value: object) -> None:
    keys = {"a/zarr.json": array((4,), (2,), data_type=data_type, fill_value=value)}
    folder = images(keys).child("a")
    with pytest.raises((NotSupported, Corrupt)):
        reader = folder.open("a.npy")
        last_bytes(reader, np.dtype(np.uint8).itemsize)


# -- what cannot be decoded


def test_more_dimensions_than_numpy_has_are_refused_with_a_reason() -> None:
    keys = {"a/zarr.json": array((1,) * 65, (1,) * 65)}
    folder = images(keys).child("a")
    assert "a.png" not in folder.list()
    with pytest.raises(NotSupported, match="65 dimensions"):
        folder.open("a.npy")


def test_a_chunk_larger_than_memory_is_refused_before_it_is_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("zarrfuse.views.images.blocks.available_bytes", lambda: 1 << 30)
    keys = {"a/zarr.json": array((100,), (1 << 29,)), "a/c/0": b"short"}
    reader = images(keys).child("a").open("a.npy")
    with pytest.raises(OSError, match="no memory") as raised:
        last_bytes(reader, 1)
    assert raised.value.errno == errno.ENOMEM


def test_errors_of_many_inner_chunks_do_not_hold_the_index_of_the_shard() -> None:
    count = 1 << 18
    index = bytes(16 * count) + b"\1\2\3\4"  # not its checksum
    plain = {"name": "bytes"}
    inner = {"chunk_shape": [1], "codecs": [plain], "index_codecs": [plain, {"name": "crc32c"}]}
    codecs = [{"name": "sharding_indexed", "configuration": inner}]
    keys = {"a/zarr.json": array((count,), (count,), codecs=codecs), "a/c/0": index}
    reader = images(keys).child("a").open("a.npy")
    with pytest.raises(Corrupt):
        last_bytes(reader, 1)  # imports what it takes
    tracemalloc.start()
    with pytest.raises(Corrupt, match="checksum"):
        last_bytes(reader, 50)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 25 * len(index)
