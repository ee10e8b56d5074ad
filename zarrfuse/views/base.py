"""The protocol of a view: a tree of folders that list, look up and open names.

Views are synchronous and may be called from any thread. A mount serves them to the kernel; tests and
other programs use the same objects without a mount. With `wait=False` a call answers from memory, or
raises `BlockingIOError`, as in `stores.base`.
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
        """Yield every name in the folder, with its exact size, as it is found."""

    def list(self) -> dict[str, Entry]:
        """The entries that `scan` yields, by name."""
        return {entry.name: entry for entry in self.scan()}

    def lookup(self, name: str, *, wait: bool = True) -> Entry:
        """The entry of one name, as `list` has it. Raises `NotFound`."""

    def child(self, name: str) -> "Folder":
        """The subfolder of this name. Nothing is read yet."""

    def open(self, name: str, *, wait: bool = True) -> Reader:
        """Open a file. Raises `NotFound`, `Denied`, and `NotSupported` if its node must not be loaded."""

    def readlink(self, name: str) -> str:
        """The target of a symlink, relative to this folder."""

    def facts(self, name: str | None) -> Facts:
        """The facts on a name in the folder, or on the folder itself (None). Raises `NotFound`."""

    # Writing. A read-only view does not override these. All of them may wait.

    def create(self, name: str, *, exclusive: bool = False, given: Access | None = None) -> Writer:
        """Create an empty file; `given`: its mode, owner and group, as far as the store keeps them.

        A file that is changed in place is stored at once. A working copy is stored by `store`, and then
        replaces an existing file, unless `exclusive`.

        Raises `Exists`, `NotFound` (the folder is gone), `NotSupported`, `IsAFolder`.
        """
        raise _read_only()

    def write(self, name: str) -> Writer:
        """Open an existing file for writing. Raises as `create`, and `NotFound`."""
        raise _read_only()

    def store(self, name: str, copy: WorkingCopy, *, sync: bool = False) -> None:
        """Store a working copy under a name, whole or not at all; with `sync`, durably.

        Raises `PartsDoNotFit`, `Exists` if the copy `is_new`, and what stores raise. After an error the
        stored file is as before, and the copy is still `changed`.
        """
        raise _read_only()

    def remove(self, name: str) -> None:
        """Delete a file; of a chunk, all its parts. Raises `NotFound`, `IsAFolder`."""
        raise _read_only()

    def rename(self, name: str, to: "Folder", new_name: str, *, replace: bool = True) -> bool:
        """Move a file or folder to a name in `to`, a folder of the same view.

        True if the file is the same one under its new name; False if it was stored again, because it
        was split into parts or rewritten. Raises what stores raise, and `NotSupported`.
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
        """Make the names in this folder durable (`fsync`)."""
        return  # not abstract: a view that only reads has nothing to wait for


def _read_only() -> ReadOnly:
    return ReadOnly("the mount is read-only")
