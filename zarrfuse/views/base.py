"""What a view is: a tree of folders that lists, looks up and opens names.

Views are synchronous and may be called from any thread. The mount serves them to the kernel, and
tests and other programs read the same objects without one. `wait=False` means the same as for
stores (`stores.base`): from what is at hand, or `BlockingIOError`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from zarrfuse.stores.base import Entry, Reader

Facts = Mapping[str, Any]
"""What control files and attributes tell of a name: JSON values by name."""


class Folder(Protocol):
    """One folder of a view. Names are single path segments."""

    path: str
    """Where it is in the view, `/`-separated; `""` for the root."""

    def scan(self) -> Iterator[Entry]:
        """Every name that is shown, with exact sizes, as they are found."""

    def list(self) -> dict[str, Entry]:
        """What `scan` finds, by name."""
        return {entry.name: entry for entry in self.scan()}

    def lookup(self, name: str, *, wait: bool = True) -> Entry:
        """One name as `list` would show it. Raises `NotFound`."""

    def child(self, name: str) -> "Folder":
        """The folder of that name; nothing is read before it is asked something."""

    def open(self, name: str, *, wait: bool = True) -> Reader:
        """Open a file. Raises `NotFound`, `Denied`, `NotSupported` (the node must not be loaded)."""

    def readlink(self, name: str) -> str:
        """Where a link leads, relative to this folder."""

    def facts(self, name: str | None) -> Facts:
        """What is known of a name, or of the folder itself. Raises `NotFound`."""


def join(path: str, name: str) -> str:
    """`name` in the folder `path`."""
    return f"{path}/{name}" if path else name
