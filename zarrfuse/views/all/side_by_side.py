"""Several views of one store, each in a folder of its own. It knows their names and roots only."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import msgspec

from zarrfuse.errors import Elsewhere, NotFound
from zarrfuse.spec.paths import join
from zarrfuse.stores.base import Entry, Kind, Reader, Store
from zarrfuse.views.base import Folder
from zarrfuse.views.facts import Facts


class SideBySide(Folder):
    """The root: a folder for each view, with the time of the store's root."""

    path = ""

    def __init__(self, store: Store, roots: Mapping[str, Folder]) -> None:
        self._store = store
        self._views = {name: _Below(name, root) for name, root in roots.items()}

    def scan(self) -> Iterator[Entry]:
        """See `views.base.Folder`."""
        root = self._store.stat("")
        return (msgspec.structs.replace(root, name=name) for name in self._views)

    def lookup(self, name: str, *, wait: bool = True) -> Entry:
        """See `views.base.Folder`; the empty name is that of the root itself."""
        if name:
            self.child(name)
        return msgspec.structs.replace(self._store.stat("", wait=wait), name=name)

    def child(self, name: str) -> Folder:
        """See `views.base.Folder`. Raises `NotFound`."""
        if name not in self._views:
            raise NotFound(f"there is no view {name}, only {', '.join(self._views)}")
        return self._views[name]

    def open(self, name: str, *, wait: bool = True) -> Reader:
        """Raises `NotFound`: there are only folders."""
        raise NotFound(f"no file {name}")

    def readlink(self, name: str) -> str:
        """Raises `NotFound`: there are no links."""
        raise NotFound(f"no link {name}")

    def facts(self, name: str | None) -> Facts:
        """See `views.base.Folder`."""
        if name is not None:
            self.child(name)
        return Facts(view="all", path=name or "", kind=Kind.FOLDER)


class _Below:
    """A folder of one of the views, with the name of the view in front of its path."""

    def __init__(self, view: str, folder: Folder) -> None:
        self._view = view
        self._folder = folder
        self.path = f"{view}/{folder.path}" if folder.path else view
        self.scan = folder.scan
        self.list = folder.list
        self.lookup = folder.lookup
        self.open = folder.open
        self.readlink = folder.readlink
        self.create = folder.create
        self.write = folder.write
        self.store = folder.store
        self.remove = folder.remove
        self.symlink = folder.symlink
        self.make_folder = folder.make_folder
        self.remove_folder = folder.remove_folder
        self.change = folder.change
        self.sync = folder.sync

    def child(self, name: str) -> Folder:
        """See `views.base.Folder`."""
        return _Below(self._view, self._folder.child(name))

    def rename(self, name: str, to: Folder, new_name: str, *, replace: bool = True) -> bool:
        """See `views.base.Folder`. Raises `Elsewhere` if `to` is in another view."""
        return self._folder.rename(name, self._beside(to), new_name, replace=replace)

    def link(self, name: str, to: Folder, new_name: str) -> None:
        """See `views.base.Folder`. Raises `Elsewhere` if `to` is in another view."""
        self._folder.link(name, self._beside(to), new_name)

    def _beside(self, to: Folder) -> Folder:
        if not isinstance(to, _Below) or to._view != self._view:
            raise Elsewhere(f"{to.path or 'the root'} is not in the view {self._view}")
        return to._folder

    def facts(self, name: str | None) -> Facts:
        """See `views.base.Folder`; the path begins with the view."""
        path = self.path if name is None else join(self.path, name)
        return replace(self._folder.facts(name), path=path)
