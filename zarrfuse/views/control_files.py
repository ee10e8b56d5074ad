"""The control files: what a mount knows of itself and of each name, as JSON.

`.zarrfuse/` stands at the root of every mount and is not listed:

* `status.json`: uptime, requests, bytes, errors and refusals.
* `info/<path in the mount>`: what is known of that file: for a chunk its coordinates, key and parts;
  `info/<folder>/zarr.json` (`.zarray`, `.zgroup`) tells of the node itself, and
  `info/<folder>/.nodes`, which is not listed, of all nodes at and below it (`walk.told_below`).

Used by `fuse`, for which it is a folder like any other whose files are rendered when opened.
"""

import errno
import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from zarrfuse.errors import NotFound
from zarrfuse.formats.segments import Literal
from zarrfuse.stores.access import Access
from zarrfuse.stores.base import Entry, Kind, Reader
from zarrfuse.views.base import Folder, join
from zarrfuse.views.facts import Facts
from zarrfuse.views.nodes import DOCUMENTS
from zarrfuse.views.walk import told_below

CONTROL_NAME = ".zarrfuse"
NODES_NAME = ".nodes"


class LiveReader(Literal):
    """Bytes that were rendered when the file was opened, and are others the next time."""


def _own() -> Access:
    """For who mounted alone: it tells of all that is stored, private files too."""
    return Access(0o600, os.geteuid(), os.getegid())


class _Live(Folder):
    """What the folders in here share: they hold no links, and nothing is kept of them."""

    def readlink(self, name: str) -> str:
        """There are no links here."""
        raise NotFound(f"no link {name} in {self.path}")

    def facts(self, name: str | None) -> Facts:
        """Control files tell of others, not of themselves."""
        return Facts(view="control", path=self.path if name is None else join(self.path, name))


class ControlFolder(_Live):
    """`.zarrfuse/` itself."""

    path = CONTROL_NAME

    def __init__(self, status: Callable[[], dict[str, Any]], root: Folder) -> None:
        self._status = status
        self._info = InfoFolder(root, f"{CONTROL_NAME}/info")
        self.entry = Entry(CONTROL_NAME, Kind.FOLDER, 0, time.time_ns())

    def scan(self) -> Iterator[Entry]:
        """See `views.base.Folder`."""
        return map(self.lookup, ("status.json", "info"))

    def lookup(self, name: str, *, wait: bool = True) -> Entry:
        """See `views.base.Folder`; always at hand."""
        if name == "status.json":
            return Entry(name, Kind.FILE, len(self._render()), time.time_ns(), access=_own())
        if name == "info":
            return Entry(name, Kind.FOLDER, 0, time.time_ns())
        raise NotFound(f"no control file {name}")

    def child(self, name: str) -> Folder:
        """See `views.base.Folder`."""
        return self._info

    def open(self, name: str, *, wait: bool = True) -> Reader:
        """See `views.base.Folder`."""
        if name != "status.json":
            raise NotFound(f"no control file {name}")
        return LiveReader(self._render())

    def _render(self) -> bytes:
        return _json(self._status())


class InfoFolder(_Live):
    """The facts on the names of one folder of a view."""

    def __init__(self, of: Folder, path: str) -> None:
        self._of = of
        self.path = path

    def scan(self) -> Iterator[Entry]:
        """The names of the folder told of. Sizes are not known before a file is rendered."""
        for entry in self._of.scan():
            if entry.kind is not Kind.LINK:
                yield Entry(entry.name, entry.kind, 0, entry.mtime_ns, access=entry.access)

    def lookup(self, name: str, *, wait: bool = True) -> Entry:
        """See `views.base.Folder`."""
        if name == NODES_NAME:  # its size would be the whole walk
            return Entry(name, Kind.FILE, 0, time.time_ns(), access=_own())
        entry = self._of.lookup(name, wait=wait)
        if entry.kind is Kind.LINK:
            raise NotFound(f"{name} in {self.path} is a symlink: what it leads to is told of there")
        if entry.kind is not Kind.FILE:
            return Entry(name, Kind.FOLDER, 0, entry.mtime_ns, access=entry.access)
        size = len(self._render(name, wait))
        return Entry(name, Kind.FILE, size, entry.mtime_ns, access=entry.access)

    def child(self, name: str) -> Folder:
        """See `views.base.Folder`."""
        return InfoFolder(self._of.child(name), join(self.path, name))

    def open(self, name: str, *, wait: bool = True) -> Reader:
        """See `views.base.Folder`."""
        return LiveReader(self._render(name, wait))

    def _render(self, name: str, wait: bool) -> bytes:
        if not wait:
            raise BlockingIOError(errno.EAGAIN, "facts are gathered from the store")
        if name == NODES_NAME:
            return told_below(self._of)
        return _json(self._of.facts(None if name in DOCUMENTS else name).to_json())


class RootWithControl:
    """The root of a view, with the control folder below it."""

    def __init__(self, root: Folder, control: ControlFolder) -> None:
        self._root = root
        self._control = control
        self.bare = root
        self.path = root.path
        self.scan = root.scan
        self.list = root.list
        self.open = root.open
        self.readlink = root.readlink
        self.facts = root.facts
        self.create = root.create
        self.write = root.write
        self.store = root.store
        self.remove = root.remove
        self.rename = root.rename
        self.link = root.link
        self.symlink = root.symlink
        self.make_folder = root.make_folder
        self.remove_folder = root.remove_folder
        self.change = root.change
        self.sync = root.sync

    def lookup(self, name: str, *, wait: bool = True) -> Entry:
        """See `views.base.Folder`."""
        if name == CONTROL_NAME:
            return self._control.entry
        return self._root.lookup(name, wait=wait)

    def child(self, name: str) -> Folder:
        """See `views.base.Folder`."""
        return self._control if name == CONTROL_NAME else self._root.child(name)


def bare(folder: Folder) -> Folder:
    """A folder of the view itself, as its own folders know it."""
    return folder.bare if isinstance(folder, RootWithControl) else folder


def is_live(folder: Folder) -> bool:
    """Whether nothing of a folder may be kept: it is one of the control folders."""
    return isinstance(folder, _Live)


def _json(value: Any) -> bytes:
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    try:
        return text.encode()
    except UnicodeEncodeError:  # a name that is not UTF-8
        return json.dumps(value, indent=2).encode() + b"\n"
