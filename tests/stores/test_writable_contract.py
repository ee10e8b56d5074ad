"""What every store that can be written promises (`base.WritableStore`), held against each from one dict.

A store that cannot change bytes in place, or has no folders of its own, is held against the tests
of what it does offer, and must refuse the rest.
"""

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from builders.readers import read_range

from zarrfuse.errors import (
    Exists,
    Invalid,
    IsAFolder,
    NotAFolder,
    NotEmpty,
    NotFound,
    NotSupported,
    Stale,
    errno_of,
)
from zarrfuse.stores.access import Change
from zarrfuse.stores.base import OWN_NAME, Kind, WritableStore, read
from zarrfuse.stores.local.writing import WritableLocalStore

MTIME_NS = 1_600_000_000_000_000_000
DATA = os.urandom(100_000)


def make_local(at: Path) -> WritableStore:
    (at / "store").mkdir()
    return WritableLocalStore(str(at / "store"))


MAKERS: dict[str, Callable[[Path], WritableStore]] = {"local": make_local}
"""How to make an empty store, given a folder that the test may use."""
HAS_FOLDERS = {"local", "object"}
"""Those in which an empty folder stays."""
MOVES_FOLDERS = {"local"}
"""Those that have folders of their own: with names and times to change, and a file needs one."""


@pytest.fixture(params=[*MAKERS, "object"])
def name(request):
    return request.param


@pytest.fixture
def store(request, name, tmp_path):
    if name == "object":
        store: WritableStore = request.getfixturevalue("bucket").store("a/prefix")
    else:
        store = MAKERS[name](tmp_path)
    yield store
    store.close()


@pytest.fixture
def in_place(store):
    """One that can be changed in place."""
    if not store.in_place:
        pytest.skip("files of this store are stored whole")
    return store


@pytest.fixture
def foldered(store, name):
    """One with folders of its own."""
    if name not in HAS_FOLDERS:
        pytest.skip("this store has no folders of its own")
    return store


@pytest.fixture
def moving(store, name):
    """One that can rename folders."""
    if name not in MOVES_FOLDERS:
        pytest.skip("this store cannot rename folders")
    return store


@pytest.fixture
def source(tmp_path):
    """A descriptor of a file that holds `DATA`."""
    path = tmp_path / "source"
    path.write_bytes(DATA)
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.fixture
def put(store, tmp_path):
    """Stores bytes under a key."""

    def put(key: str, data: bytes, **options: bool) -> None:
        path = tmp_path / "put"
        path.write_bytes(data)
        fd = os.open(path, os.O_RDONLY)
        try:
            store.put(key, fd, 0, len(data), **options)
        finally:
            os.close(fd)

    return put


def names(store, folder=""):
    return set(store.list(folder))


# --- put


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(("start", "stop"), [(0, len(DATA)), (0, 0), (1, 2), (5_000, 99_999)])
def test_put_stores_the_range_of_the_source(store, source, start, stop, sync):
    store.put("key", source, start, stop, sync=sync)
    assert read(store, "key") == DATA[start:stop]
    assert store.stat("key").size == stop - start
    assert names(store) == {"key"}


def test_put_leaves_the_offset_of_the_source(store, source):
    os.lseek(source, 7, os.SEEK_SET)
    store.put("key", source, 10, 20)
    assert os.lseek(source, 0, os.SEEK_CUR) == 7


def test_put_replaces_and_readers_keep_the_old_bytes(store, put):
    put("key", b"old bytes")
    reader = store.open("key")
    put("key", b"new")
    assert read(store, "key") == b"new"
    if store.in_place:
        assert read_range(reader, 0, reader.size) == b"old bytes"
    else:  # a store of objects may have only the new ones
        with suppress(Stale):
            assert read_range(reader, 0, reader.size) == b"old bytes"
    reader.close()


def test_put_of_a_new_key_refuses_one_that_is_there(store, put):
    put("key", b"first", new=True)
    with pytest.raises(Exists) as caught:
        put("key", b"second", new=True)
    assert errno_of(caught.value) == errno.EEXIST
    assert read(store, "key") == b"first"
    assert names(store) == {"key"}


def test_of_many_puts_of_a_new_key_one_succeeds(store, put, tmp_path):
    def attempt(number: int) -> int | None:
        path = tmp_path / f"source {number}"
        path.write_bytes(b"%d" % number)
        with path.open("rb") as file:
            try:
                store.put("key", file.fileno(), 0, len(str(number)), new=True)
            except Exists:
                return None
            return number

    with ThreadPoolExecutor(8) as threads:
        won = [number for number in threads.map(attempt, range(24)) if number is not None]
    assert len(won) == 1
    assert read(store, "key") == b"%d" % won[0]


def test_of_many_puts_of_one_key_a_whole_one_stays(store, tmp_path):
    def attempt(number: int) -> None:
        path = tmp_path / f"source {number}"
        path.write_bytes(bytes([number]) * 50_000)
        with path.open("rb") as file:
            store.put("key", file.fileno(), 0, 50_000, sync=False)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(attempt, range(24)))
    data = read(store, "key")
    assert data == data[:1] * 50_000
    assert names(store) == {"key"}


def test_put_of_more_than_the_source_has_leaves_the_old_bytes(store, source, put):
    put("key", b"old")
    with pytest.raises(Stale):
        store.put("key", source, 10, len(DATA) + 1)
    assert read(store, "key") == b"old"
    with pytest.raises(Stale):
        store.put("other", source, 10, len(DATA) + 1)
    with pytest.raises(NotFound):
        store.stat("other")
    assert names(store) == {"key"}


def test_put_into_a_folder_that_is_not_there_is_refused(moving, put):
    with pytest.raises(NotFound):
        put("no/such/key", b"")
    put("file", b"")
    with pytest.raises((NotFound, NotAFolder)):
        put("file/key", b"")


def test_put_onto_a_folder_is_refused(foldered, put):
    foldered.make_folder("folder")
    for new, error in ((False, IsAFolder), (True, Exists)):
        with pytest.raises(error):
            put("folder", b"", new=new)
    with pytest.raises(IsAFolder):
        put("", b"")
    assert names(foldered) == {"folder"}


def test_what_is_put_into_the_own_folder_is_shown_by_no_listing_of_the_root(store, put):
    store.make_folder(OWN_NAME)
    store.make_folder(f"{OWN_NAME}/w-1")
    put(f"{OWN_NAME}/w-1/part", b"part")
    put(f"{OWN_NAME}/a.journal", b"{}")
    put(f"{OWN_NAME}/a.journal", b"[]")
    assert names(store) == set()
    assert names(store, OWN_NAME) == {"w-1", "a.journal"}
    assert read(store, f"{OWN_NAME}/a.journal") == b"[]"
    with pytest.raises(Exists):
        put(f"{OWN_NAME}/w-1/part", b"other", new=True)
    put(f"{OWN_NAME}/w-1/part", b"other")
    assert read(store, f"{OWN_NAME}/w-1/part") == b"other"


# --- edit


def test_store_of_whole_files_refuses_to_edit(store):
    if store.in_place:
        pytest.skip("this one edits")
    with pytest.raises(NotSupported):
        store.edit("key", create=True)


def test_edit_makes_writes_and_reads(in_place):
    file = in_place.edit("key", create=True)
    assert (file.size, in_place.stat("key").size) == (0, 0)
    file.write(b"hello", 3)
    assert file.size == 8
    assert read_range(file, 0, 8) == b"\0\0\0hello"
    file.write(memoryview(b"HE"), 3)
    file.truncate(6)
    assert read(in_place, "key") == b"\0\0\0HEl"
    file.truncate(8)
    assert read(in_place, "key") == b"\0\0\0HEl\0\0"
    file.change(Change(MTIME_NS))
    assert file.mtime_ns == in_place.stat("key").mtime_ns == MTIME_NS
    file.sync()
    file.close()
    file.close()


def test_edit_of_a_file_keeps_its_bytes_and_is_seen_by_others_at_once(in_place, put):
    put("key", b"0123456789")
    first, second = in_place.edit("key"), in_place.edit("key", write=False)
    first.write(b"ab", 4)
    assert read_range(second, 0, 10) == b"0123ab6789"
    first.write(b"xyz", 10)
    assert second.size == 13
    assert read_range(second, 8, 5, wait=False) == b"89xyz"
    with pytest.raises(OSError):
        second.write(b"x", 0)
    first.close()
    second.close()


def test_edit_reads_what_is_at_hand_without_waiting_or_says_so(in_place, put):
    put("key", DATA)
    file = in_place.edit("key", write=False)
    assert read_range(file, 0, len(DATA)) == DATA
    assert read_range(file, 17, 4_000, wait=False) == DATA[17:4_017]
    with pytest.raises(Stale):
        read_range(file, len(DATA) - 1, 2)
    file.close()


def test_edit_refuses_what_is_not_there_and_what_is(in_place, put):
    with pytest.raises(NotFound):
        in_place.edit("key")
    with pytest.raises(NotFound):
        in_place.edit("no/such/key", create=True)
    put("key", b"here")
    with pytest.raises(Exists):
        in_place.edit("key", create=True, exclusive=True)
    in_place.edit("key", create=True).close()
    assert read(in_place, "key") == b"here"
    with pytest.raises((NotFound, NotAFolder)):
        in_place.edit("key/below", create=True)


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("key", ["folder", ""])
def test_edit_refuses_folders(in_place, write, key):
    in_place.make_folder("folder")
    for create in (False, True):
        with pytest.raises(IsAFolder) as caught:
            in_place.edit(key, write=write, create=create)
    assert errno_of(caught.value) == errno.EISDIR


def test_of_many_exclusive_makers_one_succeeds(in_place):
    def attempt(_: int) -> bool:
        try:
            in_place.edit("key", create=True, exclusive=True).close()
        except Exists:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        for _ in range(20):
            assert sum(threads.map(attempt, range(8))) == 1
            in_place.remove("key")


def test_makers_and_deleters_of_one_name_never_fail_otherwise(in_place):
    def make(_: int) -> None:
        in_place.edit("key", create=True).close()

    def delete(_: int) -> None:
        with suppress(NotFound):
            in_place.remove("key")

    with ThreadPoolExecutor(4) as threads:
        calls = [threads.submit(call, n) for n in range(200) for call in (make, delete)]
        for call in calls:
            call.result()


def test_file_that_is_open_lives_on_without_its_name(in_place, put):
    put("key", b"bytes")
    file = in_place.edit("key")
    in_place.rename("key", "other")
    file.write(b"B", 0)
    assert read(in_place, "other") == b"Bytes"
    in_place.remove("other")
    file.write(b"!", 5)
    assert read_range(file, 0, 6) == b"Bytes!"
    assert names(in_place) == set()
    file.close()


# --- names of files


def test_remove_deletes_files_only(store, put):
    put("key", b"")
    store.remove("key")
    with pytest.raises(NotFound):
        store.stat("key")
    with pytest.raises(NotFound):
        store.remove("key")


def test_remove_refuses_folders(foldered):
    foldered.make_folder("folder")
    for key in ("folder", ""):
        with pytest.raises(IsAFolder):
            foldered.remove(key)
    assert foldered.stat("folder").kind is Kind.FOLDER


def test_rename_moves_a_file_over_another_and_between_folders(store, put, name):
    if name in HAS_FOLDERS:
        store.make_folder("a")
        store.make_folder("b")
    put("a/key", b"bytes")
    put("b/other", b"replaced")
    store.rename("a/key", "a/new")
    store.rename("a/new", "b/other")
    assert read(store, "b/other") == b"bytes"
    assert names(store, "b") == {"other"}
    with pytest.raises(NotFound):
        store.rename("a/new", "b/other")
    assert read(store, "b/other") == b"bytes"


def test_rename_that_must_not_replace_refuses_what_is_there(store, put):
    put("key", b"bytes")
    put("other", b"others")
    with pytest.raises(Exists):
        store.rename("key", "other", replace=False)
    assert read(store, "key") == b"bytes"
    assert read(store, "other") == b"others"
    store.rename("key", "new", replace=False)
    assert read(store, "new") == b"bytes"
    assert names(store) == {"new", "other"}
    with pytest.raises(NotFound):
        store.rename("key", "newer", replace=False)


def test_rename_into_a_folder_that_is_not_there_is_refused(moving, put):
    put("key", b"bytes")
    for replace in (True, False):
        with pytest.raises(NotFound):
            moving.rename("key", "no/such", replace=replace)
    assert read(moving, "key") == b"bytes"


def test_rename_to_itself_changes_nothing(store, put):
    put("key", b"bytes")
    store.rename("key", "key")
    assert read(store, "key") == b"bytes"


def test_link_stores_a_second_name(store, put):
    put("key", b"bytes")
    store.link("key", "second")
    assert read(store, "second") == b"bytes"
    with pytest.raises(Exists):
        store.link("key", "second")
    with pytest.raises(NotFound):
        store.link("none", "third")
    store.remove("key")
    assert read(store, "second") == b"bytes"
    assert names(store) == {"second"}


def test_times_of_files_can_be_set(store, put):
    put("key", b"")
    store.change("key", Change(mtime_ns=MTIME_NS))
    if store.in_place:
        assert store.stat("key").mtime_ns == MTIME_NS


def test_time_of_what_is_not_there_cannot_be_set(moving):
    with pytest.raises(NotFound):
        moving.change("key", Change(mtime_ns=MTIME_NS))


# --- folders


def test_folders_are_made_and_deleted(foldered):
    foldered.make_folder("a")
    foldered.make_folder("a/b")
    assert foldered.stat("a/b").kind is Kind.FOLDER
    for key in ("a", ""):
        with pytest.raises(Exists):
            foldered.make_folder(key)
    with pytest.raises(NotFound):
        foldered.make_folder("no/such")
    with pytest.raises(NotEmpty) as caught:
        foldered.remove_folder("a")
    assert errno_of(caught.value) == errno.ENOTEMPTY
    foldered.remove_folder("a/b")
    foldered.remove_folder("a")
    assert names(foldered) == set()
    with pytest.raises(NotFound):
        foldered.remove_folder("a")


def test_folder_cannot_be_made_of_a_file_nor_below_one(foldered, put):
    put("key", b"")
    with pytest.raises(Exists):
        foldered.make_folder("key")
    with pytest.raises((NotFound, NotAFolder)):
        foldered.make_folder("key/below")
    with pytest.raises(NotAFolder):
        foldered.remove_folder("key")


def test_store_that_cannot_rename_folders_says_so(store, name, put):
    if name in MOVES_FOLDERS:
        pytest.skip("this one can")
    store.make_folder("a")
    put("a/key", b"")
    with pytest.raises(NotSupported):
        store.rename("a", "b")
    assert read(store, "a/key") == b""


@pytest.mark.parametrize("replace", [True, False])
def test_folder_is_renamed_with_what_is_in_it(moving, put, replace):
    moving.make_folder("a")
    moving.make_folder("c")
    put("a/key", b"bytes")
    moving.rename("a", "c/b", replace=replace)
    assert read(moving, "c/b/key") == b"bytes"
    assert names(moving) == {"c"}


def test_folder_replaces_an_empty_one_and_nothing_else(moving, put):
    for folder in ("a", "empty", "full"):
        moving.make_folder(folder)
    put("full/key", b"bytes")
    put("file", b"file")
    with pytest.raises(NotEmpty):
        moving.rename("a", "full")
    with pytest.raises(NotAFolder):
        moving.rename("a", "file")
    with pytest.raises(IsAFolder):
        moving.rename("file", "a")
    with pytest.raises(Exists):
        moving.rename("a", "empty", replace=False)
    moving.rename("a", "empty")
    assert names(moving) == {"empty", "full", "file"}


@pytest.mark.parametrize("replace", [True, False])
def test_folder_cannot_be_moved_into_itself(moving, replace):
    moving.make_folder("a")
    with pytest.raises(Invalid) as caught:
        moving.rename("a", "a/b", replace=replace)
    assert errno_of(caught.value) == errno.EINVAL
    assert names(moving, "a") == set()


def test_time_of_a_folder_can_be_set(moving):
    moving.make_folder("a")
    moving.change("a", Change(mtime_ns=MTIME_NS))
    moving.change("", Change(mtime_ns=MTIME_NS))
    assert moving.stat("a").mtime_ns == moving.stat("").mtime_ns == MTIME_NS


def test_folders_can_be_waited_for(store, name):
    store.sync_folder("")
    if name in MOVES_FOLDERS:
        with pytest.raises(NotFound):
            store.sync_folder("none")


def test_names_that_need_no_codec_are_stored(store, put):
    raw = os.fsdecode(b"latin1-\xe9")
    for key in ("with space", "größe", "100%20", "a+b&c=d?e#f", raw):
        if key == raw and not store.in_place:
            with pytest.raises(NotSupported):
                put(key, b"")
            continue
        put(key, key.encode("utf-8", "surrogateescape"))
        store.rename(key, f"{key}.new", replace=False)
        assert read(store, f"{key}.new") == key.encode("utf-8", "surrogateescape")
