"""The cache of what was made: how much it keeps, what goes first, each thing made once."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from builders.mounts import wait_for

from zarrfuse.errors import Corrupt
from zarrfuse.stores.cache import ByteCache
from zarrfuse.stores.pool import Budget, Threads


def _bytes(count: int) -> np.ndarray:
    return np.zeros(count, np.uint8)


def test_what_was_used_least_goes_first() -> None:
    cache = ByteCache(100)
    for name in "abc":
        cache.put(name, _bytes(30))
    assert cache.get("a") is not None
    cache.put("d", _bytes(30))
    assert [name for name in "abcd" if cache.get(name) is not None] == ["a", "c", "d"]
    assert cache.status()["bytes"] == 90


def test_a_value_larger_than_the_cache_is_given_and_not_kept() -> None:
    cache = ByteCache(100)
    cache.put("small", _bytes(10))
    assert cache.fetch("large", lambda: _bytes(101)).nbytes == 101
    assert cache.get("large") is None
    assert cache.get("small") is not None
    assert not cache.put("large", _bytes(101))


def test_cold_values_go_before_others_and_the_last_of_them_first() -> None:
    cache = ByteCache(100)
    for name in "abcde":
        cache.put(name, _bytes(20))
    cache.cool(["c", "d", "missing"])
    cache.put("f", _bytes(20))
    assert cache.get("d") is None
    cache.put("g", _bytes(20))
    assert cache.get("c") is None
    cache.put("h", _bytes(20))
    assert [name for name in "abefgh" if cache.get(name) is not None] == list("befgh")


def test_what_is_used_again_is_no_longer_cold() -> None:
    cache = ByteCache(60)
    for name in "abc":
        cache.put(name, _bytes(20))
    cache.cool(["c"])
    assert cache.get("c") is not None
    cache.put("d", _bytes(20))
    assert cache.get("c") is not None
    assert cache.get("a") is None


def test_what_is_dropped_is_gone_and_its_place_free() -> None:
    cache = ByteCache(100)
    cache.put("a", _bytes(60))
    cache.cool(["a"])
    cache.drop("a")
    cache.drop("a")
    assert cache.get("a") is None
    assert cache.status()["bytes"] == 0


def test_many_who_want_one_thing_have_it_made_once() -> None:
    cache = ByteCache(100)
    made: list[int] = []
    go = threading.Event()

    def make() -> np.ndarray:
        made.append(1)
        assert go.wait(20)
        return _bytes(7)

    with ThreadPoolExecutor(8) as threads:
        wanted = [threads.submit(cache.fetch, "a", make) for _ in range(8)]
        wait_for(lambda: cache._flights["a"].waiting == 7 if cache._flights else False)
        go.set()
        values = [each.result(20) for each in wanted]
    assert made == [1]
    assert all(value is values[0] for value in values)
    assert cache.status()["misses"] == 1


def test_an_error_reaches_all_who_wait_and_is_not_kept() -> None:
    cache = ByteCache(100)
    go = threading.Event()

    def fail() -> np.ndarray:
        assert go.wait(20)
        raise Corrupt("broken")

    with ThreadPoolExecutor(4) as threads:
        wanted = [threads.submit(cache.fetch, "a", fail) for _ in range(4)]
        wait_for(lambda: cache._flights["a"].waiting == 3 if cache._flights else False)
        go.set()
        for each in wanted:
            with pytest.raises(Corrupt, match=r"^broken$"):
                each.result(20)
    assert cache.fetch("a", lambda: _bytes(3)).nbytes == 3


def test_threads_are_bounded_and_end_when_closed() -> None:
    threads = Threads(2, "test-pool")
    go = threading.Event()
    running: list[int] = []

    def work() -> int:
        running.append(1)
        go.wait(20)
        return len(running)

    futures = [threads.submit(work) for _ in range(5)]
    wait_for(lambda: len(running) == 2)
    assert threads.waiting == 3
    threads.shutdown()
    assert [future.cancelled() for future in futures] == [False, False, True, True, True]
    go.set()
    assert [future.result(20) for future in futures[:2]] == [2, 2]
    with pytest.raises(RuntimeError, match="closed"):
        threads.submit(work)
    wait_for(lambda: not any(t.name.startswith("test-pool") for t in threading.enumerate()))


def test_an_error_in_a_thread_is_the_outcome_of_its_call() -> None:
    threads = Threads(1, "test-pool")
    failed = threads.submit(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        failed.result(20)
    assert threads.submit(lambda: 3).result(20) == 3
    threads.shutdown()


def test_bytes_under_way_are_bounded() -> None:
    budget = Budget(100, patience_s=60)
    most: list[int] = []

    def work() -> None:
        with budget.taken(40):
            most.append(budget.taken_bytes)
            time.sleep(0.01)

    with ThreadPoolExecutor(6) as threads:
        for done in [threads.submit(work) for _ in range(12)]:
            done.result(20)
    assert max(most) == 80
    with budget.taken(1000):  # more than there is goes alone
        assert budget.taken_bytes == 1000


def test_what_hangs_does_not_keep_others_waiting() -> None:
    budget = Budget(100, patience_s=0.1)
    with budget.taken(100), budget.taken(100):  # and not only when the other has ended
        assert budget.taken_bytes == 200
