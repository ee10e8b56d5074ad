"""The `raw` view: every key of the store, byte for byte. For copying and debugging."""

from collections.abc import Iterator

from zarrfuse.stores.base import Entry, Kind, Reader, Store
from zarrfuse.views.base import Facts, Folder, join


class RawFolder(Folder):
    """A folder of a store, as it is stored."""

    __slots__ = ("_store", "path")

    def __init__(self, store: Store, path: str = "") -> None:
        self._store = store
        self.path = path

    def scan(self) -> Iterator[Entry]:
        """See `views.base.Folder`."""
        return self._store.scan(self.path)

    def lookup(self, name: str, *, wait: bool = True) -> Entry:
        """See `views.base.Folder`."""
        return self._store.stat(join(self.path, name), wait=wait)

    def child(self, name: str) -> "RawFolder":
        """See `views.base.Folder`."""
        return RawFolder(self._store, join(self.path, name))

    def open(self, name: str, *, wait: bool = True) -> Reader:
        """See `views.base.Folder`."""
        return self._store.open(join(self.path, name), wait=wait)

    def readlink(self, name: str) -> str:
        """See `views.base.Folder`."""
        return self._store.readlink(join(self.path, name))

    def facts(self, name: str | None) -> Facts:
        """See `views.base.Folder`: view, path, kind and size."""
        path = self.path if name is None else join(self.path, name)
        entry = self._store.stat(path)
        facts = {"view": "raw", "path": path, "kind": entry.kind.name.lower()}
        return facts if entry.kind is Kind.FOLDER else {**facts, "size": entry.size}
