"""The folders of an object store, which has only keys.

Owns which folders exist without a key in them, as on a disk: those that this process made, and those in
which it deleted a name. Used by `store`. It makes no requests.
"""

import threading

from cachetools import LRUCache

from zarrfuse.spec.paths import folder_of, split

_SEEN = 10_000


class Folders:
    """The folders by key. The root always exists. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[str, set[str]] = {"": set()}
        self._seen: LRUCache[str, bool] = LRUCache(_SEEN)

    def keep(self, folder: str) -> bool:
        """Keep a folder, and those above, without keys; False if it was kept already."""
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
                folder, below = split(folder)

    def drop(self, folder: str) -> None:
        """Delete a folder; the one above is kept."""
        above, name = split(folder)
        self.keep(above)
        with self._lock:
            self._names.pop(folder, None)
            self._names[above].discard(name)
            self._seen.pop(folder, None)

    def is_kept(self, folder: str) -> bool:
        """Whether a folder exists without a key in it."""
        return folder in self._names

    def names(self, folder: str) -> list[str]:
        """The names of kept folders in a folder."""
        with self._lock:
            return list(self._names.get(folder, ()))

    def saw(self, folder: str) -> None:
        """Note that there is a key in this folder, and so in those above."""
        with self._lock:
            while folder:
                self._seen[folder] = True
                folder = folder_of(folder)

    def is_known(self, folder: str) -> bool:
        """Whether a folder is kept, or had a key when it was last seen."""
        with self._lock:
            return folder in self._names or folder in self._seen
