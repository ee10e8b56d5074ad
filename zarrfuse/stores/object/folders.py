"""Folders of an object store, which has none: what this process knows of them beside the keys.

Owns which folders go on existing without a key in them, as on a disk: those that were made here, and those
that lost a name here. Used by `object`. It makes no requests.
"""

import threading

from cachetools import LRUCache

_SEEN = 10_000


class Folders:
    """For any thread. A folder is a key; the root is always there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[str, set[str]] = {"": set()}
        self._seen: LRUCache[str, bool] = LRUCache(_SEEN)

    def keep(self, folder: str) -> bool:
        """Let a folder, and those it lies in, go on existing; false if it did already."""
        with self._lock:
            if folder in self._names:
                return False
            below = None
            while True:
                is_new = folder not in self._names
                names = self._names.setdefault(folder, set())
                if below is not None:
                    names.add(below)
                if not is_new:
                    return True
                folder, _, below = folder.rpartition("/")

    def drop(self, folder: str) -> None:
        """A folder was deleted; the one it lies in goes on existing."""
        above, _, name = folder.rpartition("/")
        self.keep(above)
        with self._lock:
            self._names.pop(folder, None)
            self._names[above].discard(name)
            self._seen.pop(folder, None)

    def is_kept(self, folder: str) -> bool:
        """Whether a folder is there even if no key lies in it."""
        return folder in self._names

    def names(self, folder: str) -> list[str]:
        """The folders in a folder that are kept."""
        with self._lock:
            return list(self._names.get(folder, ()))

    def saw(self, folder: str) -> None:
        """There is a key in this folder, and so in those it lies in."""
        with self._lock:
            while folder:
                self._seen[folder] = True
                folder = folder.rpartition("/")[0]

    def is_known(self, folder: str) -> bool:
        """Whether a folder is kept, or was seen; others may have deleted what was in it."""
        with self._lock:
            return folder in self._names or folder in self._seen
