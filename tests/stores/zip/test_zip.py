"""What only zips have: damage, hostile names, compression, Zip64, being rewritten under a mount."""

import bz2
import contextlib
import errno
import gc
import logging
import os
import random
import stat
import struct
import threading
import tracemalloc
import warnings
import zipfile
import zlib
from datetime import datetime
from pathlib import Path

import pytest
from builders.readers import read_range
from msgspec.structs import replace

from zarrfuse.errors import Corrupt, Denied, NotFound, NotSupported, SourceError, Stale, errno_of
from zarrfuse.stores.base import Entry, Kind, opened, read
from zarrfuse.stores.zip.store import ZipStore

MIB = 2**20
TEXT = b"some text that deflate makes shorter " * 400
COMPRESSED = {
    "deflate": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2,
    "lzma": zipfile.ZIP_LZMA,
}


def write(path: Path, members, method: int = zipfile.ZIP_STORED, mode: str = "w") -> str:
    """A zip of (name or ZipInfo, bytes) pairs, in that order."""
    with warnings.catch_warnings(), zipfile.ZipFile(path, mode, method) as archive:
        warnings.simplefilter("ignore")  # duplicate names are meant
        for name, data in members.items() if isinstance(members, dict) else members:
            info = name
            if isinstance(name, str):
                info = zipfile.ZipInfo(name)
                info.compress_type = method
            archive.writestr(info, data)
    return str(path)


def special(name: str, type_: int, **attributes) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (type_ | 0o644) << 16
    for attribute, value in attributes.items():
        setattr(info, attribute, value)
    return info


def local_header(path: str, name: str) -> int:
    with zipfile.ZipFile(path) as archive:
        return archive.getinfo(name).header_offset


def central_record(path: str, name: str) -> int:
    """Where the central directory speaks of `name`; its fields are those of APPNOTE 4.3.12."""
    data = Path(path).read_bytes()
    at = data.rfind(name.encode()) - 46
    assert data[at : at + 4] == b"PK\x01\x02"
    return at


def patch(path: str, at: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def data_offset(path: str, name: str) -> int:
    at = local_header(path, name)
    names, extras = struct.unpack_from("<HH", Path(path).read_bytes(), at + 26)
    return at + 30 + names + extras


def warned(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def open_descriptors() -> int:
    gc.collect()  # what failed tests before this one still hold through their tracebacks
    return len(os.listdir("/proc/self/fd"))


class Inflations:
    """Counts how often inflating starts from the front; the decoder stays the real one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        real = zlib.decompressobj

        def counting(*args, **kwargs):
            self.count += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(zlib, "decompressobj", counting)


# --- what is no zip


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
    before = open_descriptors()
    for name in ("no.zip", "none.zip", ""):
        with pytest.raises(SourceError):
            ZipStore(str(tmp_path / name))
    assert open_descriptors() == before


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


# --- stored members


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


# --- compressed members


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


# --- large compressed members


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


# --- names

UNSAFE = [
    "../evil",
    "a/../../evil",
    "a/./b",
    "./a",
    "/etc/passwd",
    "a//b",
    "a\\b",
    "..\\evil",
    "nul\0byte",
    "n" * 256,
    "é" * 128,
    "..",
    ".",
    "/",
    "//",
    "a/..",
    "../",
    "deep/../",
]


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe_name_is_left_out_with_one_warning(tmp_path, caplog, name):
    info = zipfile.ZipInfo("x")
    info.filename = name
    store = ZipStore(write(tmp_path / "a.zip", [("fine", b"1"), (info, b"2")]))
    assert list(store.list("")) == ["fine"]
    (message,) = warned(caplog)
    assert "a.zip" in message
    assert "1 members are left out" in message
    assert repr(name) in message


def test_many_unsafe_names_are_one_warning_with_their_number(tmp_path, caplog):
    store = ZipStore(write(tmp_path / "a.zip", {**{f"../{i}": b"" for i in range(50)}, "a": b"1"}))
    assert set(store.list("")) == {"a"}
    (message,) = warned(caplog)
    assert "50 members" in message
    assert "'../0'" in message


def test_the_longest_safe_name_is_kept(tmp_path):
    names = {"n" * 255, "é" * 127}
    store = ZipStore(write(tmp_path / "a.zip", dict.fromkeys(names, b"1")))
    assert set(store.list("")) == names


def test_last_of_two_members_with_one_name_wins(tmp_path):
    store = ZipStore(write(tmp_path / "a.zip", [("a", b"old"), ("b", b"x"), ("a", b"newer")]))
    assert store.stat("a").size == 5
    assert read(store, "a") == b"newer"
    assert set(store.list("")) == {"a", "b"}


@pytest.mark.parametrize("order", [1, -1])
def test_folder_wins_over_a_file_of_its_name(tmp_path, caplog, order):
    members = [("x/a", b"file"), ("x/a/b", b"below")][::order]
    store = ZipStore(write(tmp_path / "a.zip", members))
    assert store.stat("x/a").kind is Kind.FOLDER
    assert read(store, "x/a/b") == b"below"
    (message,) = warned(caplog)
    assert "'x/a'" in message


def test_folders_may_be_explicit_implicit_and_empty(tmp_path, caplog):
    members = [
        ("explicit/", b""),
        ("explicit/a", b"1"),
        ("empty/deeper/", b""),
        ("implicit/x/y", b"2"),
        (special("by mode", stat.S_IFDIR), b""),
    ]
    store = ZipStore(write(tmp_path / "a.zip", members))
    assert {name: entry.kind for name, entry in store.list("").items()} == dict.fromkeys(
        ["explicit", "empty", "implicit", "by mode"], Kind.FOLDER
    )
    assert store.list("empty/deeper") == store.list("by mode") == {}
    assert set(store.list("implicit/x")) == {"y"}
    assert warned(caplog) == []


def test_deep_name_is_read_and_one_of_thousands_of_folders_is_left_out(tmp_path, caplog):
    deep, deeper = "/".join("d" * 200), "/".join("e" * 30_000)
    store = ZipStore(write(tmp_path / "a.zip", {deep: b"bottom", deeper: b"2", "a": b"1"}))
    assert set(store.list("")) == {"a", "d"}
    assert read(store, deep) == b"bottom"
    (message,) = warned(caplog)
    assert "1 members are left out for their unsafe names, such as 'e/e/" in message
    assert len(message) < 1000


def test_name_without_utf_8_flag_is_code_page_437(tmp_path):
    path = write(tmp_path / "a.zip", {"aXb": b"1"})
    for at in (local_header(path, "aXb") + 30, central_record(path, "aXb") + 46):
        patch(path, at + 1, b"\x84")
    store = ZipStore(path)
    assert set(store.list("")) == {"aäb"}
    assert read(store, "aäb") == b"1"


def test_name_from_the_unicode_path_field_reads(tmp_path):
    info = zipfile.ZipInfo("raw")
    unicode_name = "größe".encode()
    info.extra = struct.pack("<HHBI", 0x7075, 5 + len(unicode_name), 1, zlib.crc32(b"raw"))
    info.extra += unicode_name
    store = ZipStore(write(tmp_path / "a.zip", [(info, b"1234")]))
    (name,) = store.list("")  # "raw" before Python 3.13
    assert name in ("raw", "größe")
    assert read(store, name) == b"1234"


# --- symlinks and other special members


def link(name: str, target: str, **attributes) -> tuple[zipfile.ZipInfo, bytes]:
    return special(name, stat.S_IFLNK, **attributes), os.fsencode(target)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_symlink_that_stays_inside_is_a_link(tmp_path, method):
    members = [
        ("data/v1/a", b"contents"),
        link("data/current", "v1", compress_type=method),
        link("top", "./data/v1/a", compress_type=method),
        link("data/v1/up", "../../top", compress_type=method),
        link("dangling", "not/there", compress_type=method),
    ]
    store = ZipStore(write(tmp_path / "a.zip", members))
    for key, target in {
        "data/current": "v1",
        "top": "./data/v1/a",
        "data/v1/up": "../../top",
        "dangling": "not/there",
    }.items():
        entry = store.stat(key)
        assert (entry.kind, entry.size, entry.denied) == (Kind.LINK, len(target), False)
        assert store.list(os.path.dirname(key))[os.path.basename(key)] == entry
        assert store.readlink(key) == target
    assert read(store, "top") == read(store, "data/v1/up") == b"contents"
    for key in ("dangling", "data/current"):
        with pytest.raises(NotFound):
            store.open(key)


@pytest.mark.parametrize(
    "target",
    ["/etc/passwd", "../x", "a/../../..", "..", "sub/../a", "a\0b", "", "x" * 4097, "/"],
)
def test_symlink_that_leads_outside_is_denied(tmp_path, target):
    store = ZipStore(write(tmp_path / "a.zip", [("a", b"1"), link("bad", target)]))
    entry = store.list("")["bad"]
    assert (entry.kind, entry.size, entry.denied) == (Kind.FILE, 0, True)
    assert store.stat("bad") == entry
    with pytest.raises(Denied) as caught:
        store.open("bad")
    assert errno_of(caught.value) == errno.EACCES
    with pytest.raises(Denied):
        store.readlink("bad")


def test_symlink_with_damaged_text_is_denied_and_the_rest_works(tmp_path):
    info, target = link("l", "a" * 300, compress_type=zipfile.ZIP_DEFLATED)
    path = write(tmp_path / "a.zip", [("a", b"1"), (info, target)])
    patch(path, central_record(path, "l") + 16, b"\1\2\3\4")
    store = ZipStore(path)
    assert store.stat("l").denied
    assert read(store, "a") == b"1"


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_symlink_with_text_of_slow_compression_is_denied(tmp_path, method):
    store = ZipStore(write(tmp_path / "a.zip", [("a", b"1"), link("l", "a", compress_type=method)]))
    assert store.stat("l").denied
    assert read(store, "a") == b"1"


def test_symlinks_in_a_circle_end(tmp_path):
    store = ZipStore(write(tmp_path / "a.zip", [link("a", "b"), link("b", "a")]))
    assert store.stat("a").kind is Kind.LINK
    with pytest.raises(NotFound):
        store.open("a")


@pytest.mark.parametrize("type_", [stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK])
def test_special_members_are_not_there(tmp_path, type_):
    store = ZipStore(write(tmp_path / "a.zip", [(special("x", type_), b""), ("a", b"1")]))
    assert set(store.list("")) == {"a"}
    with pytest.raises(NotFound):
        store.stat("x")


# --- times


def test_time_is_the_member_s_local_time(tmp_path):
    info = zipfile.ZipInfo("a", (2021, 2, 3, 4, 5, 6))
    store = ZipStore(write(tmp_path / "a.zip", [(info, b"1")]))
    mtime_ns = int(datetime(2021, 2, 3, 4, 5, 6).timestamp()) * 10**9
    assert replace(store.stat("a"), access=None) == Entry("a", Kind.FILE, 1, mtime_ns)


@pytest.mark.parametrize(
    "date", [(1980, 0, 0, 0, 0, 0), (2021, 2, 31, 0, 0, 0), (2021, 1, 1, 0, 0, 62)]
)
def test_impossible_time_is_that_of_the_zip(tmp_path, date):
    info = zipfile.ZipInfo("d/a", date)
    path = write(tmp_path / "a.zip", [(info, b"1")])
    os.utime(path, ns=(5, 1_234_567_890))
    store = ZipStore(path)
    assert store.stat("d/a").mtime_ns == 1_234_567_890
    assert store.stat("d").mtime_ns == store.stat("").mtime_ns == 1_234_567_890


# --- size


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


def test_tree_is_slim(tmp_path):
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


# --- the zip changes


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


# --- end


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_open_reader_outlives_its_store(tmp_path, method):
    before = open_descriptors()
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
    assert open_descriptors() == before
