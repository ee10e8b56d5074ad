"""Who waits for a sync of a folder gets one that began after he asked, and shares it with others."""

import threading
from collections import Counter

import pytest

from zarrfuse.stores.local.shared_syncs import SharedSyncs

THREADS = 20


class SlowDisk:
    """Counts syncs; the first lasts until it may end."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Event()
        self.count: Counter[str] = Counter()

    def sync(self, key: str) -> None:
        self.count[key] += 1
        self.begun.release()
        assert self.may_end.wait(20)


def test_those_who_ask_during_a_sync_share_the_next(disk: SlowDisk) -> None:
    syncs = SharedSyncs(disk.sync)
    first = threading.Thread(target=syncs.wait, args=("c",))
    first.start()
    assert disk.begun.acquire(timeout=20)
    others = [threading.Thread(target=syncs.wait, args=("c",)) for _ in range(THREADS)]
    for thread in others:
        thread.start()
    while syncs._folders["c"].users <= THREADS:
        pass
    assert disk.count["c"] == 1
    assert all(thread.is_alive() for thread in others)
    disk.may_end.set()
    for thread in (first, *others):
        thread.join(20)
    assert disk.count["c"] == 2
    assert not syncs._folders


def test_folders_do_not_wait_for_each_other(disk: SlowDisk) -> None:
    syncs = SharedSyncs(disk.sync)
    threads = [threading.Thread(target=syncs.wait, args=(key,)) for key in "ab"]
    for thread in threads:
        thread.start()
    assert all(disk.begun.acquire(timeout=20) for _ in threads)
    disk.may_end.set()
    for thread in threads:
        thread.join(20)


def test_all_who_share_a_sync_are_told_that_it_failed() -> None:
    begun, may_end, told = threading.Event(), threading.Event(), []

    def sync(key: str) -> None:
        begun.set()
        assert may_end.wait(20)
        raise OSError(5, "the disk is broken")

    syncs = SharedSyncs(sync)

    def wait() -> None:
        with pytest.raises(OSError, match="the disk is broken") as caught:
            syncs.wait("c")
        told.append(caught.value.errno)

    threads = [threading.Thread(target=wait) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    assert begun.wait(20)
    may_end.set()
    for thread in threads:
        thread.join(20)
    assert told == [5] * THREADS


@pytest.fixture
def disk() -> SlowDisk:
    return SlowDisk()
