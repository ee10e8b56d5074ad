"""Decoded arrays are equal to what zarr-python reads, decoded once, and what cannot be decoded says why."""

import errno
import logging
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from builders.documents import array, concat_parts
from builders.fake_stores import ForwardingStore
from builders.folders import write_keys
from decoded_arrays import Opener, random_values
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec, TransposeCodec, ZstdCodec

from zarrfuse.errors import Corrupt, NotSupported
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.stores.base import Store
from zarrfuse.stores.cache import ByteCache
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.chunks.view import ChunksView
from zarrfuse.views.images.decode import DecodedArray, Decoder
from zarrfuse.views.images.decode_grid import unit_shape
from zarrfuse.views.images.stored_bytes import ArrayFiles
from zarrfuse.views.images.zarr_array import ZarrArray


def _box(array: DecodedArray) -> tuple[slice, ...]:
    return tuple(slice(0, n) for n in array.shape)


class CountingStore(ForwardingStore):
    """Counts what is opened, and may hold it up."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.opened: list[str] = []
        self.gate = threading.Event()
        self.gate.set()

    def before(self, call: str, key: str, wait: bool) -> None:
        if call == "open" and "zarr.json" not in key:
            if not self.gate.is_set() and not wait:
                raise BlockingIOError(errno.EAGAIN, "held up")
            assert self.gate.wait(20)
            self.opened.append(key)


CASES: dict[str, dict[str, Any]] = {
    "plain": {"compressors": None},
    "zstd": {"compressors": ZstdCodec(level=1)},
    "gzip, big endian": {"serializer": BytesCodec(endian="big")},
    "transpose": {"filters": TransposeCodec(order=(2, 0, 1))},
    "crc32c": {"compressors": Crc32cCodec()},
    "sharded": {"chunks": (1, 3, 4), "shards": (2, 6, 8)},
    "sharded, index first": {
        "chunks": (2, 6, 8),
        "serializer": ShardingCodec(chunk_shape=(1, 3, 4), index_location="start"),
        "compressors": None,
    },
    "transpose before sharding": {
        "chunks": (4, 6, 8),
        "filters": TransposeCodec(order=(2, 1, 0)),
        "serializer": ShardingCodec(chunk_shape=(2, 3, 4)),
        "compressors": None,
    },
    "checksum behind sharding": {
        "chunks": (2, 6, 8),
        "serializer": ShardingCodec(chunk_shape=(1, 3, 4)),
        "compressors": Crc32cCodec(),
    },
    "sharding in sharding": {
        "chunks": (4, 12, 16),
        "serializer": ShardingCodec(
            chunk_shape=(2, 6, 8), codecs=[ShardingCodec(chunk_shape=(1, 3, 4))]
        ),
        "compressors": None,
    },
    "v2, F, filters, big endian": {
        "zarr_format": 2,
        "order": "F",
        "filters": [numcodecs.Delta(">u2")],
        "dtype": ">u2",
        "compressors": numcodecs.Zstd(),
    },
    "bool": {"dtype": "bool"},
    "complex": {"dtype": "complex128"},
    "times": {"dtype": "M8[ns]"},
    "float16": {"dtype": "float16", "fill_value": "NaN"},
}


@pytest.mark.parametrize("case", CASES)
def test_boxes_are_equal_to_what_zarr_python_reads(
    case: str, tmp_path: Path, opened: Opener
) -> None:
    options = {"chunks": (2, 5, 7), "dtype": "uint16", "fill_value": 9, **CASES[case]}
    if options["dtype"] in ("bool", "M8[ns]"):
        options["fill_value"] = True if options["dtype"] == "bool" else np.datetime64("NaT")
    shape = (5, 13, 17)
    stored = zarr.create_array(tmp_path / "a", shape=shape, **options)
    stored[:3, :9] = random_values((3, 9, 17), stored.dtype)  # the chunks behind are missing
    expected = np.ascontiguousarray(stored[...], stored.dtype.newbyteorder("<"))
    decoded = opened(tmp_path / "a", ttl_s=60)
    assert decoded.shape == shape
    found = decoded.read(_box(decoded))
    assert found.dtype == expected.dtype
    assert found.flags.c_contiguous
    assert np.array_equal(found.view("u1"), expected.view("u1"))
    edges = [(0, 1, 5), (0, 4, 13), (2, 7, 17)]
    for z, y, x in product(*([(a, b) for a in e for b in e if a < b] for e in edges)):
        box = slice(*z), slice(*y), slice(*x)
        assert np.array_equal(decoded.read(box).view("u1"), expected[box].copy().view("u1"))
        out = np.zeros((9, 20, 40), decoded.dtype)
        part = out[1 : 1 + z[1] - z[0], 2 : 2 + y[1] - y[0], 3 : 3 + x[1] - x[0]]
        decoded.readinto(part, box, wait=False)
        assert np.array_equal(np.ascontiguousarray(part).view("u1"), decoded.read(box).view("u1"))


@pytest.mark.parametrize("dtype", ["U3", "S3", [("a", "<u2"), ("b", "<f4")], "V3"])
def test_elements_that_are_no_numbers_come_with_their_fill_value(
    dtype: Any, tmp_path: Path, opened: Opener
) -> None:
    with pytest.warns():  # of zarr-python: the types are in no specification yet
        stored = zarr.create_array(tmp_path / "a", shape=(5,), chunks=(2,), dtype=dtype)
        raw = np.arange(2 * stored.dtype.itemsize, dtype="u1") % 4 + 64
        if stored.dtype.kind == "U":
            stored[2:4] = np.array(["abc", "\u00e4"], dtype)
        else:
            stored[2:4] = raw.view(stored.dtype)
        expected = np.asarray(stored[...])
        found = opened(tmp_path / "a").read((slice(0, 5),))
    assert found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()


def test_all_threads_get_the_same_object_of_an_array(tmp_path: Path) -> None:
    write_keys(tmp_path, {"zarr.json": array((4,))})
    view = ChunksView(LocalStore(str(tmp_path)), 0.0)
    loaded = view.root.loaded()
    assert loaded is not None
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(100):
            decoder, begin = Decoder(view, ByteCache(100)), threading.Barrier(4)
            found: list[object] = []

            def get(decoder: Decoder, begin: threading.Barrier, found: list[object]) -> None:
                begin.wait()
                found.append(decoder.array(ArrayFiles(view, view.root, loaded)))

            threads = [threading.Thread(target=get, args=(decoder, begin, found)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(found) == 4
            assert len(set(map(id, found))) == 1
    finally:
        sys.setswitchinterval(interval)


def test_scalar_and_empty_arrays(tmp_path: Path, opened: Opener) -> None:
    scalar = zarr.create_array(tmp_path / "s", shape=(), dtype="int32", fill_value=-5)
    decoded = opened(tmp_path / "s")
    assert decoded.read(()) == -5
    scalar[...] = 77
    assert decoded.read(()) == 77
    assert decoded.read(()).shape == ()
    zarr.create_array(tmp_path / "e", shape=(0, 3), chunks=(1, 3), dtype="int32")
    assert opened(tmp_path / "e").read((slice(0, 0), slice(0, 3))).shape == (0, 3)


@pytest.mark.parametrize(
    ("case", "unit"),
    [
        ("plain", (2, 5, 7)),
        ("sharded", (1, 3, 4)),
        ("transpose before sharding", (4, 6, 8)),
        ("checksum behind sharding", (2, 6, 8)),
        ("sharding in sharding", (2, 6, 8)),
    ],
)
def test_unit_is_what_is_decoded_by_itself(
    case: str, unit: tuple[int, ...], tmp_path: Path, opened: Opener
) -> None:
    options = {"chunks": (2, 5, 7), "dtype": "uint16", **CASES[case]}
    zarr.create_array(tmp_path / "a", shape=(5, 13, 17), **options)
    assert opened(tmp_path / "a").unit_shape == unit


def test_a_box_opens_only_the_chunks_it_needs(tmp_path: Path, opened: Opener) -> None:
    stored = zarr.create_array(tmp_path / "a", shape=(8, 8), chunks=(2, 2), dtype="u1")
    stored[...] = random_values((8, 8), "u1")
    counting = CountingStore(LocalStore(str(tmp_path / "a")))
    decoded = opened(counting)
    decoded.read((slice(1, 3), slice(3, 4)))
    assert sorted(counting.opened) == ["c/0/1", "c/1/1"]
    decoded.read((slice(0, 4), slice(2, 4)), wait=False)
    assert len(counting.opened) == 2


def test_neighbours_are_decoded_together(tmp_path: Path, opened: Opener) -> None:
    stored = zarr.create_array(tmp_path / "a", shape=(8, 40), chunks=(4, 4), dtype="u1")
    stored[...] = values = random_values((8, 40), "u1")
    decoded = opened(tmp_path / "a")
    assert np.array_equal(decoded.read((slice(1, 2), slice(0, 40))), values[1:2])
    assert decoded.blocks._cache.status()["misses"] == 1


def test_without_waiting_only_decoded_chunks_are_given(tmp_path: Path, opened: Opener) -> None:
    stored = zarr.create_array(tmp_path / "a", shape=(4, 4), chunks=(2, 2), dtype="u1")
    stored[...] = 1
    decoded = opened(tmp_path / "a")
    with pytest.raises(BlockingIOError):
        decoded.read(_box(decoded), wait=False)
    decoded.read((slice(0, 2), slice(0, 4)))
    assert decoded.read((slice(0, 2), slice(0, 4)), wait=False).sum() == 8
    with pytest.raises(BlockingIOError):
        decoded.read(_box(decoded), wait=False)


def test_many_readers_of_a_chunk_decode_it_once(tmp_path: Path, opened: Opener) -> None:
    stored = zarr.create_array(tmp_path / "a", shape=(64, 64), chunks=(64, 64), dtype="u1")
    stored[...] = 3
    counting = CountingStore(LocalStore(str(tmp_path / "a")))
    decoded = opened(counting)
    counting.gate.clear()
    with ThreadPoolExecutor(8) as threads:
        reads = [threads.submit(decoded.read, (slice(i, i + 1), slice(0, 64))) for i in range(8)]
        time.sleep(0.2)
        counting.gate.set()
        assert [read.result(20).sum() for read in reads] == [192] * 8
    assert counting.opened == ["c/0/0"]


def test_missing_chunks_are_the_fill_value_and_cost_nothing(tmp_path: Path, opened: Opener) -> None:
    zarr.create_array(
        tmp_path / "a", shape=(1000, 1000), chunks=(100, 100), dtype="f4", fill_value=2.5
    )
    decoded = opened(tmp_path / "a", ttl_s=60)
    assert (decoded.read(_box(decoded)) == 2.5).all()
    assert (decoded.read((slice(1, 999), slice(5, 77)), wait=False) == 2.5).all()
    assert decoded.blocks._cache.status()["values"] == 0


def test_no_zarr_is_imported_for_missing_chunks(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "a", shape=(4,), chunks=(2,), dtype="f4", fill_value="NaN")
    code = f"""
import sys
from zarrfuse.views.images.decode import Decoder
from zarrfuse.views.images.pixels import Pixels
from zarrfuse.views.images.stored_bytes import ArrayFiles
from zarrfuse.stores.cache import ByteCache
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.chunks.view import ChunksView
view = ChunksView(LocalStore({str(tmp_path / "a")!r}), 1.0)
folder = view.root
array = Decoder(view, ByteCache(1000)).array(ArrayFiles(view, folder, folder.loaded()))
assert str(array.read((slice(0, 4),))) == "[nan nan nan nan]"
assert "zarr" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_only_the_bytes_of_a_broken_chunk_are_an_error(
    tmp_path: Path, opened: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    stored = zarr.create_array(
        tmp_path / "g" / "a", shape=(8, 8), chunks=(2, 2), dtype="u1", compressors=ZstdCodec()
    )
    stored[...] = values = random_values((8, 8), "u1")
    (tmp_path / "g" / "a" / "c" / "1" / "2").write_bytes(b"no zstd")
    decoded = opened(tmp_path / "g", "a")
    for _ in range(2):
        with pytest.raises(Corrupt, match=r"^a: chunk c/1/2: cannot be decoded: \w+Error: "):
            decoded.read(_box(decoded))
    assert np.array_equal(decoded.read((slice(0, 2), slice(0, 8)), wait=False), values[:2])
    assert np.array_equal(decoded.read((slice(2, 4), slice(0, 4))), values[2:4, :4])
    with pytest.raises(Corrupt):
        decoded.read((slice(3, 4), slice(5, 6)))
    told = [record for record in caplog.records if "c/1/2" in record.getMessage()]
    assert len(told) == 1
    assert told[0].levelno == logging.WARNING


def test_a_missing_part_is_told_as_the_chunks_view_tells_it(tmp_path: Path, opened: Opener) -> None:
    write_keys(
        tmp_path,
        {
            "zarr.json": array((4,), transformers=[concat_parts(".h", ".p")]),
            "c/0.h": b"\1",
            "c/0.p": b"\2",
            "c/1.p": b"\3",
        },
    )
    decoded = opened(tmp_path)
    assert decoded.read((slice(0, 2),)).tolist() == [1, 2]
    with pytest.raises(Corrupt, match=r"c/1: .*\.h"):
        decoded.read((slice(0, 4),))


def test_what_the_store_refuses_keeps_its_errno(tmp_path: Path, opened: Opener) -> None:
    class Refusing(ForwardingStore):
        def before(self, call: str, key: str, wait: bool) -> None:
            if call == "open" and key.startswith("c/"):
                raise OSError(errno.EMFILE, "so many files")

    stored = zarr.create_array(tmp_path / "a", shape=(4,), chunks=(2,), dtype="u1")
    stored[...] = 1
    decoded = opened(Refusing(LocalStore(str(tmp_path / "a"))))
    with pytest.raises(OSError, match="so many files") as failure:
        decoded.read(_box(decoded))
    assert failure.value.errno == errno.EMFILE


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"codecs": [{"name": "bytes"}, {"name": "example.none"}]}, "(?s)^a: .*example.none"),
        ({"codecs": []}, "a/zarr.json: codecs"),
    ],
)
def test_who_cannot_be_decoded_says_why(
    members: dict[str, Any], reason: str, tmp_path: Path, opened: Opener
) -> None:
    write_keys(tmp_path, {"a/zarr.json": array((4,), **members), "a/c/0": b"12"})
    decoded = opened(tmp_path, "a")
    for _ in range(2):
        with pytest.raises(NotSupported, match=reason):
            decoded.read((slice(0, 2),))
        with pytest.raises(NotSupported, match=reason):
            decoded.check()


def test_strings_of_any_length_have_no_array(tmp_path: Path, opened: Opener) -> None:
    write_keys(tmp_path, {"zarr.json": array((4,), data_type="string", fill_value="")})
    with pytest.raises(NotSupported, match=r"^the root array: its elements have no fixed size"):
        opened(tmp_path)


def test_a_store_that_hangs_stops_no_other_array(tmp_path: Path, opened: Opener) -> None:
    for name in "ab":
        stored = zarr.create_array(
            tmp_path / "g" / name, shape=(200,), chunks=(2,), dtype="u1", compressors=None
        )
        stored[...] = 1

    class Hanging(ForwardingStore):
        gate = threading.Event()

        def before(self, call: str, key: str, wait: bool) -> None:
            if call == "open" and key.startswith("a/c/"):
                if not wait:
                    raise BlockingIOError(errno.EAGAIN, "held up")
                assert self.gate.wait(30)

    store = Hanging(LocalStore(str(tmp_path / "g")))
    view = ChunksView(store, 1.0)
    decoder = Decoder(view, ByteCache(1 << 20))
    arrays = []
    for name in "ab":
        folder = view.root.child(name)
        loaded = folder.loaded()
        assert loaded is not None
        arrays.append(decoder.array(ArrayFiles(view, folder, loaded)))
    with ThreadPoolExecutor(12) as threads:
        hung = [threads.submit(arrays[0].read, (slice(i * 10, i * 10 + 2),)) for i in range(12)]
        time.sleep(0.2)
        assert arrays[1].read((slice(0, 200),)).sum() == 200
        assert not any(read.done() for read in hung)
        store.gate.set()
        assert [read.result(20).sum() for read in hung] == [2] * 12
    decoder.close()


def test_threads_that_decode_first_all_get_what_they_read(tmp_path: Path) -> None:
    for name in "ab":
        zarr.create_array(tmp_path / name, shape=(4,), chunks=(2,), dtype="u1")[...] = 3
    code = f"""
import threading
from zarrfuse.views.images.decode import Decoder
from zarrfuse.views.images.imports import prepare
from zarrfuse.views.images.stored_bytes import ArrayFiles
from zarrfuse.stores.cache import ByteCache
from zarrfuse.stores.local.store import LocalStore
from zarrfuse.views.chunks.view import ChunksView
view = ChunksView(LocalStore({str(tmp_path)!r}), 1.0)
decoder = Decoder(view, ByteCache(1000))
found = []
def read(name):
    folder = view.root.child(name)
    found.append(decoder.array(ArrayFiles(view, folder, folder.loaded())).read((slice(0, 4),)).tolist())
calls = [lambda: read("a"), lambda: read("b"), prepare, lambda: read("a")]
threads = [threading.Thread(target=call) for call in calls]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert found == [[3, 3, 3, 3]] * 3, found
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=60, capture_output=True, text=True
    )
    assert "rror" not in ran.stderr


@pytest.mark.parametrize("part", [slice(0, 5), slice(3, 2), slice(-1, 2), slice(0, 4, 2)])
def test_what_is_no_box_of_the_array_is_refused(
    part: slice, tmp_path: Path, opened: Opener
) -> None:
    zarr.create_array(tmp_path / "a", shape=(4,), chunks=(2,), dtype="u1")
    with pytest.raises(ValueError, match="is no box"):
        opened(tmp_path / "a").read((part,))


def test_a_box_is_read_into_any_part_of_an_array(tmp_path: Path, opened: Opener) -> None:
    stored = zarr.create_array(tmp_path / "a", shape=(6, 8), chunks=(4, 3), dtype="u2")
    stored[...] = values = random_values((6, 8), "u2")
    decoded = opened(tmp_path / "a")
    for part in (np.s_[:, ::2], np.s_[::2, :8], np.s_[::-1, 8:]):
        out = np.zeros((12, 16), "u2")[part]
        box = tuple(slice(0, min(n, m)) for n, m in zip(out.shape, (6, 8), strict=True))
        target = out[box]
        decoded.readinto(target, box)
        assert np.array_equal(target, values[box])
    other = np.zeros((6, 8), "f8")
    decoded.readinto(other, _box(decoded))
    assert np.array_equal(other, values)


def test_the_fill_value_begins_where_its_bytes_do(tmp_path: Path, opened: Opener) -> None:
    zarr.create_array(
        tmp_path / "a", shape=(3, 4), chunks=(2, 3), dtype="<u4", fill_value=0x04030201
    )
    decoded = opened(tmp_path / "a")
    whole = np.asarray(decoded.read(_box(decoded))).view("u1").reshape(3, 16)
    for first in range(1, 8):
        out = np.zeros((3, 16 - first), "u1")
        decoded.fill(out, (0, first), (3, 16))
        assert np.array_equal(out, whole[:, first:])


def test_what_does_not_fit_into_memory_is_told_as_that(
    tmp_path: Path, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    zarr.create_array(tmp_path / "a", shape=(4,), chunks=(2,), dtype="u1")[...] = 3

    def too_large(*_: Any, alone: bool) -> None:
        raise MemoryError

    monkeypatch.setattr(ZarrArray, "decode", too_large)
    with pytest.raises(OSError, match="no memory") as raised:
        opened(tmp_path / "a").read((slice(0, 2),))
    assert raised.value.errno == errno.ENOMEM


def test_inner_chunks_that_do_not_divide_a_shard_are_no_units() -> None:
    for inner, unit in (([2, 2], (2, 2)), ([4, 3], (4, 4)), ([2], (4, 4)), ([0, 4], (4, 4))):
        sharding = {"name": "sharding_indexed", "configuration": {"chunk_shape": inner}}
        node = parse_v3(array((8, 8), (4, 4), codecs=[sharding]))
        assert isinstance(node, ArrayNode)
        assert unit_shape(node) == unit


def test_a_closed_decoder_begins_nothing_more(tmp_path: Path, opened: Opener) -> None:
    zarr.create_array(tmp_path / "a", shape=(4,), chunks=(2,), dtype="u1")[...] = 3
    decoded = opened(tmp_path / "a")
    decoded.blocks._shared.threads.shutdown()  # as `Decoder.close` does
    decoded.decode_ahead((0,), (4,), lambda: True)
    assert not decoded.blocks.is_busy
    assert decoded.read((slice(0, 4),)).tolist() == [3] * 4
