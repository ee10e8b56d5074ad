"""Applies a journal: moves temporary parts to their keys, and deletes keys. Idempotent.

Used by `commits` and `recovery`, under the lock of the chunk. A temporary part that is missing has been
moved already; a key that is missing has been deleted.

Readers take no lock (`snapshot`). So in stores with files the key of the last part is deleted before any
other part is moved, and the last part is moved last: while old and new parts are mixed, the chunk is
incomplete, and no reader takes it for whole.
"""

import logging
from collections.abc import Callable
from contextlib import suppress

from zarrfuse.errors import Corrupt, Exists, NotFound
from zarrfuse.spec.paths import folder_of
from zarrfuse.stores.base import OWN_NAME, WritableStore
from zarrfuse.transactions.journal import (
    Journal,
    Judge,
    Part,
    Refused,
    is_deleted_by,
    is_still,
    key_of,
    load,
)

log = logging.getLogger(__name__)


def roll_forward(store: WritableStore, journal: Journal) -> None:
    """Apply a journal durably, and delete it."""
    last = last_of(store, journal)
    if last is not None and last.temporary is not None:
        with suppress(NotFound):
            store.stat(last.temporary)  # else it has been moved, after all others
            clear(store, last)
    for part in journal.parts:
        if part.temporary is not None or is_deleted_by(store, journal, part):
            move(store, part)
    settle(store, journal)


def finish_journal(
    store: WritableStore, name: str, judge: Judge | None, *, is_replaced: bool = False
) -> Journal | None:
    """Apply the journal of this name; returns it, or None if none was applied.

    One that cannot be parsed is deleted. One that the `judge` refuses raises `Refused`, or is deleted if
    its chunk `is_replaced` next.
    """
    with suppress(NotFound):  # others have done it
        try:
            journal = load(store, name, judge)
        except (Corrupt, Refused) as error:
            if isinstance(error, Refused) and not is_replaced:
                raise
            log.warning(
                "%s; %s", error, "its chunk is stored anew" if is_replaced else "it is deleted"
            )
            store.remove(f"{OWN_NAME}/{name}")
            return None
        roll_forward(store, journal)
        return journal
    return None


def last_of(store: WritableStore, journal: Journal) -> Part | None:
    """The part whose key is cleared first; None if that does not matter."""
    stored = [part for part in journal.parts if part.temporary is not None]
    return stored[-1] if store.in_place and len(stored) > 1 else None


def clear(store: WritableStore, part: Part) -> None:
    """Delete the key of a part that is about to be moved there."""
    with suppress(NotFound):
        store.remove(part.key)


def move(store: WritableStore, part: Part, *, must_be_there: bool = False) -> None:
    """Move one temporary part to its key, or delete the key.

    `must_be_there`: it cannot have been moved yet, so raises `Corrupt` if it is missing.
    """
    if part.temporary is None:
        with suppress(NotFound):
            store.remove(part.key)
        return
    try:
        store.rename(part.temporary, part.key)
    except NotFound:
        try:
            store.stat(part.temporary)
        except NotFound:
            if must_be_there:
                raise Corrupt(
                    f"the temporary part {part.temporary} of {part.key} is gone"
                ) from None
            return  # moved already
        make_folders(store, folder_of(part.key))
        store.rename(part.temporary, part.key)


def settle(store: WritableStore, journal: Journal) -> None:
    """Make an applied journal durable, and delete it."""
    if store.in_place:
        for folder in dict.fromkeys(folder_of(part.key) for part in journal.parts):
            with suppress(NotFound):  # nothing was there to be deleted
                store.sync_folder(folder)
    elif not is_still(store, journal):
        return  # another process has done it, too, and the next may stand there
    with suppress(NotFound):
        store.remove(key_of(journal.key))
    # A journal that comes back after a power cut finds its temporary parts moved. But it would delete again
    # what may have been stored since.
    if store.in_place and any(part.temporary is None for part in journal.parts):
        with suppress(NotFound):
            store.sync_folder(OWN_NAME)


def make_folders(store: WritableStore, folder: str, *, sync: bool = True) -> None:
    """Make a folder, and those above, if they are missing; `sync`: durably."""
    if not folder or not store.in_place:
        return
    above = folder_of(folder)
    try:
        store.make_folder(folder)
    except Exists:
        return
    except NotFound:
        make_folders(store, above, sync=sync)
        with suppress(Exists):  # somebody else's, made in between
            store.make_folder(folder)
    if sync:
        store.sync_folder(above)


def with_folder(
    store: WritableStore, key: str, store_it: Callable[[], None], *, sync: bool = True
) -> None:
    """Store a key; if that raises `NotFound`, make its folder and try again."""
    try:
        store_it()
    except NotFound:
        make_folders(store, folder_of(key), sync=sync)
        store_it()
