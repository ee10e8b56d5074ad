"""What stands around the elements of an array in a file of it.

Shared by `tiff` and `npy`, and used by `images`, which has the elements.
"""

from dataclasses import dataclass

PAGE = 4096
"""Elements of whole arrays begin at a multiple of it: the kernel reads pages of memory, and one of
which a chunk cannot be decoded is an error as a whole."""


@dataclass(frozen=True, slots=True)
class Around:
    """A file is `head`, all elements in C order and little endian, `tail`, and then the last `again`
    bytes of the elements once more."""

    head: bytes
    tail: bytes = b""
    again: int = 0

    def size(self, pixels_size: int) -> int:
        """Of the file, in bytes, of that many bytes of elements."""
        return len(self.head) + pixels_size + len(self.tail) + self.again
