"""A new file of a local store before it has its name: what is in it.

Owns the copying of bytes. Used by `local_writing`. All goes by descriptors: names may be another file by
now. Owner and mode are `ownership`'s.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from zarrfuse.errors import Stale
from zarrfuse.stores.descriptor import closing_on_error, copied_by_kernel, write_full

_COPIED_AT_ONCE = 1 << 20


def status_of(folder: int, name: str) -> os.stat_result | None:
    """What is under a name, not followed; None where there is nothing."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def inode_of(status: os.stat_result) -> tuple[int, int]:
    """Which file it is."""
    return status.st_dev, status.st_ino


def write_new(
    fd: int,
    name: str,
    source: int,
    start: int,
    stop: int,
    *,
    sync: bool,
    mtime_ns: int | None = None,
    dress: Callable[[int], None] | None = None,
) -> tuple[int, int]:
    """Write bytes [start, stop) of `source` to a new file and close it; which file that is (`inode_of`).

    `dress` gives the file its owner and mode; `name` is for messages.
    """
    with closing_on_error(fd):
        inode = inode_of(os.fstat(fd))
        _copy(source, start, stop, fd, name)
        if dress is not None:
            dress(fd)
        if mtime_ns is not None:
            os.utime(fd, ns=(mtime_ns, mtime_ns))
        if sync:
            os.fsync(fd)
    os.close(fd)  # an error says that bytes were not written
    return inode


def _copy(source: int, start: int, stop: int, target: int, name: str) -> None:
    """Copy bytes [start, stop) of one file to the beginning of another, in the kernel if it can."""
    at = start + copied_by_kernel(source, start, stop, target)
    while at < stop:
        data = os.pread(source, min(_COPIED_AT_ONCE, stop - at), at)
        if not data:
            raise Stale(f"the bytes for {name} end at {at}, they were to end at {stop}")
        write_full(target, data, at - start, name)
        at += len(data)


@contextmanager
def discarding_on_error(folder: int, name: str) -> Iterator[None]:
    """Delete a new file if the block raises."""
    try:
        yield
    except BaseException:
        with suppress(OSError):  # there is an error on the way already
            os.unlink(name, dir_fd=folder)
        raise
