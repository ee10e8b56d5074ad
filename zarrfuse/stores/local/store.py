"""A folder of a mounted file system as a store.

Owns the system calls that read the user's files. No path leads out of the folder: the kernel refuses those
that would (`beneath`). The types of names are:

* a symlink within the folder is a symlink, which the kernel follows on the mount; with `follow`, one to a
  file is that file;
* a symlink that leads out of the folder is a denied file, whatever it leads to, unless symlinks are
  followed;
* FIFOs, sockets and devices are not shown.
"""

import errno
import os
from collections.abc import Iterator
from stat import S_IFDIR, S_IFLNK, S_IFMT, S_IFREG, S_ISDIR, S_ISREG

from zarrfuse.errors import Denied, NameTooLong, NotAFolder, NotFound, ZarrfuseError
from zarrfuse.spec.paths import name_of, split
from zarrfuse.stores.access import Access, all_of, way_through
from zarrfuse.stores.base import OWN_NAME, Entry, Kind, Reader, Store
from zarrfuse.stores.descriptor import close_quietly, is_remote, read_full
from zarrfuse.stores.local.beneath import open_beneath
from zarrfuse.stores.local.file import entry_at
from zarrfuse.stores.local.own_folder import OwnFolder
from zarrfuse.stores.local.root import Root

# O_NONBLOCK: opening a FIFO that took a file's place must not hang. It changes nothing for files.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_LIST = os.O_RDONLY | os.O_DIRECTORY
_LOOK = os.O_PATH | os.O_NOFOLLOW
_OWN = os.fsencode(OWN_NAME)
_IN_OWN = _OWN + b"/"

_LEADS_NOWHERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
LONGEST_KEY = 4095
"""Bytes of a path (PATH_MAX without the NUL behind it)."""


class LocalReader(Reader):
    """An open file; holds one descriptor."""

    __slots__ = ("_fd", "_key", "access", "file", "identity", "mtime_ns", "size")

    def __init__(self, fd: int, key: str, status: os.stat_result) -> None:
        self._fd = fd
        self._key = key
        self.size = status.st_size
        self.mtime_ns = status.st_mtime_ns
        self.access = Access.of(status)
        self.identity = status.st_ino
        self.file = (status.st_dev, status.st_ino)
        """Device and inode number."""

    def fileno(self) -> int:
        """The descriptor, to copy from; the reader closes it."""
        return self._fd

    def readinto(self, buffer: memoryview, offset: int, *, wait: bool = True) -> None:
        """See `base.Reader`. Without waiting, only the page cache is read."""
        read_full(self._fd, buffer, offset, self._key, wait=wait)

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class LocalStore(Store):
    """The files below one folder. Implements `base.Store`.

    Raises `SourceError` when `root` is no folder or cannot be read.
    """

    permanent = False

    def __init__(self, root: str, *, follow_symlinks: bool = False) -> None:
        self.root = Root(root)
        self.own = OwnFolder(self.root)
        self._beneath = not follow_symlinks
        self._remote = is_remote(self.root.fd)

    def scan(self, folder: str, *, follow: bool = True) -> Iterator[Entry]:
        """See `base.Store`. One `scandir`, one `lstat` a name."""
        fd = self._open(folder, _LIST)
        file, subfolder = Kind.FILE, Kind.FOLDER
        hidden = "" if folder else OWN_NAME
        mode = uid = gid = -1  # of the name before, for nearly all names of a folder have the same
        type_ = 0
        access = Access(0, 0, 0)
        try:
            if not folder and not os.fstat(fd).st_nlink and not self.root.follow():
                raise NotFound(f"{self.root.path} is deleted")
            with os.scandir(fd) as names:
                for found in names:
                    if found.name == hidden:
                        continue
                    try:
                        status = found.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # gone since
                    except OSError:  # a dead mount: the rest can be listed
                        kind = subfolder if found.is_dir(follow_symlinks=False) else file
                        yield Entry(found.name, kind, 0, 0, True)
                        continue
                    name = found.name
                    if mode != status.st_mode or uid != status.st_uid or gid != status.st_gid:
                        mode, uid, gid = status.st_mode, status.st_uid, status.st_gid
                        type_ = S_IFMT(mode)
                        access = Access.of(status)
                    if type_ == S_IFREG:
                        size, mtime_ns = status.st_size, status.st_mtime_ns
                        inode, links = status.st_ino, status.st_nlink
                        times = status.st_ctime_ns, status.st_atime_ns
                        yield Entry(name, file, size, mtime_ns, False, inode, access, links, *times)
                    elif type_ == S_IFDIR:
                        yield _folder_entry(name, status, access)
                    elif type_ == S_IFLNK:
                        key = f"{folder}/{name}" if folder else name
                        link = self._link_entry(key, status, follow)
                        if link is not None:
                            yield link
        finally:
            os.close(fd)

    def stat(self, key: str, *, wait: bool = True, follow: bool = True) -> Entry:
        """See `base.Store`."""
        fd = self._open(key, _LOOK, wait=wait)
        try:
            status = os.fstat(fd)
        finally:
            os.close(fd)
        name = name_of(key)
        type_ = S_IFMT(status.st_mode)
        if type_ in (S_IFREG, S_IFDIR):
            return self._entry(name, status, Access.of(status))
        if type_ == S_IFLNK:
            if not wait:
                raise BlockingIOError(errno.EAGAIN, "a symlink has to be followed")
            entry = self._link_entry(key, status, follow)
            if entry is not None:
                return entry
        raise NotFound(f"no key {key}")

    def open(self, key: str, *, wait: bool = True) -> LocalReader:
        """See `base.Store`."""
        fd = self._open(key, _READ, wait=wait)
        try:
            status = os.fstat(fd)
            if not S_ISREG(status.st_mode):
                raise NotFound(f"{key} is no file")
        except BaseException:
            close_quietly(fd)
            raise
        return LocalReader(fd, key, status)

    def is_still(self, key: str, reader: Reader, *, wait: bool = True) -> bool:
        """See `base.Store`."""
        if not isinstance(reader, LocalReader):
            return True
        try:
            fd = self._open(key, os.O_PATH, wait=wait)
        except BlockingIOError:
            raise
        except (OSError, ZarrfuseError):
            return False
        try:
            status = os.fstat(fd)
        finally:
            os.close(fd)
        return (status.st_dev, status.st_ino) == reader.file

    def readlink(self, key: str) -> str:
        """See `base.Store`. A target that is absolute, or leads over the root, is made relative."""
        text = self._text_inside(key)
        if text is None:
            raise Denied(f"the symlink {key} leads out of {self.root.path}")
        return text

    def space(self) -> tuple[int, int]:
        """See `base.Store`."""
        status = os.fstatvfs(self.root.fd)
        return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize

    def close(self) -> None:
        """See `base.Store`. Open readers stay usable."""
        self.root.close()

    def _open(self, key: str, flags: int, *, wait: bool = True) -> int:
        path = key.encode("utf-8", "surrogateescape")  # fsencode, without the call
        if b"\0" in path:
            raise NotFound(f"no key {key!r}")
        if self._remote and not wait:
            raise BlockingIOError(errno.EAGAIN, "the file system may have to ask a server")
        if not path:
            self.root.follow()
        try:
            try:
                return self._open_path(path, flags, wait)
            except FileNotFoundError:
                if not self.root.follow():
                    raise
                return self._open_path(path, flags, wait)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise self._of_ours(error, key, flags) from None
        # An absolute symlink, or one that climbs over the root and comes back: it may still end
        # inside. The path that realpath found has no symlink left, and the kernel checks it again.
        if not wait:
            raise BlockingIOError(errno.EAGAIN, "a symlink or another file system is on the way")
        if flags & os.O_NOFOLLOW:  # the last name is looked at, not followed
            folder, name = split(key)
            inside = self._inside(os.path.join(self._real(folder), name))
        else:
            inside = self._inside(self._real(key))
        if inside is None:
            raise Denied(f"{key} leads out of {self.root.path}; --follow-symlinks would follow it")
        try:
            return open_beneath(
                self.root.fd, os.fsencode(inside), flags, beneath=self._beneath, wait=True
            )
        except OSError as error:
            raise self._of_ours(error, key, flags) from None

    def _open_path(self, path: bytes, flags: int, wait: bool) -> int:
        if path.startswith(_OWN) and (path == _OWN or path.startswith(_IN_OWN)):
            return self.own.open(path[len(_IN_OWN) :], flags, wait=wait)
        return open_beneath(self.root.fd, path, flags, beneath=self._beneath, wait=wait)

    def _of_ours(self, error: OSError, key: str, flags: int) -> ZarrfuseError | OSError:
        if isinstance(error, FileNotFoundError):
            return NotFound(f"no key {key}")
        if isinstance(error, NotADirectoryError):
            if flags & os.O_DIRECTORY:
                return NotAFolder(f"{key} is not a folder")
            return NotFound(f"no key {key}: it lies below a file")
        if isinstance(error, PermissionError):
            return Denied(f"{key} may not be read by the user of the mount")
        if error.errno == errno.EXDEV:
            return Denied(f"{key} leads out of {self.root.path}")
        if error.errno == errno.ENXIO:  # a socket, or a device without a driver
            return NotFound(f"{key} is no file")
        if error.errno == errno.ENAMETOOLONG:
            return NameTooLong(f"{key} is too long, or a name in it")
        return error

    def _real(self, key: str) -> str:
        """The path that a key leads to now. It is opened beneath the root."""
        return os.path.realpath(os.path.join(self.root.path_now(), key))

    def _inside(self, real: str) -> str | None:
        """`real` as a key, or None when it is not below the root."""
        root = self.root.path_now()
        if real == root:
            return ""
        below = root.rstrip("/") + "/"
        return real[len(below) :] if real.startswith(below) else None

    def _text_inside(self, key: str) -> str | None:
        """The target to show for a symlink: its text, or a relative path to the same place.

        None if it leads out of the root. The reader follows it on the mount, with permissions of his own.
        Raises `NotFound`.
        """
        try:
            fd = self._open(key, _LOOK)
            try:
                text = os.readlink("", dir_fd=fd)
            finally:
                os.close(fd)
        except (OSError, ZarrfuseError) as error:
            raise NotFound(f"{key} is no symlink") from error
        if self._stays_inside(key, text):
            return text
        folder = os.path.dirname(key)
        inside = self._inside(self._real(os.path.join(folder, text)))
        return None if inside is None else os.path.relpath(f"/{inside}", f"/{folder}")

    def _stays_inside(self, key: str, text: str) -> bool:
        """Whether every step of the path of the symlink `key` with the target `text` is within the root.

        The target need not exist. Nothing outside is looked up, such as a mount of this store.
        """
        path = os.path.join(os.path.dirname(key), text)
        led_to = os.path.normpath(path)
        if os.path.isabs(text) or led_to == ".." or led_to.startswith("../"):
            return False
        try:
            os.close(
                open_beneath(self.root.fd, os.fsencode(path), os.O_PATH, beneath=True, wait=True)
            )
        except OSError as error:
            is_walked = len(os.fsencode(path)) <= LONGEST_KEY
            return is_walked and error.errno in _LEADS_NOWHERE
        return True

    def _link_entry(self, key: str, status: os.stat_result, follow: bool) -> Entry | None:
        """The entry of a symlink; None for one that is not shown, or is gone since."""
        name = name_of(key)
        if not follow:
            link = self._not_followed(key, status)
            if link is None or not link.denied or self._beneath:
                return link
        try:
            fd = self._open(key, os.O_PATH)
        except (OSError, Denied, NotFound):  # leads out, to nothing, or to itself
            return self._not_followed(key, status)
        try:
            target, path = os.fstat(fd), _path_of(fd)
        finally:
            os.close(fd)
        is_folder = S_ISDIR(target.st_mode)
        if not is_folder and not S_ISREG(target.st_mode):
            return None
        inside = self._inside(path)
        access = self._access_through(path, inside, target)
        if is_folder and inside is not None:
            return entry_at(name, status, access)
        return self._entry(name, target, access)

    def _entry(self, name: str, status: os.stat_result, access: Access | None) -> Entry:
        """The entry of a file or folder."""
        if S_ISDIR(status.st_mode):
            return _folder_entry(name, status, access)
        return entry_at(name, status, access)

    def _access_through(
        self, real: str, inside: str | None, target: os.stat_result
    ) -> Access | None:
        """The access of the target of a symlink, restricted by all folders above it.

        The kernel does not check these if the target is shown instead of the symlink.
        """
        top = "/" if inside is None else self.root.path_now()
        folder = os.path.dirname(real)
        found: list[Access | None] = [Access.of(target)]
        while len(folder) > len(top):
            try:
                found.append(way_through(Access.of(os.lstat(folder))))
            except OSError:  # gone since
                found.append(Access(0, target.st_uid, target.st_gid))
            folder = os.path.dirname(folder)
        return all_of(found)

    def _not_followed(self, key: str, status: os.stat_result) -> Entry | None:
        """The entry of a symlink itself, which may be denied.

        It must not tell whether a target outside of the root exists: this process may see more than the
        caller.
        """
        name = name_of(key)
        try:
            text = self._text_inside(key)
        except NotFound:
            return None  # gone since
        if text is None:
            return Entry(name, Kind.FILE, 0, status.st_mtime_ns, denied=True)
        return entry_at(name, status)


def _folder_entry(name: str, status: os.stat_result, access: Access | None) -> Entry:
    times = status.st_ctime_ns, status.st_atime_ns
    return Entry(name, Kind.FOLDER, 0, status.st_mtime_ns, False, 0, access, 1, *times)


def _path_of(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")
