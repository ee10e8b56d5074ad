"""Members of a zip are read in any range, compressed or not; damage is an error before a byte is given."""

import bz2
import contextlib
import errno
import os
import random
import struct
import threading
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import pytest
from builders.readers import read_range
from crafted_zips import TEXT, central_record, local_header, patch, write

from zarrfuse.errors import Corrupt, Denied, NotSupported, errno_of
from zarrfuse.stores.base import Kind, opened, read
from zarrfuse.stores.zip.store import ZipStore

MIB = 2**20
COMPRESSED = {
    "deflate": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2,
    "lzma": zipfile.ZIP_LZMA,
}


def data_offset(path: str, name: str) -> int:
    at = local_header(path, name)
    names, extras = struct.unpack_from("<HH", Path(path).read_bytes(), at + 26)
    return at + 30 + names + extras


class Inflations:
    """Counts how often inflating starts from the front; the decoder stays the real one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        real = zlib.decompressobj

        def counting(*args, **kwargs):
            self.count += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(zlib, "decompressobj", counting)


# -- stored members


def test_stored_range_is_read_straight_from_the_zip(tmp_path, monkeypatch):
    path = write(tmp_path / "a.ozx", {"before": b"b" * 5000, "chunk": TEXT, "after": b"a" * 5000})
    patch(path, data_offset(path, "before"), b"damage")
    patch(path, data_offset(path, "after"), b"damage")
    store = ZipStore(path)
    monkeypatch.setattr(zipfile, "ZipExtFile", None)  # any use of it would fail
    with opened(store, "chunk") as reader:
        assert read_range(reader, 700, 4000) == TEXT[700:4700]
        assert read_range(reader, 0, reader.size) == TEXT


def test_range_behind_the_member_is_an_error_not_the_next_member(tmp_path):
    store = ZipStore(write(tmp_path / "a.zip", {"a": b"1234", "b": b"secret"}))
    with opened(store, "a") as reader, pytest.raises(ValueError):
        read_range(reader, 2, 10)


def test_local_header_is_read_once(tmp_path):
    path = write(tmp_path / "a.zip", {"a": b"1234"})
    store = ZipStore(path)
    assert read(store, "a") == b"1234"
    status = os.stat(path)
    patch(path, local_header(path, "a"), b"XXXX")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert read(store, "a") == b"1234"


def test_stored_member_with_two_sizes_is_corrupt(tmp_path):
    path = write(tmp_path / "a.zip", {"chunk": b"1234", "pad": b"0" * 50})
    patch(path, central_record(path, "chunk") + 24, struct.pack("<I", 9))
    with pytest.raises(Corrupt, match=r"a\.zip: member chunk is stored"):
        ZipStore(path).open("chunk")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("where", ["magic", "name", "far", "long", "extra"])
def test_bad_local_header_is_corrupt(tmp_path, method, where):
    path = write(tmp_path / "a.zip", {"chunk": TEXT, "pad": b"0" * 50}, method)
    local, central = local_header(path, "chunk"), central_record(path, "chunk")
    if where == "magic":
        patch(path, local, b"PK\x09\x09")
    elif where == "name":
        patch(path, local + 30, b"chink")
    elif where == "far":
        patch(path, central + 42, struct.pack("<I", 2**31))
    elif where == "long":
        patch(path, central + 20, struct.pack("<II", 2**30, 2**30))
    else:
        patch(path, local + 28, struct.pack("<H", 65535))
    store = ZipStore(path)
    with pytest.raises(Corrupt, match=r"a\.zip: member chunk") as caught:
        store.open("chunk")
    assert errno_of(caught.value) == errno.EIO
    assert read(store, "pad") == b"0" * 50  # the rest works


# -- compressed members


@pytest.mark.parametrize("method", COMPRESSED.values(), ids=COMPRESSED)
def test_compressed_member_reads_in_any_range(tmp_path, method):
    data = b"".join(random.Random(i).randbytes(3000) + bytes(9000) for i in range(50))
    store = ZipStore(write(tmp_path / "a.zip", {"chunk": data}, method))
    chance = random.Random(2)
    for _ in range(20):
        offset = chance.randrange(len(data))
        size = chance.randrange(len(data) - offset + 1)
        with opened(store, "chunk") as reader:
            assert read_range(reader, offset, size) == data[offset : offset + size]


@pytest.mark.parametrize("method", COMPRESSED.values(), ids=COMPRESSED)
def test_nothing_is_inflated_before_the_first_read(tmp_path, method):
    store = ZipStore(write(tmp_path / "a.zip", {"chunk": TEXT}, method))
    with opened(store, "chunk") as reader:
        with pytest.raises(BlockingIOError):
            read_range(reader, 0, 10, wait=False)
        assert read_range(reader, 5, 10) == TEXT[5:15]
        assert read_range(reader, 0, len(TEXT), wait=False) == TEXT


def test_small_member_is_inflated_once(tmp_path, monkeypatch):
    store = ZipStore(write(tmp_path / "a.zip", {"chunk": TEXT}, zipfile.ZIP_DEFLATED))
    inflations = Inflations(monkeypatch)
    with opened(store, "chunk") as reader:
        for offset in reversed(range(0, len(TEXT) - 100, 100)):
            assert read_range(reader, offset, 100) == TEXT[offset : offset + 100]
    assert inflations.count == 1


@pytest.mark.parametrize("method", COMPRESSED.values(), ids=COMPRESSED)
@pytest.mark.parametrize("damage", ["crc", "data", "short", "shorter", "longer"])
def test_damaged_member_is_corrupt_before_a_byte_is_given(tmp_path, method, damage):
    data = random.Random(0).randbytes(30_000) + TEXT
    path = write(tmp_path / "a.zip", {"c/0": data, "fine": TEXT}, method)
    central = central_record(path, "c/0")
    compressed = struct.unpack_from("<I", Path(path).read_bytes(), central + 20)[0]
    if damage == "crc":
        patch(path, central + 16, b"\1\2\3\4")
    elif damage == "data":
        patch(path, data_offset(path, "c/0") + 3000, b"\xff" * 200)
    elif damage == "short":
        patch(path, central + 20, struct.pack("<I", compressed - 500))
    elif damage == "shorter":
        patch(path, central + 24, struct.pack("<I", len(data) - 1))
    else:
        patch(path, central + 24, struct.pack("<I", len(data) + 1))
    store = ZipStore(path)
    with opened(store, "c/0") as reader:
        for _ in range(2):
            with pytest.raises(Corrupt, match=r"a\.zip: member c/0 is damaged: .") as caught:
                read_range(reader, 0, 1)
            assert errno_of(caught.value) == errno.EIO
    assert read(store, "fine") == TEXT


def test_hostile_bzip2_does_not_fill_the_memory(tmp_path):
    bomb = bz2.compress(bytes(400 * MIB), 9)
    path = write(tmp_path / "a.zip", {"bomb": bomb})
    central = central_record(path, "bomb")
    patch(path, central + 10, struct.pack("<H", zipfile.ZIP_BZIP2))
    patch(path, central + 24, struct.pack("<I", 100))
    with opened(ZipStore(path), "bomb") as reader:
        tracemalloc.start()
        with pytest.raises(Corrupt):
            read_range(reader, 0, 100)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 200 * MIB


def test_encrypted_member_is_listed_and_denied(tmp_path):
    path = write(tmp_path / "a.zip", {"secret": b"1234", "open": b"5678"})
    patch(path, local_header(path, "secret") + 6, struct.pack("<H", 1))
    patch(path, central_record(path, "secret") + 8, struct.pack("<H", 1))
    store = ZipStore(path)
    entry = store.list("")["secret"]
    assert (entry.kind, entry.size, entry.denied) == (Kind.FILE, 4, True)
    with pytest.raises(Denied, match=r"a\.zip: member secret is encrypted") as caught:
        store.open("secret")
    assert errno_of(caught.value) == errno.EACCES
    assert read(store, "open") == b"5678"


@pytest.mark.parametrize("method", [1, 9, 97, 99])
def test_unknown_compression_is_not_supported(tmp_path, method):
    path = write(tmp_path / "a.zip", {"chunk": b"1234"})
    patch(path, central_record(path, "chunk") + 10, struct.pack("<H", method))
    store = ZipStore(path)
    assert store.stat("chunk").size == 4
    with pytest.raises(NotSupported, match=r"a\.zip: member chunk: ") as caught:
        store.open("chunk")
    assert errno_of(caught.value) == errno.ENOTSUP


# -- large compressed members


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """(path, bytes) of a zip with one deflated member of 40 MiB."""
    data = b"".join(random.Random(i).randbytes(MIB // 8) + bytes(MIB - MIB // 8) for i in range(40))
    path = tmp_path_factory.mktemp("large") / "large.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("big", data)
    return str(path), data


def test_large_member_is_streamed_in_bounded_memory(large):
    path, data = large
    store = ZipStore(path)
    with opened(store, "big") as reader:
        buffer = memoryview(bytearray(MIB // 8))
        tracemalloc.start()
        for offset in range(0, len(data), len(buffer)):
            reader.readinto(buffer, offset)
            assert buffer == data[offset : offset + len(buffer)]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 16 * MIB


def test_going_a_little_back_does_not_inflate_again(large, monkeypatch):
    path, data = large
    inflations = Inflations(monkeypatch)
    size = 128 * 1024
    with opened(ZipStore(path), "big") as reader:
        for ahead in range(0, len(data) - MIB, MIB):  # 3, 2, 1, 0: like a readahead gone astray
            for back in (3, 2, 1, 0):
                offset = ahead + back * size
                assert read_range(reader, offset, size) == data[offset : offset + size]
        offset = reader.size - 4 * MIB
        assert read_range(reader, reader.size - 10, 10) == data[-10:]
        assert read_range(reader, offset, MIB) == data[offset : offset + MIB]
        assert inflations.count == 1


def test_jump_to_the_front_inflates_again_and_is_right(large, monkeypatch):
    path, data = large
    inflations = Inflations(monkeypatch)
    with opened(ZipStore(path), "big") as reader:
        assert read_range(reader, 30 * MIB, 1000) == data[30 * MIB : 30 * MIB + 1000]
        assert read_range(reader, 7, 1000) == data[7:1007]
        assert read_range(reader, 12 * MIB, 1000) == data[12 * MIB : 12 * MIB + 1000]
    assert inflations.count == 2


def test_read_larger_than_the_window(large):
    path, data = large
    with opened(ZipStore(path), "big") as reader:
        assert read_range(reader, MIB + 5, 33 * MIB) == data[MIB + 5 : 34 * MIB + 5]


def test_large_member_gives_without_waiting_what_the_window_holds(large):
    path, data = large
    with opened(ZipStore(path), "big") as reader:
        with pytest.raises(BlockingIOError):
            read_range(reader, 0, 10, wait=False)
        read_range(reader, 20 * MIB, 10)
        offset = 17 * MIB
        assert read_range(reader, offset, MIB, wait=False) == data[offset : offset + MIB]
        for offset in (0, 39 * MIB):
            with pytest.raises(BlockingIOError):
                read_range(reader, offset, 10, wait=False)


def test_damage_at_the_end_of_a_large_member_is_found_once(large, tmp_path, monkeypatch):
    source, data = large
    path = str(tmp_path / "large.zip")
    Path(path).write_bytes(Path(source).read_bytes())
    patch(path, central_record(path, "big") + 16, b"\1\2\3\4")
    inflations = Inflations(monkeypatch)
    with opened(ZipStore(path), "big") as reader:
        assert read_range(reader, 0, 1000) == data[:1000]
        for _ in range(5):
            with pytest.raises(Corrupt, match=r"large\.zip: member big is damaged: Bad CRC"):
                read_range(reader, reader.size - 1, 1)
        assert inflations.count == 1
        assert read_range(reader, 0, 1000) == data[:1000]  # what came before can still be had


def test_eight_threads_in_one_large_member(large):
    path, data = large
    wrong = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        base = 20 * MIB
        for _ in range(40):
            offset = base + chance.randrange(4 * MIB)
            if read_range(reader, offset, 4096) != data[offset : offset + 4096]:
                wrong.append(offset)

    with opened(ZipStore(path), "big") as reader:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_close_stops_a_thread_that_inflates(large):
    path, _ = large
    reader = ZipStore(path).open("big")
    failed = threading.Event()

    def work() -> None:
        with contextlib.suppress(OSError):
            while True:
                read_range(reader, reader.size - 1, 1)
                read_range(reader, 0, 1)
        failed.set()

    thread = threading.Thread(target=work)
    thread.start()
    reader.close()
    thread.join(20)
    assert failed.is_set()


def test_large_member_of_bzip2_reads_front_to_back(tmp_path):
    data = (b"0123456789abcdef" * 4096 + bytes(2**16)) * 140  # 17.5 MiB
    store = ZipStore(write(tmp_path / "a.zip", {"big": data}, zipfile.ZIP_BZIP2))
    assert store.stat("big").size > 16 * MIB
    with opened(store, "big") as reader:
        assert read_range(reader, 9 * MIB, 1000) == data[9 * MIB : 9 * MIB + 1000]
        assert read_range(reader, 0, reader.size) == data
