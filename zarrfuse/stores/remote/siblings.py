"""What is fetched before it is asked for: the next small files of a folder, and the next folders.

Used by `store`. Programs go through the chunks of an array in order. What follows in the natural order of
names (`2` before `10`) is looked up, listed or fetched, so that its time on the way passes only once.
"""

import re
import threading
from collections.abc import Iterable, Sequence

from cachetools import LRUCache

from zarrfuse.spec.paths import join
from zarrfuse.stores.remote.ahead import Streams

_MOST_NAMES = 100_000  # of all folders
_FOLDER_WEIGHS = _MOST_NAMES // 64  # as many names at least
_STREAMS = 16
_NEAR = 8  # names: of as many threads that share a list
_DIGITS = re.compile(r"(\d{1,18})")  # Python makes no number of thousands of digits


class Siblings:
    """The order of names in folders, and where programs are in it. For any thread.

    `window`: how many names are wanted ahead.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._lock = threading.Lock()
        self._folders: LRUCache[str, _Names] = LRUCache(_MOST_NAMES, getsizeof=_weight)

    def after(
        self, folder: str, name: str, names: Iterable[str], count: int, *, wait: bool = True
    ) -> Sequence[str]:
        """The keys that are wanted, now that `name` is used; `names`: all `count` in the folder.

        Without `wait`, names are not sorted: 100,000 take 0.3 s.
        """
        if count > _MOST_NAMES:
            return ()
        with self._lock:
            known = self._folders.get(folder)
            if known is None or len(known.order) != count:
                if not wait:
                    return ()
                known = self._folders[folder] = _Names(names, self._window)
        position = known.position.get(name)
        if position is None:
            return ()
        wanted = known.streams.used(position, position, len(known.order))
        return [join(folder, known.order[index]) for index in wanted]


class _Names:
    __slots__ = ("order", "position", "streams")

    def __init__(self, names: Iterable[str], window: int) -> None:
        self.order = sorted(names, key=_natural)
        self.position = {name: index for index, name in enumerate(self.order)}
        self.streams = Streams(_STREAMS, window, _NEAR)


def _weight(names: _Names) -> int:
    return max(len(names.order), _FOLDER_WEIGHS)


def _natural(name: str) -> list[tuple[int, str]]:
    """What to sort names by: runs of digits as numbers."""
    parts = _DIGITS.split(name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts if part]
