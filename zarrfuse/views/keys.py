"""The files of a view by their whole keys, as Zarr libraries ask for them.

Owns the way from a key to its folder. It looks up the names one by one, follows symlinks as the kernel
does, and caches the folders. Keys have no folders of their own: `store` makes those that a key needs, and
`remove` deletes those that are empty then. Used by `zarr_python`. Synchronous, for any thread. It must not
know zarr-python, or which view it walks.
"""

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import suppress

from cachetools import LRUCache

from zarrfuse import caching
from zarrfuse.errors import (
    Denied,
    Exists,
    IsAFolder,
    NotAFolder,
    NotEmpty,
    NotFound,
    NotSupported,
    ZarrfuseError,
)
from zarrfuse.spec.chunk_keys import METADATA_NAMES
from zarrfuse.spec.paths import join
from zarrfuse.stores.base import OWN_NAME, Entry, Kind, Reader
from zarrfuse.transactions.working_copy import WorkingCopy
from zarrfuse.views.base import Folder

_MOST_LINKS = 40  # as many as Linux follows in one path
_FOLDERS_KEPT = 1000
_RACES_TOLERATED = 100  # a race: another process deletes the folder in which a key is being stored
_PASSES = 4


class Keys:
    """The files below `root`, by key.

    `ttl_s`: how long a looked-up folder is cached, in seconds.
    """

    def __init__(self, root: Folder, ttl_s: float) -> None:
        self._root = root
        self._ttl_s = ttl_s
        self._folders: LRUCache[str, tuple[Folder, float]] = LRUCache(_FOLDERS_KEPT)
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

    def store(self, key: str, data: memoryview, *, new: bool = False) -> None:
        """Store bytes under `key`, and make the folders that it needs.

        Chunks and documents are stored whole or not at all. With `new`, raises `Exists` for an existing
        file. Raises what `views.base.Folder.create` and `store` raise, and `NotAFolder` if a file has the
        name of one of the folders.
        """
        path, name = _changed(key)
        for attempt in range(_RACES_TOLERATED):
            try:
                self._store(self._made(path), name, data, new=new)
                return
            except NotFound:
                if attempt == _RACES_TOLERATED - 1:
                    raise
                self._forget(path.partition("/")[0])  # any folder of the path may be gone

    def remove(self, key: str) -> None:
        """Delete the file under `key`, if there is one, and the folders above that are empty then."""
        path, name = _changed(key)
        try:
            self._folder(path).remove(name)
        except (NotFound, NotAFolder, IsAFolder):
            return
        self._tidy(path)

    def remove_folder(self, path: str) -> None:
        """Delete a folder with all in it, if there is one, and those above that are empty then.

        The root (`""`) is emptied and stays. Symlinks are deleted, not followed. Raises `NotAFolder` for a
        file.
        """
        if not path:
            self._empty(self._root)
            self._forget("")
            return
        above, name = _changed(path)
        try:
            folder = self._folder(above)
            kind = folder.lookup(name).kind
        except (NotFound, NotAFolder):
            return
        if kind is Kind.FILE:
            raise NotAFolder(f"{path} is a file")
        try:
            if kind is Kind.LINK:
                folder.remove(name)
            else:
                self._remove_tree(folder, name)
        finally:
            self._forget(path)
        self._tidy(above)

    def names(self, path: str) -> Iterator[str]:
        """The names of files and folders in the folder `path`; none if there is no such folder.

        Broken symlinks and denied folders are left out: no key leads through them.
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
        """Every key that begins with `prefix`, in no order, as it is found.

        A symlink to a folder above itself is left out.
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
        """The folder that a symlink leads to; None if it is broken or circular."""
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
        """The folder `path` over at most `links` symlinks, and when its oldest name was looked up."""
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
            return self._root, caching.now()
        with self._lock:
            known = self._folders.get(path)
            if known is None or not caching.is_fresh(known[1], self._ttl_s):
                return None
            return known

    def _below(
        self, folder: Folder, seen_at: float, name: str, path: str, wait: bool, links: int
    ) -> tuple[Folder, float]:
        """The folder `name` in `folder`, and when the oldest name of its path was looked up."""
        entry = folder.lookup(name, wait=wait)
        if entry.kind is Kind.LINK:
            if not links:
                raise OSError(errno.ELOOP, f"{path} leads through too many symlinks")
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
                below = known  # which has read its node
        elif entry.denied:
            raise Denied(f"{path} leads out of the store")
        else:
            raise NotAFolder(f"{path} is no folder")
        with self._lock:
            self._folders[path] = below, seen_at
        return below, seen_at

    # -- writing -----------------------------------------------------------------------------

    def _store(self, folder: Folder, name: str, data: memoryview, *, new: bool) -> None:
        copy = folder.create(name, exclusive=new)
        try:
            if data:
                copy.write(data, 0)
            if isinstance(copy, WorkingCopy):  # else it is a transient file of `plain`
                folder.store(name, copy)
        finally:
            copy.close()

    def _made(self, path: str) -> Folder:
        """The folder `path`; it and those above are made if they are missing."""
        try:
            return self._folder(path)
        except NotFound:
            above, name = _split(path)
            with suppress(Exists):
                self._made(above).make_folder(_checked(name, path))
            return self._folder(path)

    def _tidy(self, path: str) -> None:
        """Delete a folder and those above, up to the first that is not empty."""
        while path:
            above, name = _split(path)
            try:
                self._folder(above).remove_folder(name)
            except (NotEmpty, NotFound, NotAFolder, NotSupported, Denied):
                return
            finally:
                self._forget(path)
            path = above

    def _remove_tree(self, folder: Folder, name: str) -> None:
        self._empty(folder.child(name))
        with suppress(NotFound):
            folder.remove_folder(name)

    def _empty(self, folder: Folder) -> None:
        """Delete all that is in a folder.

        Metadata is deleted last, so that chunks are deleted with all their parts. Then files may appear
        that it hid, or that could not be deleted while the node was refused: hence several passes.
        """
        problem: ZarrfuseError | None = None
        for _ in range(_PASSES):
            found = sorted(_scanned(folder), key=lambda entry: entry.name in METADATA_NAMES)
            if not found:
                return
            problem = None
            for entry in found:
                try:
                    if entry.kind is Kind.FOLDER and not entry.denied:
                        self._remove_tree(folder, entry.name)
                    else:
                        folder.remove(entry.name)
                except NotFound:
                    continue
                except (NotEmpty, NotSupported) as error:
                    problem = error
        if problem is not None:
            raise problem

    def _forget(self, path: str) -> None:
        """Drop the folder `path` and those below it from the cache."""
        with self._lock:
            below = f"{path}/" if path else ""
            for known in [each for each in self._folders if f"{each}/".startswith(below)]:
                del self._folders[known]


def _scanned(folder: Folder) -> Iterator[Entry]:
    """The entries of a folder; none if it was deleted meanwhile."""
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


def _changed(key: str) -> tuple[str, str]:
    """`_split` of a key that is to be changed. Raises `Denied` for zarrfuse's own folder."""
    path, name = _split(key)
    if key.partition("/")[0] == OWN_NAME:
        raise Denied(f"{key} is where zarrfuse keeps its own files")
    return path, _checked(name, key)


def _checked(name: str, path: str) -> str:
    if name in ("", ".", ".."):
        raise NotFound(f"no key has the path segment {name!r}, as there is at {path!r}")
    return name
