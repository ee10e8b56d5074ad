"""What a view is: a tree of folders that lists, looks up and opens names.

Views are synchronous and may be called from any thread. The mount serves them to the kernel, and
tests and other programs read the same objects without one. `wait=False` means the same as for
stores (`stores.base`): from what is at hand, or `BlockingIOError`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from zarrfuse.errors import ReadOnly
from zarrfuse.stores.base import Entry, Reader

Facts = Mapping[str, Any]
"""What control files and attributes tell of a name: JSON values by name."""


class Writer(Reader, Protocol):
    """An open file of a view that can be written; `size` and `mtime_ns` are those of now.

    `is_private`: its bytes are a copy of its own until `store`, and everybody else has those of
    before. Else it is the stored file itself, shared by all who have it open.
    """

    is_private: bool

    @property
    def changed(self) -> bool:
        """Whether a private copy holds what has not been stored. False of shared files."""

    def write(self, data: bytes | memoryview, offset: int) -> None:
        """Write all of `data` at `offset`; a gap in front of it becomes zeros."""

    def truncate(self, size: int) -> None:
        """Make it `size` bytes long."""

    def set_mtime(self, mtime_ns: int) -> None:
        """Set the time of its last change; of a private copy, that with which it will be stored."""

    def store(self, *, sync: bool = False) -> bool:
        """Store a private copy if it is `changed`, whole or not at all; whether it was.

        `sync`: what was written outlives the machine, of shared files too. Raises `PartsDoNotFit`
        and what stores raise; then the old bytes are stored as before, and the copy is still there.
        """

    def close(self) -> None:
        """Let go of it. What has not been stored is lost."""


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

    # Writing. A view that cannot be written leaves these as they are. All may wait.

    def create(self, name: str, *, exclusive: bool = False) -> Writer:
        """A new file. A private one is there for others once it is stored; unless `exclusive`, it may
        be made in place of one that is there, which it replaces then. A shared one is always new.

        Raises `Exists`, `NotFound` (the folder is gone), `NotSupported`, `IsAFolder`.
        """
        raise _read_only()

    def write(self, name: str, *, truncate: bool = False) -> Writer:
        """Open a file that is there for writing. Raises as `create`, and `NotFound`."""
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

    def make_folder(self, name: str) -> None:
        """Make an empty folder. Raises `Exists`, `NotSupported`."""
        raise _read_only()

    def remove_folder(self, name: str) -> None:
        """Delete an empty folder. Raises `NotEmpty`, `NotSupported`."""
        raise _read_only()

    def set_mtime(self, name: str, mtime_ns: int) -> None:
        """Set the time of the last change of a file (of a chunk: of all parts) or folder."""
        raise _read_only()

    def sync(self) -> None:
        """Wait until the names in this folder will outlive the machine."""
        return  # not abstract: a view that only reads has nothing to wait for


def _read_only() -> ReadOnly:
    return ReadOnly("the mount is read-only")


def join(path: str, name: str) -> str:
    """`name` in the folder `path`."""
    return f"{path}/{name}" if path else name
