"""Writing in the `plain` view: the rules, and what its folders share to write in it.

Used by the folders of `plain`; what a name of a file is, `plain_files` says, what one of a folder,
`plain_folders`, and what is done with documents, `plain_documents`. How a chunk is split is for the
`chunks` view to know, through which all is stored.

* A chunk by its default key is the chunk of the `chunks` view at the same coordinates.
* `zarr.json` is a private copy of what is shown. What is stored keeps the key encoding and the storage
  transformers. Those of a document that has been deleted or renamed away are remembered as long as
  something else is in its folder and this process runs: an editor may write the new one so.
* Other files in a chunk folder lie in the stored folder it stands for; where there is none, they are
  `loose_files`. All else is as in `chunks`.
* A name that is hidden, because what is stored under it is shown elsewhere, cannot be written.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeAlias

from zarrfuse.errors import NotSupported
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.spool import Spool
from zarrfuse.views.chunks.view import ChunksView
from zarrfuse.views.plain.nodes import PlainNode
from zarrfuse.views.plain.resolve import InChunks, Stored
from zarrfuse.views.plain.transient_files import LooseFiles

Place: TypeAlias = Stored[PlainNode] | InChunks[PlainNode]

_REMEMBERED = 1000
_BYTES_REMEMBERED = 64 << 20
"""So many documents that were deleted, of so many bytes in all, are remembered: the last ones."""


class PlainWriting:
    """What the folders of one view share to write in it. For any thread."""

    def __init__(self, chunks: ChunksView) -> None:
        self.chunks = chunks
        self.loose = LooseFiles(self._spool)
        self._deleted: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._changes: dict[str, int] = {}
        self._lock = threading.Lock()

    @property
    def commits(self) -> Commits:
        """What stores. Raises `ReadOnly`."""
        self.check()
        assert self.chunks.commits is not None
        return self.chunks.commits

    def check(self) -> None:
        """Raises `ReadOnly` where nothing can be written."""
        _ = self.chunks.writing  # which raises it

    def _spool(self) -> Spool:
        return self.commits.spool()

    # -- chunks ------------------------------------------------------------------------------

    def changes(self, array: str) -> Callable[[], int]:
        """How many chunks of the array at a path this process has stored and deleted."""
        return lambda: self._changes.get(array, 0)

    def changed(self, array: str) -> None:
        """One more has been."""
        with self._lock:
            self._changes[array] = self._changes.get(array, 0) + 1

    # -- documents ---------------------------------------------------------------------------

    def remember(self, folder: str, text: bytes) -> None:
        """The document of a folder, which is about to be deleted."""
        with self._lock:
            self._drop(folder)
            self._deleted[folder] = text
            self._bytes += len(text)
            while len(self._deleted) > _REMEMBERED or self._bytes > _BYTES_REMEMBERED:
                self._drop(next(iter(self._deleted)))

    def remembered(self, folder: str) -> bytes | None:
        """The document of a folder that was deleted, if there is no newer one."""
        return self._deleted.get(folder)

    def forget(self, folder: str) -> None:
        """A folder has a document again, or nothing at all."""
        with self._lock:
            self._drop(folder)

    def forget_below(self, folder: str) -> None:
        """A folder is gone, or has another name, with all that was in it."""
        with self._lock:
            below = f"{folder}/" if folder else ""
            for path in [path for path in self._deleted if f"{path}/".startswith(below)]:
                self._drop(path)

    def _drop(self, folder: str) -> None:
        self._bytes -= len(self._deleted.pop(folder, b""))


def hidden(name: str, path: str) -> NotSupported:
    """Why a name in the folder at `path` cannot be written."""
    return NotSupported(
        f"{name} in /{path}: what is stored under this name is shown elsewhere, so it cannot be used"
    )
