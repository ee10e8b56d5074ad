"""A store as it will be when its leftover journals have been applied.

Readers see each chunk as a whole, although a process died during a commit and nothing has recovered it yet.
Used by mounts, `zarr_python` and `snapshot`. It changes nothing.

The journals are read every `LOOK_EVERY_S`, and at once for a chunk with missing parts (`look`). Before a
journal is used for a key, it is checked again.
"""

import errno
import logging
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakValueDictionary

from zarrfuse.errors import NotAFolder, NotFound, ZarrfuseError, text_of
from zarrfuse.spec.paths import name_of, split
from zarrfuse.stores.base import OWN_NAME, Entry, Kind, Reader, Store
from zarrfuse.transactions import journal as journals
from zarrfuse.transactions.journal import Journal, Judge, Part
from zarrfuse.transactions.workspace import own_folder_of

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
LOOK_EVERY_S_WITHOUT_ROOT = 5.0
"""The same for stores over a network."""
_SURE_AFTER_NS = 2_000_000_000
"""A folder that was changed so recently may change again within one tick of its clock."""

_made: "WeakValueDictionary[int, RolledForward]" = WeakValueDictionary()
_making = threading.Lock()

AnyStore = TypeVar("AnyStore", bound=Store)


def rolled_forward(store: AnyStore, judge: Judge | None = None) -> AnyStore:
    """`store` as if its leftover journals were applied; itself if it can have none (zip).

    All callers for one store share one object, with the `judge` of the first.
    """
    if store.permanent or isinstance(store, RolledForward):
        return store
    with _making:
        made = _made.get(id(store))
        if made is None:  # nobody has one of a store that is alive, so this number is not reused
            made = _made[id(store)] = RolledForward(store, judge)
    return cast(AnyStore, made)


def unwrapped(store: AnyStore) -> AnyStore:
    """The store that `rolled_forward` was given."""
    return cast(AnyStore, store.inner) if isinstance(store, RolledForward) else store


class _Said(NamedTuple):
    """The part of a journal for one key."""

    name: str
    journal: Journal
    part: Part

    @property
    def temporary(self) -> str | None:
        """The temporary part that becomes the key; None: it is deleted."""
        return self.part.temporary


class _Picture:
    """The parts of all journals, by key and by folder. Immutable.

    `known`: each journal, None if it cannot be parsed, with its modification time (-1: it has to be read
    again).
    """

    def __init__(self, known: dict[str, tuple[int, Journal | None]]) -> None:
        self.known = known
        self.said: dict[str, _Said] = {}
        self.names: dict[str, set[str]] = {}
        self.folders: dict[str, set[str]] = {}
        for name, (_, journal) in known.items():
            for part in () if journal is None else journal.parts:
                assert journal is not None
                if part.temporary is None and part.key in self.said:
                    continue  # a chunk that was renamed has been stored again since
                self.said[part.key] = _Said(name, journal, part)
                folder, last = split(part.key)
                self.names.setdefault(folder, set()).add(last)
                while folder and part.temporary is not None:
                    above, last = split(folder)
                    self.folders.setdefault(above, set()).add(last)
                    folder = above

    def keys_below(self, folder: str) -> list[str]:
        """The keys in a folder, and below it, that journals store."""
        return [
            key
            for key, said in self.said.items()
            if said.temporary is not None and key.startswith(f"{folder}/")
        ]


_NOTHING = _Picture({})


class RolledForward(Store):
    """A store as if its leftover journals were applied. Made by `rolled_forward`.

    Methods beyond `base.Store`, such as those of a `WritableStore`, are those of the inner store.
    """

    def __init__(self, inner: Store, judge: Judge | None = None) -> None:
        self.inner = inner
        self._judge = judge
        self.permanent = inner.permanent
        self.cache, self.keeps_names = inner.cache, inner.keeps_names
        self.lists_all = inner.lists_all
        self._is_local = own_folder_of(inner) is not None
        self._every_s = LOOK_EVERY_S if self._is_local else LOOK_EVERY_S_WITHOUT_ROOT
        self._guard = threading.Lock()
        self._picture = _NOTHING
        self._good_until = 0.0
        self._folder_mtime_ns = -1

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # not set yet: copied or unpickled
            raise AttributeError(name)
        return getattr(self.inner, name)

    # -- base.Store

    def look_up_soon(self, keys: Iterable[str], *, to_read: bool = False) -> None:
        """See `base.Store`."""
        self.inner.look_up_soon(keys, to_read=to_read)

    def status(self) -> dict[str, object]:
        """See `base.Store`."""
        return self.inner.status()

    def scan(self, folder: str, *, follow: bool = True) -> Iterator[Entry]:
        """See `base.Store`."""
        picture = self._now(wait=True)
        if not picture.said:
            return self.inner.scan(folder, follow=follow)
        return self._scanned(picture, folder, follow)

    def stat(self, key: str, *, wait: bool = True, follow: bool = True) -> Entry:
        """See `base.Store`."""
        picture = self._now(wait)
        said = picture.said.get(key) if picture.said else None
        if said is not None:
            entry = self._stat_said(key, said, wait=wait)
            if entry is not None:
                return entry
        try:
            return self.inner.stat(key, wait=wait, follow=follow)
        except NotFound:
            if not self._will_be_folder(picture, key, wait=wait):
                raise
            return Entry(name_of(key), Kind.FOLDER, 0, max(0, self._folder_mtime_ns))

    def open(self, key: str, *, wait: bool = True) -> Reader:
        """See `base.Store`."""
        picture = self._now(wait)
        said = picture.said.get(key) if picture.said else None
        if said is None:
            return self.inner.open(key, wait=wait)
        if said.temporary is None:
            if self._is_believed(said, wait=wait):
                raise NotFound(f"no key {key}")
            return self.inner.open(key, wait=wait)
        try:
            reader = self.inner.open(said.temporary, wait=wait)
        except NotFound:  # moved to the key already, or given up
            return self.inner.open(key, wait=wait)
        try:
            believed = self._is_believed(said, wait=wait)
        except BaseException:
            reader.close()
            raise
        if believed:
            return reader
        reader.close()
        return self.inner.open(key, wait=wait)

    def is_still(self, key: str, reader: Reader, *, wait: bool = True) -> bool:
        """See `base.Store`."""
        said = self._picture.said.get(key)
        if said is None:
            return self.inner.is_still(key, reader, wait=wait)
        if said.temporary is not None and self.inner.is_still(said.temporary, reader, wait=wait):
            return self._is_believed(said, wait=wait)
        try:
            self.inner.stat(said.temporary or f"{OWN_NAME}/{said.name}", wait=wait)
        except NotFound:  # moved to the key already, or given up
            return self.inner.is_still(key, reader, wait=wait)
        return False

    def readlink(self, key: str) -> str:
        """See `base.Store`."""
        return self.inner.readlink(key)

    def space(self) -> tuple[int, int]:
        """See `base.Store`."""
        return self.inner.space()

    def close(self) -> None:
        """See `base.Store`."""
        self.inner.close()

    # -- what journals say

    def look(self, chunk_key: str, *, wait: bool = True) -> None:
        """Check now whether there is a journal of a chunk.

        Without `wait`, raises `BlockingIOError` if it has not been read.
        """
        known = (self._now(wait) if wait else self._picture).known
        name = journals.name_of(chunk_key)
        try:
            if self._is_local and self._is_as_listed(self.inner.stat(OWN_NAME, wait=wait).mtime_ns):
                return
            mtime_ns = self.inner.stat(f"{OWN_NAME}/{name}", wait=wait).mtime_ns
        except NotFound:
            if name in known:
                with self._guard:
                    rest = dict(self._picture.known)
                    rest.pop(name, None)
                    self._picture = _Picture(rest)
            return
        except ZarrfuseError as error:
            log.debug("journals cannot be looked at: %s", text_of(error))
            return
        if name in known and known[name][0] == mtime_ns:
            return
        if not wait:
            raise BlockingIOError(errno.EAGAIN, "a journal has to be read")
        with self._guard:
            self._picture = _Picture({**self._picture.known, **self._read({name: mtime_ns}, {})})

    def _now(self, wait: bool) -> _Picture:
        if time.monotonic() < self._good_until:
            return self._picture
        if not wait and not self._is_local and self._good_until:
            return (
                self._picture
            )  # old, but a question over a network is no price for what is at hand
        if not self._guard.acquire(blocking=wait):
            raise BlockingIOError(errno.EAGAIN, "another thread looks at the journals")
        try:
            if time.monotonic() >= self._good_until:
                self._look_up(wait)
                self._good_until = time.monotonic() + self._every_s
            return self._picture
        finally:
            self._guard.release()

    def _look_up(self, wait: bool) -> None:
        inner = self.inner
        try:
            mtime_ns = inner.stat(OWN_NAME, wait=wait).mtime_ns if self._is_local else 0
            if self._is_as_listed(mtime_ns):
                return
            if not wait:
                raise BlockingIOError(errno.EAGAIN, "the journals have to be listed")
            sure = _if_sure(mtime_ns)
            found = dict(journals.journals(inner))
            known = self._picture.known
            if found or known:
                self._picture = _Picture(self._read(found, known))
            self._folder_mtime_ns = sure
        except (NotFound, NotAFolder):
            self._picture, self._folder_mtime_ns = _NOTHING, -1
        except ZarrfuseError as error:  # it may not be looked at: what is stored is shown
            log.debug("journals cannot be looked at: %s", text_of(error))
            self._picture, self._folder_mtime_ns = _NOTHING, -1

    def _is_as_listed(self, mtime_ns: int) -> bool:
        return mtime_ns > 0 and mtime_ns == self._folder_mtime_ns

    def _read(
        self, found: dict[str, int], known: dict[str, tuple[int, Journal | None]]
    ) -> dict[str, tuple[int, Journal | None]]:
        """The journals that were `found`, read if they are not `known` as of that time."""
        read: dict[str, tuple[int, Journal | None]] = {}
        for name, mtime_ns in found.items():
            if name in known and known[name][0] == mtime_ns:
                read[name] = known[name]
                continue
            sure = _if_sure(mtime_ns)
            try:
                read[name] = (sure, journals.load(self.inner, name, self._judge))
            except NotFound:
                continue  # done meanwhile
            except (ZarrfuseError, OSError) as error:
                if name not in known or known[name][1] is not None:
                    log.warning("%s", text_of(error))
                read[name] = (sure, None)
        return read

    def _is_believed(self, said: _Said, *, wait: bool) -> bool:
        try:
            self.inner.stat(f"{OWN_NAME}/{said.name}", wait=wait)
        except NotFound:
            return False
        is_stored = said.temporary is not None
        return is_stored or journals.is_deleted_by(self.inner, said.journal, said.part, wait=wait)

    # -- the picture

    def _stat_said(self, key: str, said: _Said, *, wait: bool) -> Entry | None:
        """The entry that a key will have; None: the stored one. Raises `NotFound` if it is deleted."""
        if said.temporary is None:
            if self._is_believed(said, wait=wait):
                raise NotFound(f"no key {key}")
            return None
        try:
            entry = self.inner.stat(said.temporary, wait=wait)
        except NotFound:
            return None
        if not self._is_believed(said, wait=wait):
            return None
        name = name_of(key)
        return Entry(name, entry.kind, entry.size, entry.mtime_ns, access=entry.access)

    def _will_be_folder(self, picture: _Picture, folder: str, *, wait: bool) -> bool:
        above, name = split(folder)
        if name not in picture.folders.get(above, ()):
            return False
        return any(
            self._stat_said(key, picture.said[key], wait=wait) is not None
            for key in picture.keys_below(folder)
        )

    def _scanned(self, picture: _Picture, folder: str, follow: bool) -> Iterator[Entry]:
        names = picture.names.get(folder, set())
        folders = picture.folders.get(folder, set())
        try:
            entries: Iterator[Entry] = iter(self.inner.scan(folder, follow=follow))
            first = next(entries, None)
        except NotFound:
            if not self._will_be_folder(picture, folder, wait=True):
                raise
            first, entries = None, iter(())
        prefix = f"{folder}/" if folder else ""
        seen = set()
        while first is not None:
            entry, first = first, next(entries, None)
            seen.add(entry.name)
            if entry.name in names:
                try:
                    key = prefix + entry.name
                    entry = self._stat_said(key, picture.said[key], wait=True) or entry
                except NotFound:
                    continue
            yield entry
        for name in sorted((names | folders) - seen):
            key = prefix + name
            try:
                found = (
                    self._stat_said(key, picture.said[key], wait=True) if name in names else None
                )
            except NotFound:
                continue
            if found is not None:
                yield found
            elif name in folders and self._will_be_folder(picture, key, wait=True):
                yield Entry(name, Kind.FOLDER, 0, max(0, self._folder_mtime_ns))


def _if_sure(mtime_ns: int) -> int:
    """A modification time, or -1 if it is so recent that a later change might have the same."""
    return mtime_ns if time.time_ns() - mtime_ns > _SURE_AFTER_NS else -1
