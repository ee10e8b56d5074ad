"""The cached listing of one folder.

While a scan runs, the mount itself may create, change and delete names. For these names the scan is out of
date, and the known entries win. Used by `nodes` and `folders`. It must not know the kernel or views.
"""

import re
from collections.abc import Iterable
from math import inf

from zarrfuse.stores.base import Entry

_HIDDEN = re.compile(
    # Names that desktops look up in every folder of every mount. They are answered without a store call,
    # and are not listed, because they cannot be opened.
    r"\.(?:_|Trash|hidden$|xdg-volume-info$|DS_Store$)|autorun\.inf$|desktop\.ini$"
    # Names that an object store may have, and no file system.
    r"|\.{0,2}$|.*[/\0]",
    re.DOTALL,
)


def is_hidden(name: str) -> bool:
    """Whether a mount never has this name: no file system has it, or only desktops look it up."""
    return _HIDDEN.match(name) is not None


class Listing:
    """The names in a folder.

    `entries`: those of the last scan, by name, with the changes of the mount since; empty without a scan.
    """

    __slots__ = ("_changed_at", "_coming", "_coming_at", "changed", "entries", "listed_at")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.listed_at = -inf
        """When the last scan began; `-inf` if it may have missed a change."""
        self.changed: dict[str, float] = {}
        """Names that the mount has changed since the folder was opened, with the time."""
        self._changed_at = -inf
        self._coming: dict[str, Entry] | None = None
        self._coming_at = -inf

    def begin(self, now: float) -> None:
        """Begin a scan."""
        self._coming, self._coming_at = {}, now

    def extend(self, found: Iterable[Entry], *, coming: bool) -> list[Entry]:
        """The entries to show of those that a scan has found; `coming`: whether it is the newest scan."""
        hidden = _HIDDEN.match
        shown = [entry for entry in found if not hidden(entry.name)]
        if self.changed:
            shown = [self._as_known(entry) for entry in shown if self._is_there(entry.name)]
        if coming and self._coming is not None:
            self._coming.update((entry.name, entry) for entry in shown)
        return shown

    def end(self, *, complete: bool) -> None:
        """End a scan."""
        if complete and self._coming is not None:
            for name, changed_at in self.changed.items():
                if changed_at >= self._coming_at and name in self.entries:
                    self._coming[name] = self.entries[name]
            self.entries = self._coming
            self.listed_at = self._coming_at if self._coming_at > self._changed_at else -inf
        self._coming = None

    def put(self, entry: Entry, now: float, *, is_watched: bool) -> None:
        """Note that the mount created or changed a name."""
        self.entries[entry.name] = entry
        self._touch(entry.name, now, is_watched)

    def drop(self, name: str, now: float, *, is_watched: bool) -> None:
        """Note that the mount deleted a name."""
        self.entries.pop(name, None)
        self._touch(name, now, is_watched)

    def outdate(self, now: float) -> None:
        """Note that any entry may have changed: a document was written, or a folder moved."""
        self.listed_at = -inf
        self._changed_at = now

    def clear(self) -> None:
        """Drop everything."""
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
