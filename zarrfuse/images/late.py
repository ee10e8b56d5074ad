"""A file whose bytes are made as a whole, when the first of them is read.

Used for the PNG, which is small and takes a while to render. Nothing of it is kept once it is closed.
"""

import errno
import threading
from collections.abc import Callable

from zarrfuse.errors import Corrupt


class Late:
    """`size` bytes that `make` makes when they are first read; others then wait for it."""

    def __init__(self, size: int, mtime_ns: int, make: Callable[[], bytes]) -> None:
        self.size = size
        self.mtime_ns = mtime_ns
        self._make = make
        self._data: bytes | None = None
        self._lock = threading.Lock()

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `stores.base.Reader`. Raises what making it raises."""
        data = self._data
        if data is None:
            if not wait:
                raise BlockingIOError(errno.EAGAIN, "a picture has to be rendered")
            with self._lock:
                data = self._data
                if data is None:
                    data = self._make()
                    if len(data) != self.size:
                        raise Corrupt(f"{len(data)} bytes were rendered, not {self.size}")
                    self._data = data
        buffer[:] = data[offset : offset + len(buffer)]

    def close(self) -> None:
        """Let go of the bytes."""
        self._data = None
