"""A cache of values that are made of stored bytes: bounded in bytes, and each value is made once.

Owns what is dropped first, and that threads that need the same value wait for the one that makes it. Used
by what decodes chunks or renders files. It must not know what the values are: they have a size (`nbytes`).
"""

import os
import threading
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, cast

from cachetools import LRUCache

from zarrfuse.errors import ZarrfuseError

_LARGEST_DEFAULT = 256 << 20


class Sized(Protocol):
    """A value: numpy arrays and memoryviews are some."""

    @property
    def nbytes(self) -> int:
        """The bytes that it takes."""


V = TypeVar("V", bound=Sized)
R = TypeVar("R")


class Flight(Generic[R]):
    """Work of one thread that others wait for."""

    __slots__ = ("_done", "_error", "_result", "waiting")

    def __init__(self) -> None:
        self._done = threading.Event()
        self._result: R | None = None
        self._error: BaseException | None = None
        self.waiting = 0
        """The number of threads that have begun to wait for it."""

    def land(self, result: R) -> None:
        """Hand the result to all waiting threads."""
        self._result = result
        self._done.set()

    def fail(self, error: BaseException) -> None:
        """Raise the error in all waiting threads."""
        self._error = error
        self._done.set()

    def wait(self) -> R:
        """Wait for the result. Raises the error of the work."""
        self.waiting += 1
        self._done.wait()
        if self._error is not None:
            raise again(self._error)
        return cast("R", self._result)


def again(error: BaseException) -> BaseException:
    """The same error to be raised by another thread: a traceback belongs to one of them."""
    if isinstance(error, OSError) or type(error).__module__ == ZarrfuseError.__module__:
        copied = type(error)(*error.args)
        copied.__cause__ = error
        return copied
    return error


class ByteCache:
    """The last used values, at most `capacity_bytes` in all. For any thread."""

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self._kept = _Kept(capacity_bytes)
        self._lock = threading.Lock()
        self._flights: dict[Hashable, Flight[Any]] = {}
        self.hits = 0
        """Cache hits. Counted without the lock, so a few may be missing."""
        self.misses = 0
        """Cache misses."""

    def get(self, key: Hashable) -> Any | None:
        """The value, or None. It becomes the last used one."""
        with self._lock:
            value = self._kept.get(key)
            if value is not None:
                self._kept.cold.pop(key, None)
            return value

    def put(self, key: Hashable, value: Sized) -> bool:
        """Keep a value, and drop the least used ones; False if it is larger than the cache."""
        if value.nbytes > self.capacity_bytes:
            return False
        with self._lock:
            self._kept.cold.pop(key, None)
            self._kept[key] = value
        return True

    def drop(self, key: Hashable) -> None:
        """Drop a value, if it is cached."""
        with self._lock:
            self._kept.pop(key, None)

    def drop_all(self, is_dropped: Callable[[Hashable], bool]) -> None:
        """Drop the values of those cached keys for which `is_dropped` is true."""
        with self._lock:
            for key in list(filter(is_dropped, self._kept)):
                self._kept.pop(key, None)

    def cool(self, keys: Iterable[Hashable]) -> None:
        """Mark values to be dropped before all others, the last of them first.

        For repeated reads in one order of more than fits into the cache: what was read last is needed again
        last.
        """
        with self._lock:
            for key in keys:
                if key in self._kept:
                    self._kept.cold.pop(key, None)
                    self._kept.cold[key] = None

    def fetch(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value. If it is not cached, one thread makes it, and others that need it wait.

        An error is raised in all of them, and is not cached. A value larger than the cache is returned and
        not cached.
        """
        with self._lock:
            value = self._kept.get(key)
            flight = None if value is not None else self._flights.get(key)
            mine = value is None and flight is None
            if mine:
                flight = self._flights[key] = Flight()
            elif value is not None:
                self._kept.cold.pop(key, None)
        if value is not None:
            self.hits += 1
            return cast("V", value)
        assert flight is not None
        if not mine:
            return cast("V", flight.wait())
        self.misses += 1
        try:
            made = make()
            self.put(key, made)
        except BaseException as error:
            self._end(key)
            flight.fail(error)
            raise
        self._end(key)
        flight.land(made)
        return made

    def _end(self, key: Hashable) -> None:
        with self._lock:
            del self._flights[key]

    def status(self) -> dict[str, int | float]:
        """Sizes and counts, for the control files."""
        with self._lock:
            return {
                "bytes": self._kept.currsize,
                "capacity_bytes": self.capacity_bytes,
                "values": len(self._kept),
                "hits": self.hits,
                "misses": self.misses,
            }


class _Kept(LRUCache[Hashable, Any]):
    """Of the values that are `cold`, the last goes first; if none is, that used least."""

    def __init__(self, capacity_bytes: int) -> None:
        super().__init__(capacity_bytes, getsizeof=lambda value: value.nbytes)
        self.cold: dict[Hashable, None] = {}

    def popitem(self) -> tuple[Hashable, Any]:
        if not self.cold:
            return super().popitem()
        key, _ = self.cold.popitem()
        return key, self.pop(key)

    def __delitem__(self, key: Hashable, *rest: Any) -> None:
        self.cold.pop(key, None)
        super().__delitem__(key, *rest)


def default_cache_bytes() -> int:
    """The default size of a cache of chunks, in bytes.

    A quarter of the memory of this machine or container, and at most 256 MiB.
    """
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        limit = "max"
    if limit.isdigit():
        memory = min(memory, int(limit))
    return min(_LARGEST_DEFAULT, memory // 4)
