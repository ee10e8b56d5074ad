"""Bytes that are made as a whole when one of them is read, and are made again when they are dropped.

Used for PNG files, which take a while to render, and for large headers. They lie in one bounded cache, not
in the open files, of which there may be thousands.
"""

import errno
from collections.abc import Callable, Hashable

from zarrfuse.errors import Corrupt
from zarrfuse.stores.base import Reader
from zarrfuse.stores.cache import ByteCache

_KEPT_BYTES = 96 << 20
"""The largest header has 80 MiB."""

_kept = ByteCache(_KEPT_BYTES)


class LazyBytes(Reader):
    """`size` bytes that `make` makes when they are read; other threads then wait for it.

    `key`: readers with the same key share the bytes. Without one they are dropped when it is closed.
    """

    def __init__(
        self, size: int, mtime_ns: int, make: Callable[[], bytes], key: Hashable = None
    ) -> None:
        self.size = size
        self.mtime_ns = mtime_ns
        self._make = make
        self._key = object() if key is None else key
        self._is_shared = key is not None

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `stores.base.Reader`. Raises what making it raises."""
        data = _kept.fetch(self._key, self._made) if wait else _kept.get(self._key)
        if data is None:
            raise BlockingIOError(errno.EAGAIN, "bytes have to be made")
        buffer[:] = data[offset : offset + len(buffer)]

    def _made(self) -> memoryview:
        data = self._make()
        if len(data) != self.size:
            raise Corrupt(f"{len(data)} bytes were made, not {self.size}")
        return memoryview(data)

    def close(self) -> None:
        """Drop the bytes, unless they are shared."""
        if not self._is_shared:
            _kept.drop(self._key)
