"""Commits one stored key: a spool file, or another stored file, becomes the file under it.

Owns how a file gets its owner, mode and time before it has its name. Used by `commits`. It needs no
journal, because the rename (or the put) is one step.
"""

import os
from functools import partial

from zarrfuse.spec.paths import folder_of
from zarrfuse.stores.base import WritableStore, is_there
from zarrfuse.transactions.apply_journal import make_folders, with_folder
from zarrfuse.transactions.journal import Part
from zarrfuse.transactions.spool import Spool, StoreOptions, Target
from zarrfuse.transactions.temporary_parts import discard
from zarrfuse.transactions.workspace import Workspace


class Single:
    """Commits of one stored key in one store."""

    def __init__(self, store: WritableStore, workspace: Workspace) -> None:
        self._store = store
        self._workspace = workspace

    def store(self, target: Target, spool: Spool, options: StoreOptions) -> None:
        """Store bytes of a spool file. One in the workspace that is stored whole is given away."""
        store = self._store
        mtime_ns, access = options.mtime_ns, options.access
        sync, new = options.sync, options.new
        if not store.in_place:
            store.put(*(target.key, spool.fd, *target[1:]), sync=sync, new=new, mtime_ns=mtime_ns)
            return
        like = target.key if access is None else access
        is_whole = (target.start, target.stop) == (0, spool.size)
        if spool.key is not None and is_whole and not spool.is_given:
            source = spool.key
            with_folder(store, target.key, lambda: store.dress(source, like), sync=sync)
            if mtime_ns is not None:
                os.utime(spool.fd, ns=(mtime_ns, mtime_ns))
            if sync:
                os.fsync(spool.fd)
            try:
                self.rename(source, target.key, new=new, sync=sync)
            except BaseException:
                if not is_there(store, source):  # it has been renamed all the same
                    spool.give(target.key)
                raise
            spool.give(target.key)
        else:
            sync = True  # what is stored is not the spool file, so a later `sync` could not find it
            source = self._workspace.temporary()
            put = partial(store.put, source, spool.fd, target.start, target.stop, sync=sync)
            try:
                with_folder(store, target.key, lambda: put(mtime_ns=mtime_ns, like=like), sync=sync)
                self.rename(source, target.key, new=new, sync=sync)
            except BaseException:
                discard(store, [Part(target.key, source)])
                raise
        if sync:
            store.sync_folder(folder_of(target.key))

    def rename(self, source: str, key: str, *, new: bool, sync: bool) -> None:
        """Rename a stored file; missing folders are made."""
        rename = partial(self._store.rename, source, key, replace=not new)
        with_folder(self._store, key, rename, sync=sync)

    def link(self, source: str, key: str, *, new: bool) -> None:
        """Give a stored file a second name; missing folders are made."""
        store = self._store
        make_folders(store, folder_of(key), sync=False)
        if new:
            store.link(source, key)
            return
        temporary = self._workspace.temporary()
        try:
            store.link(source, temporary)
            store.rename(temporary, key)
        finally:  # it is still there where both were names of one file already
            discard(store, [Part(key, temporary)])
