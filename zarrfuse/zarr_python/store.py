"""A store of zarr-python that serves the `plain` view of a source without a mount.

Owns opening and closing the source. `keys` implements the interface of a store over the view, so that the
store and a mount have the same bytes. Used by `zarrfuse.open_store`.
"""

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from stat import S_ISDIR
from typing import Self, TypeVar, cast

from zarrfuse.config import FOLDER_TTL_S, PERMANENT_TTL_S
from zarrfuse.decoding.fill_values import is_fill
from zarrfuse.errors import SourceError, UnusableSource
from zarrfuse.stores.base import Store, WritableStore
from zarrfuse.stores.opening import is_url
from zarrfuse.stores.opening import open_store as open_stored
from zarrfuse.stores.zip.file import ZIP_ENDINGS
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.recovered_view import rolled_forward
from zarrfuse.views.chunks.journals import judge_of
from zarrfuse.views.chunks.view import ChunksView
from zarrfuse.views.keys import Keys
from zarrfuse.zarr_python.keys import KeysOfAView, keys_of, os_errors

AnyPlainStore = TypeVar("AnyPlainStore", bound="PlainStore")


class PlainStore(KeysOfAView):
    """The `plain` view of `source`, a folder or a zip file, as a store of zarr-python.

    A missing key is `None`. An errno of a mount is an `OSError` with that errno and a sentence: a missing
    part of a chunk (EIO), bytes that do not fit the parts (EINVAL), a node that must not be loaded
    (ENOTSUP), a symlink that leads out of the store (`PermissionError`). May be used by any thread and
    event loop, and be pickled; a copy opens the source again.

    `read_only=False`: the source must be a folder or an object store; a missing folder is made.
    """

    def __init__(self, source: str | os.PathLike[str], *, read_only: bool = True) -> None:
        super().__init__(read_only=read_only)
        path = os.fspath(source)
        self.source = path if is_url(path) else os.path.abspath(path)
        self._path = self.source  # with symlinks resolved, as it was opened
        self._folder: tuple[int, int] | None = None  # the opened folder; None for a zip or a URL
        self._opening = threading.Lock()

    def with_read_only(self, read_only: bool = False) -> Self:
        """A new store of the same source, not opened yet."""
        return type(self)(self.source, read_only=read_only)

    def __str__(self) -> str:
        return f"zarrfuse://{self.source}"

    def __repr__(self) -> str:
        options = "" if self.read_only else ", read_only=False"
        return f"{type(self).__name__}({self.source!r}{options})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlainStore) and self.source == other.source

    def __hash__(self) -> int:
        return hash(self.source)

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[type[Self], str, bool]]:
        return _reopened, (type(self), self.source, self.read_only)

    # -- life --------------------------------------------------------------------------------

    def ensure_open(self) -> Keys:
        """Open the source unless it is open.

        Raises `ValueError` for a source that cannot be used, such as a URL of an unknown scheme, and
        `OSError` for one that does not exist or may not be read.
        """
        keys = self._opened
        if keys is None or self._is_replaced():
            with self._opening, _opening_errors():
                keys = self._opened
                if keys is None or self._is_replaced():
                    path = self._path if keys is not None else _real(self.source)
                    if not self.read_only:
                        _make_folder(path)
                    folder = _folder_at(path)  # before opening, to notice a later replacement
                    keys = _opened(path, writable=not self.read_only)
                    self._path, self._folder = path, folder
                    self._opened = keys
                    self._is_open = True
        return keys

    def _is_replaced(self) -> bool:
        """Whether the open folder was deleted or replaced: its missing chunks would read as the fill value.

        An open zip stays readable after its name is deleted.
        """
        return self._folder is not None and _folder_at(self._path) != self._folder

    async def _open(self) -> None:
        if self._is_open:
            raise ValueError("store is already open")
        await self._in_thread(self.ensure_open)

    def close(self) -> None:
        """Close the source after the running calls. The next call opens it again."""
        with self._opening:
            super().close()
            self._opened = self._folder = None


@contextmanager
def _opening_errors() -> Iterator[None]:
    """A block that turns exceptions of zarrfuse into those of `fsspec` and zarr-python for opening."""
    with os_errors():
        try:
            yield
        except UnusableSource as error:
            raise ValueError(str(error)) from error


def _opened(path: str, *, writable: bool) -> Keys:
    stored = open_stored(path, writable=writable)
    try:
        judge = judge_of(stored)
        commits = None
        if writable:
            commits = Commits(cast(WritableStore, stored), judge=judge, in_place=False)
        ttl_s = PERMANENT_TTL_S if stored.permanent else FOLDER_TTL_S
        keys = keys_of(ChunksView(rolled_forward(stored, judge), ttl_s, commits, is_fill))
    except BaseException:
        stored.close()
        raise
    # After the last read, even without `close`: a worker may unpickle a store for each task.
    weakref.finalize(keys, _close, stored, commits)
    return keys


def _close(stored: Store, commits: Commits | None) -> None:
    if commits is not None:
        commits.close()
    stored.close()


def _make_folder(path: str) -> None:
    """Make the folder for writing, if it is missing. Raises `SourceError`, `OSError`."""
    if is_url(path) or os.path.isdir(path):
        return
    if os.path.exists(path) or path.endswith(ZIP_ENDINGS):
        raise SourceError(
            f"{path} is not a folder, so it can't be written: open it with read_only=True"
        )
    with suppress(FileExistsError):
        os.mkdir(path)


def _real(source: str) -> str:
    return source if is_url(source) else os.path.realpath(source)


def _reopened(kind: type[AnyPlainStore], source: str, read_only: bool) -> AnyPlainStore:
    return kind(source, read_only=read_only)


def _folder_at(path: str) -> tuple[int, int] | None:
    """Device and inode of the folder at a path; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if S_ISDIR(status.st_mode) else None
