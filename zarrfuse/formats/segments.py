"""Files made of several segments, read as one.

Owns the arithmetic between the bytes of a file and its segments. Used by views, and by `fuse`, which treats
`Rendered` files differently. All are `stores.base.Reader`s, so that callers need not know whether a file is
one stored key or a hundred segments.
"""

import errno
from collections.abc import Iterable, Sequence

from zarrfuse.errors import Corrupt, Stale
from zarrfuse.spec.concat_parts import Layout
from zarrfuse.stores.access import Access, of_parts
from zarrfuse.stores.base import Reader, Store


class Literal(Reader):
    """Bytes in memory: a whole file or one segment of it."""

    __slots__ = ("_data", "access", "identity", "mtime_ns", "size")

    def __init__(
        self, data: bytes, mtime_ns: int = 0, access: Access | None = None, identity: int = 0
    ) -> None:
        self._data = data
        self.access = access
        self.identity = identity
        self.size = len(data)
        self.mtime_ns = mtime_ns

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `stores.base.Reader`; never has to wait."""
        buffer[:] = self._data[offset : offset + len(buffer)]

    def close(self) -> None:
        """Nothing is held."""


class Stored(Reader):
    """A whole stored key as a segment, opened for each read.

    For files with too many segments to keep them all open. `opened`: a reader of the key, which the caller
    closes; every read must find the same file.
    """

    __slots__ = ("_identity", "_key", "_store", "access", "mtime_ns", "size")

    def __init__(self, store: Store, key: str, opened: Reader) -> None:
        self._store = store
        self._key = key
        self._identity = opened.identity
        self.size = opened.size
        self.mtime_ns = opened.mtime_ns
        self.access = opened.access

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `stores.base.Reader`. Always has to wait. Raises `Stale` if the key has changed."""
        if not wait:
            raise BlockingIOError(errno.EAGAIN, "a file has to be opened")
        reader = self._store.open(self._key)
        try:
            if not self.is_of(reader):
                raise Stale(f"{self._key} changed while it was open")
            reader.readinto(buffer, offset)
        finally:
            reader.close()

    def is_of(self, reader: Reader) -> bool:
        """Whether `reader` is the same file, with the same size and time."""
        found = reader.size, reader.mtime_ns, reader.identity
        return found == (self.size, self.mtime_ns, self._identity)

    def close(self) -> None:
        """Nothing is held."""


def identity_of(parts: Iterable[int]) -> int:
    """`Entry.identity` of a file, from those of its parts in any order; 0 if one is not known."""
    identities = sorted(parts)
    if not identities or not identities[0]:
        return 0
    return identities[0] if len(identities) == 1 else hash(tuple(identities))


class Segmented(Reader):
    """Concatenated segments, which it closes. `mtime_ns`: by default the newest of theirs."""

    __slots__ = ("_layout", "_segments", "access", "identity", "is_remote", "mtime_ns", "size")

    def __init__(self, segments: Sequence[Reader], mtime_ns: int | None = None) -> None:
        self._segments = segments
        self._layout = Layout([segment.size for segment in segments])
        self.size = self._layout.size
        self.is_remote = any(segment.is_remote for segment in segments)
        self.access = of_parts(segment.access for segment in segments)
        self.identity = identity_of(segment.identity for segment in segments)
        if mtime_ns is None:
            mtime_ns = max((segment.mtime_ns for segment in segments), default=0)
        self.mtime_ns = mtime_ns

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `stores.base.Reader`."""
        filled = 0
        if wait and self.is_remote and len(self._segments) > 1:
            self.prefetch(offset, offset + len(buffer))
        for index, start, count in self._layout.pieces(offset, len(buffer)):
            piece = buffer[filled : filled + count]
            self._segments[index].readinto(piece, start, wait=wait)
            filled += count

    def prefetch(self, start: int, stop: int) -> None:
        """See `stores.base.Reader`. All segments at once."""
        for index, begin, count in self._layout.pieces(start, stop - start):
            self._segments[index].prefetch(begin, begin + count)

    def close(self) -> None:
        """Close every segment."""
        for segment in self._segments:
            segment.close()


class Rendered(Reader):
    """A file that is made of others when it is read.

    `lasting`: the bytes stay the same as long as size and time do, so the kernel may keep its cached pages
    from one OPEN to the next.
    """

    __slots__ = ("_reader", "access", "lasting", "mtime_ns", "size")

    def __init__(self, reader: Reader, *, lasting: bool, access: Access | None = None) -> None:
        self._reader = reader
        self.lasting = lasting
        self.access = access
        self.size = reader.size
        self.mtime_ns = reader.mtime_ns

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `stores.base.Reader`."""
        self._reader.readinto(buffer, offset, wait=wait)

    def close(self) -> None:
        """Close the reader."""
        self._reader.close()


class Broken(Reader):
    """A file that exists and cannot be read: every read raises `Corrupt` with the reason."""

    __slots__ = ("_reason", "mtime_ns", "size")

    def __init__(self, size: int, mtime_ns: int, reason: str) -> None:
        self._reason = reason
        self.size = size
        self.mtime_ns = mtime_ns

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """Raises `Corrupt`."""
        raise Corrupt(self._reason)

    def close(self) -> None:
        """Nothing is held."""
