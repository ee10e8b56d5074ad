"""Ordinary files of a view: what is neither a chunk nor a metadata document, so one stored file.

Owns how such a file is opened on either kind of store. Used by `raw`, for all files, and by the views
of chunks for the others; it must not know which names these are. Where a store can be changed in place,
a file is the stored one, shared by all who have it open, and live: its size is that of now. Elsewhere,
and for who wants that (`StoredWhole`), it is a private copy, stored whole. Its name is the store's to
change.
"""

from zarrfuse.errors import Exists, IsAFolder, NotFound
from zarrfuse.stores.base import File, Kind, Reader, WritableStore
from zarrfuse.views.base import Writer
from zarrfuse.views.until_stored import UntilStored
from zarrfuse.writing.commits import Commits, Target
from zarrfuse.writing.spool import Spool
from zarrfuse.writing.spooled import SpooledWriter


class StoredWhole(Commits):
    """Commits of who stores all files whole, also those that could be changed in place: nobody ever
    finds half of one."""


class OrdinaryWriter:
    """A stored file that is written in place. Implements `views.base.Writer`; there is nothing to store."""

    __slots__ = ("_file", "close", "readinto", "seen", "set_mtime", "truncate", "write")

    is_private = False
    is_live = True
    changed = False

    def __init__(self, file: File) -> None:
        self._file = file
        self.seen = file.seen
        self.readinto = file.readinto
        self.write = file.write
        self.truncate = file.truncate
        self.set_mtime = file.set_mtime
        self.close = file.close

    @property
    def size(self) -> int:
        """How many bytes the file has now."""
        return self._file.size

    @property
    def mtime_ns(self) -> int:
        """When it was last changed, as of now."""
        return self._file.mtime_ns

    def store(self, *, sync: bool = False) -> bool:
        """See `views.base.Writer`: everything is stored."""
        if sync:
            self._file.sync()
        return False


def create(commits: Commits, key: str, *, exclusive: bool = False) -> Writer:
    """A new, empty file. See `views.base.Folder.create`."""
    if _is_shared(commits):
        return OrdinaryWriter(commits.store.edit(key, create=True, exclusive=True))
    try:
        there = commits.store.stat(key)
    except NotFound:
        pass
    else:
        _check_file(there.kind, key)
        if exclusive:
            raise Exists(f"{key} is there")
    return _private(commits, key, None, new=exclusive)


def write(commits: Commits, key: str, *, truncate: bool = False) -> Writer:
    """A file that is there, to be written. See `views.base.Folder.write`."""
    if _is_shared(commits):
        return _shared(commits.store.edit(key), truncate=truncate)
    _check_file(commits.store.stat(key).kind, key)
    return _private(commits, key, None if truncate else commits.store.open(key))


def open_(store: WritableStore, key: str, *, wait: bool = True) -> Reader:
    """A file, to be read as it is and will be. See `views.base.Folder.open`."""
    if store.in_place:
        try:
            return store.edit(key, write=False, wait=wait)
        except IsAFolder as error:
            raise NotFound(f"{key} is no file") from error
    return store.open(key, wait=wait)


def _is_shared(commits: Commits) -> bool:
    return commits.store.in_place and not isinstance(commits, StoredWhole)


def _shared(file: File, *, truncate: bool) -> OrdinaryWriter:
    if truncate:
        try:
            file.truncate(0)
        except BaseException:
            file.close()
            raise
    return OrdinaryWriter(file)


def _private(
    commits: Commits, key: str, base: Reader | None, *, new: bool = False
) -> SpooledWriter:
    """`new`: storing it for the first time raises `Exists` if somebody else did meanwhile."""
    until_stored = UntilStored(new)

    def store(spool: Spool, mtime_ns: int | None, sync: bool) -> None:
        whole = Target(key, 0, spool.size)
        with until_stored.storing(spool) as is_new:
            commits.store_spool(key, [whole], spool, mtime_ns=mtime_ns, sync=sync, new=is_new)

    return SpooledWriter(commits, store, base=None if base is None else lambda: base)


def _check_file(kind: Kind, key: str) -> None:
    if kind is Kind.FOLDER:
        raise IsAFolder(f"{key} is a folder")
