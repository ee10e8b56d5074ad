"""A zip (`.zip`, or `.ozx` of OME-Zarr) as a store: read-only, its tree held in memory.

The central directory is read once, in blocks (`zip_directory`), and made into columns and a tree of
names (`zip_tree`): about 20 MiB for 100,000 members.
So `list` and `stat` never touch the disk again, and the store is `permanent`.

How the bytes of a member are read depends on how they are stored:

* **stored** (what Zarr recommends): a range is one `preadv` straight from the zip. Nothing is
  copied or kept, and the page cache answers `wait=False`. The CRC of a zip covers the whole member, so
  it is compared when somebody has read all of it in order, until it was right once. Where it is wrong,
  that read, and each that comes to the last byte, is `Corrupt`. Who reads ranges reads them unchecked.
* **compressed, up to 16 MiB**: inflated whole at the first read, the CRC compared before the first
  byte is given out, and kept until the reader is closed.
* **compressed and larger**: inflated front to back as it is read, the last 4 MiB kept. Deflate has
  no way to start in the middle, so a jump further back than that starts again from the front. The
  window is there because the kernel's readahead asks slightly out of order. The CRC is compared
  only when the end is reached.

What a name is: a member is a file, a folder where other members lie below it; a symlink is a link where
its text stays in the zip, else a file denied to everyone; FIFOs, sockets and devices are not there. All
belong to who owns the zip, and have its mode. Members with names that could lead out of a mount are left
out, and one warning says so.

A zip that is renamed over or deleted goes on being served, whole, as any open file is. Of one that is
written to in place, opening a member is `Stale` from then on.
"""

import logging
import os
import posixpath
import zipfile
from collections.abc import Iterator

from zarrfuse.errors import (
    Corrupt,
    Denied,
    NotAFolder,
    NotFound,
    NotSupported,
    SourceError,
    ZarrfuseError,
)
from zarrfuse.spec.paths import name_of
from zarrfuse.stores.access import as_folder
from zarrfuse.stores.base import Entry, Kind, Reader, Store
from zarrfuse.stores.zip.directory import RENAMED, UTF8_NAME, BadZip, find_directory, records
from zarrfuse.stores.zip.file import LocalZip, ZipBytes
from zarrfuse.stores.zip.members import InflatingReader, StoredReader, closed
from zarrfuse.stores.zip.tree import LARGEST, Link, Node, Tree, mtime_ns

_log = logging.getLogger(__name__)

_LINK_BYTES = 4096  # the longest text of a symlink, as on Linux
_LINK_HOPS = 40  # the kernel's limit, too

# The local header in front of each member's bytes (APPNOTE.TXT 4.3.7): 30 bytes, name, extra field.
_HEADER_BYTES = 30
_HEADER_MAGIC = b"PK\x03\x04"

# General purpose bit flags (APPNOTE.TXT 4.4.4).
_ENCRYPTED = 0x1
_PATCH = 0x20


class ZipStore(Store):
    """The members of one zip. Implements `base.Store`.

    `source`: a path, or the bytes of a zip. Raises `SourceError` when it is not there, cannot be read, or
    is no zip or a truncated one.
    """

    permanent = True

    def __init__(self, source: str | ZipBytes) -> None:
        file: ZipBytes = LocalZip(source) if isinstance(source, str) else source
        path = self.path = file.path
        self.cache = file.cache
        self._file: ZipBytes | None = file
        self._mtime_ns = file.mtime_ns
        access = file.access
        self._access = access and access._replace(mode=access.mode & 0o666)
        self._folder_access = self._access and as_folder(self._access)
        tree = Tree()
        try:
            directory = find_directory(file)
            for record in records(file, directory):
                tree.add(record)
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror or error}") from None
        except ZarrfuseError as error:
            raise SourceError(f"{path} cannot be read: {error}") from None
        except BadZip as error:
            raise SourceError(f"{path} is not a whole zip file: {error}") from None
        self._directory_offset = directory.start
        self._root = tree.root
        self._members = tree.members
        for key, link in tree.links:
            link.target = self._link_target(key, link.number)
        for what, names in (
            ("for their unsafe names", tree.unsafe),
            ("since folders have their names", tree.hidden),
        ):
            if names.count:
                _log.warning(
                    "%s: %d members are left out %s, such as %r",
                    *(path, names.count, what, names.first),
                )

    def scan(self, folder: str, *, follow: bool = True) -> Iterator[Entry]:
        """See `base.Store`. From memory."""
        names = self._find(folder)
        if not isinstance(names, dict):
            raise NotAFolder(f"{folder} is not a folder")
        return (self._entry(name, node) for name, node in names.items())

    def stat(self, key: str, *, wait: bool = True, follow: bool = True) -> Entry:
        """See `base.Store`. From memory, so never has to wait."""
        return self._entry(name_of(key), self._find(key))

    def open(self, key: str, *, wait: bool = True) -> Reader:
        """See `base.Store`. Reads the member's local header, the first time.

        A link is followed to its member. Raises `Denied` for an encrypted member, `NotSupported`
        for a compression unknown to `zipfile`, `Corrupt` for a bad local header and `Stale` when
        the zip was written to since it was opened.
        """
        node = self._find(key)
        for _ in range(_LINK_HOPS):
            if not isinstance(node, Link):
                break
            if node.target is None:
                raise Denied(f"{self.path}: the symlink {key} leads out of the zip")
            key = posixpath.normpath(posixpath.join(posixpath.dirname(key), node.target))
            node = self._find(key)
        if not isinstance(node, int):
            raise NotFound(f"{key} is no file")
        return self._open_member(key, node, wait=wait)

    def readlink(self, key: str) -> str:
        """See `base.Store`."""
        node = self._find(key)
        if not isinstance(node, Link):
            raise NotFound(f"{key} is no symlink")
        if node.target is None:
            raise Denied(f"{self.path}: the symlink {key} leads out of the zip")
        return node.target

    def space(self) -> tuple[int, int]:
        """See `base.Store`."""
        return self._opened_file().space()

    def status(self) -> dict[str, object]:
        """See `base.Store`: of a zip on a server, what its store tells."""
        return {} if self._file is None else self._file.status()

    def close(self) -> None:
        """See `base.Store`. Open readers stay usable; the last of them lets go of the zip."""
        self._file = None
        self._root = {}

    def _opened_file(self) -> ZipBytes:
        file = self._file
        if file is None:
            raise closed()
        return file

    def _find(self, key: str) -> Node:
        node: Node | None = self._root
        for name in key.split("/") if key else ():
            node = node.get(name) if isinstance(node, dict) else None
            if node is None:
                raise NotFound(f"no key {key}")
        assert node is not None
        return node

    def _entry(self, name: str, node: Node) -> Entry:
        if isinstance(node, dict):
            return Entry(name, Kind.FOLDER, 0, self._mtime_ns, access=self._folder_access)
        members = self._members
        if isinstance(node, int):
            denied = bool(members.flags[node] & _ENCRYPTED)
            size, time_ns = members.size[node], self._time(node)
            return Entry(name, Kind.FILE, size, time_ns, denied, access=self._access)
        time_ns = self._time(node.number)
        if node.target is None:
            return Entry(name, Kind.FILE, 0, time_ns, denied=True)
        size = len(os.fsencode(node.target))
        return Entry(name, Kind.LINK, size, time_ns, access=self._folder_access)

    def _time(self, number: int) -> int:
        time_ns = mtime_ns(self._members.time[number])
        return self._mtime_ns if time_ns is None else time_ns

    def _open_member(self, key: str, number: int, *, wait: bool) -> Reader:
        file = self._opened_file()
        file.check_unchanged(wait=wait)
        members = self._members
        flags, size = members.flags[number], members.size[number]
        if flags & _ENCRYPTED:
            raise Denied(f"{self.path}: member {key} is encrypted")
        if flags & _PATCH:
            raise NotSupported(f"{self.path}: member {key} is a patch of another file")
        if size > LARGEST:
            raise Corrupt(f"{self.path}: member {key} claims to have {size} bytes")
        if members.place[number] < 0:
            self._read_local_header(file, key, number, wait=wait)
        if members.method[number] != zipfile.ZIP_STORED:
            return InflatingReader(file, key, members, number, self._time(number))
        compressed_size = members.compressed_size[number]
        if size != compressed_size:
            raise Corrupt(
                f"{self.path}: member {key} is stored, but claims to have {size} bytes"
                f" and {compressed_size} in the zip"
            )
        return StoredReader(file, key, members, number, self._time(number))

    def _read_local_header(self, file: ZipBytes, key: str, number: int, *, wait: bool) -> None:
        """Find where the member's bytes begin, which only its local header tells.

        The extra field there has a length of its own. Two threads may do this at once; both find
        the same.
        """
        members = self._members
        flags = members.flags[number]
        place = members.place[number]
        if place >= 0:  # another thread was faster
            return
        offset = ~place
        name = b"" if flags & RENAMED else key.encode("utf-8" if flags & UTF8_NAME else "cp437")
        end = offset + _HEADER_BYTES + len(name)
        if end > self._directory_offset:
            raise Corrupt(f"{self.path}: member {key} claims to begin behind all members")
        header = bytearray(_HEADER_BYTES + len(name))
        file.readinto(memoryview(header), offset, wait=wait)
        name_bytes = int.from_bytes(header[26:28], "little")
        extra_bytes = int.from_bytes(header[28:30], "little")
        if header[:4] != _HEADER_MAGIC or (name and header[_HEADER_BYTES:] != name):
            raise Corrupt(f"{self.path}: member {key} has no local header where it should be")
        start = offset + _HEADER_BYTES + name_bytes + extra_bytes
        if start + members.compressed_size[number] > self._directory_offset:
            raise Corrupt(f"{self.path}: member {key} claims to end behind all members")
        members.place[number] = start

    def _link_target(self, key: str, number: int) -> str | None:
        """The text of a symlink, or None when it is unreadable or could lead out of the zip.

        `..` is allowed at the front only, where all folders are real ones: behind a name that is
        itself a link, the kernel would climb from somewhere else.
        """
        members = self._members
        if not 0 < members.size[number] <= _LINK_BYTES:
            return None
        if members.method[number] not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            return None  # what a few bytes of other methods inflate to takes 0.3 s
        text = bytearray(members.size[number])
        try:
            self._open_member(key, number, wait=True).readinto(memoryview(text), 0)
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
