"""Stores and deletes chunks and documents, atomically.

Owns the order of the steps of a commit. Used by views, which split the bytes.

A commit of one key renames (or puts) the file. A commit of several keys first writes temporary parts into
the workspace, and syncs them. Then it stores a journal. From that moment the commit counts, for everyone
who reads through `recovered_view`. Then the parts are moved to their keys, and the journal is deleted. From
the journal on, the lock of the chunk is held.

`multi_key_commit` describes what happens when a store call fails.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import repeat

from zarrfuse.errors import Exists, NotFound, NotSupported, ZarrfuseError, text_of
from zarrfuse.spec.paths import folder_of
from zarrfuse.stores.access import Access
from zarrfuse.stores.base import OWN_NAME, WritableStore, is_there
from zarrfuse.stores.descriptor import OnDisk
from zarrfuse.transactions import journal as journals
from zarrfuse.transactions.apply_journal import finish_journal
from zarrfuse.transactions.in_flight import UnderWay
from zarrfuse.transactions.journal import Journal, Judge, Part
from zarrfuse.transactions.keys_workspace import KeysWorkspace
from zarrfuse.transactions.local_workspace import LocalWorkspace
from zarrfuse.transactions.locks import Locks, stripe_of
from zarrfuse.transactions.multi_key_commit import Several
from zarrfuse.transactions.one_key_commit import Single
from zarrfuse.transactions.recovered_view import RolledForward, rolled_forward, unwrapped
from zarrfuse.transactions.recovery import finish, recover
from zarrfuse.transactions.rollback import close_quietly
from zarrfuse.transactions.spool import Spool, StoreOptions, Target, nameless_spool
from zarrfuse.transactions.temporary_parts import discard, link_parts, write_parts
from zarrfuse.transactions.workspace import Workspace, own_folder_of

log = logging.getLogger(__name__)

CLOSE_WAITS_S = 10.0
"""How long `Commits.close` waits for commits of threads that timed out."""

_AS_BEFORE = StoreOptions()


class Commits:
    """Stores and deletes chunks and documents. One for each store and process, for any thread.

    `spool_dir`: the folder of spool files; None: the workspace of a local store, or the folder of temporary
    files. `judge`: decides which journals are applied. `timeout_s`: how long to wait for a lock.
    `in_place`: whether ordinary files are changed in place, if the store can; else all files are stored
    whole.
    """

    def __init__(
        self,
        store: WritableStore,
        spool_dir: str | None = None,
        *,
        judge: Judge | None = None,
        timeout_s: float | None = None,
        in_place: bool = True,
    ) -> None:
        self.store = store
        self.in_place = in_place and store.in_place
        # Journals are written and applied in the store itself, not in its recovered view.
        self._stored = unwrapped(store)
        self._spool_dir = spool_dir
        self._judge = judge
        self._shown = rolled_forward(self._stored, judge)
        own = own_folder_of(store)
        self._workspace: Workspace = (
            KeysWorkspace(self._stored) if own is None else LocalWorkspace(own)
        )
        self._single = Single(self._stored, self._workspace)
        self._several = Several(self._stored, self._workspace, judge)
        self._under_way = UnderWay()
        self.locks = Locks(own, self._workspace, timeout_s)

    def recover(self) -> None:
        """Apply the journals of processes that died, and delete their other files.

        A journal that cannot be applied is logged and stays; the store is shown as if it were applied.
        Raises `Denied` with the reason if the workspace cannot be protected from others.
        """
        was_used = self._workspace.is_used
        recover(self._stored, self._workspace, self.locks, self._judge)
        if not was_used:
            with self._under_way.stopped(0) as is_quiet:
                if is_quiet:  # by now others may have stored something through this, too
                    self._workspace.close(keep=self._has_journals())

    def close(self) -> None:
        """Delete the files of this process. All spools are closed, and no new ones can be made.

        Unfinished journals of its commits are tried again, and stay if that fails. If a commit still runs
        after `CLOSE_WAITS_S`, everything stays for `recover`.
        """
        with self._under_way.stopped(CLOSE_WAITS_S, for_good=True) as is_quiet:
            if is_quiet:
                self._close()
            else:
                log.error("a commit is still running: leftover files are deleted later")

    def _close(self) -> None:
        for key in list(self._several.unfinished):
            try:
                finish(self._stored, self.locks, journals.name_of(key), self._judge)
            except (ZarrfuseError, OSError) as error:
                log.error("storing %s is left to be finished later: %s", key, text_of(error))
        keep = self._has_journals()
        self._several.unfinished.clear()
        self.locks.close()
        self._workspace.close(keep=keep)

    def _has_journals(self) -> bool:
        """Whether there is a journal of this process, which names its temporary parts."""
        return any(self._may_be_there(journals.key_of(key)) for key in self._several.unfinished)

    # -- spools

    def spool(self) -> Spool:
        """A new, empty spool file.

        Raises `OSError`, EBUSY if the store is closed, and `Denied` if no workspace can be made.
        """
        with self._under_way.one():
            opened = None if self._spool_dir else self._workspace.open_spool()
        if opened is None:
            return nameless_spool(self._spool_dir)
        fd, key = opened
        return Spool(fd, key, self._stored.remove)

    def sync(self, spool: Spool) -> None:
        """Make a spool that has become the stored file durable."""
        os.fsync(spool.fd)
        if spool.is_given and spool.key is not None:
            with suppress(NotFound):  # deleted since
                self._stored.sync_folder(folder_of(spool.key))

    @contextmanager
    def _one(self) -> Iterator[None]:
        """A block of one commit, which looks up each folder once."""
        with self._under_way.one(), self._stored.same_folders():
            yield

    # -- storing

    def store_spool(
        self,
        key: str,
        targets: Sequence[Target],
        spool: Spool,
        options: StoreOptions = _AS_BEFORE,
    ) -> None:
        """Store the bytes of a spool file as the chunk or document `key`.

        Each target is (stored key, start, stop); missing folders are made. With one target a spool file in
        the workspace becomes the stored file (`Spool.is_given`). Raises what the store raises.
        """
        with self._one():
            if len(targets) == 1:
                self._finish_left_over(key)
                self._single.store(targets[0], spool, options)
            else:
                self._store_several(
                    *(key, targets, spool.fd), options.mtime_ns, options.access, new=options.new
                )

    def store_file(
        self,
        key: str,
        targets: Sequence[Target],
        source_key: str,
        *,
        keep: bool = False,
        new: bool = False,
    ) -> None:
        """Store the stored file `source_key` as the chunk or document `key`, with its time and mode.

        The file is deleted unless `keep`. That is one step, unless the chunk has several parts and another
        folder: a process that dies may then leave both. Raises as `store_spool`, and `NotFound`.
        """
        with self._one():
            self._finish_left_over(key)
            self._store_file(key, targets, source_key, keep=keep, new=new)

    def _store_file(
        self, key: str, targets: Sequence[Target], source_key: str, *, keep: bool, new: bool
    ) -> None:
        store = self._stored
        if len(targets) == 1:
            target = targets[0]
            if (target.start, target.stop) == (0, store.stat(source_key).size):
                if keep:
                    self._single.link(source_key, target.key, new=new)
                else:
                    self._single.rename(source_key, target.key, new=new, sync=False)
                return
        reader = store.open(source_key)
        spool = None
        try:
            if isinstance(reader, OnDisk):
                fd = like = reader.fileno()
            else:
                like = None  # a store whose files have no modes
                spool = nameless_spool(self._spool_dir)
                fd = spool.fd
                spool.copy(reader, reader.size)
            # A journal deletes nothing in other folders: a forged one could delete anything.
            is_near = folder_of(source_key) == folder_of(key)
            also = (Part(source_key, None),) if is_near and not keep else ()
            self._store_several(key, targets, fd, reader.mtime_ns, like, new=new, also=also)
            if not is_near and not keep:
                store.remove(source_key)
        finally:
            close_quietly(reader)
            if spool is not None:
                spool.close()

    def _store_several(
        self,
        key: str,
        targets: Sequence[Target],
        fd: int,
        mtime_ns: int | None,
        like: int | Access | None,
        *,
        new: bool,
        also: Iterable[Part] = (),
    ) -> None:
        # Bytes are written before the lock is taken, so that other commits of the chunk do not wait for
        # them.
        parts = write_parts(self._stored, self._workspace, targets, fd, mtime_ns, like)
        begun = False
        try:
            with self.locks.exclusive(key):
                self._finish(key)
                if new:
                    self._refuse_replacing(key, [target.key for target in targets])
                begun = True  # from here on `multi_key_commit` deletes them
                self._carry_out(Journal(key, (*parts, *also)))
        except BaseException:
            if not begun:
                discard(self._stored, parts)
            raise

    # -- renaming

    def rename(
        self,
        key: str,
        stored: Sequence[str],
        source_key: str,
        source: Sequence[str],
        *,
        new: bool = False,
    ) -> None:
        """Rename the chunk `source_key` with the parts `source` to the chunk `key` with the parts `stored`.

        Each part gets a second name in the workspace, and one journal moves these and deletes the old
        names. An existing chunk `key` is replaced; with `new`, raises `Exists`. Raises `NotSupported` in
        stores without hard links, `NotFound` if a part is missing, and what the store raises.
        """
        if not self._stored.in_place:
            raise NotSupported("a key of this store has no second name")
        stripes = {stripe_of(each): each for each in (key, source_key)}
        with self._one(), ExitStack() as locks:
            for stripe in sorted(stripes):  # all take them in this order
                locks.enter_context(self.locks.exclusive(stripes[stripe]))
            self._finish(source_key)
            self._finish(key)
            if new:
                self._refuse_replacing(key, stored)
            # A journal of the source that came back after a power cut would contradict this one.
            self._stored.sync_folder(OWN_NAME)
            parts = link_parts(self._stored, self._workspace, source, stored)
            deleted = map(Part, source, repeat(None), stored)
            self._carry_out(Journal(key, (*parts, *deleted)))

    # -- deleting

    def delete(self, key: str, stored: Sequence[str]) -> None:
        """Delete the stored keys of the chunk `key` in one commit; missing keys are ignored.

        Raises `NotFound` if all are missing, and what the store raises.
        """
        with self._one():
            self._delete(key, stored)

    def _delete(self, key: str, stored: Sequence[str]) -> None:
        if len(stored) == 1:
            self._finish_left_over(key)
            self._stored.remove(stored[0])
            return
        with self.locks.exclusive(key):
            self._finish(key)
            there = [each for each in stored if is_there(self._stored, each)]
            if not there:
                raise NotFound(f"no chunk {key}")
            if len(there) == 1:
                self._stored.remove(there[0])
            else:
                self._carry_out(Journal(key, tuple(Part(each, None) for each in there)))

    # -- journals

    def _carry_out(self, journal: Journal) -> None:
        self._several.carry_out(journal)
        if journal.key in self._several.unfinished and isinstance(self._shown, RolledForward):
            self._shown.look(journal.key)  # who reads here sees at once what counts

    def _finish_left_over(self, key: str) -> None:
        """Apply a leftover journal of the chunk, before the chunk is stored as one key."""
        if is_there(self._stored, journals.key_of(key)):
            with self.locks.exclusive(key):
                self._finish(key)

    def _finish(self, key: str) -> None:
        """Apply a leftover journal of the chunk. The lock is held."""
        if is_there(self._stored, journals.key_of(key)):
            finish_journal(self._stored, journals.name_of(key), self._judge, is_replaced=True)

    def _refuse_replacing(self, key: str, stored: Iterable[str]) -> None:
        for each in stored:
            if is_there(self._stored, each):
                raise Exists(f"{key} exists already: {each}")

    def _may_be_there(self, key: str) -> bool:
        try:
            return is_there(self._stored, key)
        except (ZarrfuseError, OSError):
            return True
