"""Blocks of remote objects on the disk of this machine, which survive restarts.

Owns the folder of `--cache-dir`. Used by `blocks`. A block is one file, named by the hash of what it is a
block of (store, path, version, number). In front are its size and the checksums of its pieces of 64 KiB,
with a checksum over these and the name: a block that is torn or tampered with is deleted, and counts as
missing. A file appears whole, by a rename, so that several mounts may share the folder. What was used least
recently, by the files' times, goes first.

No library fits: those of the field unpickle what they find, keep blocks in one database that blocks its
writers, or hold whole files.
"""

import errno
import hashlib
import os
import re
import struct
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import google_crc32c

from zarrfuse.errors import SourceDenied, SourceError, Stale
from zarrfuse.stores.descriptor import read_full
from zarrfuse.stores.local.beneath import open_beneath
from zarrfuse.stores.trust import check_trusted

BLOCK_BYTES = 1 << 20
"""The most bytes of a block."""

_PIECE_BYTES = 64 * 1024
_PIECES = BLOCK_BYTES // _PIECE_BYTES
_HEADER = struct.Struct(f"<8sIQ{_PIECES}I")  # magic, checksum, size, checksums of the pieces
_MAGIC = b"zfblock1"
_USED_AGAIN_S = 60.0  # a block's time is set no more often
_FREED = 0.9  # of the size, once there is too much
_COUNTED_AFTER = 1 / 8  # of the size; by then other mounts may have put as much
_ABANDONED_S = 3600.0
_TEMPORARY = ".zarrfuse-tmp-"
_FOLDER, _BLOCK = re.compile("[0-9a-f]{2}"), re.compile("[0-9a-f]{62}")  # a hash


class DiskBlocks:
    """The blocks below a folder, at most `capacity_bytes` in all. For any thread and process.

    Raises `SourceError` if the folder cannot be made, belongs to another user, or is not trusted (`trust`).
    """

    def __init__(self, folder: str, capacity_bytes: int) -> None:
        self.folder = folder
        self.capacity_bytes = capacity_bytes
        self.hits = 0
        self._lock = threading.Lock()
        self._root = -1
        try:
            _make(Path(folder))
            check_trusted(folder, "cache folder")
            self._root = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise SourceError(f"the cache folder {folder}: {error.strerror}") from None
        if os.fstat(self._root).st_uid != os.geteuid():
            raise SourceDenied(f"the cache folder {folder} belongs to another user")
        self._bytes = self._freed()
        self._put_bytes = 0  # since then

    def has(self, name: str) -> bool:
        """Whether a block is there; it may be damaged."""
        try:
            os.stat(self._path(name), dir_fd=self._root)
        except OSError:
            return False
        return True

    def readinto(
        self, name: str, size: int, buffer: memoryview, offset: int, *, wait: bool = True
    ) -> bool:
        """Fill `buffer` with the bytes from `offset` on of a block of `size` bytes.

        False if it is not there, or damaged. Without `wait`, raises `BlockingIOError` for what the kernel
        has not cached, and for a block that has to be deleted or marked as used.
        """
        path = self._path(name)
        try:
            descriptor = open_beneath(
                self._root, path, os.O_RDONLY | os.O_NOFOLLOW, beneath=True, wait=wait
            )
        except BlockingIOError:
            raise
        except OSError:
            return False
        try:
            is_old = time.time_ns() - os.fstat(descriptor).st_mtime_ns > _USED_AGAIN_S * 1e9
            if is_old and not wait:
                raise BlockingIOError(errno.EAGAIN, "its time has to be set")
            data = _checked(descriptor, name, size, offset, offset + len(buffer), wait=wait)
            if data is None:
                if not wait:
                    raise BlockingIOError(errno.EAGAIN, "it has to be deleted")
                os.unlink(path, dir_fd=self._root)
                return False
            if is_old:
                os.utime(descriptor)
        except BlockingIOError:
            raise
        except OSError:
            return False
        finally:
            os.close(descriptor)
        buffer[:] = data
        self.hits += 1
        return True

    def put(self, name: str, data: memoryview) -> None:
        """Keep a block. A disk that is full or broken keeps none, which is no error."""
        path = os.path.join(self.folder, os.fsdecode(self._path(name)))
        with suppress(OSError):
            folder = os.path.dirname(path)
            os.makedirs(folder, mode=0o700, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(prefix=_TEMPORARY, dir=folder)  # 0600
            try:
                with open(descriptor, "wb") as file:
                    file.write(_header(name, data))
                    file.write(data)
                os.rename(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
            with self._lock:
                self._bytes += _HEADER.size + len(data)
                self._put_bytes += _HEADER.size + len(data)
                is_due = self._put_bytes > self.capacity_bytes * _COUNTED_AFTER
                if is_due or self._bytes > self.capacity_bytes:
                    self._bytes, self._put_bytes = self._freed(), 0

    def status(self) -> dict[str, int]:
        """Sizes and counts, for the control files."""
        return {"bytes": self._bytes, "capacity_bytes": self.capacity_bytes, "hits": self.hits}

    def _freed(self) -> int:
        """Delete what was used least recently, until enough is free; the bytes that stay."""
        found = sorted(self._files())
        total = sum(size for _, size, _ in found)
        if total <= self.capacity_bytes:
            return total
        for _, size, path in found:
            if total <= self.capacity_bytes * _FREED:
                break
            with suppress(OSError):
                os.unlink(path)
            total -= size
        return total

    def _files(self) -> Iterator[tuple[int, int, str]]:
        """(time, size, path) of each block; what a killed process left half-written is deleted."""
        abandoned_ns = time.time_ns() - int(_ABANDONED_S * 1e9)
        with suppress(OSError):
            for folder in os.scandir(self.folder):
                if not _FOLDER.fullmatch(folder.name) or not folder.is_dir(follow_symlinks=False):
                    continue
                with suppress(OSError):
                    for file in os.scandir(folder.path):
                        with suppress(OSError):
                            status = file.stat(follow_symlinks=False)
                            if _BLOCK.fullmatch(file.name):  # not what else is in the folder
                                yield status.st_mtime_ns, status.st_size, file.path
                            elif (
                                file.name.startswith(_TEMPORARY)
                                and status.st_mtime_ns < abandoned_ns
                            ):
                                os.unlink(file.path)

    def _path(self, name: str) -> bytes:
        """Where a block is below the folder."""
        digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest().encode()
        return digest[:2] + b"/" + digest[2:]

    def __del__(self) -> None:
        if self._root >= 0:
            os.close(self._root)


def _make(folder: Path) -> None:
    """Make a folder, and those above it, for this user alone."""
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _header(name: str, data: memoryview) -> bytes:
    pieces = [
        google_crc32c.value(bytes(data[start : start + _PIECE_BYTES]))
        for start in range(0, len(data), _PIECE_BYTES)
    ]
    pieces += [0] * (_PIECES - len(pieces))
    return _sealed(name, len(data), pieces)


def _sealed(name: str, size: int, pieces: Sequence[int]) -> bytes:
    """A header with its own checksum."""
    seed = google_crc32c.value(name.encode("utf-8", "surrogateescape"))
    checksum = google_crc32c.extend(seed, _HEADER.pack(_MAGIC, 0, size, *pieces))
    return _HEADER.pack(_MAGIC, checksum, size, *pieces)


def _checked(
    descriptor: int, name: str, size: int, start: int, stop: int, *, wait: bool
) -> memoryview | None:
    """Bytes [start, stop) of the block in a file; None if they, or the block, are not what was stored."""
    header = _read(descriptor, 0, _HEADER.size, wait=wait)
    if header is None:
        return None
    _, _, stored, *pieces = _HEADER.unpack(header)
    if stored != size or header != _sealed(name, size, pieces):
        return None
    first = start // _PIECE_BYTES
    begin, end = first * _PIECE_BYTES, min(-(-stop // _PIECE_BYTES) * _PIECE_BYTES, size)
    data = _read(descriptor, _HEADER.size + begin, end - begin, wait=wait)
    if data is None:
        return None
    for number, at in enumerate(range(0, len(data), _PIECE_BYTES), first):
        if google_crc32c.value(data[at : at + _PIECE_BYTES]) != pieces[number]:
            return None
    return memoryview(data)[start - begin : stop - begin]


def _read(descriptor: int, offset: int, size: int, *, wait: bool) -> bytes | None:
    """All of these bytes; None if the file ends before."""
    data = bytearray(size)
    try:
        read_full(descriptor, memoryview(data), offset, "the block", wait=wait)
    except Stale:
        return None
    return bytes(data)
