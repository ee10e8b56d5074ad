"""The central directory of a zip, record by record.

Owns where the directory lies, and what its bytes mean. Used by `zip`. The standard library's `zipfile`
makes an object of some 400 bytes of each record; here a record is a tuple, and 1 MiB of the directory
is in memory at a time. Zips that `zipfile` refuses are refused.

Source: APPNOTE.TXT 6.3.10, sections 4.3.12 (records), 4.3.14 to 4.3.16 (end of the directory), 4.5.3
(Zip64) and 4.6.9 (Unicode path).
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from zarrfuse.errors import Stale
from zarrfuse.stores.zip.file import ZipBytes

UTF8_NAME = 0x800
"""Of the general purpose bit flags (4.4.4)."""
RENAMED = 1 << 16
"""Ours, above those 16: the name is that of the Unicode path field, and the local header has another."""

Record: TypeAlias = tuple[str, int, int, int, int, int, int, int, int]
"""Name, flags, method, time (as MS-DOS has it: date << 16 | time), CRC, compressed size, size,
external attributes, offset of the local header in the file."""

_BLOCK_BYTES = 1 << 20
_RECORD = struct.Struct("<4s2xBxHHLLLLHHH4xLL")
_RECORD_MAGIC = b"PK\1\2"
_LARGEST_RECORD = _RECORD.size + 3 * 0xFFFF
_NEWEST_VERSION = 63
_ZIP64 = 0x0001
_UNICODE_PATH = 0x7075
_ESCAPED = 0xFFFF_FFFF  # a number that stands in the Zip64 field instead

_END = struct.Struct("<4s4H2LH")
_END_MAGIC = b"PK\5\6"
_LONGEST_COMMENT = 1 << 16
_END_64 = struct.Struct("<4sQ2H2L4Q")
_END_64_MAGIC = b"PK\6\6"
_LOCATOR_64 = struct.Struct("<4sLQL")
_LOCATOR_64_MAGIC = b"PK\6\7"


class BadZip(Exception):
    """This is no zip, or not all of one; the message says why."""


@dataclass(frozen=True, slots=True)
class Directory:
    """Where the central directory lies: `size` bytes from `start` on.

    `shift`: bytes in front of the zip, which offsets do not count.
    """

    start: int
    size: int
    shift: int


def find_directory(file: ZipBytes) -> Directory:
    """The central directory of a zip. Raises `BadZip`."""
    file_bytes = file.size
    start = max(0, file_bytes - _LONGEST_COMMENT - _END.size)
    tail = _read(file, start, file_bytes)
    at = len(tail) - _END.size
    if at < 0 or tail[at : at + 4] != _END_MAGIC or tail[-2:] != b"\0\0":
        at = tail.rfind(_END_MAGIC)  # it has a comment
    if at < 0 or at + _END.size > len(tail):
        raise BadZip("it has no end of a central directory")
    size, offset = _END.unpack_from(tail, at)[5:7]
    end = start + at
    zip64 = _end_64(file, end)
    if zip64 is not None:
        size, offset = zip64
        end -= _LOCATOR_64.size + _END_64.size
    if size > end:
        raise BadZip(f"its central directory claims to have {size} bytes, and {end} are there")
    return Directory(end - size, size, end - size - offset)


def _end_64(file: ZipBytes, end: int) -> tuple[int, int] | None:
    """(size, offset) of the directory as the Zip64 end record has them, which ends before `end`."""
    at = end - _LOCATOR_64.size
    if at < 0:
        return None
    magic, disk, _, disks = _LOCATOR_64.unpack(_read(file, at, end))
    if magic != _LOCATOR_64_MAGIC:
        return None
    if disk != 0 or disks > 1:
        raise BadZip("it is one of several files")
    if at < _END_64.size:
        return None
    magic, *_, size, offset = _END_64.unpack(_read(file, at - _END_64.size, at))
    return (size, offset) if magic == _END_64_MAGIC else None


def records(file: ZipBytes, directory: Directory) -> Iterator[Record]:
    """Every record of the directory, in its order. Raises `BadZip`."""
    data, at = b"", 0
    position, stop = directory.start, directory.start + directory.size
    unpack, header_bytes = _RECORD.unpack_from, _RECORD.size
    while position < stop or at < len(data):
        if len(data) - at < _LARGEST_RECORD and position < stop:
            block = _read(file, position, min(position + _BLOCK_BYTES, stop))
            data, at = data[at:] + block, 0
            position += len(block)
        name_at = at + header_bytes
        if name_at > len(data):
            raise BadZip("its central directory is cut off")
        # fmt: off
        (magic, version, flags, method, time, crc, compressed_size, size,
         name_bytes, extra_bytes, comment_bytes, attributes, offset) = unpack(data, at)
        # fmt: on
        if magic != _RECORD_MAGIC:
            raise BadZip("its central directory is damaged")
        if version > _NEWEST_VERSION:
            raise BadZip(f"it is of version {version / 10}")
        extra_at = name_at + name_bytes
        at = extra_at + extra_bytes + comment_bytes
        if at > len(data):
            raise BadZip("its central directory is cut off")
        raw = data[name_at:extra_at]
        try:
            name = raw.decode("utf-8" if flags & UTF8_NAME else "cp437")
        except UnicodeDecodeError:
            raise BadZip(f"the name {raw!r} in it is not UTF-8") from None
        if extra_bytes:
            fields = dict(_fields(data[extra_at : extra_at + extra_bytes]))
            if _ZIP64 in fields:
                size, compressed_size, offset = _escaped(
                    fields[_ZIP64], (size, compressed_size, offset)
                )
            better = _unicode_path(fields.get(_UNICODE_PATH, b""), raw)
            if better:
                name, flags = better, flags | RENAMED
        offset += directory.shift
        yield name, flags, method, time, crc, compressed_size, size, attributes, offset


def _fields(extra: bytes) -> Iterator[tuple[int, bytes]]:
    """The extra fields of a record."""
    at = 0
    while len(extra) - at >= 4:
        kind = int.from_bytes(extra[at : at + 2], "little")
        size = int.from_bytes(extra[at + 2 : at + 4], "little")
        if at + 4 + size > len(extra):
            raise BadZip(f"an extra field {kind:#06x} of {size} bytes in it is cut off")
        yield kind, extra[at + 4 : at + 4 + size]
        at += 4 + size


def _escaped(field: bytes, numbers: tuple[int, int, int]) -> list[int]:
    """`numbers`, those that did not fit replaced by what the Zip64 field has, in this order."""
    found: list[int] = []
    at = 0
    for number in numbers:
        if number != _ESCAPED:
            found.append(number)
            continue
        if at + 8 > len(field):
            raise BadZip("a Zip64 field in it is too short")
        found.append(int.from_bytes(field[at : at + 8], "little"))
        at += 8
    return found


def _unicode_path(field: bytes, raw: bytes) -> str | None:
    """The name in a Unicode path field; None if it is that of another name than `raw`."""
    if len(field) < 5 or field[0] != 1 or field[1:5] != zlib.crc32(raw).to_bytes(4, "little"):
        return None
    try:
        return field[5:].decode()
    except UnicodeDecodeError:
        return None


def _read(file: ZipBytes, start: int, stop: int) -> bytes:
    try:
        return file.read(start, stop)
    except Stale:
        raise BadZip("it became shorter while it was read") from None
