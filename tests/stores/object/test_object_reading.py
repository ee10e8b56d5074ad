"""Objects are read in blocks, in parallel, and only once; one that changes while it is open is stale.

Against a real server (`object_server`), changed behind the store's back as others would.
"""

import errno
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from builders.object_server import PAGE
from builders.readers import read_range
from builders.stores import put_bytes
from stored_objects import BIG

from zarrfuse.errors import Stale, errno_of
from zarrfuse.stores.base import opened, read
from zarrfuse.stores.object.reader import BLOCK_BYTES


def gets_of(store, monkeypatch) -> list[tuple[int, int]]:
    """The ranges that the store will be asked for, as they are asked."""
    asked: list[tuple[int, int]] = []
    bucket = store._bucket
    get = bucket.get

    def recorded(path, start, stop, of):
        asked.append((start, stop))
        return get(path, start, stop, of)

    monkeypatch.setattr(bucket, "get", recorded)
    return asked


# -- reading


def test_any_range_equals_that_slice_over_blocks_and_past_them(store, bucket):
    bucket.put("key", BIG)
    chance = random.Random(2)
    edges = [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 4 * BLOCK_BYTES, len(BIG)]
    ranges = [(a, b) for a in edges for b in edges if a <= b]
    ranges += [sorted(chance.choices(range(len(BIG)), k=2)) for _ in range(20)]
    for reread in (False, True):
        with opened(store, "key") as shared:
            for start, stop in ranges:
                assert read_range(shared, start, stop - start) == BIG[start:stop]
                if reread:
                    with opened(store, "key") as reader:
                        assert read_range(reader, start, stop - start) == BIG[start:stop]


def test_front_to_back_takes_few_requests(store, bucket, monkeypatch):
    bucket.put("key", BIG)
    asked = gets_of(store, monkeypatch)
    step = 128 << 10
    with opened(store, "key") as reader:
        pieces = [
            read_range(reader, at, min(step, len(BIG) - at)) for at in range(0, len(BIG), step)
        ]
    assert b"".join(pieces) == BIG
    assert [(0, BLOCK_BYTES), (BLOCK_BYTES, 5 * BLOCK_BYTES), (5 * BLOCK_BYTES, len(BIG))] == asked


def test_many_who_want_one_block_make_one_request(store, bucket, monkeypatch):
    bucket.put("key", BIG)
    asked = gets_of(store, monkeypatch)
    with opened(store, "key") as reader, ThreadPoolExecutor(16) as threads:
        done = [threads.submit(read_range, reader, at * 1000, 1000) for at in range(200)]
        assert b"".join(one.result() for one in done) == BIG[:200_000]
    assert asked == [(0, BLOCK_BYTES)]


def test_what_is_in_memory_is_bounded(store, bucket):
    bucket.put("key", bytes(20 * BLOCK_BYTES))
    with opened(store, "key") as reader:
        for at in range(20):
            read_range(reader, at * BLOCK_BYTES, 10)
        assert sum(map(len, reader._blocks.values())) <= 16 * BLOCK_BYTES
        assert read_range(reader, 19 * BLOCK_BYTES, 10, wait=False) == bytes(10)
        with pytest.raises(BlockingIOError):
            read_range(reader, 0, 10, wait=False)


def test_nothing_is_answered_without_waiting_before_it_was_fetched(store, bucket):
    bucket.put("folder/key", b"bytes")
    for ask in (store.open, store.stat):
        with pytest.raises(BlockingIOError):
            ask("folder/key", wait=False)
    with opened(store, "folder/key") as reader:
        with pytest.raises(BlockingIOError):
            read_range(reader, 0, 5, wait=False)
        assert read_range(reader, 0, 5) == b"bytes"
        assert read_range(reader, 1, 3, wait=False) == b"yte"


def test_empty_object_is_read_without_a_request(store, bucket, monkeypatch):
    bucket.put("empty", b"")
    asked = gets_of(store, monkeypatch)
    assert read(store, "empty") == b""
    assert asked == []


def test_listing_of_many_pages_is_whole(store, bucket):
    names = {f"{number:04}" for number in range(2 * PAGE + 7)}
    for name in names:
        bucket.put(f"folder/{name}", b"x")
    assert set(store.list("folder")) == names
    assert set(store.list("")) == {"folder"}


def test_objects_stored_in_one_second_differ_in_their_times(store, bucket):
    bucket.put("key", b"first")
    first = store.stat("key")
    bucket.put("key", b"other")
    other = store.stat("key")
    assert first.mtime_ns != other.mtime_ns
    assert other == store.list("")["key"]


# -- what changes while it is open


@pytest.mark.parametrize("change", ["other bytes", "fewer bytes", "deleted"])
def test_object_that_others_change_is_stale(store, bucket, change):
    bucket.put("key", BIG)
    with opened(store, "key") as reader:
        assert read_range(reader, 0, 10) == BIG[:10]
        match change:
            case "other bytes":
                bucket.put("key", bytes(len(BIG)))
            case "fewer bytes":
                bucket.put("key", b"x")
            case "deleted":
                bucket.delete("key")
        for size in (10, len(BIG) - 2 * BLOCK_BYTES):
            with pytest.raises(Stale) as caught:
                read_range(reader, 2 * BLOCK_BYTES, size)
            assert errno_of(caught.value) == errno.ESTALE


@pytest.mark.parametrize("change", ["put", "remove", "rename over", "rename away"])
def test_reader_keeps_its_bytes_when_this_process_changes_the_object(store, bucket, change):
    bucket.put("key", BIG)
    bucket.put("other", b"other")
    readers = [store.open("key") for _ in range(3)]
    assert read_range(readers[0], BLOCK_BYTES, 10) == BIG[BLOCK_BYTES : BLOCK_BYTES + 10]
    match change:
        case "put":
            put_bytes(store, "key", b"new")
        case "remove":
            store.remove("key")
        case "rename over":
            store.rename("other", "key")
        case "rename away":
            store.rename("key", "new")
    bucket.delete("key")
    for reader in readers:
        assert read_range(reader, 0, len(BIG)) == BIG
        assert read_range(reader, len(BIG) - 5, 5, wait=False) == BIG[-5:]
        reader.close()
        reader.close()


def test_reader_stays_stale_when_this_process_changes_what_others_changed(store, bucket):
    bucket.put("key", b"first")
    with opened(store, "key") as reader:
        bucket.put("key", b"others")
        put_bytes(store, "key", b"ours")
        with pytest.raises(Stale):
            read_range(reader, 0, 5)
    assert read(store, "key") == b"ours"


def test_bucket_that_keeps_versions_keeps_what_is_open(store, bucket, monkeypatch):
    bucket.ask(
        "PUT",
        query="?versioning",
        body=b'<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        b"<Status>Enabled</Status></VersioningConfiguration>",
    )
    bucket.put("key", b"first")
    asked = gets_of(store, monkeypatch)
    with opened(store, "key") as reader:
        bucket.put("key", b"others")
        put_bytes(store, "key", b"ours")
        bucket.delete("key")
        assert asked == []
        assert read_range(reader, 0, 5) == b"first"


def test_who_opens_what_is_being_replaced_never_sees_it_stale_or_mixed(store):
    whole = [bytes([number]) * (100_000 + number) for number in range(4)]
    put_bytes(store, "key", whole[0])
    ended = threading.Event()

    def write(number: int) -> None:
        for _ in range(10):
            put_bytes(store, "key", whole[number])

    def look() -> None:
        while not ended.is_set():
            with opened(store, "key") as reader:
                for at in (50_000, 0):  # two requests would see two objects
                    data = read_range(reader, at, 40_000)
                    assert data == data[:1] * 40_000
                assert reader.size == 100_000 + data[0]

    with ThreadPoolExecutor(6) as threads:
        looking = [threads.submit(look) for _ in range(3)]
        try:
            for done in [threads.submit(write, number) for number in range(1, 4)]:
                done.result()
        finally:
            ended.set()
        for done in looking:
            done.result()
