"""Finds and reads the metadata document of a folder, and reads it again when it has changed.

Owns which document makes a folder a node, and what is known when it cannot be read. Used by the
views that understand Zarr. Nothing is read before a folder is looked at.
"""

import errno
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from zarrfuse.errors import NotFound, guarded, text_of
from zarrfuse.spec.node import Node, NodeError, parse_v3
from zarrfuse.spec.node_v2 import parse_v2_array, parse_v2_group
from zarrfuse.stores.base import Entry, Kind, Store, read
from zarrfuse.views.base import join

_V2_PARSERS: dict[str, Callable[[bytes, bytes | None], Node]] = {
    ".zarray": parse_v2_array,
    ".zgroup": parse_v2_group,
}
DOCUMENTS = ("zarr.json", *_V2_PARSERS)
"""Names of the documents that make a folder a node; the first that is there counts."""
LARGEST_DOCUMENT = 64 << 20
"""No document larger than this (bytes) is read; consolidated metadata of 50,000 nodes is smaller."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A folder that is a node: `node`, or why there is none (`error`).

    `is_group` tells that files beside its document belong to no array, also when it has an error.
    """

    path: str
    document: str
    node: Node | None
    error: str | None = None
    is_group: bool = False


class NodeOf:
    """The node of one folder, kept as long as its document is the same.

    `report`: told why a document is not loaded; with the size and time of the document.
    `ttl_s`: how long to believe that nothing has changed without looking, in seconds.
    """

    __slots__ = (
        "_checked_at",
        "_loaded",
        "_lock",
        "_path",
        "_report",
        "_signature",
        "_store",
        "_ttl_s",
    )

    def __init__(
        self, store: Store, path: str, ttl_s: float, report: Callable[[str, object], None]
    ) -> None:
        self._report = report
        self._store = store
        self._path = path
        self._ttl_s = ttl_s
        self._loaded: Loaded | None = None
        self._signature: tuple[str, int, int] | None = None
        self._checked_at = -inf
        self._lock = threading.Lock()

    def get(self, *, wait: bool = True) -> Loaded | None:
        """The node, or None for a folder that is none. `BlockingIOError` as for stores."""
        if time.monotonic() - self._checked_at < self._ttl_s:
            return self._loaded
        for document in DOCUMENTS:
            try:
                entry = self._store.stat(join(self._path, document), wait=wait)
            except NotFound:
                continue
            if entry.kind is Kind.FILE:
                return self._take(document, entry, wait)
        self._loaded = self._signature = None
        self._checked_at = time.monotonic()
        return None

    def _take(self, document: str, entry: Entry, wait: bool) -> Loaded | None:
        signature = (document, entry.size, entry.mtime_ns)
        if signature != self._signature:
            if not wait:
                raise BlockingIOError(errno.EAGAIN, "a document has to be read")
            with self._lock:
                if signature != self._signature:
                    loaded, lasting = _load(self._store, self._path, document, entry.size)
                    self._loaded = loaded
                    self._signature = signature if lasting else None
                    if loaded.error is not None:
                        self._report(f"not loaded: {loaded.error}", signature)
        self._checked_at = time.monotonic()
        return self._loaded


def _load(store: Store, path: str, document: str, size: int) -> tuple[Loaded, bool]:
    """The node of a folder, and whether the outcome lasts until the document changes."""
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
