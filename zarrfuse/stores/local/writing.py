"""A folder of a mounted file system as a store that can be written.

Owns the system calls that change names or store bytes below the folder. Used by `opening`. It must not know
chunks or journals. No call leaves the folder: the folder of a name is opened as for reading (`beneath`),
and the name is changed relative to that descriptor, without following symlinks. A symlink is renamed,
deleted and replaced as itself; `edit` alone follows it.

These are atomic, also if the process is killed:

* `put`: the bytes are written to a file in `.zarrfuse/`, then renamed onto the key (with `new`: linked to
  it). A process that dies may leave a `put-*` there. A key in a folder of `.zarrfuse/` belongs to one
  process, so it is written as it is; it is deleted again if that fails.
* `rename`, with and without `replace`, `link`, `remove`, `make_folder`, `remove_folder`, and the making of
  a file by `edit`: one system call each. Only where the file system has no `renameat2(2)`, a rename that
  must not replace is a link and an unlink: a process that dies may leave both names.
* A file that is renamed out of `.zarrfuse/` into a folder on another file system is copied next to its new
  name, renamed there, and deleted; a process that dies may leave the copy (`*.partial`) or the source.

Writing through `edit` is not atomic, as on a disk.
"""

import ctypes
import errno
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from stat import S_ISDIR, S_ISREG

from zarrfuse.errors import (
    Denied,
    Elsewhere,
    Exists,
    Invalid,
    IsAFolder,
    NameTooLong,
    NotAFolder,
    NotEmpty,
    NotFound,
    NotSupported,
    SourceError,
    ZarrfuseError,
)
from zarrfuse.spec.paths import split
from zarrfuse.stores.access import Access, Change
from zarrfuse.stores.base import OWN_NAME, Kind, Like, WritableStore
from zarrfuse.stores.descriptor import closing_on_error, sync_folder
from zarrfuse.stores.local import ownership
from zarrfuse.stores.local.file import LocalFile, change_status
from zarrfuse.stores.local.kept_folders import KeptFolders
from zarrfuse.stores.local.new_file import discarding_on_error, inode_of, status_of, write_new
from zarrfuse.stores.local.own_folder import new_file
from zarrfuse.stores.local.shared_syncs import SharedSyncs
from zarrfuse.stores.local.store import LONGEST_KEY, LocalStore

_FOLDER = os.O_PATH | os.O_DIRECTORY
_LIST = os.O_RDONLY | os.O_DIRECTORY
_LOOK = os.O_PATH | os.O_NOFOLLOW
_ANY = os.O_NONBLOCK | os.O_NOCTTY  # a FIFO that took a file's place must not hang
_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_RACES_TOLERATED = 100
_RENAME_NOREPLACE = 1

_renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
if _renameat2 is not None:  # not in every C library
    _renameat2.argtypes = [
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_uint,
    ]


class WritableLocalStore(LocalStore, WritableStore):
    """The files below one folder, to be read and written. Implements `base.WritableStore`.

    Raises `SourceError` if `root` is no folder, cannot be read, or lies on a read-only file system.
    `ownership` has the rules for owner, mode and ACL of new and replaced files.
    """

    in_place = True

    def __init__(self, root: str, *, follow_symlinks: bool = False) -> None:
        super().__init__(root, follow_symlinks=follow_symlinks)
        self._folders = KeptFolders(self._open)
        self._syncs = SharedSyncs(self._sync_folder)
        if os.fstatvfs(self.root.fd).f_flag & os.ST_RDONLY:
            self.close()
            raise SourceError(f"{root} lies on a file system that is mounted read-only")

    # -- files -------------------------------------------------------------------------------

    def edit(
        self,
        key: str,
        *,
        write: bool = True,
        create: bool = False,
        exclusive: bool = False,
        given: Access | None = None,
        wait: bool = True,
    ) -> LocalFile:
        """See `base.WritableStore`."""
        if not key:
            raise IsAFolder("the root is a folder")
        flags = (os.O_RDWR if write else os.O_RDONLY) | _ANY
        if not create:
            return self._file(self._open(key, flags, wait=wait), key)
        if not wait:
            raise BlockingIOError(errno.EAGAIN, "making a file takes its time")
        for _ in range(_RACES_TOLERATED):  # made and deleted by others in between
            with self._at(key) as (folder, name), _ours(key):
                try:
                    if _is_own(key):
                        return LocalFile(new_file(folder, name, flags), key)
                    return LocalFile(ownership.make_file(folder, name, flags, given), key)
                except FileExistsError:
                    if exclusive:
                        raise
            with suppress(NotFound):
                return self._file(self._open(key, flags), key)
        raise Exists(f"{key} exists and is no file: a broken symlink, a FIFO, a device")

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
        """See `base.WritableStore`."""
        if not key:
            raise IsAFolder("the root is a folder")
        if like is None and not _is_own(key):
            like = key
        with self._dressing(like) as dress, self._at(key) as (folder, name), _ours(key):
            write = partial(write_new, sync=sync, mtime_ns=mtime_ns, dress=dress)
            if _is_own(key) and key.count("/") > 1:
                try:
                    fd = new_file(folder, name, os.O_WRONLY)
                    with discarding_on_error(folder, name):
                        write(fd, name, source, start, stop)
                    return
                except FileExistsError:
                    if new:
                        raise
            # Renaming onto a folder would tell, but only when all is copied.
            old = status_of(folder, name)
            if old is not None and new:
                raise Exists(f"{key} exists already")
            if old is not None and S_ISDIR(old.st_mode):
                raise IsAFolder(f"{key} is a folder")
            with self._temporary(folder) as (at, temporary, fd):
                inode = write(fd, temporary, source, start, stop)
                if inode_of(os.stat(temporary, dir_fd=at, follow_symlinks=False)) != inode:
                    raise Denied(f"{key}: others have replaced {temporary} meanwhile")
                if new:
                    _rename_new(at, temporary, folder, name)
                else:
                    os.rename(temporary, name, src_dir_fd=at, dst_dir_fd=folder)

    def remove(self, key: str) -> None:
        """See `base.WritableStore`."""
        if not key:
            raise IsAFolder("the root is a folder")
        with self._at(key) as (folder, name), _ours(key):
            os.unlink(name, dir_fd=folder)

    def rename(self, key: str, new_key: str, *, replace: bool = True) -> None:
        """See `base.WritableStore`. Raises `Invalid` for a folder that would be moved into itself."""
        with (
            self._at(key) as (folder, name),
            self._at(new_key) as (new_folder, new_name),
            _ours(f"{key} to {new_key}"),
        ):
            is_own = _is_own(key)
            if is_own and not _is_own(new_key):
                _refuse_symlink(folder, name, key)
            try:
                if replace:
                    os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder)
                else:
                    _rename_new(folder, name, new_folder, new_name)
            except OSError as error:
                if error.errno == errno.ENOTEMPTY or (replace and error.errno == errno.EEXIST):
                    raise NotEmpty(f"the folder {new_key} is not empty") from None
                if error.errno != errno.EXDEV or not is_own:
                    raise
                self._move_over(key, new_key, new=not replace)

    def dress(self, key: str, like: Like) -> None:
        """See `base.WritableStore`."""
        with self._at(key) as (folder, name), _ours(key):
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | _ANY | os.O_CLOEXEC, dir_fd=folder)
        try:
            with self._dressing(like) as dress, _ours(key):
                assert dress is not None
                dress(fd)
        finally:
            os.close(fd)

    def link(self, key: str, new_key: str) -> None:
        """See `base.WritableStore`. Raises `NotSupported` where files cannot have two names."""
        with (
            self._at(key) as (folder, name),
            self._at(new_key) as (new_folder, new_name),
            _ours(f"{key} to {new_key}"),
        ):
            _link(folder, name, new_folder, new_name)

    def symlink(self, key: str, text: str, given: Access | None = None) -> None:
        """See `base.WritableStore`. The target need not exist."""
        if not self._stays_inside(key, text):
            raise Denied(f"{key}: a symlink to {text} would lead out of {self.root.path}")
        with self._at(key) as (folder, name), _ours(key):
            ownership.make_symlink(folder, name, text, given)

    # -- folders -----------------------------------------------------------------------------

    def make_folder(self, key: str, given: Access | None = None) -> None:
        """See `base.WritableStore`."""
        if not key:
            raise Exists("the root exists already")
        with self._at(key) as (folder, name), _ours(key):
            if _is_own(key):
                os.mkdir(name, 0o700, dir_fd=folder)
            else:
                ownership.make_folder(folder, name, given)

    def remove_folder(self, key: str) -> None:
        """See `base.WritableStore`."""
        with self._at(key) as (folder, name), _ours(key):
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    raise NotEmpty(f"the folder {key} is not empty") from None
                raise

    def sync_folder(self, key: str) -> None:
        """See `base.WritableStore`. Does nothing on file systems that do not support it."""
        self._syncs.wait(key)

    def _sync_folder(self, key: str) -> None:
        with self._folders.opened(key, _LIST) as fd:
            sync_folder(fd)

    # -- both --------------------------------------------------------------------------------

    def change(self, key: str, change: Change, *, follow: bool = True) -> None:
        """See `base.WritableStore`."""
        is_link = not follow and self.stat(key, follow=False).kind is Kind.LINK
        fd = self._open(key, _LOOK if is_link else os.O_PATH)
        try:
            with _ours(key):  # by /proc: an O_PATH descriptor itself cannot be used
                change_status(f"/proc/self/fd/{fd}", os.fstat(fd), change)
        finally:
            os.close(fd)

    # -- how -----------------------------------------------------------------------------------

    def same_folders(self) -> AbstractContextManager[None]:
        """See `base.WritableStore`."""
        return self._folders.block()

    @contextmanager
    def _at(self, key: str) -> Iterator[tuple[int, str]]:
        """The folder of a key, as a descriptor, and the name in it. Raises as `base.Store.scan`."""
        above, name = split(key)
        if name in ("", ".", ".."):
            raise Denied(f"{key or 'the root'} is no name that can be changed")
        if "\0" in name:
            raise NotFound(f"no key {key!r}")
        # By way of its folder it could be made, and would never be found.
        if len(os.fsencode(key)) > LONGEST_KEY:
            raise NameTooLong(f"{key} is longer than the {LONGEST_KEY} bytes of a path")
        with self._folders.opened(above, _FOLDER) as fd:
            yield fd, name

    @contextmanager
    def _dressing(self, like: Like | None) -> Iterator[Callable[[int], None] | None]:
        """A function that gives a new file the owner and mode of `like`; None for None."""
        if isinstance(like, str):
            with self._at(like) as (folder, name):
                yield partial(ownership.like_replaced, folder=folder, name=name)
        elif isinstance(like, int):
            yield partial(ownership.like, old=like)
        elif like is not None:
            yield partial(ownership.give, access=like)
        else:
            yield None

    @contextmanager
    def _temporary(self, folder: int) -> Iterator[tuple[int, str, int]]:
        """A new file that can be renamed into a folder: the folder it is in, its name, a descriptor.

        The descriptor is to be closed; the file is deleted if the block raises.
        """
        name = f"put-{secrets.token_hex(8)}"
        for _ in range(_RACES_TOLERATED):  # who is done deletes the folder of our own
            own = self.own.make()
            try:
                if os.fstat(own).st_dev != os.fstat(folder).st_dev:
                    name += ".partial"
                    fd = os.open(name, os.O_WRONLY | _NEW, 0o600, dir_fd=folder)
                    with discarding_on_error(folder, name):
                        yield folder, name, fd
                    return
                try:
                    fd = new_file(own, name, os.O_WRONLY)
                except FileNotFoundError:
                    continue
                with discarding_on_error(own, name):
                    yield own, name, fd
                return
            finally:
                os.close(own)
        raise Denied(f"{self.own.path} is deleted again and again")

    def _file(self, fd: int, key: str) -> LocalFile:
        with closing_on_error(fd):
            mode = os.fstat(fd).st_mode
            if S_ISREG(mode):
                return LocalFile(fd, key)
            raise (
                IsAFolder(f"{key} is a folder") if S_ISDIR(mode) else NotFound(f"{key} is no file")
            )

    def _move_over(self, key: str, new_key: str, *, new: bool) -> None:
        file = self.edit(key, write=False)
        try:
            fd = file.fileno()
            self.put(new_key, fd, 0, file.size, new=new, mtime_ns=file.mtime_ns, like=fd)
        finally:
            file.close()
        self.remove(key)

    def _of_ours(self, error: OSError, key: str, flags: int) -> ZarrfuseError | OSError:
        if isinstance(error, IsADirectoryError):
            return IsAFolder(f"{key} is a folder")
        if isinstance(error, PermissionError) and flags & os.O_ACCMODE != os.O_RDONLY:
            return _denied(key)
        return super()._of_ours(error, key, flags)


def _is_own(key: str) -> bool:
    return key == OWN_NAME or key.startswith(f"{OWN_NAME}/")


def _link(folder: int, name: str, new_folder: int, new_name: str) -> None:
    os.link(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder, follow_symlinks=False)


def _rename_new(folder: int, name: str, new_folder: int, new_name: str) -> None:
    """Rename what must not replace anything. Raises `OSError`, EEXIST if there is something."""
    if _renameat2 is not None:
        names = os.fsencode(name), os.fsencode(new_name)
        if not _renameat2(folder, names[0], new_folder, names[1], _RENAME_NOREPLACE):
            return
        code = ctypes.get_errno()
        if code not in (errno.EINVAL, errno.ENOSYS):  # EINVAL: also of a folder into itself
            raise OSError(code, os.strerror(code), name)
    status = status_of(folder, name)
    if status is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    if S_ISDIR(status.st_mode):
        # It may replace an empty folder, so one is put there, which must be new.
        os.mkdir(new_name, 0o777, dir_fd=new_folder)
        try:
            os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder)
        except OSError:
            with suppress(OSError):
                os.rmdir(new_name, dir_fd=new_folder)
            raise
        return
    _link(folder, name, new_folder, new_name)
    os.unlink(name, dir_fd=folder)


def _refuse_symlink(folder: int, name: str, key: str) -> None:
    status = status_of(folder, name)
    if status is not None and not S_ISREG(status.st_mode):
        raise Denied(f"{key} is no file: nothing that was to be stored")


@contextmanager
def _ours(what: str) -> Iterator[None]:
    """Turn errors of system calls on a name into exceptions of `errors`; others are raised as they are."""
    try:
        yield
    except FileExistsError:
        raise Exists(f"{what}: there is something of that name") from None
    except FileNotFoundError:
        raise NotFound(f"no key {what}") from None
    except IsADirectoryError:
        raise IsAFolder(f"{what}: there is a folder of that name") from None
    except NotADirectoryError:
        raise NotAFolder(f"{what}: there is a file of that name") from None
    except PermissionError:
        raise _denied(what) from None
    except OSError as error:
        match error.errno:
            case errno.EINVAL:
                raise Invalid(f"{what}: no such change can be made") from None
            case errno.EXDEV:
                raise Elsewhere(f"{what}: on two file systems") from None
            case errno.EOPNOTSUPP:
                raise NotSupported(f"{what}: this file system cannot do that") from None
        raise


def _denied(key: str) -> Denied:
    return Denied(f"{key} may not be written by the user of the mount")
