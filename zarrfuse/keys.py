"""The files of a view by their whole keys, as a Zarr library asks for them.

Owns the way from a key to its folder: names looked up one by one, symlinks followed as the kernel
does on a mount, and the folders that were found, kept so that the metadata of a node is not read
again for each of its chunks. Used by `plain_store`. Synchronous, for any thread; it must not know
zarr-python or which view it walks.
"""

import errno
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator

from zarrfuse.errors import NotAFolder, NotFound
from zarrfuse.stores.base import Entry, Kind, Reader
from zarrfuse.views.base import Folder, join

_MOST_LINKS = 40  # as many as Linux follows in one path
_FOLDERS_KEPT = 1000


class Keys:
    """The files below `root`, by key.

    `ttl_s`: how long, in seconds, to believe that a folder has not become something else.
    """

    def __init__(self, root: Folder, ttl_s: float) -> None:
        self._root = root
        self._ttl_s = ttl_s
        self._folders: OrderedDict[str, tuple[Folder, float]] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, key: str, *, wait: bool = True) -> Reader:
        """Open the file under `key`; see `views.base.Folder.open`. Raises `NotFound`."""
        path, name = _split(key)
        return self._folder(path, wait).open(_checked(name, key), wait=wait)

    def lookup(self, key: str) -> Entry:
        """The entry of the file under `key`. Raises `NotFound`, also for a folder."""
        path, name = _split(key)
        entry = self._folder(path).lookup(_checked(name, key))
        if entry.kind is not Kind.FILE:
            raise NotFound(f"{key} is no file")
        return entry

    def names(self, path: str) -> Iterator[str]:
        """The names of files and folders in the folder `path`; none if there is no such folder.

        Left out are those that no key leads through: a folder out of the store, a link to nothing.
        """
        try:
            folder = self._folder(path)
        except (NotFound, NotAFolder):
            return
        for entry in _scanned(folder):
            if entry.kind is Kind.LINK:
                is_shown = self._linked(join(path, entry.name)) is not None
            else:
                is_shown = entry.kind is Kind.FILE or not entry.denied
            if is_shown:
                yield entry.name

    def walk(self, prefix: str) -> Iterator[str]:
        """Every key that begins with `prefix`, in no order, as they are found.

        Folders that lead out of the store are left out, and so is a symlink to a folder above it.
        """
        try:
            path, beginning = _split(prefix)
            folder = self._folder(path)
        except (NotFound, NotAFolder):
            return
        yield from self._walk(folder, path, beginning, (folder.path,))

    def _walk(
        self, folder: Folder, path: str, beginning: str, above: tuple[str, ...]
    ) -> Iterator[str]:
        for entry in _scanned(folder):
            if not entry.name.startswith(beginning):
                continue
            key = join(path, entry.name)
            if entry.kind is Kind.FILE:
                yield key
            elif not entry.denied:
                is_link = entry.kind is Kind.LINK
                below = self._linked(key) if is_link else folder.child(entry.name)
                if below is not None and below.path not in above:
                    yield from self._walk(below, key, "", (*above, below.path))

    def _linked(self, path: str) -> Folder | None:
        """The folder that a symlink leads to; None when it leads nowhere or in circles."""
        try:
            return self._folder(path)
        except (NotFound, NotAFolder):
            return None
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            return None

    def _folder(self, path: str, wait: bool = True) -> Folder:
        """The folder `path`. Raises `NotFound`, `OSError` (ELOOP)."""
        return self._seen(path, wait, _MOST_LINKS)[0]

    def _seen(self, path: str, wait: bool, links: int) -> tuple[Folder, float]:
        """The folder `path`, over at most so many symlinks, and when the way to it was looked at."""
        names: list[str] = []
        known = self._known(path)
        while known is None:
            path, name = _split(path)
            names.append(name)
            known = self._known(path)
        while names:
            name = names.pop()
            path = join(path, _checked(name, path))
            known = self._below(*known, name, path, wait, links)
        return known

    def _known(self, path: str) -> tuple[Folder, float] | None:
        if not path:
            return self._root, time.monotonic()
        with self._lock:
            known = self._folders.get(path)
            if known is None or time.monotonic() - known[1] >= self._ttl_s:
                return None
            self._folders.move_to_end(path)
            return known

    def _below(
        self, folder: Folder, seen_at: float, name: str, path: str, wait: bool, links: int
    ) -> tuple[Folder, float]:
        """The folder `name` in one, and when the oldest on the way there was looked at."""
        entry = folder.lookup(name, wait=wait)
        if entry.kind is Kind.LINK:
            if not links:
                raise OSError(errno.ELOOP, f"{path} goes over too many symlinks")
            if not wait:
                raise BlockingIOError(errno.EAGAIN, "a symlink has to be followed")
            target = os.path.normpath(join(folder.path, folder.readlink(name)))
            below, target_seen_at = self._seen("" if target == "." else target, wait, links - 1)
            seen_at = min(seen_at, target_seen_at)
        elif entry.kind is Kind.FOLDER:
            below = folder.child(name)
            with self._lock:
                known, _ = self._folders.get(path, (below, 0.0))
            if known.path == below.path:
                below = known  # the same place as before, and it knows its node
        else:
            raise NotFound(f"{path} is no folder")
        with self._lock:
            self._folders[path] = below, seen_at
            self._folders.move_to_end(path)
            if len(self._folders) > _FOLDERS_KEPT:
                self._folders.popitem(last=False)
        return below, seen_at


def _scanned(folder: Folder) -> Iterator[Entry]:
    """What is in a folder; nothing if it is gone since it was found."""
    try:
        yield from folder.scan()
    except (NotFound, NotAFolder):
        return


def _split(key: str) -> tuple[str, str]:
    """The folder of a key and the name in it."""
    path, slash, name = key.rpartition("/")
    if slash and not path:
        raise NotFound(f"no key begins with a slash, as {key!r} does")
    return path, name


def _checked(name: str, path: str) -> str:
    if name in ("", ".", ".."):
        raise NotFound(f"no key has the path segment {name!r}, as there is at {path!r}")
    return name
