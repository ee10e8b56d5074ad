"""The members of a zip as folders in folders, in slim records. Used by `zip`.

Owns which names of a central directory are shown: not those that could lead out of a mount. Knows
nothing of how members are read.
"""

import os
import zipfile
from datetime import datetime
from stat import S_IFDIR, S_IFLNK, S_IFMT, S_IFREG

_NAME_BYTES = 255

# Ours, above the 16 general purpose bits of the format: the shown name comes from the Unicode Path
# extra field (`zipfile` does that from Python 3.13 on), so the local header spells it differently.
RENAMED = 1 << 16


class Member:
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
        flags = info.flag_bits if info.filename == info.orig_filename else info.flag_bits | RENAMED
        self.flags = shared.setdefault(flags, flags)
        self.header_offset = info.header_offset
        self.method = info.compress_type
        self.mtime_ns = mtime_ns
        self.data_offset = -1


class Link:
    """A symlink; `target` is None when it must not be followed."""

    __slots__ = ("mtime_ns", "target")

    def __init__(self, mtime_ns: int) -> None:
        self.mtime_ns = mtime_ns
        self.target: str | None = None


Names = dict[str, "Node"]
Node = Member | Link | Names  # the last is a folder


class Tree:
    """The central directory as folders in folders, and what had to be left out of it."""

    def __init__(self, fallback_mtime_ns: int) -> None:
        self.root: Names = {}
        self.links: list[tuple[str, Link, Member]] = []
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
        member = Member(info, self._mtime_ns(info), self._ints)
        if type_ == S_IFLNK:
            link = names[name] = Link(member.mtime_ns)
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
