"""The entries of a folder with sizes, also of a store that lists names without knowing what is there.

Used by `walk`.
"""

from collections.abc import Iterator
from itertools import islice

from zarrfuse.errors import NotFound
from zarrfuse.spec.paths import join
from zarrfuse.stores.base import UNKNOWN_SIZE, Entry, Store

_AT_ONCE = 64


def entries_in(store: Store, folder: str) -> Iterator[Entry]:
    """What `store.scan` yields. Names of unknown size are looked up, many at a time."""
    scanned = store.scan(folder)
    if store.lists_all:
        return scanned
    return _looked_up(store, folder, scanned)


def _looked_up(store: Store, folder: str, scanned: Iterator[Entry]) -> Iterator[Entry]:
    while entries := list(islice(scanned, _AT_ONCE)):
        store.look_up_soon(
            [join(folder, entry.name) for entry in entries if entry.size == UNKNOWN_SIZE]
        )
        for entry in entries:
            if entry.size != UNKNOWN_SIZE:
                yield entry
                continue
            try:
                yield store.stat(join(folder, entry.name))
            except NotFound:
                continue
