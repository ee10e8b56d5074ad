"""Work that threads do at the same time."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Do `work(number)` in so many threads at once; the first exception is raised here."""
    failed: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


@contextmanager
def meanwhile(*works: Callable[[], None]) -> Iterator[None]:
    """Do all works again and again, each in a thread, until the end of the block; fail if one does."""
    done = threading.Event()
    faults: list[BaseException] = []

    def repeat(work: Callable[[], None]) -> None:
        try:
            while not done.is_set():
                work()
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()
    if faults:
        raise faults[0]
