"""Open readers, of stores and of views, read as a mount does it."""

from zarrfuse.stores.base import Reader


def read_range(reader: Reader, offset: int, size: int, *, wait: bool = True) -> bytes:
    """Exactly `size` bytes from `offset` on."""
    buffer = bytearray(size)
    reader.readinto(memoryview(buffer), offset, wait=wait)
    return bytes(buffer)


def read_clipped(reader: Reader, offset: int, size: int, *, wait: bool = True) -> bytes:
    """The bytes of a range that lie before the end: the kernel asks for no others."""
    size = max(min(size, reader.size - offset), 0)
    return read_range(reader, offset, size, wait=wait) if size else b""


def read_all(reader: Reader) -> bytes:
    """All bytes."""
    return read_clipped(reader, 0, reader.size)
