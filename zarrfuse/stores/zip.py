"""A zip (`.zip`, or `.ozx` of OME-Zarr) as a store: read-only, its tree held in memory.

Owns the descriptor of the zip and every read from it. The central directory is read once, by the
standard library's `zipfile`, and made into a tree of slim records: about 20 MiB for 100,000 members.
So `list` and `stat` never touch the disk again, and the store is `permanent`.

How the bytes of a member are read depends on how they are stored:

* **stored** (what Zarr recommends): a range is one `preadv` straight from the zip. Nothing is
  copied or kept, and the page cache answers `wait=False`. No checksum is compared, since the one of
  a zip covers the whole member: damage inside a stored member goes unseen here.
* **compressed, up to 16 MiB**: inflated whole at the first read, the CRC compared before the first
  byte is given out, and kept until the reader is closed.
* **compressed and larger**: inflated front to back as it is read, the last 4 MiB kept. Deflate has
  no way to start in the middle, so a jump further back than that starts again from the front. The
  window is there because the kernel's readahead asks slightly out of order. The CRC is compared
  only when the end is reached.

What a name is: a member is a file, a folder where other members lie below it; a symlink is a link
where its text stays in the zip, else a file denied to everyone; FIFOs, sockets and devices are not
there. Members with names that could lead out of a mount are left out, and one warning says so.

A zip that is renamed over or deleted goes on being served, whole, as any open file is. One that is
written to in place is `Stale` from then on.
"""

import errno
import logging
import os
import posixpath
import zipfile
from datetime import datetime
from stat import S_IFDIR, S_IFLNK, S_IFMT, S_IFREG, S_ISREG
from threading import Lock

from zarrfuse.errors import Corrupt, Denied, NotAFolder, NotFound, NotSupported, SourceError, Stale
from zarrfuse.stores.base import Entry, Kind, Reader

_log = logging.getLogger(__name__)

_WHOLE_BYTES = 16 * 2**20  # compressed members up to this size are inflated whole
_WINDOW_BYTES = 4 * 2**20  # of larger ones, this much behind the furthest byte is kept
_BLOCK_BYTES = 2**20
# How much is fed to a decoder at once. Only for deflate does `zipfile` bound what comes out: 45 bytes
# of hostile bzip2 make 46 MB, 4 KiB of LZMA 28 MB. (For bzip2 this halves 25 MB/s.)
_FED_BYTES = {zipfile.ZIP_DEFLATED: _BLOCK_BYTES, zipfile.ZIP_BZIP2: 64}
_FED_BYTES_OF_OTHERS = 4096

_LINK_BYTES = 4096  # the longest text of a symlink, as on Linux
_LINK_HOPS = 40  # the kernel's limit, too
_NAME_BYTES = 255

# The local header in front of each member's bytes (APPNOTE.TXT 4.3.7): 30 bytes, name, extra field.
_HEADER_BYTES = 30
_HEADER_MAGIC = b"PK\x03\x04"

# General purpose bit flags (APPNOTE.TXT 4.4.4).
_ENCRYPTED = 0x1
_PATCH = 0x20
_UTF8_NAME = 0x800
# Ours, above the 16 bits of the format: the shown name comes from the Unicode Path extra field
# (`zipfile` does that from Python 3.13 on), so the local header spells it differently.
_RENAMED = 1 << 16


class _Member:
    """One file of the zip. `data_offset` is -1 until the local header was read."""

    __slots__ = (
        "compressed_size",
        "crc",
        "data_offset",
        "flags",
        "header_offset",
        "method",
        "mtime_ns",
        "size",
    )

    def __init__(self, info: zipfile.ZipInfo, mtime_ns: int, shared: dict[int, int]) -> None:
        # Most chunks of an array have one size: 100,000 ints of 32 bytes become one.
        self.size = shared.setdefault(info.file_size, info.file_size)
        self.compressed_size = shared.setdefault(info.compress_size, info.compress_size)
        self.crc = info.CRC
        flags = info.flag_bits if info.filename == info.orig_filename else info.flag_bits | _RENAMED
        self.flags = shared.setdefault(flags, flags)
        self.header_offset = info.header_offset
        self.method = info.compress_type
        self.mtime_ns = mtime_ns
        self.data_offset = -1


class _Link:
    """A symlink; `target` is None when it must not be followed."""

    __slots__ = ("mtime_ns", "target")

    def __init__(self, mtime_ns: int) -> None:
        self.mtime_ns = mtime_ns
        self.target: str | None = None


_Names = dict[str, "_Node"]
_Node = _Member | _Link | _Names  # the last is a folder


class _Tree:
    """The central directory as folders in folders, and what had to be left out of it."""

    def __init__(self, fallback_mtime_ns: int) -> None:
        self.root: _Names = {}
        self.links: list[tuple[str, _Link, _Member]] = []
        self.unsafe: list[str] = []
        self.hidden: list[str] = []
        self._fallback_mtime_ns = fallback_mtime_ns
        self._mtimes_ns: dict[tuple[int, ...], int] = {}
        self._safe_names: dict[str, str] = {}  # "0", "1", ... recur everywhere: one string each
        self._ints: dict[int, int] = {}

    def add(self, info: zipfile.ZipInfo) -> None:
        """Put one member into the tree; a later one of the same name replaces an earlier one."""
        key = info.filename.removesuffix("/")
        path = self._safe_path(key)
        if path is None or "\0" in info.orig_filename:
            self.unsafe.append(info.orig_filename)
            return
        type_ = S_IFMT(info.external_attr >> 16)  # 0 from tools that know nothing of Unix
        is_folder = info.filename.endswith("/") or type_ == S_IFDIR
        if not is_folder and type_ not in (0, S_IFREG, S_IFLNK):
            return
        names = self.root
        name = "" if is_folder else path.pop()
        for depth, parent in enumerate(path):
            node = names.get(parent)
            if not isinstance(node, dict):
                if node is not None:
                    self.hidden.append("/".join(path[: depth + 1]))
                node = names[parent] = {}
            names = node
        if is_folder:
            return
        if isinstance(names.get(name), dict):
            self.hidden.append(key)
            return
        member = _Member(info, self._mtime_ns(info), self._ints)
        if type_ == S_IFLNK:
            link = names[name] = _Link(member.mtime_ns)
            self.links.append((key, link, member))
        else:
            names[name] = member

    def _safe_path(self, key: str) -> list[str] | None:
        """The names of `key`, each always the same object; None when a mount may not show it."""
        path = []
        for name in key.split("/"):
            known = self._safe_names.get(name)
            if known is None:
                if name in ("", ".", "..") or "\\" in name:
                    return None
                if len(os.fsencode(name)) > _NAME_BYTES:
                    return None
                known = self._safe_names[name] = name
            path.append(known)
        return path

    def _mtime_ns(self, info: zipfile.ZipInfo) -> int:
        """The member's time, which a zip keeps as local time of whatever place it was made in."""
        mtime_ns = self._mtimes_ns.get(info.date_time)
        if mtime_ns is None:
            try:
                mtime_ns = int(datetime(*info.date_time).timestamp()) * 10**9
            except (ValueError, OverflowError, OSError):  # month 0, second 62
                mtime_ns = self._fallback_mtime_ns
            self._mtimes_ns[info.date_time] = mtime_ns
        return mtime_ns


class _File:
    """The descriptor of the zip, closed with the last of the store and its readers.

    Not earlier: a reader at work in another thread would read from whatever file the kernel gave
    the same number next.
    """

    __slots__ = ("_identity", "fd", "mtime_ns", "path")

    def __init__(self, path: str) -> None:
        self.fd = -1
        self.path = path
        # O_NONBLOCK: a FIFO named as a zip must not hang.
        self.fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        if not S_ISREG(os.fstat(self.fd).st_mode):
            raise SourceError(f"{path} is not a zip file: it is no file at all")
        self._identity, self.mtime_ns = self._look()

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)

    def _look(self) -> tuple[tuple[int, int, int, int], int]:
        status = os.fstat(self.fd)
        identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        return identity, status.st_mtime_ns

    def check_unchanged(self) -> None:
        """Raises `Stale` when the zip was written to since it was opened."""
        if self._look()[0] != self._identity:
            raise Stale(f"{self.path} was changed while it was mounted")

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool) -> None:
        """Fill `buffer`; without waiting, from the page cache alone (`RWF_NOWAIT`)."""
        flags = 0 if wait else os.RWF_NOWAIT
        while buffer:
            try:
                count = os.preadv(self.fd, (buffer,), offset, flags)
            except OSError as error:
                if error.errno == errno.EOPNOTSUPP and not wait:
                    raise BlockingIOError(errno.EAGAIN, "no RWF_NOWAIT here") from None
                raise
            if count == len(buffer):
                return
            if count == 0:  # every range was inside the file when the zip was opened
                raise Stale(f"{self.path} became shorter while it was mounted")
            buffer = buffer[count:]
            offset += count


class _StoredReader:
    """An open member whose bytes lie in the zip as they are. Implements `base.Reader`."""

    __slots__ = ("_data_offset", "_file", "mtime_ns", "size")

    def __init__(self, file: _File, member: _Member) -> None:
        self._file: _File | None = file
        self._data_offset = member.data_offset
        self.size = member.size
        self.mtime_ns = member.mtime_ns

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `base.Reader`. The CRC is not compared: it covers the whole member."""
        file = self._file
        if file is None:
            raise _closed()
        _check_range(buffer, offset, self.size)
        file.readinto(buffer, self._data_offset + offset, wait=wait)

    def close(self) -> None:
        """See `base.Reader`."""
        self._file = None


class _Compressed:
    """The compressed bytes of one member, as the file object that `ZipExtFile` wants."""

    __slots__ = ("_file", "_most", "_position")

    def __init__(self, file: _File, position: int, method: int) -> None:
        self._file = file
        self._position = position
        self._most = _FED_BYTES.get(method, _FED_BYTES_OF_OTHERS)

    def read(self, size: int, /) -> bytes:
        """The next at most `size` bytes; `ZipExtFile` asks for none behind the member's."""
        data = os.pread(self._file.fd, min(size, self._most), self._position)
        self._position += len(data)
        return data


class _InflatingReader:
    """An open compressed member. Implements `base.Reader`; see the module for what is kept.

    `_window` holds the bytes from `_start` on; those before `_ready` may be given out. For a member
    that is inflated whole nothing is ready until all is there and its CRC was right.
    """

    __slots__ = (
        "_closed",
        "_damage",
        "_data_offset",
        "_file",
        "_info",
        "_lock",
        "_ready",
        "_start",
        "_stream",
        "_whole",
        "_window",
        "mtime_ns",
        "size",
    )

    def __init__(self, file: _File, key: str, member: _Member) -> None:
        self.size = member.size
        self.mtime_ns = member.mtime_ns
        self._file = file
        self._data_offset = member.data_offset
        self._whole = member.size <= _WHOLE_BYTES
        info = self._info = zipfile.ZipInfo(key)
        info.compress_type = member.method
        info.compress_size = member.compressed_size
        info.file_size = member.size
        info.CRC = member.crc
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
                raise _closed()
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
        compressed = _Compressed(self._file, self._data_offset, self._info.compress_type)
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
            raise _closed()
        assert self._stream is not None
        end = self._start + len(self._window)
        try:
            block = self._stream.read(_BLOCK_BYTES)
        except MemoryError:
            self._stream = None
            raise
        # What damaged data makes the four decoders raise has no common base: zlib.error, LZMAError,
        # OSError without a number from bz2, EOFError, struct.error, BadZipFile for the CRC.
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


class ZipStore:
    """The members of one zip. Implements `base.Store`.

    Raises `SourceError` when `path` is not there, cannot be read, or is no zip or a truncated one.
    """

    permanent = True

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            file = _File(path)
        except FileNotFoundError:
            raise SourceError(f"{path} does not exist") from None
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror}") from None
        self._file: _File | None = file
        self._mtime_ns = file.mtime_ns
        tree = _Tree(file.mtime_ns)
        try:
            with (
                open(file.fd, "rb", closefd=False) as stream,
                zipfile.ZipFile(stream) as archive,
            ):
                self._directory_offset = archive.start_dir
                infos = archive.filelist
                archive.NameToInfo.clear()
                infos.reverse()
                while infos:  # each ZipInfo is freed as its record is made: 50 MiB for 100,000
                    tree.add(infos.pop())
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror or error}") from None
        # zipfile checks little before it unpacks: struct.error and UnicodeDecodeError happen, too.
        except Exception as error:
            raise SourceError(f"{path} is not a whole zip file: {error}") from None
        self._root = tree.root
        for key, link, member in tree.links:
            link.target = self._link_target(key, member)
        if tree.unsafe:
            _log.warning(
                "%s: %d members are left out for their unsafe names, such as %r",
                path,
                len(tree.unsafe),
                tree.unsafe[0],
            )
        if tree.hidden:
            _log.warning(
                "%s: %d members are left out, since folders have their names, such as %r",
                path,
                len(tree.hidden),
                tree.hidden[0],
            )

    def list(self, folder: str) -> dict[str, Entry]:
        """See `base.Store`. From memory."""
        names = self._find(folder)
        if not isinstance(names, dict):
            raise NotAFolder(f"{folder} is not a folder")
        return {name: self._entry(name, node) for name, node in names.items()}

    def stat(self, key: str, *, wait: bool = True) -> Entry:
        """See `base.Store`. From memory, so never has to wait."""
        return self._entry(key.rpartition("/")[2], self._find(key))

    def open(self, key: str, *, wait: bool = True) -> Reader:
        """See `base.Store`. Reads the member's local header, the first time.

        A link is followed to its member. Raises `Denied` for an encrypted member, `NotSupported`
        for a compression unknown to `zipfile`, `Corrupt` for a bad local header and `Stale` when
        the zip was written to since it was opened.
        """
        node = self._find(key)
        for _ in range(_LINK_HOPS):
            if not isinstance(node, _Link):
                break
            if node.target is None:
                raise Denied(f"{self.path}: the symlink {key} leads out of the zip")
            key = posixpath.normpath(posixpath.join(posixpath.dirname(key), node.target))
            node = self._find(key)
        if not isinstance(node, _Member):
            raise NotFound(f"{key} is no file")
        return self._open_member(key, node, wait=wait)

    def readlink(self, key: str) -> str:
        """See `base.Store`."""
        node = self._find(key)
        if not isinstance(node, _Link):
            raise NotFound(f"{key} is no symlink")
        if node.target is None:
            raise Denied(f"{self.path}: the symlink {key} leads out of the zip")
        return node.target

    def space(self) -> tuple[int, int]:
        """See `base.Store`."""
        status = os.fstatvfs(self._opened_file().fd)
        return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize

    def close(self) -> None:
        """See `base.Store`. Open readers stay usable; the last of them lets go of the zip."""
        self._file = None
        self._root = {}

    def _opened_file(self) -> _File:
        file = self._file
        if file is None:
            raise _closed()
        return file

    def _find(self, key: str) -> _Node:
        node: _Node | None = self._root
        for name in key.split("/") if key else ():
            node = node.get(name) if isinstance(node, dict) else None
            if node is None:
                raise NotFound(f"no key {key}")
        assert node is not None
        return node

    def _entry(self, name: str, node: _Node) -> Entry:
        if isinstance(node, _Member):
            denied = bool(node.flags & _ENCRYPTED)
            return Entry(name, Kind.FILE, node.size, node.mtime_ns, denied)
        if isinstance(node, dict):
            return Entry(name, Kind.FOLDER, 0, self._mtime_ns)
        if node.target is None:
            return Entry(name, Kind.FILE, 0, node.mtime_ns, denied=True)
        return Entry(name, Kind.LINK, len(os.fsencode(node.target)), node.mtime_ns)

    def _open_member(self, key: str, member: _Member, *, wait: bool) -> Reader:
        file = self._opened_file()
        file.check_unchanged()
        if member.flags & _ENCRYPTED:
            raise Denied(f"{self.path}: member {key} is encrypted")
        if member.flags & _PATCH:
            raise NotSupported(f"{self.path}: member {key} is a patch of another file")
        if member.data_offset < 0:
            self._read_local_header(file, key, member, wait=wait)
        if member.method == zipfile.ZIP_STORED:
            if member.size != member.compressed_size:
                raise Corrupt(
                    f"{self.path}: member {key} is stored, but said to have {member.size} bytes"
                    f" and {member.compressed_size} in the zip"
                )
            return _StoredReader(file, member)
        return _InflatingReader(file, key, member)

    def _read_local_header(self, file: _File, key: str, member: _Member, *, wait: bool) -> None:
        """Find where the member's bytes begin, which only its local header tells.

        The extra field there has a length of its own. Two threads may do this at once; both find
        the same.
        """
        if member.flags & _RENAMED:
            name = b""
        else:
            name = key.encode("utf-8" if member.flags & _UTF8_NAME else "cp437")
        end = member.header_offset + _HEADER_BYTES + len(name)
        if member.header_offset < 0 or end > self._directory_offset:
            raise Corrupt(f"{self.path}: member {key} is said to begin behind all members")
        header = bytearray(_HEADER_BYTES + len(name))
        file.readinto(memoryview(header), member.header_offset, wait=wait)
        name_bytes = int.from_bytes(header[26:28], "little")
        extra_bytes = int.from_bytes(header[28:30], "little")
        if header[:4] != _HEADER_MAGIC or (name and header[_HEADER_BYTES:] != name):
            raise Corrupt(f"{self.path}: member {key} has no local header where it should be")
        data_offset = member.header_offset + _HEADER_BYTES + name_bytes + extra_bytes
        if data_offset + member.compressed_size > self._directory_offset:
            raise Corrupt(f"{self.path}: member {key} is said to end behind all members")
        member.data_offset = data_offset

    def _link_target(self, key: str, member: _Member) -> str | None:
        """The text of a symlink, or None when it is unreadable or could lead out of the zip.

        `..` is allowed at the front only, where all folders are real ones: behind a name that is
        itself a link, the kernel would climb from somewhere else.
        """
        if not 0 < member.size <= _LINK_BYTES:
            return None
        text = bytearray(member.size)
        try:
            self._open_member(key, member, wait=True).readinto(memoryview(text), 0)
        except (Corrupt, Denied, NotSupported):
            return None
        if text.startswith(b"/") or b"\0" in text:
            return None
        target = os.fsdecode(bytes(text))
        segments = [segment for segment in target.split("/") if segment not in ("", ".")]
        climbs = 0
        while climbs < len(segments) and segments[climbs] == "..":
            climbs += 1
        if climbs > key.count("/") or ".." in segments[climbs:]:
            return None
        return target


def _check_range(buffer: memoryview, offset: int, size: int) -> None:
    if offset < 0 or offset + len(buffer) > size:
        raise ValueError(f"bytes {offset} to {offset + len(buffer)} of a member with {size}")


def _closed() -> OSError:
    return OSError(errno.EBADF, "it was closed")
