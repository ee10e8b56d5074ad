"""Reads the metadata document of a folder, and reads it again when it has changed.

Owns which document makes a folder a node, what is known of a node whose document cannot be read, and the
nodes that a document refers to. Used by all views but `raw`. A document is read when the folder is first
used. `Changes` tells of documents that this process writes, so that they are read again at once.
"""

import errno
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import TypeAlias

from cachetools import LRUCache

from zarrfuse import caching
from zarrfuse.errors import MetadataError, NameTooLong, NotFound, guarded, text_of
from zarrfuse.spec.node import Node, NodeError
from zarrfuse.spec.node_v2 import parse_v2_array, parse_v2_group
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.spec.paths import join
from zarrfuse.spec.references import resolve
from zarrfuse.stores.access import Access, all_of
from zarrfuse.stores.base import Entry, Kind, Store, read

_V2_PARSERS: dict[str, Callable[[bytes, bytes | None], Node]] = {
    ".zarray": parse_v2_array,
    ".zgroup": parse_v2_group,
}
DOCUMENTS = ("zarr.json", *_V2_PARSERS)
"""Names of the documents that make a folder a node; the first that exists counts."""
LARGEST_DOCUMENT = 64 << 20
"""Larger documents (bytes) are not read. Consolidated metadata of 50,000 nodes is smaller."""
_REFERENCED_KEPT = 256
"""How many referenced nodes are cached."""
_CHANGES_KEPT = 10_000
"""How many changed folders are remembered one by one."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A folder with a metadata document: the `node`, or why it is not loaded (`error`).

    Attributes:
        path: The path of the folder.
        document: The name of the document.
        node: What the document describes; None with an `error`.
        error: A sentence that begins with the document.
        is_group: Whether it is a group, also with an `error`: files beside its document belong to no array.
        stamp: Size and time of the document, from before it was read.
        mtime_ns: Time of the newest document that was read for it: its own, attributes, references.
        identity: `Entry.identity` of the document.
        access: What all these documents together permit.
    """

    path: str
    document: str
    node: Node | None
    error: str | None = None
    is_group: bool = False
    stamp: tuple[int, int] = (0, 0)
    mtime_ns: int = 0
    identity: int = 0
    access: Access | None = None

    @property
    def is_v2(self) -> bool:
        """Whether its document is one of Zarr v2."""
        return self.document in _V2_PARSERS


class Changes:
    """Counts the changes that this process makes to metadata, so that they are seen at once.

    Without it, cached metadata would be used until its TTL is over, and a document of the same length
    that is written within one tick of the clock would be taken for the one before. For any thread.
    """

    __slots__ = ("_folders", "_lock", "_of_all", "count")

    def __init__(self) -> None:
        self.count = 0
        """The number of changes so far."""
        self._of_all = 0
        self._folders: dict[str, int] = {}
        self._lock = threading.Lock()

    def of(self, folder: str) -> int:
        """The number of the last change of the documents in a folder."""
        return self._folders.get(folder, self._of_all)

    def document(self, folder: str) -> None:
        """A document in this folder has been written or deleted."""
        with self._lock:
            if len(self._folders) >= _CHANGES_KEPT:
                self._forget()
            self._folders[folder] = self.count + 1
            self.count += 1

    def folders(self) -> None:
        """Folders have been renamed or deleted, and what is in them with them."""
        with self._lock:
            self._forget()
            self.count += 1

    def _forget(self) -> None:
        """Take all folders for changed."""
        self._of_all = self.count + 1
        self._folders = {}


class _Document:
    """The document of one folder, without its references; read again when it has changed."""

    __slots__ = ("_changes", "_lock", "_path", "_read", "_signature", "_store")

    def __init__(self, store: Store, path: str, changes: Changes) -> None:
        self._store = store
        self._path = path
        self._changes = changes
        self._read: Loaded | None = None
        self._signature: tuple[object, ...] | None = None
        self._lock = threading.Lock()

    @property
    def last(self) -> Loaded | None:
        """What was read last."""
        return self._read

    def current(self, *, wait: bool = True) -> Loaded | None:
        """What it says now, or None: the same object as long as the document is the same.

        `BlockingIOError` as for stores.
        """
        change = self._changes.of(self._path)
        for document in DOCUMENTS:
            try:
                entry = self._store.stat(join(self._path, document), wait=wait)
            except (NotFound, NameTooLong):
                continue
            if entry.kind is Kind.FILE:
                return self._take(document, entry, change, wait)
        self._read = self._signature = None
        return None

    def _take(self, document: str, entry: Entry, change: int, wait: bool) -> Loaded | None:
        attributes = self._attributes(wait) if document in _V2_PARSERS else None
        entries = [found for found in (entry, attributes) if found]
        stamps = [(found.size, found.mtime_ns, found.identity, found.access) for found in entries]
        signature = (document, change, caching.cleared_at(), *stamps)
        if signature != self._signature:
            if not wait:
                raise BlockingIOError(errno.EAGAIN, "a document has to be read")
            with self._lock:
                if signature != self._signature:
                    loaded, lasting = _load(self._store, self._path, document, entry.size)
                    self._read = replace(
                        loaded,
                        stamp=(entry.size, entry.mtime_ns),
                        mtime_ns=max(found.mtime_ns for found in entries),
                        identity=entry.identity,
                        access=all_of(found.access for found in entries),
                    )
                    self._signature = signature if lasting else None
        return self._read

    def _attributes(self, wait: bool) -> Entry | None:
        """The entry of `.zattrs`, which has the attributes of a node of Zarr v2."""
        try:
            return self._store.stat(join(self._path, ".zattrs"), wait=wait)
        except BlockingIOError:
            raise
        except Exception:  # whatever a store raises; reading the file raises it again
            return None


class _Referenced(_Document):
    """A document with the time, and the count of changes, of the last check."""

    __slots__ = ("checked_at",)

    def __init__(self, store: Store, path: str, changes: Changes) -> None:
        super().__init__(store, path, changes)
        self.checked_at: tuple[float, int] = (-inf, 0)


_Seen: TypeAlias = dict[str, Loaded | None]
"""The nodes at the paths that a document refers to."""


class ReferencedNodes:
    """The nodes that other nodes refer to, shared by all folders of a view.

    Ten thousand arrays that refer to one group read it once. `ttl_s`: seconds until a document is checked
    again; `changes`: those of this process.
    """

    def __init__(self, store: Store, ttl_s: float, changes: Changes | None = None) -> None:
        self.changes = changes or Changes()
        self._store = store
        self._ttl_s = ttl_s
        self._known: LRUCache[str, _Referenced] = LRUCache(_REFERENCED_KEPT)
        self._lock = threading.Lock()

    def get(self, path: str, *, wait: bool = True) -> Loaded | None:
        """The node at a path, references not followed; `BlockingIOError` as for stores.

        It is the same object as long as the document is the same.
        """
        with self._lock:  # for this only: the event loop takes it, too
            document = self._known.get(path)
            if document is None:
                document = self._known[path] = _Referenced(self._store, path, self.changes)
        count = self.changes.count
        checked_at, seen = document.checked_at
        if seen == count and caching.is_fresh(checked_at, self._ttl_s):
            return document.last
        began_at = caching.now()
        loaded = document.current(wait=wait)
        document.checked_at = (began_at, count)
        return loaded


class NodeOf(_Document):
    """The node of one folder, cached as long as its document and those it refers to are the same.

    `ttl_s`: seconds until they are checked again. `report`: called with the reason if a document is not
    loaded, and its size and time. `referenced`: the nodes that it may refer to; its own if left out.
    """

    __slots__ = ("_checked_at", "_referenced", "_report", "_state", "_ttl_s")

    def __init__(
        self,
        store: Store,
        path: str,
        ttl_s: float,
        report: Callable[[str, object], None],
        referenced: ReferencedNodes | None = None,
    ) -> None:
        self._referenced = referenced or ReferencedNodes(store, ttl_s)
        super().__init__(store, path, self._referenced.changes)
        self._report = report
        self._ttl_s = ttl_s
        self._checked_at = -inf
        # One tuple, so that other threads see it change at once: the document, those it refers to, the
        # node made of them, and the count of changes before they were checked.
        self._state: tuple[Loaded | None, _Seen, Loaded | None, int] = (None, {}, None, 0)

    @property
    def checked_at(self) -> float:
        """When the documents behind the result of `get` were last checked."""
        return self._checked_at

    def get(self, *, wait: bool = True, fresh: bool = False) -> Loaded | None:
        """The node, or None for a folder that is none; `fresh`: check it now, whatever the `ttl_s`.

        `BlockingIOError` as for stores.
        """
        count = self._changes.count
        is_fresh = caching.is_fresh(self._checked_at, self._ttl_s)
        if is_fresh and not fresh and self._state[3] == count:
            return self._state[2]
        began_at = caching.now()
        source = self.current(wait=wait)
        known, seen, loaded, seen_count = self._state
        if source is not known or (seen and not self._is_current(seen, wait)):
            loaded = self._complete(source, count, wait)
        elif seen_count != count:
            self._state = (source, seen, loaded, count)
        self._checked_at = began_at
        return loaded

    def _is_current(self, seen: _Seen, wait: bool) -> bool:
        try:
            return all(self._referenced.get(path, wait=wait) is node for path, node in seen.items())
        except BlockingIOError:
            raise
        except Exception:  # whatever a store raises; reading it again reports that
            return False

    def _complete(self, source: Loaded | None, count: int, wait: bool) -> Loaded | None:
        """Follow the references of a document, and cache the result."""
        seen: _Seen = {}
        loaded = source
        if source is not None and source.node is not None and source.node.references:
            if not wait:
                raise BlockingIOError(errno.EAGAIN, "other documents have to be read")
            loaded = self._resolved(source, source.node, seen)
        self._state = (source, seen, loaded, count)
        if loaded is not None and loaded.error is not None:
            self._report(f"not loaded: {loaded.error}", self._signature)
        return loaded

    def _resolved(self, source: Loaded, node: Node, seen: _Seen) -> Loaded:
        def load(path: str) -> Node:
            seen[path] = None
            try:
                found = seen[path] = self._referenced.get(path)
            except Exception as error:  # whatever a store raises
                raise MetadataError(f"/{path} cannot be read: {text_of(error)}") from error
            if found is None:
                raise MetadataError(f"/{path} is neither an array nor a group")
            if found.node is None:
                raise MetadataError(f"/{path} is not loaded: {found.error}")
            return found.node

        try:
            node = resolve(node, self._path, load)
            all_read = [found for found in (source, *seen.values()) if found]
            return replace(
                source,
                node=node,
                mtime_ns=max(found.mtime_ns for found in all_read),
                access=all_of(found.access for found in all_read),
            )
        except MetadataError as error:
            text = f"{join(self._path, source.document)}: {error}"
            return replace(source, node=None, error=text)


def _load(store: Store, path: str, document: str, size: int) -> tuple[Loaded, bool]:
    """The node of a folder, and whether the result holds until the document changes."""
    key = join(path, document)
    is_v2 = document in _V2_PARSERS
    if size > LARGEST_DOCUMENT:
        error = f"{key} has {size} bytes, more than the {LARGEST_DOCUMENT} that are read"
        return Loaded(path, document, None, error), True
    try:
        text = guarded(lambda: read(store, key, limit=LARGEST_DOCUMENT))
        attributes = guarded(lambda: _read_zattrs(store, path)) if is_v2 else None
    except Exception as failure:  # whatever a store raises: the folder can be listed all the same
        error = f"{key} cannot be read: {text_of(failure)}"
        return Loaded(path, document, None, error), False
    try:
        node = _V2_PARSERS[document](text, attributes) if is_v2 else parse_v3(text)
    except NodeError as refusal:
        error = join(path, str(refusal))
        return Loaded(path, document, None, error, refusal.node_type == "group"), True
    return Loaded(path, document, node, is_group=node.node_type == "group"), True


def _read_zattrs(store: Store, path: str) -> bytes | None:
    try:
        return read(store, join(path, ".zattrs"), limit=LARGEST_DOCUMENT)
    except NotFound:
        return None
