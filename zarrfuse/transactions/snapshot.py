"""What is stored of a chunk in several parts, as of one moment. Nobody is kept from storing it meanwhile.

Owns how a reader notices that the chunk was stored while it looked. Used by views. It takes no lock and
needs no rights in the workspace; it relies on what `rolling` says of the order of a commit:

* The last part is deleted first and moved to its key last. So who looks from the first to the last and
  finds a new part and an old last part does not exist: while parts of both are there, the last is missing.
* What was found in front of the last part is looked at again behind it. Where all of it is still stored,
  all of it was stored when the last part was found.

Where some parts are missing, a journal of the chunk is looked for, through which the chunk is seen whole
(`forward`). Who may not read the journals waits a moment: then the commit is done. What is still not whole
by then is so.
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
"""How long to wait before each further look at a chunk of which parts are missing."""
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
    """What `look(wait)` finds of the parts of a chunk, in order, None for one that is missing.

    `is_still` says whether all but the last of what was found are still stored; what is looked for again is
    given back. Raises `BlockingIOError` if not `wait` and it has to be looked for again, and `Stale` if
    others store the chunk all the time.
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
