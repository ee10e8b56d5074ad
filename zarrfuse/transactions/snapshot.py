"""Reads the parts of a chunk as of one moment, without keeping writers from storing it.

Owns how a reader notices that the chunk was stored meanwhile. Used by views. It takes no lock, and needs no
permissions in the workspace. It relies on the order of `apply_journal`:

* The last part is deleted first and moved to its key last. A reader that looks from the first part to the
  last cannot find a new part and then the old last one: while parts are mixed, the last is missing.
* After the last part, the other parts are checked again. If all are still stored, all of them were stored
  when the last one was found.

If parts are missing, the reader looks for a journal of the chunk, through which it sees the whole chunk
(`recovered_view`). A reader that may not read journals waits a moment, until the commit is done. A chunk
that is still incomplete then is incomplete.
"""

import errno
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from zarrfuse.errors import Stale
from zarrfuse.stores.base import Store
from zarrfuse.transactions.recovered_view import RolledForward
from zarrfuse.transactions.workspace import own_folder_of

T = TypeVar("T")

_NAPS_S = (0.0, 0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
"""How long to wait (s) before each further look at an incomplete chunk."""
_CHANGES_TOLERATED = 1000


def snapshot(
    store: Store,
    chunk_key: str,
    look: Callable[[bool], list[T | None]],
    is_still: Callable[[Sequence[T | None]], bool],
    give_back: Callable[[Sequence[T | None]], None],
    *,
    wait: bool,
) -> list[T | None]:
    """The result of `look(wait)` for the parts of a chunk, in order; None for a missing one.

    `is_still`: whether all parts but the last are still stored. Results that are not used are closed.
    Raises `BlockingIOError` if not `wait` and it has to look again, and `Stale` if the chunk is stored all
    the time.
    """
    own = own_folder_of(store)
    if own is None:  # of which nobody can tell whether a name still stands for what was opened
        _look_for_journal(store, chunk_key, wait=wait)
        return look(wait)
    naps = iter(_NAPS_S)
    for _ in range(_CHANGES_TOLERATED):
        found = look(wait)
        try:
            missing = found.count(None)
            if missing in (0, len(found)):
                if is_still(found):
                    return found
            else:
                nap_s = next(naps, None)
                if nap_s is None or (nap_s and not own.is_there()):
                    return found
                if wait:
                    time.sleep(nap_s)
            if not wait:
                raise BlockingIOError(errno.EAGAIN, f"{chunk_key} is being stored")
            _look_for_journal(store, chunk_key, wait=True)
        except BaseException:
            give_back(found)
            raise
        give_back(found)
    raise Stale(f"{chunk_key} was stored again and again while it was opened")


def _look_for_journal(store: Store, chunk_key: str, *, wait: bool) -> None:
    if isinstance(store, RolledForward):
        store.look(chunk_key, wait=wait)
