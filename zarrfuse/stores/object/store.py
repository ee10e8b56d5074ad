"""The keys below a prefix of a bucket as a store: S3, Google Cloud Storage, Azure Blob Storage.

Owns how objects become files and folders. Used by `opening`. `bucket` makes the requests, `reader` reads
bytes, and `folders` has the folders without keys.

* A file is an object. A folder exists if there is a key below it, or an object `folder/` (a marker, which
  is not listed), or if this process made it or deleted a name in it. If an object and a folder have the
  same name, the object is shown. Keys that are no paths (`a//b`, `..`, control characters) are not shown.
* An object is made, replaced and deleted by one request, so atomically. A rename is a copy and a delete,
  and both objects exist in between. A condition (`new`, `replace=False`) is part of the request if the
  server supports that, else it is checked before the request.
* A reader keeps its bytes when this process replaces or deletes the object. When another process does,
  reads are `Stale` (ESTALE), except in S3 buckets with versions.
* Times are those of the store, in seconds; folders have the time at which the store was opened.
"""

import errno
import os
import time
from collections.abc import Iterator, Mapping, Sequence

from zarrfuse.errors import (
    Denied,
    Exists,
    IsAFolder,
    NameTooLong,
    NotAFolder,
    NotEmpty,
    NotFound,
    NotSupported,
    SourceError,
    Stale,
)
from zarrfuse.spec.paths import folder_of, name_of
from zarrfuse.stores.access import Access, Change
from zarrfuse.stores.base import OWN_NAME, Entry, Kind, Like, Reader, WritableStore, Writer
from zarrfuse.stores.object.bucket import Bucket, Found, Patience
from zarrfuse.stores.object.folders import Folders
from zarrfuse.stores.object.reader import OpenReaders
from zarrfuse.stores.object.url import can_be_key, parse

_KEY_BYTES = 1024  # of S3, Google and Azure alike
_NAME_BYTES = 255  # Linux
_SPACE_BYTES = 1 << 50  # there is no end to them; `df` wants a number
_PIECE_BYTES = 8 << 20
_PATIENCE = Patience()


class ObjectStore(WritableStore):
    """Implements `base.WritableStore`. Names, credentials and endpoint as `docs/remote.md` says.

    Raises `SourceError` if the bucket does not exist, does not answer or may not be listed, and, if not
    `writable`, if there is no key below the prefix. `settings`, `profile`: see `Bucket`.
    """

    permanent = False
    in_place = False

    def __init__(
        self,
        source: str,
        *,
        writable: bool = False,
        patience: Patience = _PATIENCE,
        settings: Mapping[str, str] | None = None,
        profile: str | None = None,
    ) -> None:
        self._url = parse(source)
        self._opened: Bucket | None = Bucket(self._url, patience, settings, profile)
        self._readers = OpenReaders()
        self._folders = Folders()
        self._mtime_ns = int(time.time()) * 10**9
        if not self._opened.check() and self._url.prefix and not writable:
            raise SourceError(f"the source {self._url} does not exist: there are no keys below it")

    # -- reading -------------------------------------------------------------------------------

    def scan(self, folder: str, *, follow: bool = True) -> Iterator[Entry]:
        """See `base.Store`. One request for each thousand names, all made before the first is given."""
        path = self._path(folder)
        objects, folders = self._bucket.list(path)
        kept = self._folders.names(folder)
        if objects or folders:
            self._folders.saw(folder)
        elif not kept and folder and not self._folders.is_kept(folder):
            if self._is_file(path):
                raise NotAFolder(f"{folder} is not a folder")
            raise NotFound(f"no key {folder}")
        return self._entries(folder, path, objects, [*folders, *kept])

    def stat(self, key: str, *, wait: bool = True, follow: bool = True) -> Entry:
        """See `base.Store`. One request for a file, a second one for a folder."""
        name = name_of(key)
        if not key:
            return self._folder_entry(name)
        path = self._path(key)
        _must_wait(wait)
        try:
            found = self._bucket.find(path)
        except NotFound:
            if self._is_folder(key):
                return self._folder_entry(name)
            raise
        return Entry(name, Kind.FILE, found.size, found.mtime_ns)

    def open(self, key: str, *, wait: bool = True) -> Reader:
        """See `base.Store`. One request; the first bytes are another."""
        if not key:
            raise NotFound("the root is no file")
        path = self._path(key)
        _must_wait(wait)
        return self._readers.open(self._bucket, path)

    def readlink(self, key: str) -> str:
        """See `base.Store`. Object stores have no symlinks."""
        raise NotFound(f"{key} is no symlink")

    def space(self) -> tuple[int, int]:
        """See `base.Store`. Object stores do not say; it is a petabyte."""
        return _SPACE_BYTES, _SPACE_BYTES

    def close(self) -> None:
        """See `base.Store`. Open readers stay usable."""
        self._opened = None

    # -- writing -------------------------------------------------------------------------------

    def edit(
        self,
        key: str,
        *,
        write: bool = True,
        create: bool = False,
        exclusive: bool = False,
        given: Access | None = None,
        wait: bool = True,
    ) -> Writer:
        """See `base.WritableStore`. Raises `NotSupported`."""
        raise NotSupported(f"{key}: objects of {self._url} can only be stored whole")

    def put(
        self,
        key: str,
        source: int,
        start: int,
        stop: int,
        *,
        sync: bool = True,
        new: bool = False,
        mtime_ns: int | None = None,
        like: Like | None = None,
    ) -> None:
        """See `base.WritableStore`. One PUT, or a multipart upload for more than 64 MiB.

        Missing folders exist with the key.
        """
        path = self._new_path(key)
        if self._folders.is_known(key) and self._is_folder(key):
            raise Exists(f"{key} exists already") if new else IsAFolder(f"{key} is a folder")
        with self._readers.replacing(path):
            self._bucket.put(path, _pieces(source, start, stop, key), stop - start, new=new)
        self._folders.saw(_above(key))

    def remove(self, key: str) -> None:
        """See `base.WritableStore`."""
        path = self._file_path(key)
        with self._readers.replacing(path):
            self._bucket.delete(path)
        self._folders.keep(_above(key))

    def rename(self, key: str, new_key: str, *, replace: bool = True) -> None:
        """See `base.WritableStore`. A copy and a delete; of folders, `NotSupported`."""
        path, new_path = self._file_path(key, of_folders="renamed"), self._new_path(new_key)
        if path == new_path:
            if not replace:
                raise Exists(f"{new_key} exists already")
            return
        if self._folders.is_known(new_key) and self._is_folder(new_key):
            raise (
                IsAFolder(f"{new_key} is a folder")
                if replace
                else Exists(f"{new_key} exists already")
            )
        with self._readers.replacing(new_path, path):
            self._bucket.copy(path, new_path, new=not replace)
            self._folders.saw(_above(new_key))
            self._bucket.delete(path)
        self._folders.keep(_above(key))

    def link(self, key: str, new_key: str) -> None:
        """See `base.WritableStore`. A copy: later changes of one name do not change the other."""
        path, new_path = self._file_path(key), self._new_path(new_key)
        if path == new_path or (self._folders.is_known(new_key) and self._is_folder(new_key)):
            raise Exists(f"{new_key} exists already")
        self._bucket.copy(path, new_path, new=True)
        self._folders.saw(_above(new_key))

    def make_folder(self, key: str, given: Access | None = None) -> None:
        """See `base.WritableStore`. It exists in this process; others see it when there is a key in it."""
        if not key:
            raise Exists("the root exists already")
        path = self._new_path(key)
        above = _above(key)
        if above and not self._is_folder(above):
            raise NotFound(f"no folder {above} for {key}")
        if self._is_file(path) or self._is_folder(key) or not self._folders.keep(key):
            raise Exists(f"{key} exists already")

    def remove_folder(self, key: str) -> None:
        """See `base.WritableStore`. Raises `NotSupported` for a folder with a marker."""
        if not key:
            raise Denied("the root cannot be deleted")
        path = self._path(key)
        if self._folders.names(key) or self._bucket.any_below(path, but_marker=True):
            raise NotEmpty(f"the folder {key} is not empty")
        if self._bucket.any_below(path):
            raise NotSupported(
                f"the folder {key} is an object {key}/ of {self._url}, which zarrfuse cannot delete"
            )
        if not self._folders.is_kept(key):
            raise (
                NotAFolder(f"{key} is a file") if self._is_file(path) else NotFound(f"no key {key}")
            )
        self._folders.drop(key)

    def change(self, key: str, change: Change, *, follow: bool = True) -> None:
        """See `base.WritableStore`. Times and modes are ignored."""
        own = Access(0, os.geteuid(), os.getegid())
        if change._replace(mode=None).of(own) != own:
            raise NotSupported(f"{key}: objects have no owner that could be changed")

    def sync_folder(self, key: str) -> None:
        """See `base.WritableStore`. Does nothing: each request is durable."""

    # -- how -----------------------------------------------------------------------------------

    @property
    def _bucket(self) -> Bucket:
        bucket = self._opened
        if bucket is None:
            raise OSError(errno.EBADF, f"the store {self._url} is closed")
        return bucket

    def _path(self, key: str) -> str:
        """The whole key of an object. Raises `NotFound` for a key that no object can have."""
        if key and not can_be_key(key):
            raise NotFound(f"no key {key!r}")
        return _whole(self._url.prefix, key)

    def _new_path(self, key: str) -> str:
        """The same for a new object. Raises `NotSupported`, `NameTooLong`."""
        if not key:
            raise IsAFolder("the root is a folder")
        if not can_be_key(key):
            raise NotSupported(f"{key!r} cannot be a key of an object store")
        path = _whole(self._url.prefix, key)
        if len(path.encode()) > _KEY_BYTES:
            raise NameTooLong(f"{key} is longer than the {_KEY_BYTES} bytes of a key")
        return path

    def _file_path(self, key: str, *, of_folders: str = "") -> str:
        """The path of an existing file; `of_folders`: what cannot be done with folders, for the error."""
        if not key:
            raise IsAFolder("the root is a folder")
        path = self._path(key)
        try:
            self._bucket.find(path)
        except NotFound:
            if not self._is_folder(key):
                raise
            if of_folders:
                raise NotSupported(
                    f"the folder {key} cannot be {of_folders}: object stores have no folders"
                ) from None
            raise IsAFolder(f"{key} is a folder") from None
        return path

    def _is_file(self, path: str) -> bool:
        try:
            self._bucket.find(path)
        except NotFound:
            return False
        return True

    def _is_folder(self, key: str) -> bool:
        if self._folders.is_kept(key):
            return True
        if self._bucket.any_below(_whole(self._url.prefix, key)):
            self._folders.saw(key)
            return True
        return False

    def _folder_entry(self, name: str) -> Entry:
        return Entry(name, Kind.FOLDER, 0, self._mtime_ns)

    def _entries(
        self, folder: str, path: str, objects: Sequence[tuple[str, Found]], folders: Sequence[str]
    ) -> Iterator[Entry]:
        skipped = len(path) + 1 if path else 0
        given = {"", OWN_NAME} if not folder else {""}
        for whole, found in objects:
            name = whole[skipped:]  # nothing is left of a marker
            if name not in given and _is_name(name):
                given.add(name)
                yield Entry(name, Kind.FILE, found.size, found.mtime_ns)
        for whole in folders:
            name = name_of(whole)
            if name not in given and _is_name(name):
                given.add(name)
                yield self._folder_entry(name)


def _must_wait(wait: bool) -> None:
    if not wait:
        raise BlockingIOError(errno.EAGAIN, "the object store has to be asked")


def _above(key: str) -> str:
    return folder_of(key)


def _whole(prefix: str, key: str) -> str:
    return f"{prefix}/{key}" if prefix and key else prefix or key


def _is_name(name: str) -> bool:
    return len(name) * 4 <= _NAME_BYTES or len(name.encode()) <= _NAME_BYTES


def _pieces(source: int, start: int, stop: int, key: str) -> Iterator[bytes]:
    """Bytes [start, stop) of an open file. Raises `Stale` if it ends before."""
    while start < stop:
        data = os.pread(source, min(stop - start, _PIECE_BYTES), start)
        if not data:
            raise Stale(f"the bytes for {key} end at {start}, they were to end at {stop}")
        yield data
        start += len(data)
