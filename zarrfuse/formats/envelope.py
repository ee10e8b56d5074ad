"""The bytes around the elements of an array in a file.

Made by `tiff` and `npy`, used by the `images` view.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from zarrfuse.errors import Corrupt

PAGE = 4096
"""Elements of whole arrays begin at a multiple of this: the kernel reads whole pages, and a page that
touches a broken chunk cannot be read."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A file: `head`, all elements in C order and little endian, `tail`.

    The last `again` bytes of the elements follow the tail a second time. The size of the tail is known
    without making it: it can be 80 MiB.
    """

    head: bytes
    tail_size: int = 0
    make_tail: Callable[[], bytes] = field(default=bytes, compare=False)
    again: int = 0

    @property
    def tail(self) -> bytes:
        """The bytes after the elements, made by each call."""
        tail = self.make_tail()
        if len(tail) != self.tail_size:
            raise Corrupt(f"{len(tail)} bytes were made, not {self.tail_size}")
        return tail

    def size(self, pixels_size: int) -> int:
        """The size of the file in bytes, for so many bytes of elements."""
        return len(self.head) + pixels_size + self.tail_size + self.again
