"""What stands around the elements of an array in a file of it.

Shared by `tiff` and `npy`, and used by `images`, which has the elements.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from zarrfuse.errors import Corrupt

PAGE = 4096
"""Elements of whole arrays begin at a multiple of it: the kernel reads pages of memory, and one of
which a chunk cannot be decoded is an error as a whole."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A file: `head`, all elements in C order and little endian, `tail`.

    The last `again` bytes of the elements stand behind the tail once more. The size of the tail is known
    without making it: it can be 80 MiB long.
    """

    head: bytes
    tail_size: int = 0
    make_tail: Callable[[], bytes] = field(default=bytes, compare=False)
    again: int = 0

    @property
    def tail(self) -> bytes:
        """The bytes behind the elements, made each time."""
        tail = self.make_tail()
        if len(tail) != self.tail_size:
            raise Corrupt(f"{len(tail)} bytes were made, not {self.tail_size}")
        return tail

    def size(self, pixels_size: int) -> int:
        """Of the file, in bytes, of that many bytes of elements."""
        return len(self.head) + pixels_size + self.tail_size + self.again
