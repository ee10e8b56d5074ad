"""Ordinary files of a view: each is one stored file, neither a chunk nor a metadata document.

Owns how such a file is opened. In a store that changes files `in_place` the stored file is opened, in any
other a working copy, which is stored whole. Used by `raw` for all files, and by the other views. It must
not know which names are ordinary files.
"""

from zarrfuse.errors import Exists, IsAFolder, NotFound
from zarrfuse.stores.access import Access
from zarrfuse.stores.base import Kind, Reader, WritableStore, Writer
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.spool import Target
from zarrfuse.transactions.working_copy import WorkingCopy


def create(
    commits: Commits, key: str, *, exclusive: bool = False, given: Access | None = None
) -> Writer:
    """Create an empty file. See `views.base.Folder.create`."""
    if commits.in_place:
        return commits.store.edit(key, create=True, exclusive=True, given=given)
    try:
        there = commits.store.stat(key)
    except NotFound:
        pass
    else:
        _check_file(there.kind, key)
        if exclusive:
            raise Exists(f"{key} exists already")
        given = None
    return new_copy(commits, exclusive=exclusive, given=given)


def new_copy(commits: Commits, *, exclusive: bool, given: Access | None) -> WorkingCopy:
    """An empty working copy. It gets its mode and owner when it is stored, if the store keeps these."""
    copy = WorkingCopy(commits, is_new=exclusive)
    if commits.in_place:
        copy.given = given
    return copy


def write(commits: Commits, key: str) -> Writer:
    """Open an existing file for writing. See `views.base.Folder.write`."""
    if commits.in_place:
        return commits.store.edit(key)
    _check_file(commits.store.stat(key).kind, key)
    return WorkingCopy(commits, commits.store.open(key))


def store(commits: Commits, key: str, copy: WorkingCopy, *, sync: bool) -> None:
    """Store a working copy under one key. See `views.base.Folder.store`."""
    with copy.to_store(sync=sync) as (spool, options):
        commits.store_spool(key, [Target(key, 0, spool.size)], spool, options)


def open_(store: WritableStore, key: str, *, wait: bool = True) -> Reader:
    """Open a file for reading; changes in place are seen. See `views.base.Folder.open`."""
    if store.in_place:
        try:
            return store.edit(key, write=False, wait=wait)
        except IsAFolder as error:
            raise NotFound(f"{key} is no file") from error
    return store.open(key, wait=wait)


def _check_file(kind: Kind, key: str) -> None:
    if kind is Kind.FOLDER:
        raise IsAFolder(f"{key} is a folder")
