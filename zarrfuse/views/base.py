"""What a view is: a tree of folders that lists, looks up and opens names.

Views are synchronous and may be called from any thread. The mount serves them to the kernel, and
tests and other programs read the same objects without one. `wait=False` means the same as for
stores (`stores.base`): from what is at hand, or `BlockingIOError`.
"""

from collections.abc import Iterator
from typing import Protocol

from zarrfuse.errors import ReadOnly
from zarrfuse.stores.access import Access, Change
from zarrfuse.stores.base import Entry, Reader, Writer
from zarrfuse.transactions.working_copy import WorkingCopy
from zarrfuse.views.facts import Facts


class Folder(Protocol):
    """One folder of a view. Names are single path segments."""

    __slots__ = ()

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

    # Writing. A view that cannot be written leaves these as they are. All may wait.

    def create(self, name: str, *, exclusive: bool = False, given: Access | None = None) -> Writer:
        """A new, empty file; `given`: its mode, owner and group, as far as the store can give them.

        What is changed in place is there at once. A working copy is there once it is stored, and unless
        `exclusive` it may replace a file that is there.

        Raises `Exists`, `NotFound` (the folder is gone), `NotSupported`, `IsAFolder`.
        """
        raise _read_only()

    def write(self, name: str) -> Writer:
        """Open a file that is there for writing. Raises as `create`, and `NotFound`."""
        raise _read_only()

    def store(self, name: str, copy: WorkingCopy, *, sync: bool = False) -> None:
        """Store a working copy under a name, whole or not at all; with `sync` it outlives the machine.

        Raises `PartsDoNotFit`, `Exists` if the copy `is_new`, and what stores raise; what was stored
        before is then stored as before, and the copy is still `changed`.
        """
        raise _read_only()

    def remove(self, name: str) -> None:
        """Delete a file; of a chunk, all its parts. Raises `NotFound`, `IsAFolder`."""
        raise _read_only()

    def rename(self, name: str, to: "Folder", new_name: str, *, replace: bool = True) -> bool:
        """Move a file or folder to a name in `to`, a folder of the same view.

        True if what is now under the new name is the same file as before; False if it was stored
        anew: split into parts, or rewritten. Raises as stores do, and `NotSupported`.
        """
        raise _read_only()

    def link(self, name: str, to: "Folder", new_name: str) -> None:
        """Store a file under a second, new name. Raises `Exists`, `NotSupported`."""
        raise _read_only()

    def symlink(self, name: str, text: str, given: Access | None = None) -> None:
        """Make a symlink; `given`: see `create`. Raises `Exists`, `Denied`, `NotSupported`."""
        raise _read_only()

    def make_folder(self, name: str, given: Access | None = None) -> None:
        """Make an empty folder; `given`: see `create`. Raises `Exists`, `NotSupported`."""
        raise _read_only()

    def remove_folder(self, name: str) -> None:
        """Delete an empty folder. Raises `NotEmpty`, `NotSupported`."""
        raise _read_only()

    def change(self, name: str, change: Change) -> None:
        """Set time, mode and owner of a file (of a chunk: of all parts) or folder."""
        raise _read_only()

    def sync(self) -> None:
        """Wait until the names in this folder will outlive the machine."""
        return  # not abstract: a view that only reads has nothing to wait for


def _read_only() -> ReadOnly:
    return ReadOnly("the mount is read-only")


def join(path: str, name: str) -> str:
    """`name` in the folder `path`."""
    return f"{path}/{name}" if path else name
