"""The workspace in a store of keys, such as an object store.

Owns the temporary parts there. Used by `commits`. Whether a process lives is not known, so files of other
processes are deleted when they are old.
"""

import itertools
import os
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from zarrfuse.errors import NotFound
from zarrfuse.stores.base import OWN_NAME, Entry, WritableStore
from zarrfuse.transactions.workspace import FOLDER, OLD_S, Named


class KeysWorkspace:
    """A workspace in a store without folders on this machine."""

    def __init__(self, store: WritableStore) -> None:
        self._store = store
        self._name = f"w-{secrets.token_hex(8)}"
        self._count = itertools.count()
        self.is_used = False

    def check(self) -> None:
        """See `Workspace`. The store checks permissions."""

    def folder(self) -> str:
        """See `Workspace`. A store of keys needs none."""
        return f"{OWN_NAME}/{self._name}"

    def temporary(self) -> str:
        """See `Workspace`. Unique in a child process, too, which has the count of its parent."""
        return self.temporaries(1)[0]

    def temporaries(self, count: int) -> list[str]:
        """See `Workspace`."""
        self.is_used = True
        own = f"{OWN_NAME}/{self._name}/{os.getpid():x}"
        return [f"{own}-{next(self._count)}" for _ in range(count)]

    def open_spool(self) -> tuple[int, str] | None:
        """See `Workspace`."""
        return None

    def clean(self, named: Callable[[], Named]) -> None:
        """See `Workspace`. Deletes old files."""
        with suppress(NotFound):
            folders = [entry.name for entry in self._store.scan(OWN_NAME)]
            kept = named()
            for name in folders:
                if FOLDER.fullmatch(name) and name != self._name:
                    self._delete_dead(name, kept)

    def close(self, *, keep: bool = False) -> None:
        """See `Workspace`. Tries again to delete temporary parts that could not be deleted."""
        if self.is_used and not keep:
            with suppress(NotFound):
                self._delete(self._name, list(self._store.scan(self.folder())))

    def _delete_dead(self, name: str, kept: Named) -> None:
        entries = list(self._store.scan(f"{OWN_NAME}/{name}"))
        times = [entry.mtime_ns for entry in entries]
        if times and time.time() - max(times) / 1e9 >= OLD_S and not kept.may_be(name, min(times)):
            self._delete(name, entries)

    def _delete(self, name: str, entries: Iterable[Entry]) -> None:
        for entry in entries:
            with suppress(NotFound):
                self._store.remove(f"{OWN_NAME}/{name}/{entry.name}")
