"""Files that are pixels with something around them: a header, IFDs behind, a plane once more.

Owns which of these bytes are kept. Used by `arrays` for whole arrays and by `chunk_files` for chunks.
It must not know where pixels come from.
"""

from collections.abc import Callable, Sequence
from math import prod

from zarrfuse.formats.envelope import Envelope
from zarrfuse.formats.segments import Literal, Segmented
from zarrfuse.stores.base import Reader
from zarrfuse.views.images.lazy_bytes import LazyBytes
from zarrfuse.views.images.regions import Slices

_KEPT = 64 << 10
"""A part of so many bytes is held; a larger one is made when it is read."""


class Framed:
    """Files of arrays of one shape, whose elements have `itemsize` bytes.

    `make` makes what is around the elements, always the same; it is called once here, and raises what
    it raises. `size` is that of each file, `kept_bytes` what is held for all of them.
    """

    def __init__(self, shape: Sequence[int], itemsize: int, make: Callable[[], Envelope]) -> None:
        made = make()
        self.size = made.size(prod(shape) * itemsize)
        self._last = last_of(shape, made.again // itemsize) if made.again else None
        self._head = _part(made, make, lambda around: around.head, len(made.head))
        self._tail = _part(made, make, lambda around: around.tail, made.tail_size)
        self.kept_bytes = sum(size for size in (len(made.head), made.tail_size) if size <= _KEPT)

    def file(
        self, pixels: Reader | None, pixels_of: Callable[[Slices], Reader], mtime_ns: int
    ) -> Reader:
        """One of the files. `pixels` are its elements, `pixels_of` makes a reader of a box of them."""
        segments = [self._head(mtime_ns), pixels, self._tail(mtime_ns)]
        if self._last is not None:
            segments.append(pixels_of(self._last))
        return Segmented([segment for segment in segments if segment is not None and segment.size])


def _part(
    made: Envelope, make: Callable[[], Envelope], part: Callable[[Envelope], bytes], size: int
) -> Callable[[int], Reader]:
    """Makes a segment of a part of `made`, which has so many bytes, with a modification time (ns)."""
    if size <= _KEPT:
        data = part(made)
        return lambda mtime_ns: Literal(data, mtime_ns)
    key = object()
    return lambda mtime_ns: LazyBytes(size, mtime_ns, lambda: part(make()), key)


def last_of(shape: Sequence[int], count: int) -> Slices:
    """The box of the last `count` elements of an array, which are whole planes or rows of it."""
    box: list[slice] = []
    for length in reversed(shape):
        box.append(slice(0, length) if count > 1 else slice(length - 1, length))
        count //= length
    return tuple(reversed(box))
