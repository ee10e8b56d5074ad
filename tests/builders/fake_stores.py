"""Small real stores for tests: one in memory, and wrappers that are slow, fail, hang or lie.

Each implements `zarrfuse.stores.base.Store`. A wrapper is told of every call through `before`, with
the name of the method (`readinto` for the reader's; `scanned` behind the last name of a folder), the
key, and whether it may wait.
"""

import errno
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from zarrfuse.errors import NotAFolder, NotFound, Stale
from zarrfuse.stores.base import Entry, Kind, Reader, Store

MTIME_NS = 1_700_000_000_000_000_000
LOOK_EVERY_S = 0.005


class MemoryReader(Reader):
    """Bytes in memory as an open key."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)
        self.mtime_ns = MTIME_NS

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `base.Reader`."""
        data = self._data[offset : offset + len(buffer)]
        if len(data) != len(buffer):  # `size` is not true
            raise Stale("the bytes end before")
        buffer[:] = data

    def close(self) -> None:
        """Nothing is held."""


class MemoryStore(Store):
    """Keys and their bytes in a dict; folders follow from the keys, an empty one ends in `/`."""

    def __init__(self, files: Mapping[str, bytes], *, permanent: bool = False) -> None:
        self.permanent = permanent
        self._folders: dict[str, dict[str, Entry]] = {"": {}}
        self._files = {key: data for key, data in files.items() if not key.endswith("/")}
        for key in files:
            folder, _, name = key.rpartition("/")
            self._make(folder)
            if name:
                entry = Entry(name, Kind.FILE, len(files[key]), MTIME_NS)
                self._folders[folder][name] = entry

    def _make(self, folder: str) -> None:
        if folder not in self._folders:
            above, _, name = folder.rpartition("/")
            self._make(above)
            self._folders[folder] = {}
            self._folders[above][name] = Entry(name, Kind.FOLDER, 0, MTIME_NS)

    def scan(self, folder: str, *, follow: bool = True) -> Iterator[Entry]:
        """See `base.Store`."""
        if folder in self._files:
            raise NotAFolder(f"{folder} is not a folder")
        if folder not in self._folders:
            raise NotFound(f"no folder {folder}")
        return iter(list(self._folders[folder].values()))

    def stat(self, key: str, *, wait: bool = True, follow: bool = True) -> Entry:
        """See `base.Store`."""
        if not key:
            return Entry("", Kind.FOLDER, 0, MTIME_NS)
        folder, _, name = key.rpartition("/")
        entry = self._folders.get(folder, {}).get(name)
        if entry is None:
            raise NotFound(f"no key {key}")
        return entry

    def open(self, key: str, *, wait: bool = True) -> Reader:
        """See `base.Store`."""
        if key not in self._files:
            raise NotFound(f"no key {key}")
        return MemoryReader(self._files[key])

    def readlink(self, key: str) -> str:
        """There are no links here."""
        raise NotFound(f"no link {key}")

    def space(self) -> tuple[int, int]:
        """See `base.Store`."""
        return 1 << 30, 1 << 29

    def close(self) -> None:
        """Nothing is held."""


class ForwardingReader(Reader):
    """A reader of a `ForwardingStore`."""

    def __init__(self, store: "ForwardingStore", key: str, inner: Reader) -> None:
        self._store = store
        self._key = key
        self._inner = inner
        self.size = inner.size
        self.mtime_ns = inner.mtime_ns

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `base.Reader`."""
        self._store.before("readinto", self._key, wait)
        self._inner.readinto(buffer, offset, wait=wait)

    def close(self) -> None:
        """See `base.Reader`."""
        self._store.before("close", self._key, True)
        self._inner.close()


class ForwardingStore(Store):
    """Another store, with something done before each call."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.permanent = inner.permanent

    def before(self, call: str, key: str, wait: bool) -> None:
        """What sub-classes do: wait, raise, count."""

    def scan(self, folder: str, *, follow: bool = True) -> Iterator[Entry]:
        """See `base.Store`."""
        self.before("scan", folder, True)
        yield from self.inner.scan(folder, follow=follow)
        self.before("scanned", folder, True)

    def stat(self, key: str, *, wait: bool = True, follow: bool = True) -> Entry:
        """See `base.Store`."""
        self.before("stat", key, wait)
        return self.inner.stat(key, wait=wait, follow=follow)

    def open(self, key: str, *, wait: bool = True) -> Reader:
        """See `base.Store`."""
        self.before("open", key, wait)
        return ForwardingReader(self, key, self.inner.open(key, wait=wait))

    def readlink(self, key: str) -> str:
        """See `base.Store`."""
        self.before("readlink", key, True)
        return self.inner.readlink(key)

    def space(self) -> tuple[int, int]:
        """See `base.Store`."""
        self.before("space", "", True)
        return self.inner.space()

    def close(self) -> None:
        """See `base.Store`."""
        self.inner.close()


class SlowStore(ForwardingStore):
    """Takes so many seconds for each of the calls in `delays`; nothing of them is at hand.

    `most_at_once` counts how many of these calls were out at one time.
    """

    def __init__(self, inner: Store, delays: Mapping[str, float]) -> None:
        super().__init__(inner)
        self._delays = delays
        self._lock = threading.Lock()
        self._out = 0
        self.most_at_once = 0

    def before(self, call: str, key: str, wait: bool) -> None:
        """Sleep."""
        delay_s = self._delays.get(call)
        if delay_s is None:
            return
        if not wait:
            raise BlockingIOError(errno.EAGAIN, "not at hand")
        with self._lock:
            self._out += 1
            self.most_at_once = max(self.most_at_once, self._out)
        time.sleep(delay_s)
        with self._lock:
            self._out -= 1


class HangingStore(ForwardingStore):
    """Does not come back from the calls that `hangs` chooses, until the file `gate` is there.

    While a call hangs, there is a file beside the gate: its name and `.waiting`.
    """

    def __init__(self, inner: Store, hangs: Callable[[str, str], bool], gate: Path) -> None:
        super().__init__(inner)
        self._hangs = hangs
        self._gate = gate
        self._waiting = gate.with_name(gate.name + ".waiting")

    def before(self, call: str, key: str, wait: bool) -> None:
        """Wait for the gate."""
        if not self._hangs(call, key):
            return
        if not wait:
            raise BlockingIOError(errno.EAGAIN, "not at hand")
        self._waiting.touch()
        while not self._gate.exists():
            time.sleep(LOOK_EVERY_S)


class FailingStore(ForwardingStore):
    """Raises what `rule` returns for a call and a key; None lets the call pass."""

    def __init__(self, inner: Store, rule: Callable[[str, str], BaseException | None]) -> None:
        super().__init__(inner)
        self._rule = rule

    def before(self, call: str, key: str, wait: bool) -> None:
        """Raise."""
        error = self._rule(call, key)
        if error is not None:
            raise error


class LyingReader(ForwardingReader):
    """A reader that claims another size than it has bytes."""

    def __init__(self, store: "LyingStore", key: str, inner: Reader, size: int) -> None:
        super().__init__(store, key, inner)
        self.size = size


class LyingStore(ForwardingStore):
    """Tells of names, sizes and kinds that are not so.

    `claimed`: by folder, entries that stand in its listing and that `stat` gives, in place of or
    beside the true ones. `opened_as`: by key, the size that an open reader claims.
    """

    def __init__(
        self,
        inner: Store,
        claimed: Mapping[str, Iterable[Entry]],
        opened_as: Mapping[str, int],
    ) -> None:
        super().__init__(inner)
        self._claimed = {
            folder: {entry.name: entry for entry in entries} for folder, entries in claimed.items()
        }
        self._opened_as = opened_as

    def scan(self, folder: str, *, follow: bool = True) -> Iterator[Entry]:
        """See `base.Store`."""
        claimed = self._claimed.get(folder, {})
        yield from claimed.values()
        yield from (
            entry for entry in self.inner.scan(folder, follow=follow) if entry.name not in claimed
        )

    def stat(self, key: str, *, wait: bool = True, follow: bool = True) -> Entry:
        """See `base.Store`."""
        folder, _, name = key.rpartition("/")
        claimed = self._claimed.get(folder, {}).get(name)
        return self.inner.stat(key, wait=wait, follow=follow) if claimed is None else claimed

    def open(self, key: str, *, wait: bool = True) -> Reader:
        """See `base.Store`."""
        reader = self.inner.open(key, wait=wait)
        return LyingReader(self, key, reader, self._opened_as.get(key, reader.size))
