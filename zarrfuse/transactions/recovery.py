"""Applies the journals of processes that died, and deletes their files.

Owns when a journal of another process may be applied: when its lock is free or, in a store without locks
between processes, when it is old. Used by `commits`, before the first write.
"""

import logging
import math
import time
from contextlib import suppress

from zarrfuse.errors import NotAFolder, NotFound, ZarrfuseError, text_of
from zarrfuse.stores.base import OWN_NAME, WritableStore
from zarrfuse.transactions import journal as journals
from zarrfuse.transactions.apply_journal import finish_journal
from zarrfuse.transactions.journal import Judge, Refused
from zarrfuse.transactions.locks import Locks
from zarrfuse.transactions.workspace import Named, Workspace, own_folder_of

log = logging.getLogger(__name__)

OLD_S = 60.0
"""A journal in a store without locks that is older (s) is taken for one of a dead process."""
_PATIENCE_S = 5.0
"""How long to wait for a lock (s): a living process holds it for a moment only."""


def recover(
    store: WritableStore, workspace: Workspace, locks: Locks, judge: Judge | None = None
) -> None:
    """Apply leftover journals, and delete leftover files that no journal names.

    Raises `Denied` if the workspace is not trusted: a forged journal could delete files.
    """
    workspace.check()
    try:
        found = list(journals.journals(store))
    except (NotFound, NotAFolder):
        return  # no workspace
    for name, mtime_ns in found:
        if own_folder_of(store) is None and time.time() - mtime_ns / 1e9 < OLD_S:
            continue
        try:
            finish(store, locks, name, judge)
        except Refused as error:
            log.error("%s: it is neither done nor deleted", error)
        except (ZarrfuseError, OSError) as error:
            log.error("a write that was interrupted cannot be finished: %s", text_of(error))
    try:
        workspace.clean(lambda: named_folders(store))
    except (ZarrfuseError, OSError) as error:
        log.error("what was left over cannot be deleted: %s", text_of(error))


def finish(store: WritableStore, locks: Locks, name: str, judge: Judge | None = None) -> None:
    """Apply the journal of this name, if it exists, when its lock is free.

    One that cannot be parsed is deleted. Raises what the store raises, and `TimedOut` if the lock is held
    for long.
    """
    with suppress(NotFound), locks.of_journal(name, timeout_s=_PATIENCE_S):
        journal = finish_journal(store, name, judge)
        if journal is not None:
            log.info("finished storing %s, which was interrupted", journal.key)


def delete_refused(store: WritableStore, locks: Locks, judge: Judge) -> list[str]:
    """Delete the journals that the `judge` refuses; returns the reasons.

    `recover` then deletes their parts. Only on the user's request: the array of a journal may come back.
    """
    why: list[str] = []
    try:
        found = list(journals.journals(store))
    except (ZarrfuseError, OSError):
        return why  # no workspace, or one that `recover` refuses
    for name, _ in found:
        with suppress(ZarrfuseError, OSError), locks.of_journal(name, timeout_s=_PATIENCE_S):
            try:
                journals.load(store, name, judge)
            except Refused as error:
                store.remove(f"{OWN_NAME}/{name}")
                why.append(str(error))
    return why


def named_folders(store: WritableStore) -> Named:
    """The folders of temporary parts that journals name, or may name."""
    names: set[str] = set()
    unread_ns = -math.inf
    try:
        found = list(journals.journals(store))
    except NotFound:
        found = []
    for name, mtime_ns in found:
        try:
            parts = journals.load(store, name).parts
        except NotFound:
            continue
        except (ZarrfuseError, OSError) as error:
            log.warning("temporary parts from before stay: %s", text_of(error))
            unread_ns = max(unread_ns, mtime_ns)
        else:
            names |= {part.temporary.split("/")[1] for part in parts if part.temporary is not None}
    return Named(names, unread_ns)
