"""Open members of a zip: ranges of stored ones, and compressed ones inflated as far as needed.

Used by `store`. It reads through `file.ZipBytes`, whether the zip lies here or on a server.
"""

import errno
import zipfile
import zlib
from threading import Lock

from zarrfuse.errors import Corrupt, NotSupported, ZarrfuseError
from zarrfuse.stores.base import Reader
from zarrfuse.stores.zip.file import ZipBytes
from zarrfuse.stores.zip.tree import DAMAGED, INTACT, Members

_WHOLE_BYTES = 16 * 2**20  # compressed members up to this size are inflated whole
_WINDOW_BYTES = 4 * 2**20  # of larger ones, this much behind the furthest byte is kept
_BLOCK_BYTES = 2**20
# How much is fed to a decoder at once. Only for deflate does `zipfile` bound what comes out: 45 bytes
# of hostile bzip2 make 46 MB, 4 KiB of LZMA 28 MB. (For bzip2 this halves 25 MB/s.)
_FED_BYTES = {zipfile.ZIP_DEFLATED: _BLOCK_BYTES, zipfile.ZIP_BZIP2: 64}
_FED_BYTES_OF_OTHERS = 4096


class StoredReader(Reader):
    """An open member whose bytes lie in the zip as they are. Implements `base.Reader`."""

    __slots__ = ("_file", "_key", "_members", "_number", "_place", "is_remote", "mtime_ns", "size")

    def __init__(
        self, file: ZipBytes, key: str, members: Members, number: int, mtime_ns: int
    ) -> None:
        self._file: ZipBytes | None = file
        self.is_remote = file.is_remote
        self._key = key
        self._members = members
        self._number = number
        self._place = members.place[number]
        self.size = members.size[number]
        self.mtime_ns = mtime_ns

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `base.Reader`. Raises `Corrupt` at the last byte of a member with another CRC."""
        file = self._file
        if file is None:
            raise closed()
        _check_range(buffer, offset, self.size)
        file.readinto(buffer, self._place + offset, wait=wait)
        if buffer and not self._members.flags[self._number] & INTACT:
            self._check(file, buffer, offset, wait=wait)

    def prefetch(self, start: int, stop: int) -> None:
        """See `base.Reader`."""
        if self._file is not None:
            self._file.prefetch(self._place + start, self._place + stop)

    def _check(self, file: ZipBytes, buffer: memoryview, offset: int, *, wait: bool) -> None:
        """Go on with the CRC if these bytes go on from where it is, and compare it at the end.

        Threads that do this at once need no lock: what one of them stores is right whenever that is.
        """
        members, number = self._members, self._number
        end = offset + len(buffer)
        done, crc = members.checked.get(number, (0, 0))
        if offset <= done < end:
            crc = zlib.crc32(buffer[done - offset :], crc)
            if end < self.size:
                members.note_checked(number, end, crc)
            else:
                file.check_unchanged(wait=wait)  # rewritten in place: that is Stale, no damage
                members.checked.pop(number, None)
                members.flags[number] |= INTACT if crc == members.crc[number] else DAMAGED
        if end == self.size and members.flags[number] & DAMAGED:
            raise Corrupt(
                f"{file.path}: member {self._key} is damaged: its bytes do not have its CRC"
            )

    def close(self) -> None:
        """See `base.Reader`."""
        self._file = None


class _Compressed:
    """The compressed bytes of one member, as the file object that `ZipExtFile` wants."""

    __slots__ = ("_file", "_most", "_position")

    def __init__(self, file: ZipBytes, position: int, method: int) -> None:
        self._file = file
        self._position = position
        self._most = _FED_BYTES.get(method, _FED_BYTES_OF_OTHERS)

    def read(self, size: int, /) -> bytes:
        """The next at most `size` bytes; `ZipExtFile` asks for none behind the member's."""
        data = self._file.read(self._position, self._position + min(size, self._most))
        self._position += len(data)
        return data


class InflatingReader(Reader):
    """An open compressed member. Implements `base.Reader`; see the module for what is kept.

    `_window` holds the bytes from `_start` on; those before `_ready` may be given out. For a member
    that is inflated whole nothing is ready until all is there and its CRC was right.
    """

    __slots__ = (
        "_closed",
        "_damage",
        "_file",
        "_info",
        "_lock",
        "_place",
        "_ready",
        "_start",
        "_stream",
        "_whole",
        "_window",
        "mtime_ns",
        "size",
    )

    def __init__(
        self, file: ZipBytes, key: str, members: Members, number: int, mtime_ns: int
    ) -> None:
        self.size = members.size[number]
        self.mtime_ns = mtime_ns
        self._file = file
        self._place = members.place[number]
        self._whole = self.size <= _WHOLE_BYTES
        info = self._info = zipfile.ZipInfo(key)
        info.compress_type = members.method[number]
        info.compress_size = members.compressed_size[number]
        info.file_size = self.size
        info.CRC = members.crc[number]
        self._lock = Lock()
        self._closed = False
        self._damage: tuple[int, str] | None = None  # (first byte that cannot be had, why)
        self._stream: zipfile.ZipExtFile | None = None
        try:
            self._restart()
        except (NotImplementedError, RuntimeError) as error:  # a method, or its module, is missing
            raise NotSupported(f"{file.path}: member {key}: {error}") from None

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `base.Reader`. Without waiting, only what was inflated before is given.

        Raises `Corrupt`, naming the zip and the member.
        """
        _check_range(buffer, offset, self.size)
        if not self._lock.acquire(blocking=wait):
            raise BlockingIOError(errno.EAGAIN, "another thread is inflating")
        try:
            if self._closed:
                raise closed()
            while buffer:
                if not self._start <= offset < self._ready:
                    if not wait:
                        raise BlockingIOError(errno.EAGAIN, "not inflated yet")
                    self._inflate_to(offset)
                count = min(len(buffer), self._ready - offset)
                begin = offset - self._start
                with memoryview(self._window) as window:
                    buffer[:count] = window[begin : begin + count]
                buffer = buffer[count:]
                offset += count
        finally:
            self._lock.release()

    def close(self) -> None:
        """See `base.Reader`. A thread that is inflating stops at its next block."""
        self._closed = True
        with self._lock:
            self._window = bytearray()
            self._stream = None

    def _restart(self) -> None:
        self._start = 0
        self._ready = 0
        self._window = bytearray()
        compressed = _Compressed(self._file, self._place, self._info.compress_type)
        self._stream = zipfile.ZipExtFile(compressed, "r", self._info)

    def _inflate_to(self, offset: int) -> None:
        """Have the byte at `offset` (or, of a whole member, every byte) ready."""
        wanted = self.size if self._whole else offset + 1
        if self._damage is not None and wanted > self._damage[0]:
            raise Corrupt(self._damage[1])  # not inflated again for each retry of a program
        if self._stream is None or offset < self._start:
            self._restart()
        while self._start + len(self._window) < wanted:
            self._window += self._next_block()
            surplus = len(self._window) - _WINDOW_BYTES
            if not self._whole and surplus >= _BLOCK_BYTES:
                del self._window[:surplus]
                self._start += surplus
        self._ready = self._start + len(self._window)
        if self._whole:
            self._stream = None

    def _next_block(self) -> bytes:
        if self._closed:
            raise closed()
        assert self._stream is not None
        end = self._start + len(self._window)
        try:
            block = self._stream.read(_BLOCK_BYTES)
        except MemoryError:
            self._stream = None
            raise
        # What damaged data makes the four decoders raise has no common base: zlib.error, LZMAError,
        # OSError without a number from bz2, EOFError, struct.error, BadZipFile for the CRC.
        except ZarrfuseError:  # the server, not the data
            self._stream = None
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno is not None:  # the disk, not the data
                self._stream = None
                raise
            raise self._corrupt(end, str(error) or "its data ends too early") from None
        if not block:
            raise self._corrupt(end, f"its data ends after {end} of {self.size} bytes")
        return block

    def _corrupt(self, end: int, reason: str) -> Corrupt:
        self._file.check_unchanged()  # rewritten in place: that is Stale, no damage
        if self._whole:
            end = 0
            self._window = bytearray()
        self._ready = end
        message = f"{self._file.path}: member {self._info.filename} is damaged: {reason}"
        self._damage = (end, message)
        return Corrupt(message)


def _check_range(buffer: memoryview, offset: int, size: int) -> None:
    if offset < 0 or offset + len(buffer) > size:
        raise ValueError(f"bytes {offset} to {offset + len(buffer)} of a member with {size}")


def closed() -> OSError:
    """What is raised for a zip that was closed."""
    return OSError(errno.EBADF, "it was closed")
