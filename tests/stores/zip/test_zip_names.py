"""Names, symlinks and times of members, hostile ones among them."""

import errno
import os
import stat
import struct
import zipfile
import zlib
from datetime import datetime

import pytest
from builders.logs import warnings_in
from crafted_zips import central_record, local_header, patch, write
from msgspec.structs import replace

from zarrfuse.errors import Denied, NotFound, errno_of
from zarrfuse.stores.base import Entry, Kind, read
from zarrfuse.stores.zip.store import ZipStore


def special(name: str, type_: int, **attributes) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (type_ | 0o644) << 16
    for attribute, value in attributes.items():
        setattr(info, attribute, value)
    return info


# -- names


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
    (message,) = warnings_in(caplog)
    assert "a.zip" in message
    assert "1 members are left out" in message
    assert repr(name) in message


def test_many_unsafe_names_are_one_warning_with_their_number(tmp_path, caplog):
    store = ZipStore(write(tmp_path / "a.zip", {**{f"../{i}": b"" for i in range(50)}, "a": b"1"}))
    assert set(store.list("")) == {"a"}
    (message,) = warnings_in(caplog)
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
    (message,) = warnings_in(caplog)
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
    assert warnings_in(caplog) == []


def test_deep_name_is_read_and_one_of_thousands_of_folders_is_left_out(tmp_path, caplog):
    deep, deeper = "/".join("d" * 200), "/".join("e" * 30_000)
    store = ZipStore(write(tmp_path / "a.zip", {deep: b"bottom", deeper: b"2", "a": b"1"}))
    assert set(store.list("")) == {"a", "d"}
    assert read(store, deep) == b"bottom"
    (message,) = warnings_in(caplog)
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


# -- symlinks and other special members


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


# -- times


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
