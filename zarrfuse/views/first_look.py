"""Looks for a short time whether a store holds any Zarr.

Used by `mounts`, to warn a user who mounts the wrong folder. It reads the document of the root, and lists
other folders. `info` and `check` walk the whole store and do not need it.
"""

import time
from collections import deque

from zarrfuse.errors import NotFound
from zarrfuse.spec.paths import join
from zarrfuse.stores.base import Kind, Store
from zarrfuse.views.nodes import DOCUMENTS, ReferencedNodes

LOOKED_FOR_S = 0.25
MOST_NAMES = 10_000
LARGEST_READ = 1 << 20
"""A larger document of the root (bytes) is not read: that takes too long."""


def first_look(store: Store) -> str | None:
    """Why there is no Zarr in a store, as a clause; None if there is some, or the time is up.

    Stops after `MOST_NAMES` names, or at the end of the store call that is running after `LOOKED_FOR_S`.
    """
    until = time.monotonic() + LOOKED_FOR_S
    try:
        size = _root_document_size(store)
        if size is not None:
            root = ReferencedNodes(store, 0).get("") if size <= LARGEST_READ else None
            error = None if root is None else root.error
            return None if error is None else f"its root is not loaded: {error}"
        return None if _may_hold_zarr(store, until) else "there is no Zarr array or group in it"
    except Exception:  # whatever a store raises: who looks into that folder is told
        return None


def _root_document_size(store: Store) -> int | None:
    """Bytes of the document of the root; None if there is none."""
    for document in DOCUMENTS:
        try:
            entry = store.stat(document)
        except NotFound:
            continue
        if entry.kind is Kind.FILE:
            return entry.size
    return None


def _may_hold_zarr(store: Store, until: float) -> bool:
    """Whether any folder has a metadata document; breadth first."""
    todo, seen = deque([""]), 0
    while todo:
        folder = todo.popleft()
        for entry in store.scan(folder):
            seen += 1
            if entry.name in DOCUMENTS or seen > MOST_NAMES or time.monotonic() > until:
                return True
            if entry.kind is Kind.FOLDER and not entry.denied:
                todo.append(join(folder, entry.name))
    return False
