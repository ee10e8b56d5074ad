"""Stores for tests of commits: one that raises at step n, or ends the process there."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager

from builders.fake_stores import ForwardingStore, MemoryReader, MemoryStore
from zarrfuse.errors import Exists, NotFound
from zarrfuse.stores.base import (
    OWN_NAME,
    Entry,
    Kind,
    Like,
    Reader,
    WritableStore,
    Writer,
)

CHANGES = ("put", "dress", "remove", "rename", "link", "make_folder", "sync_folder", "set_mtime")


class StepStore(ForwardingStore):
    """Another writable store; `step` is called before each change of it, `after` behind it.

    They are told the name of the call and the key.
    """

    def __init__(
        self,
        inner: WritableStore,
        step: Callable[[str, str], None],
        after: Callable[[str, str], None] = lambda call, key: None,
    ) -> None:
        super().__init__(inner)
        self.in_place = inner.in_place
        self.step = step
        self.after = after
        if hasattr(inner, "own"):
            self.own = inner.own

    def open(self, key: str, *, wait: bool = True) -> Reader:
        """See `base.Store`. The reader of the store itself: it may have a descriptor."""
        return self.inner.open(key, wait=wait)

    def is_still(self, key: str, reader: Reader, *, wait: bool = True) -> bool:
        """See `base.Store`."""
        return self.inner.is_still(key, reader, wait=wait)

    def edit(self, key: str, **how: bool) -> Writer:
        """See `base.WritableStore`."""
        if not how.get("create"):
            return self.inner.edit(key, **how)
        self.step("edit", key)
        file = self.inner.edit(key, **how)
        self.after("edit", key)
        return _StepFile(file, self, key)

    def same_folders(self) -> AbstractContextManager[None]:
        """See `base.WritableStore`."""
        return self.inner.same_folders()

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name not in CHANGES:
            raise AttributeError(name)

        def call(key: str, *arguments: object, **options: object) -> None:
            self.step(name, key)
            getattr(self.inner, name)(key, *arguments, **options)
            self.after(name, key)

        return call


class _StepFile:
    """A file that is being made: what is written to it are steps as well."""

    def __init__(self, file: Writer, store: StepStore, key: str) -> None:
        self.close = file.close
        self._file = file
        self._store = store
        self._key = key

    def __getattr__(self, name: str) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            self._store.step(name, self._key)
            getattr(self._file, name)(*arguments)
            self._store.after(name, self._key)

        return call


class Steps:
    """Counts steps; calls `at_last` at the one that is number `last` (from 0)."""

    def __init__(self, last: int, at_last: Callable[[], None]) -> None:
        self.count = 0
        self._last = last
        self._at_last = at_last

    def __call__(self, call: str, key: str) -> None:
        """Count one."""
        self.count += 1
        if self.count == self._last + 1:
            self._at_last()


class KeysStore(MemoryStore, WritableStore):
    """Keys in memory, as an object store has them: written whole, and renamed by a copy and a delete.

    `between` is called between these two.
    """

    in_place = False

    def __init__(self, files: Mapping[str, bytes], *, mtime_ns: int | None = None) -> None:
        super().__init__({})
        self.files: dict[str, bytes] = dict(files)
        self.mtime_ns = time.time_ns() if mtime_ns is None else mtime_ns
        self.between: Callable[[str, str], None] = lambda call, key: None

    def scan(self, folder: str, *, follow: bool = True) -> Iterator[Entry]:
        """See `base.Store`."""
        prefix = f"{folder}/" if folder else ""
        names: dict[str, Entry] = {}
        for key, data in self.files.items():
            if key.startswith(prefix) and (folder or not key.startswith(OWN_NAME)):
                name, slash, _ = key[len(prefix) :].partition("/")
                kind = Kind.FOLDER if slash else Kind.FILE
                names[name] = Entry(name, kind, 0 if slash else len(data), self.mtime_ns)
        if folder and not names:
            raise NotFound(f"no folder {folder}")
        return iter(names.values())

    def stat(self, key: str, *, wait: bool = True, follow: bool = True) -> Entry:
        """See `base.Store`."""
        if key in self.files:
            return Entry(key.rpartition("/")[2], Kind.FILE, len(self.files[key]), self.mtime_ns)
        if any(each.startswith(f"{key}/") for each in self.files):
            return Entry(key.rpartition("/")[2], Kind.FOLDER, 0, 0)
        raise NotFound(f"no key {key}")

    def open(self, key: str, *, wait: bool = True) -> Reader:
        """See `base.Store`."""
        self.stat(key)
        return MemoryReader(self.files[key])

    def put(
        self,
        key: str,
        source: int,
        start: int,
        stop: int,
        *,
        sync: bool = True,
        new: bool = False,
        mtime_ns: int | None = None,
        like: Like | None = None,
    ) -> None:
        """See `base.WritableStore`."""
        if new and key in self.files:
            raise Exists(key)
        self.files[key] = os.pread(source, stop - start, start)

    def remove(self, key: str) -> None:
        """See `base.WritableStore`."""
        if self.files.pop(key, None) is None:
            raise NotFound(key)

    def rename(self, key: str, new_key: str, *, replace: bool = True) -> None:
        """See `base.WritableStore`."""
        self.link(key, new_key) if not replace else self._copy(key, new_key)
        self.between("rename", key)
        self.remove(key)

    def link(self, key: str, new_key: str) -> None:
        """See `base.WritableStore`."""
        if new_key in self.files:
            raise Exists(new_key)
        self._copy(key, new_key)

    def set_mtime(self, key: str, mtime_ns: int) -> None:
        """There is no such time."""

    def _copy(self, key: str, new_key: str) -> None:
        self.stat(key)
        self.files[new_key] = self.files[key]
