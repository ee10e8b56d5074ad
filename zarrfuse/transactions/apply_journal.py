"""Does what a journal says, as often as asked.

Owns the way from a journal to its keys; used by `commits` and `recovery`, under the lock of the chunk.
Doing it again changes nothing: a temporary part that is gone has been moved already, a key to be
deleted that is gone has been deleted.

Who reads takes no lock (`snapshot`). So where files are stored in place, what is under the key of the last
part is deleted before any other part is moved, and the last part is moved last: as long as old and new
parts are mixed, the chunk lacks one, and nobody takes it for whole.
"""

import logging
from collections.abc import Callable
from contextlib import suppress

from zarrfuse.errors import Corrupt, Exists, NotFound
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
    """Do all that a journal says, so that it outlives the machine, and delete the journal."""
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
    """Do what the journal of that name says; which it was, None if none was done.

    One that cannot be understood is deleted: nobody will ever do it. One that the `judge` is against
    raises `Refused`, or is deleted as well if its chunk `is_replaced` next.
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
    """The part of which the key is cleared first; None where that does not matter."""
    stored = [part for part in journal.parts if part.temporary is not None]
    return stored[-1] if store.in_place and len(stored) > 1 else None


def clear(store: WritableStore, part: Part) -> None:
    """Delete what is under the key of a part that is about to be moved there."""
    with suppress(NotFound):
        store.remove(part.key)


def move(store: WritableStore, part: Part, *, must_be_there: bool = False) -> None:
    """Move one temporary part to its key, or delete the key.

    `must_be_there`: nobody can have moved it, so raises `Corrupt` if it is gone.
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
    """Delete a journal of which all is done, once that outlives the machine."""
    if store.in_place:
        for folder in dict.fromkeys(folder_of(part.key) for part in journal.parts):
            with suppress(NotFound):  # nothing was there to be deleted
                store.sync_folder(folder)
    elif not is_still(store, journal):
        return  # another process has done it, too, and the next may stand there
    with suppress(NotFound):
        store.remove(key_of(journal.key))
    # A journal that comes back with the machine finds its temporary parts moved. Deletions it would
    # do again, of what may have been stored since.
    if store.in_place and any(part.temporary is None for part in journal.parts):
        with suppress(NotFound):
            store.sync_folder(OWN_NAME)


def make_folders(store: WritableStore, folder: str, *, sync: bool = True) -> None:
    """Make a folder, and those it lies in, if they are not there.

    `sync`: their names outlive the machine.
    """
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
    """Store a key; if that raises `NotFound`, make its folder, and try once more."""
    try:
        store_it()
    except NotFound:
        make_folders(store, folder_of(key), sync=sync)
        store_it()


def folder_of(key: str) -> str:
    """The folder that a key lies in."""
    return key.rpartition("/")[0]
