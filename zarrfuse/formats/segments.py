"""A file made of several pieces of bytes, read as one.

Owns the arithmetic between the bytes of a file and the pieces it is made of. Used by the views, and by
`fuse`, which asks what is `Rendered`. It implements `stores.base.Reader`, so whoever reads a file
need not know whether it is one stored key or a hundred pieces.
"""

import errno
from collections.abc import Iterable, Sequence

from zarrfuse.errors import Corrupt, Stale
from zarrfuse.spec.concat_parts import Layout
from zarrfuse.stores.access import Access, of_parts
from zarrfuse.stores.base import Reader, Store


class Literal(Reader):
    """Bytes held in memory; a whole file or one segment of it."""

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
        """See `stores.base.Reader`; always at hand."""
        buffer[:] = self._data[offset : offset + len(buffer)]

    def close(self) -> None:
        """Nothing is held."""


class Stored(Reader):
    """A whole stored key as a segment, opened for each read.

    For files of so many segments that holding them all open would use up the descriptors. `opened` is the
    key as it was opened once; the caller closes it. It tells which file all reads have to find.
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
        """See `stores.base.Reader`. Never at hand. Raises `Stale` when the key has changed since."""
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
        """Whether `reader` is the file of before, with the size and time of before."""
        seen = reader.size, reader.mtime_ns, reader.identity
        return seen == (self.size, self.mtime_ns, self._identity)

    def close(self) -> None:
        """Nothing is held."""


def identity_of(parts: Iterable[int]) -> int:
    """`Entry.identity` of a file made of parts, from theirs, in any order; 0 if one is not told."""
    identities = sorted(parts)
    if not identities or not identities[0]:
        return 0
    return identities[0] if len(identities) == 1 else hash(tuple(identities))


class Segmented(Reader):
    """Segments one behind the other. Closing it closes them.

    `mtime_ns` is that of the newest unless given.
    """

    __slots__ = ("_layout", "_segments", "access", "identity", "mtime_ns", "size")

    def __init__(self, segments: Sequence[Reader], mtime_ns: int | None = None) -> None:
        self._segments = segments
        self._layout = Layout([segment.size for segment in segments])
        self.size = self._layout.size
        self.access = of_parts(segment.access for segment in segments)
        self.identity = identity_of(segment.identity for segment in segments)
        if mtime_ns is None:
            mtime_ns = max((segment.mtime_ns for segment in segments), default=0)
        self.mtime_ns = mtime_ns

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `stores.base.Reader`."""
        filled = 0
        for index, start, count in self._layout.pieces(offset, len(buffer)):
            piece = buffer[filled : filled + count]
            self._segments[index].readinto(piece, start, wait=wait)
            filled += count

    def close(self) -> None:
        """Close every segment."""
        for segment in self._segments:
            segment.close()


class Rendered(Reader):
    """A file that is made of others when it is read.

    `lasting`: as long as it has the same size and time it has the same bytes, so that kernels may keep
    them from one opening to the next.
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
        """Close what it is made of."""
        self._reader.close()


class Broken(Reader):
    """A file that is there and cannot be read: every read raises `Corrupt` with the reason."""

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
