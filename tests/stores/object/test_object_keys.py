"""Keys of an object store as names and folders: every letter is kept, folders come and go with keys.

Against a real server (`object_server`), changed behind the store's back as others would.
"""

import errno
from concurrent.futures import ThreadPoolExecutor

import pytest
from builders.stores import put_bytes
from stored_objects import BIG

from zarrfuse.errors import Exists, IsAFolder, NameTooLong, NotFound, NotSupported, errno_of
from zarrfuse.stores.base import OWN_NAME, Entry, Kind, read
from zarrfuse.stores.object import bucket as object_bucket
from zarrfuse.stores.object.folders import Folders

# -- names


ODD_KEYS = [
    "100%",
    "a%20b",
    "a b",
    "a+b",
    "x?y#z&w",
    "größe/日本語",
    "%2e%2e/%2F",
    "back\\slash",
    "~.x",
]


def test_every_letter_of_a_key_is_kept(store, bucket):
    for key in ODD_KEYS:
        if "/" in key:
            store.make_folder(key.partition("/")[0])
        put_bytes(store, key, key.encode())
    assert bucket.all_keys() == sorted(ODD_KEYS)
    for key in ODD_KEYS:
        assert bucket.get(key) == read(store, key) == key.encode()
        folder, _, name = key.rpartition("/")
        assert store.list(folder)[name] == store.stat(key)


def test_prefix_is_taken_letter_by_letter(bucket):
    for prefix in ("a%20b/c+d", "größe", "a b"):
        put_bytes(bucket.store(prefix), "key", b"x")
        assert f"{prefix}/key" in bucket.all_keys()
        assert set(bucket.store(f"/{prefix}/", writable=False).list("")) == {"key"}


def test_folder_with_a_marker_is_a_folder_and_the_marker_is_not_listed(store, bucket):
    bucket.put("a/", b"")
    bucket.put("a/b/", b"")
    bucket.put("a/key", b"")
    assert set(store.list("")) == {"a"}
    assert set(store.list("a")) == {"b", "key"}
    assert store.list("a/b") == {}
    assert store.stat("a/b").kind is Kind.FOLDER
    with pytest.raises(NotSupported, match="a/b/ of s3://"):
        store.remove_folder("a/b")


def test_object_hides_the_folder_of_its_name(store, bucket):
    bucket.put("both", b"bytes")
    bucket.put("both/key", b"")
    assert store.list("")["both"] == store.stat("both")
    assert store.stat("both").kind is Kind.FILE
    assert read(store, "both") == b"bytes"


def test_keys_that_are_no_paths_spoil_only_the_folder_they_are_in(store, bucket):
    bucket.put("/rooted", b"")
    bucket.put("good/key", b"")
    bucket.put("x//y", b"")
    bucket.put("z/../y", b"")
    bucket.put("w/a\x01b", b"")
    bucket.put("n" * 256, b"")
    bucket.put("n" * 255, b"")
    assert set(store.list("")) == {"good", "w", "x", "z", "n" * 255}
    assert set(store.list("good")) == {"key"}
    for folder in "xzw":
        assert store.stat(folder).kind is Kind.FOLDER
        with pytest.raises(NotSupported, match=f"{folder} cannot be listed") as caught:
            store.list(folder)
        assert errno_of(caught.value) == errno.ENOTSUP


@pytest.mark.parametrize("key", ["a\nb", "a\x7f", "x/../y", "./x", "x//y", "latin1-\udce9"])
def test_what_cannot_be_a_key_is_not_there_and_cannot_be_made(store, key):
    for ask in (store.stat, store.open, store.list, store.remove):
        with pytest.raises(NotFound):
            ask(key)
    for make in (store.make_folder, lambda key: put_bytes(store, key, b"")):
        with pytest.raises(NotSupported):
            make(key)


def test_key_that_is_too_long_is_refused(store):
    with pytest.raises(NameTooLong):
        put_bytes(store, "k" * 1025, b"")


def test_own_folder_is_not_listed_at_the_root(store, bucket):
    bucket.put(f"{OWN_NAME}/a.journal", b"")
    bucket.put(f"folder/{OWN_NAME}/key", b"")
    assert set(store.list("")) == {"folder"}
    assert set(store.list(OWN_NAME)) == {"a.journal"}
    assert set(store.list("folder")) == {OWN_NAME}


# -- writing


def test_put_beyond_the_limit_of_one_request_comes_in_parts(store, bucket, monkeypatch):
    monkeypatch.setattr(object_bucket, "SINGLE_PUT_BYTES", len(BIG) - 1)
    monkeypatch.setattr(object_bucket, "_MULTIPART_BYTES", 5 << 20)
    put_bytes(store, "key", BIG)
    assert bucket.get("key") == BIG
    assert bucket.all_keys() == ["key"]
    with pytest.raises(Exists):
        put_bytes(store, "key", bytes(len(BIG)), new=True)
    put_bytes(store, "other", BIG, new=True)
    assert bucket.get("other") == bucket.get("key") == BIG


def test_of_many_links_to_one_name_one_succeeds(store, bucket):
    for number in range(8):
        bucket.put(f"source {number}", b"%d" % number)

    def attempt(number: int) -> int | None:
        try:
            store.link(f"source {number}", "lock")
        except Exists:
            return None
        return number

    with ThreadPoolExecutor(8) as threads:
        won = [number for number in threads.map(attempt, range(8)) if number is not None]
    assert len(won) == 1
    assert bucket.get("lock") == b"%d" % won[0]


def test_folder_goes_on_existing_without_keys_for_who_emptied_it(store, bucket):
    bucket.put("a/b/key", b"")
    store.remove("a/b/key")
    assert bucket.all_keys() == []
    assert store.list("a/b") == {}
    assert set(store.list("a")) == {"b"}
    assert store.stat("a/b").kind is Kind.FOLDER
    with pytest.raises(NotFound):
        bucket.store().stat("a")
    put_bytes(store, "a/b/key", b"")
    assert set(store.list("a/b")) == {"key"}
    store.rename("a/b/key", "key")
    store.remove_folder("a/b")
    assert store.list("a") == {}
    with pytest.raises(NotFound):
        store.stat("a/b")


def test_folder_comes_to_be_with_a_key_and_goes_with_none_but_on_request(store):
    put_bytes(store, "a/b/key", b"bytes")
    store.rename("a/b/key", "c/d/key")
    store.link("c/d/key", "e/key")
    assert {key: set(store.list(key)) for key in ("", "a", "a/b", "c/d", "e")} == {
        "": {"a", "c", "e"},
        "a": {"b"},
        "a/b": set(),
        "c/d": {"key"},
        "e": {"key"},
    }
    with pytest.raises(IsAFolder):
        put_bytes(store, "c", b"")
    with pytest.raises(IsAFolder):
        store.rename("e/key", "c/d")
    with pytest.raises(Exists):
        store.link("e/key", "c/d")


def test_made_folder_is_seen_by_others_once_a_key_is_in_it(store, bucket):
    store.make_folder("a")
    other = bucket.store()
    with pytest.raises(NotFound):
        other.stat("a")
    put_bytes(store, "a/key", b"")
    assert other.stat("a") == Entry("a", Kind.FOLDER, 0, other.stat("").mtime_ns)


def test_of_many_makers_of_one_folder_one_succeeds(store):
    def attempt(_: int) -> bool:
        try:
            store.make_folder("a")
        except Exists:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(attempt, range(8))) == 1


def test_kept_folders_know_those_they_lie_in():
    folders = Folders()
    assert folders.keep("a/b/c")
    assert not folders.keep("a/b")
    assert (folders.names(""), folders.names("a"), folders.names("a/b/c")) == (["a"], ["b"], [])
    folders.drop("a/b/c")
    assert folders.is_kept("a/b")
    assert not folders.is_kept("a/b/c")
    folders.saw("x/y")
    assert folders.is_known("x")
    assert not folders.is_kept("x")
    folders.drop("x/y")
    assert folders.is_kept("x")
    assert not folders.is_known("x/y")
