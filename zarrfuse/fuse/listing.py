"""What is known of the names in one folder, and for how long that counts.

A listing may be under way while the mount itself makes, changes and deletes names: what it finds of
those is older than what is known. Used by `nodes` and `folders`; it knows neither the kernel nor views.
"""

import re
from collections.abc import Iterable
from math import inf

from zarrfuse.stores.base import Entry

_HIDDEN = re.compile(
    # Names that desktops look for in every folder of every mount. They are answered without asking
    # a store, and are not listed either, so that a listing never names what cannot be opened.
    r"\.(?:_|Trash|hidden$|xdg-volume-info$|DS_Store$)|autorun\.inf$|desktop\.ini$"
    # Names that no file system has; an object store may.
    r"|\.{0,2}$|.*[/\0]",
    re.DOTALL,
)


def is_hidden(name: str) -> bool:
    """Whether a mount has no such name: no file system has it, or only desktops ask for it."""
    return _HIDDEN.match(name) is not None


class Listing:
    """The names in a folder.

    `entries` are those of the last listing, by name, with what the mount changed since. Without any
    listing they are empty.
    """

    __slots__ = ("_changed_at", "_coming", "_coming_at", "changed", "entries", "listed_at")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.listed_at = -inf
        """When the last listing was begun; `-inf` if it may have missed a change."""
        self.changed: dict[str, float] = {}
        """Names that the mount changed since the folder was opened, and when."""
        self._changed_at = -inf
        self._coming: dict[str, Entry] | None = None
        self._coming_at = -inf

    def begin(self, now: float) -> None:
        """A listing begins."""
        self._coming, self._coming_at = {}, now

    def extend(self, found: Iterable[Entry], *, coming: bool) -> list[Entry]:
        """Those names of what a listing has found that are there and shown; `coming`: the newest one."""
        hidden = _HIDDEN.match
        shown = [entry for entry in found if not hidden(entry.name)]
        if self.changed:
            shown = [self._as_known(entry) for entry in shown if self._is_there(entry.name)]
        if coming and self._coming is not None:
            self._coming.update((entry.name, entry) for entry in shown)
        return shown

    def end(self, *, complete: bool) -> None:
        """The listing has ended."""
        if complete and self._coming is not None:
            for name, changed_at in self.changed.items():
                if changed_at >= self._coming_at and name in self.entries:
                    self._coming[name] = self.entries[name]
            self.entries = self._coming
            self.listed_at = self._coming_at if self._coming_at > self._changed_at else -inf
        self._coming = None

    def put(self, entry: Entry, now: float, *, is_watched: bool) -> None:
        """The mount made or changed a name."""
        self.entries[entry.name] = entry
        self._touch(entry.name, now, is_watched)

    def drop(self, name: str, now: float, *, is_watched: bool) -> None:
        """The mount deleted a name."""
        self.entries.pop(name, None)
        self._touch(name, now, is_watched)

    def outdate(self, now: float) -> None:
        """Any name may be another by now: a document was changed, or a folder moved."""
        self.listed_at = -inf
        self._changed_at = now

    def clear(self) -> None:
        """Nobody needs to know."""
        self.entries = {}
        self.listed_at = -inf
        self.changed.clear()

    def _touch(self, name: str, now: float, is_watched: bool) -> None:
        self._changed_at = now
        if is_watched:
            self.changed[name] = now

    def _is_there(self, name: str) -> bool:
        return not self._is_newer(name) or name in self.entries

    def _as_known(self, entry: Entry) -> Entry:
        return self.entries[entry.name] if self._is_newer(entry.name) else entry

    def _is_newer(self, name: str) -> bool:
        return self.changed.get(name, -inf) >= self._coming_at
