"""Whether a store holds any Zarr, as far as a short look tells.

Used by `daemon`, so that who mounts the wrong folder is told. It reads the document of the root, and of
other folders their names only. `info` and `check`, which walk the whole store, do not need it.
"""

import time
from collections import deque

from zarrfuse.errors import NotFound
from zarrfuse.stores.base import Kind, Store
from zarrfuse.views.base import join
from zarrfuse.views.nodes import DOCUMENTS, ReferencedNodes

LOOKED_FOR_S = 0.25
MOST_NAMES = 10_000
LARGEST_READ = 1 << 20
"""A document of the root that is larger (bytes) is not read: it takes long, and few are broken."""


def first_look(store: Store) -> str | None:
    """A clause that says why there is nothing to see; None if there is, or if that takes too long.

    Looks at `MOST_NAMES` names and for `LOOKED_FOR_S` at most, but for what one call of a store takes.
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
    """In bytes; None if there is no document."""
    for document in DOCUMENTS:
        try:
            entry = store.stat(document)
        except NotFound:
            continue
        if entry.kind is Kind.FILE:
            return entry.size
    return None


def _may_hold_zarr(store: Store, until: float) -> bool:
    """Whether any folder has a metadata document, the nearest to the root first."""
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
