"""Commits several stored keys by a journal, atomically.

Owns the moment from which the commit counts, and what happens when a store call fails. Used by `commits`,
under the lock of the chunk, when all temporary parts are on the disk.

If a store call fails:

* Before the journal is stored, or before a part is moved: journal and temporary parts are deleted, the old
  chunk stays, the writer gets the error.
* After a part was moved, when another cannot be: the old bytes of the moved parts, which a local store has
  kept open, are put back by a commit of their own (`rollback`). The old chunk stays, and the writer gets
  the error. If that fails, or there are no old bytes (object stores, very many parts), the journal stays
  and the commit counts: `recovered_view` shows the new chunk, and the next commit of the chunk, or
  `recovery`, applies the journal.
* After all parts were moved, when the journal cannot be deleted: it stays, and applying it again changes
  nothing.
* A stored journal that cannot be deleted counts, although the writer got an error.

A killed process leaves a journal or none: the new or the old chunk. A temporary part that is missing before
it was moved is an error: it was deleted from outside.

In an object store a journal is stored only if there is none. One that exists belongs to another process,
and is applied first. A journal is deleted only if it is still the own one.
"""

import errno
import logging
from collections.abc import Sequence
from contextlib import suppress

from zarrfuse.errors import Exists, NotFound, ZarrfuseError, text_of
from zarrfuse.stores.base import OWN_NAME, WritableStore
from zarrfuse.transactions import journal as journals
from zarrfuse.transactions.apply_journal import (
    clear,
    finish_journal,
    last_of,
    move,
    roll_forward,
    settle,
)
from zarrfuse.transactions.journal import Journal, Judge, Part
from zarrfuse.transactions.rollback import Before
from zarrfuse.transactions.temporary_parts import discard
from zarrfuse.transactions.workspace import Workspace

log = logging.getLogger(__name__)

_JOURNALS_FINISHED = 10
"""How many journals of other processes are applied before a commit gives up."""


class Several:
    """Commits of several stored keys in one store.

    `unfinished`: the chunks whose journals stayed.
    """

    def __init__(
        self, store: WritableStore, workspace: Workspace, judge: Judge | None = None
    ) -> None:
        self._store = store
        self._workspace = workspace
        self._judge = judge
        self.unfinished: set[str] = set()

    def carry_out(self, journal: Journal) -> None:
        """Store the journal and apply it; its temporary parts are stored."""
        store = self._store
        moved: list[Part] = []  # or cleared
        try:
            with Before(store, journal) as before:
                try:
                    self._put(journal)
                    last = last_of(store, journal)
                    if last is not None:
                        moved.append(last)
                        clear(store, last)
                    for part in journal.parts:
                        if part in moved:
                            moved.remove(part)
                        moved.append(part)
                        # Without locks between processes another one may move it, too.
                        move(store, part, must_be_there=store.in_place)
                except BaseException as error:
                    if moved and self._is_untouched(before, moved[-1]):
                        moved.pop()
                    if moved and not self._take_back(journal, before, moved, error):
                        return
                    raise
        except BaseException:
            if not moved:
                self._give_up(journal)
            raise
        try:
            settle(store, journal)
        except (ZarrfuseError, OSError) as error:
            self.unfinished.add(journal.key)
            log.error("%s is stored; its journal stays for now: %s", journal.key, text_of(error))

    def _put(self, journal: Journal) -> None:
        store = self._store
        if store.in_place:
            journals.put(store, journal, self._workspace.temporary())
            store.sync_folder(OWN_NAME)
            return
        for _ in range(_JOURNALS_FINISHED):
            try:
                journals.put(store, journal, None, new=True)
            except Exists:
                if journals.is_still(store, journal):  # a request that was made twice
                    return
                # Another process has put it meanwhile.
                name = journals.name_of(journal.key)
                finish_journal(store, name, self._judge, is_replaced=True)
            else:
                return
        raise OSError(errno.EBUSY, f"{journal.key} is stored by others all the time")

    def _give_up(self, journal: Journal) -> None:
        """Delete a journal of which nothing was applied, and its temporary parts."""
        store = self._store
        try:
            if store.in_place or journals.is_still(store, journal):
                with suppress(NotFound):
                    store.remove(journals.key_of(journal.key))
            if (
                store.in_place
            ):  # else it might come back with the machine, and with some of the parts
                store.sync_folder(OWN_NAME)
        except (ZarrfuseError, OSError) as error:
            if journals.stands(store, journal):
                self.unfinished.add(journal.key)
                log.error("%s will be stored after all: %s", journal.key, text_of(error))
            return  # the temporary parts go with the workspace
        discard(store, journal.parts)

    def _is_untouched(self, before: Before, part: Part) -> bool:
        """Whether a part is unchanged after a failed store call."""
        untouched = before.is_untouched(part.key)
        if untouched is None:  # an object store may have copied without deleting: not to be told
            return self._store.in_place and not _is_done(self._store, part)
        return untouched

    def _take_back(
        self, journal: Journal, before: Before, moved: Sequence[Part], error: BaseException
    ) -> bool:
        """Put the `moved` parts back; False if that fails, so that the commit counts."""
        store = self._store
        try:
            back = before.journal(self._workspace, moved)
        except Exception as fault:  # of whatever kind: the journal still stands
            self.unfinished.add(journal.key)
            log.error(
                "%s is stored, but not all of it is in its place (%s), and it cannot be undone (%s); "
                "zarrfuse shows it whole, and finishes it later",
                journal.key,
                text_of(error),
                text_of(fault),
            )
            return not isinstance(error, Exception)
        try:
            store.sync_folder(OWN_NAME)
            discard(store, journal.parts)
            roll_forward(store, back)
        except (ZarrfuseError, OSError) as fault:
            self.unfinished.add(journal.key)
            log.error("%s will be put back later: %s", journal.key, text_of(fault))
        return True


def _is_done(store: WritableStore, part: Part) -> bool:
    """Whether a part has been moved, or deleted, although the store said that it failed."""
    asked = part.key if part.temporary is None else part.temporary
    try:
        store.stat(asked)
    except NotFound:
        return True
    except (ZarrfuseError, OSError):
        return True  # putting it back does no harm
    return False
