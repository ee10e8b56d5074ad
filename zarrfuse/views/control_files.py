"""The control files: facts on the mount and on each name in it, as JSON.

`.zarrfuse/` is at the root of every mount. Listings leave it out.

* `status.json`: uptime, requests, bytes, errors and refusals.
* `info/PATH`: the facts on the file at that path of the mount; of a chunk its coordinates, key and parts.
  `info/FOLDER/zarr.json` (`.zarray`, `.zgroup`) has the facts on the node itself, and
  `info/FOLDER/.nodes`, which is not listed, those of all nodes at and below it (`walk.told_below`).

Used by `fuse`, which serves it like any other folder. A file is rendered when it is opened.
"""

import errno
import functools
import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from zarrfuse.errors import NotFound
from zarrfuse.formats.segments import Literal
from zarrfuse.spec.paths import join
from zarrfuse.stores.access import Access
from zarrfuse.stores.base import Entry, Kind, Reader
from zarrfuse.views.base import Folder
from zarrfuse.views.facts import Facts
from zarrfuse.views.nodes import DOCUMENTS
from zarrfuse.views.walk import told_below

CONTROL_NAME = ".zarrfuse"
NODES_NAME = ".nodes"


class LiveReader(Literal):
    """Bytes that were rendered for this opening of the file."""


@functools.cache
def own_access() -> Access:
    """The access of control files that the user of the daemon alone may read, whatever the mount shows.

    They have facts on private files, too. They are recognized by this object.
    """
    return Access(0o600, os.geteuid(), os.getegid())


class _Live(Folder):
    """A control folder: it has no symlinks, and the kernel must not cache it."""

    def readlink(self, name: str) -> str:
        """Raises `NotFound`."""
        raise NotFound(f"no link {name} in {self.path}")

    def facts(self, name: str | None) -> Facts:
        """The path alone."""
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
        """See `views.base.Folder`; never waits."""
        if name == "status.json":
            return Entry(name, Kind.FILE, len(self._render()), time.time_ns(), access=own_access())
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
    """The facts on the names in one folder of a view."""

    def __init__(self, of: Folder, path: str) -> None:
        self._of = of
        self.path = path

    def scan(self) -> Iterator[Entry]:
        """The names in that folder, with size 0: sizes are known when a file is rendered."""
        for entry in self._of.scan():
            if entry.kind is not Kind.LINK:
                yield Entry(entry.name, entry.kind, 0, entry.mtime_ns, access=entry.access)

    def lookup(self, name: str, *, wait: bool = True) -> Entry:
        """See `views.base.Folder`."""
        if name == NODES_NAME:  # its size would be the whole walk
            return Entry(name, Kind.FILE, 0, time.time_ns(), access=own_access())
        entry = self._of.lookup(name, wait=wait)
        if entry.kind is Kind.LINK:
            raise NotFound(f"{name} in {self.path} is a symlink: its target has the facts")
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
    """The root of a view with the control folder in it."""

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
    """The folder of the view without control files, which its other folders take in `rename`."""
    return folder.bare if isinstance(folder, RootWithControl) else folder


def is_live(folder: Folder) -> bool:
    """Whether it is a control folder, which the kernel must not cache."""
    return isinstance(folder, _Live)


def _json(value: Any) -> bytes:
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    try:
        return text.encode()
    except UnicodeEncodeError:  # a name that is not UTF-8
        return json.dumps(value, indent=2).encode() + b"\n"
