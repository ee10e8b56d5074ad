"""Writing in the `plain` view: its rules, and what its folders share for it.

* A chunk is stored by the `chunks` view at the same coordinates.
* `zarr.json` is a working copy of the shown document. The stored one keeps its key encoding and storage
  transformers. They are remembered when the document is deleted or renamed, while this process runs and the
  folder is not empty: some editors write the new document after that.
* Other files in a chunk folder are stored in the folder that it stands for. If it is not stored as such,
  they are `transient_files`. All else is as in `chunks`.
* A hidden name, whose stored file is shown elsewhere, cannot be written.

`files`, `folders` and `documents` do the writing. Used by `view`.
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
from zarrfuse.views.plain.resolve import ChunkFolder, StoredFolder
from zarrfuse.views.plain.transient_files import TransientFiles

Place: TypeAlias = StoredFolder[PlainNode] | ChunkFolder[PlainNode]

_REMEMBERED = 1000
_BYTES_REMEMBERED = 64 << 20
"""How many deleted documents are remembered, and how many bytes of them: the last ones."""


class PlainWriting:
    """What the folders of one view share to write in it. For any thread."""

    def __init__(self, chunks: ChunksView) -> None:
        self.chunks = chunks
        self.transient = TransientFiles(self._spool)
        self._deleted: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._changes: dict[str, int] = {}
        self._lock = threading.Lock()

    @property
    def commits(self) -> Commits:
        """What stores chunks. Raises `ReadOnly`."""
        self.check()
        assert self.chunks.commits is not None
        return self.chunks.commits

    def check(self) -> None:
        """Raises `ReadOnly` if the view cannot be written."""
        _ = self.chunks.writing  # which raises it

    def _spool(self) -> Spool:
        return self.commits.spool()

    # -- chunks ------------------------------------------------------------------------------

    def changes(self, array: str) -> Callable[[], int]:
        """Counts the chunks of an array that this process stores and deletes."""
        return lambda: self._changes.get(array, 0)

    def changed(self, array: str) -> None:
        """Count one more."""
        with self._lock:
            self._changes[array] = self._changes.get(array, 0) + 1

    # -- documents ---------------------------------------------------------------------------

    def remember(self, folder: str, text: bytes) -> None:
        """Remember the document of a folder, which is about to be deleted."""
        with self._lock:
            self._drop(folder)
            self._deleted[folder] = text
            self._bytes += len(text)
            while len(self._deleted) > _REMEMBERED or self._bytes > _BYTES_REMEMBERED:
                self._drop(next(iter(self._deleted)))

    def remembered(self, folder: str) -> bytes | None:
        """The deleted document of a folder, or None."""
        return self._deleted.get(folder)

    def forget(self, folder: str) -> None:
        """Forget the deleted document of a folder: it has a new one, or is empty."""
        with self._lock:
            self._drop(folder)

    def forget_below(self, folder: str) -> None:
        """Forget deleted documents at and below a folder, which was deleted or renamed."""
        with self._lock:
            below = f"{folder}/" if folder else ""
            for path in [path for path in self._deleted if f"{path}/".startswith(below)]:
                self._drop(path)

    def _drop(self, folder: str) -> None:
        self._bytes -= len(self._deleted.pop(folder, b""))


def hidden(name: str, path: str) -> NotSupported:
    """Why a name in the folder at `path` cannot be written."""
    return NotSupported(
        f"{name} in /{path}: the stored file of this name is shown elsewhere, so the name cannot be used"
    )
