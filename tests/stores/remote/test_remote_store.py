"""What a remote store asks of its server, and what it keeps."""

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from builders.readers import read_range
from builders.server_in_memory import ServerInMemory

from zarrfuse.config import RemoteConfig
from zarrfuse.errors import NotAFolder, NotFound, Stale, TimedOut
from zarrfuse.stores.base import UNKNOWN_SIZE, Kind, opened, read
from zarrfuse.stores.remote.disk import BLOCK_BYTES
from zarrfuse.stores.remote.requests import Found, TryAgain
from zarrfuse.stores.remote.store import RemoteStore

BIG = random.Random(1).randbytes(40 * BLOCK_BYTES + 12345)
SOON_S = 10.0


def make(server: ServerInMemory, **config) -> RemoteStore:
    return RemoteStore(server, RemoteConfig(**config))


def wait_for(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + SOON_S
    while not is_so():
        assert time.monotonic() < until, "it did not come to be"
        time.sleep(0.005)


def chunks(count: int, size: int = 100) -> dict[str, bytes]:
    return {f"c/{number}": bytes([number % 256]) * size for number in range(count)}


def test_a_folder_is_listed_once_for_all_its_names():
    server = ServerInMemory(chunks(500))
    store = make(server)
    assert len(store.list("c")) == 500
    for number in range(500):
        assert store.stat(f"c/{number}", wait=False).size == 100
    with pytest.raises(NotFound):
        store.stat("c/500", wait=False)
    assert server.counts == {"list": 1}


def test_a_look_up_in_a_folder_that_is_not_listed_asks_and_lists():
    server = ServerInMemory(chunks(50))
    store = make(server)
    assert store.stat("c/7").size == 100
    wait_for(lambda: server.at_once == 0)
    assert server.counts == {"find": 1, "list": 1}
    assert store.stat("c/8", wait=False).size == 100


def test_a_listing_that_takes_long_holds_up_no_look_up():
    server = ServerInMemory(chunks(5), trouble=lambda what, _: 3600.0 if what == "list" else None)
    store = make(server)
    assert store.stat("c/3").size == 100
    assert read(store, "c/4") == bytes([4]) * 100


def test_a_look_up_that_stalls_is_answered_by_the_listing():
    server = ServerInMemory(chunks(5), trouble=lambda what, _: 3600.0 if what == "find" else None)
    assert make(server).stat("c/3").size == 100


def test_absence_is_kept():
    server = ServerInMemory(chunks(5))
    store = make(server)
    for _ in range(3):
        for key in ("c/9", "d/e/f"):
            with pytest.raises(NotFound):
                store.stat(key)
        with pytest.raises(NotFound):
            store.list("nothing")
    before = len(server.asked)
    with pytest.raises(NotFound):
        store.stat("c/9", wait=False)
    with pytest.raises(NotFound):
        store.list("nothing")
    assert len(server.asked) == before


def test_what_is_kept_is_asked_for_again_after_its_time():
    server = ServerInMemory(chunks(2))
    store = make(server, ttl_s=0.2)
    assert set(store.list("c")) == {"0", "1"}
    server.files["c/2"] = b"new"
    assert set(store.list("c")) == {"0", "1"}
    time.sleep(0.25)
    assert set(store.list("c")) == {"0", "1", "2"}


def test_nothing_is_kept_without_a_time():
    server = ServerInMemory(chunks(2))
    store = make(server, ttl_s=0.0)
    assert store.stat("c/1").size == 100
    server.files["c/1"] = b"new"
    assert store.stat("c/1").size == 3
    with pytest.raises(NotFound):
        store.stat("c/2")
    assert set(store.list("c")) == {"0", "1"}


def test_a_file_is_no_folder():
    with pytest.raises(NotAFolder):
        make(ServerInMemory(chunks(2))).list("c/1")


def test_bytes_are_fetched_once():
    server = ServerInMemory({"big": BIG})
    store = make(server)
    assert read(store, "big") == BIG
    fetched = sum(stop - start for what, _, start, stop in server.asked if what == "get")
    assert fetched == len(BIG)
    assert read(store, "big") == BIG
    assert sum(stop - start for what, _, start, stop in server.asked if what == "get") == fetched


def test_threads_that_want_the_same_bytes_fetch_them_once():
    server = ServerInMemory({"big": BIG}, latency_s=0.05)
    store = make(server)
    with opened(store, "big") as reader, ThreadPoolExecutor(16) as pool:
        offset = 20 * BLOCK_BYTES + 5
        for done in [pool.submit(read_range, reader, offset, 1000) for _ in range(16)]:
            assert done.result() == BIG[offset : offset + 1000]
    assert sum(1 for what, _, start, _ in server.asked if start == 20 * BLOCK_BYTES) == 1


def test_a_file_that_is_read_in_order_is_fetched_ahead_many_at_a_time():
    server = ServerInMemory({"big": BIG}, latency_s=0.05)
    store = make(server)
    with opened(store, "big") as reader:
        for offset in range(0, len(BIG), 1 << 17):
            size = min(1 << 17, len(BIG) - offset)
            assert read_range(reader, offset, size) == BIG[offset : offset + size]
    assert 4 <= server.most_at_once <= 16
    assert server.counts["get"] < 24


def test_a_few_random_reads_fetch_little_more():
    server = ServerInMemory({"big": BIG})
    store = make(server)
    with opened(store, "big") as reader:
        for index in (30, 5, 21, 13, 37):
            offset = index * BLOCK_BYTES + 77
            assert read_range(reader, offset, 1000) == BIG[offset : offset + 1000]
    fetched = sum(stop - start for what, _, start, stop in server.asked if what == "get")
    assert fetched <= 6 * BLOCK_BYTES


def test_a_file_that_is_read_everywhere_is_fetched_in_larger_pieces():
    server = ServerInMemory({"big": BIG}, latency_s=0.02)
    store = make(server)
    with pytest.raises(NotFound):
        store.stat("nothing/there")  # from which it learns how long the way is
    chance = random.Random(3)
    with opened(store, "big") as reader:
        for _ in range(200):
            offset = chance.randrange(len(BIG) - 1000)
            assert read_range(reader, offset, 1000) == BIG[offset : offset + 1000]
    assert server.counts["get"] < 41  # the number of blocks


def test_memory_stays_within_the_cache():
    server = ServerInMemory({"big": BIG})
    store = make(server, cache_bytes=8 * BLOCK_BYTES)
    assert read(store, "big") == BIG
    assert store.cache is not None
    assert store.cache.status()["bytes"] <= 8 * BLOCK_BYTES


def test_blocks_are_kept_on_the_disk(tmp_path):
    folder = str(tmp_path / "cache")
    server = ServerInMemory({"big": BIG})
    store = make(server, cache_dir=folder)
    assert read(store, "big") == BIG
    wait_for(lambda: store.status()["disk"]["bytes"] > len(BIG))
    store.close()
    again = ServerInMemory({"big": BIG})
    assert read(make(again, cache_dir=folder), "big") == BIG
    assert again.counts["get"] == 0


def test_blocks_of_one_server_are_not_those_of_another(tmp_path):
    """Versions do not tell servers apart: many are no hash of the bytes."""

    def bytes_of(server: str, data: bytes) -> bytes:
        files = ServerInMemory({"key": data})
        files.found = lambda _: Found(len(data), 1, "1")  # type: ignore[method-assign]
        store = RemoteStore(files, RemoteConfig(cache_dir=str(tmp_path)), server=server)
        told = read(store, "key")
        wait_for(lambda: store.status()["disk"]["bytes"] > 0)
        return told

    assert bytes_of("http://a", b"one") == b"one"
    assert bytes_of("http://b", b"two") == b"two"


def test_what_has_no_version_is_not_kept_on_the_disk(tmp_path):
    for data in (b"old", b"new"):
        server = ServerInMemory({"key": data}, has_versions=False)
        store = make(server, cache_dir=str(tmp_path), ttl_s=float("inf"))
        assert read(store, "key") == data
        store._blocks._threads.shutdown()


def test_a_changed_object_is_not_taken_from_the_disk(tmp_path):
    folder = str(tmp_path / "cache")
    store = make(ServerInMemory({"key": b"old" * 100}), cache_dir=folder)
    assert read(store, "key") == b"old" * 100
    wait_for(lambda: store.status()["disk"]["bytes"] > 0)
    assert (
        read(make(ServerInMemory({"key": b"new" * 100}), cache_dir=folder), "key") == b"new" * 100
    )


def test_an_object_that_changes_while_it_is_open_is_stale():
    server = ServerInMemory({"big": BIG})
    store = make(server)
    with opened(store, "big") as reader:
        assert read_range(reader, 0, 100) == BIG[:100]
        server.files["big"] = BIG[::-1]
        with pytest.raises(Stale):
            read_range(reader, 30 * BLOCK_BYTES, 100)
    assert read(store, "big") == BIG[::-1]


def test_an_object_that_changed_since_it_was_listed_opens_as_it_is():
    server = ServerInMemory(chunks(3))
    store = make(server)
    store.list("c")
    server.files["c/1"] = b"another"
    assert read(store, "c/1") == b"another"


def test_objects_that_cannot_be_told_apart_are_not_kept(tmp_path):
    server = ServerInMemory({"key": b"old"}, has_versions=False)
    store = make(server, ttl_s=60.0, cache_dir=str(tmp_path))
    assert read(store, "key") == b"old"
    server.files["key"] = b"new"
    assert read(store, "key") == b"new"
    assert store.cache is not None
    assert store.cache.status()["bytes"] == 0
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_small_files_that_are_opened_in_order_are_fetched_ahead():
    server = ServerInMemory(chunks(300, 5000), latency_s=0.01)
    store = make(server)
    store.list("c")
    for number in range(300):
        assert read(store, f"c/{number}") == bytes([number % 256]) * 5000
    assert server.most_at_once > 8
    assert server.counts["get"] <= 300


def test_folders_that_are_listed_in_order_are_listed_ahead():
    server = ServerInMemory(
        {f"c/{row}/{column}": b"x" for row in range(40) for column in range(3)}, latency_s=0.01
    )
    store = make(server)
    store.list("c")
    for row in range(40):
        assert len(store.list(f"c/{row}")) == 3
    assert server.most_at_once > 4
    assert server.counts["list"] == 41


def test_a_small_file_is_not_fetched_ahead_of_random_opens():
    server = ServerInMemory(chunks(1000))
    store = make(server)
    store.list("c")
    for number in random.Random(1).sample(range(0, 1000, 40), 20):
        read(store, f"c/{number}")
    assert server.counts["get"] == 20


def test_names_that_are_listed_without_being_known_are_asked_for_when_somebody_looks():
    server = ServerInMemory(chunks(1000), lists_all=False)
    store = make(server)
    entries = store.list("c")
    assert {entry.size for entry in entries.values()} == {UNKNOWN_SIZE}
    assert server.counts == {"list": 1}
    assert store.stat("c/7").size == 100
    assert server.counts == {"list": 1, "find": 1}


def test_sizes_that_are_asked_for_in_order_are_asked_for_ahead():
    server = ServerInMemory(chunks(300), lists_all=False, latency_s=0.01)
    store = make(server)
    store.list("c")
    for number in range(300):
        assert store.stat(f"c/{number}").size == 100
    assert server.most_at_once > 8
    assert server.counts["find"] == 300


def test_a_name_that_no_listing_has_can_still_be_reached():
    server = ServerInMemory(chunks(3), lists_all=False)
    store = make(server)
    store.list("c")
    store.list("")
    server.files["c/hidden"] = b"here"
    server.files["else/zarr.json"] = b"{}"
    assert read(store, "c/hidden") == b"here"
    assert set(store.list("else")) == {"zarr.json"}


def test_a_stalled_request_holds_up_nobody_else():
    server = ServerInMemory(chunks(40), trouble=lambda _, path: 3600.0 if path == "c/0" else None)
    store = make(server, timeout_s=3.0)
    store.list("c")
    failed = threading.Event()

    def stall() -> None:
        with pytest.raises(TimedOut):
            read(store, "c/0")
        failed.set()

    stalled = threading.Thread(target=stall)
    stalled.start()
    for number in range(1, 40):
        assert read(store, f"c/{number}") == bytes([number]) * 100
    assert not failed.is_set()
    stalled.join(30)
    assert failed.is_set()


def test_what_fails_now_and_then_is_read_right():
    chance = random.Random(5)
    server = ServerInMemory(
        {"big": BIG}, trouble=lambda *_: TryAgain("503", 0.01) if chance.random() < 0.2 else None
    )
    assert read(make(server), "big") == BIG


def test_a_body_that_is_cut_off_is_fetched_again():
    class Cutting(ServerInMemory):
        async def get(self, path, start, stop, of):
            data = await super().get(path, start, stop, of)
            return data[:-1] if self.counts["get"] % 2 else data

    assert read(make(Cutting({"big": BIG})), "big") == BIG


def test_a_store_is_closed_once_and_its_server_with_it():
    server = ServerInMemory(chunks(1))
    store = make(server)
    store.close()
    store.close()
    assert server.is_closed


def test_a_folder_that_takes_long_to_list_does_not_hold_up_what_is_no_file():
    server = ServerInMemory(
        {**chunks(5), "c/below/x": b"x"},
        trouble=lambda what, path: 3600.0 if (what, path) == ("list", "c") else None,
    )
    store = make(server, timeout_s=5.0)
    assert store.stat("c/below").kind is Kind.FOLDER
    with pytest.raises(NotFound):
        store.stat("c/9")


def test_a_folder_with_too_many_names_to_keep_is_not_listed_for_each_look_up(monkeypatch):
    monkeypatch.setattr("zarrfuse.stores.remote.listings._MOST_NAMES", 100)
    server = ServerInMemory(chunks(200))
    store = make(server)
    for number in range(190, 210):
        if number < 200:
            assert store.stat(f"c/{number}").size == 100
            wait_for(lambda: server.at_once == 0)
        else:
            with pytest.raises(NotFound):
                store.stat(f"c/{number}")
    assert len([1 for what, path, *_ in server.asked if (what, path) == ("list", "c")]) == 1


@pytest.mark.parametrize("name", ["\udcff" * 200, "9" * 5000])
def test_a_name_that_is_no_text_or_number_spoils_no_other(name):
    server = ServerInMemory({f"c/{name}": b"a", "c/1": b"b", "c/2": b"c"})
    store = make(server)
    assert {"1", "2"} <= set(store.list("c"))
    assert read(store, "c/1") + read(store, "c/2") == b"bc"


def test_a_server_that_claims_a_file_without_end_holds_nobody_up_at_its_close():
    server = ServerInMemory({"big": b"x" * BLOCK_BYTES}, has_versions=False)
    server.found = lambda _: Found(1 << 60, 0, None)  # type: ignore[method-assign]
    store = make(server)
    reader = store.open("big")
    assert read_range(reader, 0, 3) == b"xxx"
    closing = threading.Thread(target=reader.close, daemon=True)
    closing.start()
    closing.join(SOON_S)
    assert not closing.is_alive()
    assert store.cache.status()["values"] == 0


def test_many_listings_that_stall_hold_up_no_file():
    server = ServerInMemory(
        {f"{number}/x": b"x" for number in range(100)},
        trouble=lambda what, _: 3600.0 if what == "list" else None,
    )
    store = make(server, timeout_s=5.0)
    for number in range(100):
        assert read(store, f"{number}/x") == b"x"


def test_a_folder_that_the_listing_above_lacks_is_not_asked_for():
    server = ServerInMemory({**chunks(2), "file": b"x"})
    store = make(server)
    store.list("")
    with pytest.raises(NotFound):
        store.list("nothing")
    with pytest.raises(NotAFolder):
        store.list("file")
    assert server.counts == {"list": 1}


def test_a_part_that_was_replaced_makes_the_others_be_looked_up():
    server = ServerInMemory({"c/0": b"old" * 100, "c/0.index": b"old"})
    store = make(server)
    store.list("c")
    assert read(store, "c/0") == b"old" * 100  # so it is cached, and the other part is not
    wait_for(lambda: server.at_once == 0)
    store.cache.drop((store.open("c/0.index").remote, 0))  # type: ignore[union-attr,attr-defined]
    server.files.update({"c/0": b"new" * 100, "c/0.index": b"new"})
    with opened(store, "c/0") as first, opened(store, "c/0.index") as second:
        assert read_range(second, 0, 3) == b"new"
        assert not store.is_still("c/0", first)
        assert store.is_still("c/0.index", second)
    assert read(store, "c/0") == b"new" * 100
