"""Reads from a descriptor: all that was asked for, and without waiting if that was asked for.

Used by the stores whose bytes lie in files.
"""

import errno
import os

from zarrfuse.errors import Stale


def read_full(fd: int, buffer: memoryview, offset: int, name: str, *, wait: bool) -> None:
    """Fill `buffer` from `offset` on; without waiting, from the page cache alone (`RWF_NOWAIT`).

    Raises `BlockingIOError` for what is not there, and `Stale`, with `name`, where the file ends
    before the buffer is full.
    """
    flags = 0 if wait else os.RWF_NOWAIT
    while buffer:
        try:
            count = os.preadv(fd, (buffer,), offset, flags)
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP and not wait:
                raise BlockingIOError(errno.EAGAIN, "no RWF_NOWAIT here") from None
            raise
        if count == len(buffer):
            return
        if count == 0:
            raise Stale(f"{name} became shorter while it was open")
        buffer = buffer[count:]
        offset += count
