"""The `raw` view: every key of the store, byte for byte. For copying and debugging.

All its files are ordinary ones, also parts of chunks and metadata documents: writing here is like writing
to the store without a mount. Zarrfuse's own folder cannot be written.
"""

from collections.abc import Iterator

from zarrfuse.errors import Denied, Elsewhere, ReadOnly
from zarrfuse.spec.paths import join
from zarrfuse.stores.access import Access, Change
from zarrfuse.stores.base import OWN_NAME, Entry, Kind, Reader, Store, Writer
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.working_copy import WorkingCopy
from zarrfuse.views import ordinary_files
from zarrfuse.views.base import Folder
from zarrfuse.views.facts import Facts


class RawFolder(Folder):
    """A folder of a store as it is stored. `commits`: what writes; None for a read-only view."""

    __slots__ = ("_commits", "_store", "path")

    def __init__(self, store: Store, path: str = "", commits: Commits | None = None) -> None:
        self._store = store
        self._commits = commits
        self.path = path

    def scan(self) -> Iterator[Entry]:
        """See `views.base.Folder`."""
        return self._store.scan(self.path, follow=False)

    def lookup(self, name: str, *, wait: bool = True) -> Entry:
        """See `views.base.Folder`."""
        return self._store.stat(join(self.path, name), wait=wait, follow=False)

    def child(self, name: str) -> "RawFolder":
        """See `views.base.Folder`."""
        return RawFolder(self._store, join(self.path, name), self._commits)

    def open(self, name: str, *, wait: bool = True) -> Reader:
        """See `views.base.Folder`."""
        key = join(self.path, name)
        if self._commits is None:
            return self._store.open(key, wait=wait)
        return ordinary_files.open_(self._commits.store, key, wait=wait)

    def readlink(self, name: str) -> str:
        """See `views.base.Folder`."""
        return self._store.readlink(join(self.path, name))

    def facts(self, name: str | None) -> Facts:
        """See `views.base.Folder`: view, path, kind and size."""
        path = self.path if name is None else join(self.path, name)
        entry = self._store.stat(path, follow=False)
        size = None if entry.kind is Kind.FOLDER else entry.size
        return Facts(view="raw", path=path, kind=entry.kind, size=size)

    # -- writing -----------------------------------------------------------------------------

    def create(self, name: str, *, exclusive: bool = False, given: Access | None = None) -> Writer:
        """See `views.base.Folder`."""
        key = self._changed(name)
        return ordinary_files.create(self._writing, key, exclusive=exclusive, given=given)

    def write(self, name: str) -> Writer:
        """See `views.base.Folder`."""
        return ordinary_files.write(self._writing, self._changed(name))

    def store(self, name: str, copy: WorkingCopy, *, sync: bool = False) -> None:
        """See `views.base.Folder`."""
        ordinary_files.store(self._writing, self._changed(name), copy, sync=sync)

    def remove(self, name: str) -> None:
        """See `views.base.Folder`."""
        self._writing.store.remove(self._changed(name))

    def rename(self, name: str, to: Folder, new_name: str, *, replace: bool = True) -> bool:
        """See `views.base.Folder`. Always True: it is the same file."""
        new_key = self._other(to)._changed(new_name)
        self._writing.store.rename(self._changed(name), new_key, replace=replace)
        return True

    def link(self, name: str, to: Folder, new_name: str) -> None:
        """See `views.base.Folder`."""
        new_key = self._other(to)._changed(new_name)
        self._writing.store.link(self._changed(name), new_key)

    def symlink(self, name: str, text: str, given: Access | None = None) -> None:
        """See `views.base.Folder`."""
        self._writing.store.symlink(self._changed(name), text, given)

    def make_folder(self, name: str, given: Access | None = None) -> None:
        """See `views.base.Folder`."""
        self._writing.store.make_folder(self._changed(name), given)

    def remove_folder(self, name: str) -> None:
        """See `views.base.Folder`."""
        self._writing.store.remove_folder(self._changed(name))

    def change(self, name: str, change: Change) -> None:
        """See `views.base.Folder`."""
        self._writing.store.change(self._changed(name), change, follow=False)

    def sync(self) -> None:
        """See `views.base.Folder`."""
        if self._commits is not None:
            self._commits.store.sync_folder(self.path)

    @property
    def _writing(self) -> Commits:
        if self._commits is None:
            raise ReadOnly("the view cannot be written")
        return self._commits

    def _changed(self, name: str) -> str:
        """The key of a name that is to be changed. Raises `Denied` in zarrfuse's own folder."""
        key = join(self.path, name)
        if key.partition("/")[0] == OWN_NAME:
            raise Denied(f"{key} is where zarrfuse keeps its own files")
        return key

    def _other(self, folder: Folder) -> "RawFolder":
        if not isinstance(folder, RawFolder) or folder._store is not self._store:
            raise Elsewhere(f"{folder.path or 'the root'} is not in the same view as {self.path}")
        return folder
