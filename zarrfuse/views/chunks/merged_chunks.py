"""The chunks of an array that are stored in parts, as one file each.

Owns which stored names are parts of which chunk, and how all parts of a chunk are listed, looked up and
opened together. `transactions.snapshot` makes sure that they are of one moment. It must not know other
nodes, or how chunks are written.
"""

import errno
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from zarrfuse.errors import Corrupt, Denied, NotFound
from zarrfuse.formats.segments import Broken, Segmented, Stored, identity_of
from zarrfuse.spec.concat_parts import StoredParts
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.paths import folder_of, join
from zarrfuse.stores.access import both, of_parts, way_through
from zarrfuse.stores.base import UNKNOWN_SIZE, Entry, Kind, Reader, Store
from zarrfuse.transactions.snapshot import snapshot
from zarrfuse.views.facts import PartFacts

Found = TypeVar("Found", Entry, Reader)

OPEN_PARTS = 16
"""A chunk of at most so many parts keeps them open. Of one with more, a part is opened when it is read."""
WRITABLE_OPEN_PARTS = 1000
"""The same in a writable view, where a reader of a replaced chunk goes on reading the old bytes. A chunk
with more parts, or with more than the process may open, is ESTALE when it is replaced."""
_MILLISECOND_NS = 1_000_000
_TOO_MANY = frozenset({errno.EMFILE, errno.ENFILE})


class PartStore(NamedTuple):
    """The store of the parts.

    `open_parts`: a chunk of at most so many parts keeps them open. `report`: called for incomplete chunks.
    """

    store: Store
    open_parts: int
    report: Callable[[str], None]


class MergedChunks:
    """The chunks in one folder at or below an array; `prefix` leads from the array to the folder."""

    __slots__ = ("_from", "node", "parts", "path", "prefix")

    def __init__(
        self, stored: PartStore, node: ArrayNode, parts: StoredParts, path: str, prefix: str
    ) -> None:
        self._from = stored
        self.node = node
        self.parts = parts
        self.path = path
        self.prefix = prefix

    def is_chunk(self, name: str) -> bool:
        """Whether a name in the folder is a chunk key of the grid."""
        return self.node.chunk_at(self.prefix + name) is not None

    def chunk_of(self, name: str) -> str | None:
        """The key, relative to the array, of the chunk that the stored `name` is a part of."""
        for key, _ in self.parts.candidates(self.prefix + name):
            if self.node.chunk_at(key) is not None:
                return key
        return None

    def entry(self, name: str, *, wait: bool = True) -> Entry | None:
        """The entry of a chunk; None if no part of it is stored."""
        keys = self._part_keys(name)
        if not wait and len(keys) > OPEN_PARTS:
            raise BlockingIOError(errno.EAGAIN, "so many parts take their time")
        parts = self._stat_all(keys, wait)
        present = [part for part in parts if part is not None]
        # If all parts are stored, or none, the entry is right also while the chunk is being replaced. Only
        # an incomplete chunk has to be looked at again when no commit runs.
        if 0 < len(present) < len(keys):
            parts = self._of_one_moment(name, self._stat_all, wait)
            present = [part for part in parts if part is not None]
        return _summed(name, present) if present else None

    def facts(self, name: str) -> tuple[tuple[PartFacts, ...], str | None]:
        """The parts of a chunk, and why it cannot be read, or None."""
        keys = self._part_keys(name)
        entries = self._of_one_moment(name, self._stat_all, True)
        sizes = [None if entry is None else entry.size for entry in entries]
        parts = tuple(map(PartFacts, self.parts.leaves, keys, sizes))
        return parts, self.parts.problem(sizes)

    def merged(self, stored: dict[str, Entry]) -> dict[str, Entry]:
        """The entries that are shown for the stored entries of the folder."""
        shown = dict(stored)
        found: dict[str, list[Entry]] = {}
        for name, entry in stored.items():
            if entry.kind is not Kind.FILE:
                if entry.kind is Kind.FOLDER:
                    for chunk, part in self._parts_below(name):
                        found.setdefault(chunk, []).append(part)
                continue
            key = self.chunk_of(name)
            if key is not None:
                del shown[name]
                folder, slash, own_name = key.rpartition("/")
                if self.prefix == folder + slash:
                    found.setdefault(own_name, []).append(entry)
            elif self.is_chunk(name):
                del shown[name]  # it has the key of a chunk, but is no part of it
        for chunk, parts in found.items():
            shown[chunk] = _summed(chunk, parts)
        return shown

    def open(self, name: str, *, wait: bool = True) -> Reader:
        """Open a chunk. Reads of an incomplete one raise `Corrupt`. Raises `NotFound`."""
        opened = self._of_one_moment(name, self._open_all, wait)
        try:
            present = [reader for reader in opened if reader is not None]
            if not present:
                raise NotFound(f"the chunk {self.prefix}{name} in {self.path} has no stored part")
            problem = self.parts.problem(
                [None if reader is None else reader.size for reader in opened]
            )
            if problem is None:
                return present[0] if len(present) == 1 else Segmented(present, _time_of(present))
            problem = f"{self.path or 'the root array'}: chunk {self.prefix}{name}: {problem}"
            self._from.report(problem)
            size = sum(reader.size for reader in present)
            if not size:  # of an empty file nothing is ever read, so opening must say it
                raise Corrupt(problem)
            broken = Broken(size, _time_of(present), problem)
        except BaseException:
            _close(opened)
            raise
        _close(opened)
        return broken

    # -- parts -------------------------------------------------------------------------------

    @property
    def _folder(self) -> str:
        """The path of the folder."""
        return join(self.path, self.prefix.rstrip("/")).rstrip("/")

    def _chunk_key(self, name: str) -> str:
        return join(self.path, self.prefix + name)

    def _part_keys(self, name: str) -> list[str]:
        """The stored keys of a chunk's parts, in order."""
        chunk = self._chunk_key(name)
        return [chunk + leaf.key_suffix for leaf in self.parts.leaves]

    def _of_one_moment(
        self, name: str, look: Callable[[list[str], bool], list[Found | None]], wait: bool
    ) -> list[Found | None]:
        """The result of `look` for the parts of a chunk: all of the old one, or all of the new one."""
        keys = self._part_keys(name)
        if not wait and len(keys) > OPEN_PARTS:
            raise BlockingIOError(errno.EAGAIN, "so many parts take their time")
        if len(keys) == 1:  # which is replaced at once
            return look(keys, wait)
        return snapshot(
            self._from.store,
            self._chunk_key(name),
            lambda wait: look(keys, wait),
            lambda found: self._are_still(keys, found, wait),
            _close,
            wait=wait,
        )

    def _are_still(
        self, keys: Sequence[str], found: Sequence[Entry | Reader | None], wait: bool
    ) -> bool:
        """Whether the parts before the last are still those that were found."""
        store = self._from.store
        for key, part in zip(keys[:-1], found, strict=False):
            if part is None or isinstance(part, Entry):
                if _seen(part) != _seen(self._stat_all((key,), wait)[0]):
                    return False
            elif isinstance(part, Stored):
                now = self._opened(key, wait)
                if now is None:
                    return False
                now.close()
                if not part.is_of(now):
                    return False
            elif not store.is_still(key, part, wait=wait):
                return False
        return True

    def _parts_below(self, name: str) -> Iterable[tuple[str, Entry]]:
        """(chunk name, stored part) for parts in a subfolder that belong to chunks of this folder."""
        for suffix in self.parts.nested:
            head = suffix.partition("/")[0]
            if name.endswith(head):
                chunk = name[: len(name) - len(head)]
                if chunk and self.is_chunk(chunk):
                    if not self._from.store.lists_all:  # a request for each chunk is too many
                        yield chunk, Entry(chunk, Kind.FILE, UNKNOWN_SIZE, 0)
                        continue
                    try:
                        part = self._stat(join(self._folder, chunk + suffix), True)
                    except (NotFound, Denied):
                        continue
                    if part.kind is Kind.FILE:
                        yield chunk, part

    def _stat_all(self, keys: Sequence[str], wait: bool) -> list[Entry | None]:
        if wait and len(keys) > 1:
            self._from.store.look_up_soon(keys)
        entries: list[Entry | None] = []
        for key in keys:
            try:
                entry = self._stat(key, wait)
            except (NotFound, Denied):  # denied: the folder it would lie in leads out of the store
                entries.append(None)
            else:
                entries.append(entry if entry.kind is Kind.FILE else None)
        return entries

    def _stat(self, key: str, wait: bool) -> Entry:
        """The entry of a stored part. Its access allows for the folders that are not shown."""
        entry = self._from.store.stat(key, wait=wait)
        if not self.parts.nested:
            return entry
        access = entry.access
        above = folder_of(key)
        while len(above) > len(self._folder):
            access = both(access, way_through(self._from.store.stat(above, wait=wait).access))
            above = folder_of(above)
        return replace(entry, access=access)

    def _open_all(self, keys: Sequence[str], wait: bool) -> list[Reader | None]:
        if wait and len(keys) > 1:
            self._from.store.look_up_soon(keys, to_read=True)
        if len(keys) <= self._from.open_parts:
            try:
                return self._held(keys, wait)
            except OSError as error:
                if error.errno not in _TOO_MANY or len(keys) <= OPEN_PARTS:
                    raise
        return [self._not_held(key, wait) for key in keys]

    def _not_held(self, key: str, wait: bool) -> Stored | None:
        opened = self._opened(key, wait)
        if opened is None:
            return None
        opened.close()
        return Stored(self._from.store, key, opened)

    def _held(self, keys: Sequence[str], wait: bool) -> list[Reader | None]:
        opened: list[Reader | None] = []
        try:
            for key in keys:
                opened.append(self._opened(key, wait))  # noqa: PERF401 - closed below if one fails
        except BaseException:
            _close(opened)
            raise
        return opened

    def _opened(self, key: str, wait: bool) -> Reader | None:
        """An open part; None if it is not stored."""
        try:
            return self._from.store.open(key, wait=wait)
        except NotFound:
            return None
        except Denied:
            if self._stat_all((key,), wait)[0] is not None:
                raise
            return None


def _summed(name: str, parts: Sequence[Entry]) -> Entry:
    """The entry of a chunk of these parts. It permits what all of them permit."""
    sizes = [part.size for part in parts]
    return Entry(
        name,
        Kind.FILE,
        UNKNOWN_SIZE if UNKNOWN_SIZE in sizes else sum(sizes),
        _time_of(parts),
        identity=identity_of(part.identity for part in parts),
        access=of_parts(part.access for part in parts),
        ctime_ns=max(part.ctime_ns for part in parts),
        atime_ns=max(part.atime_ns for part in parts),
    )


def _time_of(parts: Sequence[Entry | Reader]) -> int:
    """The time of the newest part. If times differ, digits below a millisecond are a hash of all times.

    The kernel keeps cached pages of a file while its size and time are the same. So the time has to change,
    too, when a part is replaced that is not the newest (`rsync -t`, a clock that was set back).
    """
    times = sorted(part.mtime_ns for part in parts)  # a listing has them in any order
    newest = times[-1]
    if times[0] == newest:
        return newest
    return newest - newest % _MILLISECOND_NS + hash(tuple(times)) % _MILLISECOND_NS


def _seen(part: Entry | None) -> tuple[int, int] | None:
    return None if part is None else (part.size, part.mtime_ns)


def _close(parts: Iterable[Entry | Reader | None]) -> None:
    for part in parts:
        if part is not None and not isinstance(part, Entry):
            part.close()
