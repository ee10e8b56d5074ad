"""A folder of the local file system (or of one the kernel mounts) as a store.

Owns every system call on the user's files. It never leads outside its folder: the kernel refuses
each path that would (`beneath`). What a name is, is decided once, here:

* a file, or a symlink to a file inside the folder: a file;
* a symlink to a folder inside it: a link, so that the kernel walks it and loops stay loops of the
  kernel's to refuse;
* a symlink that leads outside: shown, and denied to everyone, unless symlinks are followed;
* a symlink to nothing: a link where its text stays inside, else denied;
* FIFOs, sockets and devices: not there.
"""

import errno
import os
from collections.abc import Iterator
from stat import S_IFDIR, S_IFLNK, S_IFMT, S_IFREG, S_ISDIR, S_ISREG

from zarrfuse.errors import Denied, NotAFolder, NotFound, SourceDenied, SourceError, ZarrfuseError
from zarrfuse.stores.base import OWN_NAME, Entry, Kind, Store
from zarrfuse.stores.beneath import open_beneath
from zarrfuse.stores.descriptor import is_remote, read_full

# O_NONBLOCK: opening a FIFO that took a file's place must not hang. It changes nothing for files.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_LIST = os.O_RDONLY | os.O_DIRECTORY
_LOOK = os.O_PATH | os.O_NOFOLLOW


class LocalReader:
    """An open file; holds one descriptor."""

    __slots__ = ("_fd", "_key", "mtime_ns", "size")

    def __init__(self, fd: int, key: str, size: int, mtime_ns: int) -> None:
        self._fd = fd
        self._key = key
        self.size = size
        self.mtime_ns = mtime_ns

    def fileno(self) -> int:
        """The descriptor, for who copies from it; it stays this reader's to close."""
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
    identifies = False
    """Whether entries tell the `identity` of files: where these are changed in place."""

    def __init__(self, root: str, *, follow_symlinks: bool = False) -> None:
        self.root = os.path.realpath(root)
        self._beneath = not follow_symlinks
        try:
            os.close(os.open(self.root, _LIST | os.O_CLOEXEC))
            self._root_fd = os.open(self.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except NotADirectoryError:
            raise SourceError(f"{root} is not a folder") from None
        except FileNotFoundError:
            raise SourceError(f"{root} does not exist") from None
        except PermissionError:
            raise SourceDenied(f"{root} may not be read by this user") from None
        self._remote = is_remote(self._root_fd)

    def scan(self, folder: str) -> Iterator[Entry]:
        """See `base.Store`. One `scandir`, one `lstat` a name."""
        fd = self._open(folder, _LIST)
        file, subfolder, identifies = Kind.FILE, Kind.FOLDER, self.identifies
        hidden = "" if folder else OWN_NAME
        try:
            with os.scandir(fd) as names:
                for found in names:
                    if found.name == hidden:
                        continue
                    try:
                        status = found.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # gone since
                    except OSError:  # a mount that nobody serves any more: the rest can be listed
                        kind = subfolder if found.is_dir(follow_symlinks=False) else file
                        yield Entry(found.name, kind, 0, 0, True)
                        continue
                    name = found.name
                    type_ = S_IFMT(status.st_mode)
                    if type_ == S_IFREG:
                        entry = Entry(name, file, status.st_size, status.st_mtime_ns)
                        if identifies:
                            entry.identity = status.st_ino
                        yield entry
                    elif type_ == S_IFDIR:
                        yield Entry(name, subfolder, 0, status.st_mtime_ns)
                    elif type_ == S_IFLNK:
                        key = f"{folder}/{name}" if folder else name
                        link = self._link_entry(key, status)
                        if link is not None:
                            yield link
        finally:
            os.close(fd)

    def stat(self, key: str, *, wait: bool = True) -> Entry:
        """See `base.Store`."""
        fd = self._open(key, _LOOK, wait=wait)
        try:
            status = os.fstat(fd)
        finally:
            os.close(fd)
        name = key.rpartition("/")[2]
        type_ = S_IFMT(status.st_mode)
        if type_ == S_IFREG:
            identity = status.st_ino if self.identifies else 0
            return Entry(name, Kind.FILE, status.st_size, status.st_mtime_ns, identity=identity)
        if type_ == S_IFDIR:
            return Entry(name, Kind.FOLDER, 0, status.st_mtime_ns)
        if type_ == S_IFLNK:
            if not wait:
                raise BlockingIOError(errno.EAGAIN, "a symlink has to be followed")
            entry = self._link_entry(key, status)
            if entry is not None:
                return entry
        raise NotFound(f"no key {key}")

    def open(self, key: str, *, wait: bool = True) -> LocalReader:
        """See `base.Store`."""
        fd = self._open(key, _READ, wait=wait)
        status = os.fstat(fd)
        if not S_ISREG(status.st_mode):
            os.close(fd)
            raise NotFound(f"{key} is no file")
        return LocalReader(fd, key, status.st_size, status.st_mtime_ns)

    def readlink(self, key: str) -> str:
        """See `base.Store`. The text leads to the real folder by the shortest relative way."""
        path = os.path.join(self.root, key)
        real = os.path.realpath(path)
        inside = self._inside(real)
        if os.path.islink(path) and os.path.exists(real) and inside is not None:
            return os.path.relpath(f"/{inside}", f"/{os.path.dirname(key)}")
        text = self._text_inside(key)
        if text is None:
            raise Denied(f"the symlink {key} leads out of {self.root}")
        return text

    def space(self) -> tuple[int, int]:
        """See `base.Store`."""
        status = os.fstatvfs(self._root_fd)
        return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize

    def close(self) -> None:
        """See `base.Store`. Open readers stay usable."""
        fd, self._root_fd = self._root_fd, -1
        if fd >= 0:
            os.close(fd)

    def _open(self, key: str, flags: int, *, wait: bool = True) -> int:
        path = os.fsencode(key)
        if b"\0" in path:
            raise NotFound(f"no key {key!r}")
        if self._remote and not wait:
            raise BlockingIOError(errno.EAGAIN, "the file system may have to ask a server")
        if not path:
            self._follow_root()
        try:
            try:
                return open_beneath(self._root_fd, path, flags, beneath=self._beneath, wait=wait)
            except FileNotFoundError:
                if not self._follow_root():
                    raise
                return open_beneath(self._root_fd, path, flags, beneath=self._beneath, wait=wait)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise self._of_ours(error, key, flags) from None
        # An absolute symlink, or one that climbs over the root and comes back: it may still end
        # inside. The path that realpath found has no symlink left, and the kernel checks it again.
        if not wait:
            raise BlockingIOError(errno.EAGAIN, "a symlink or another file system is on the way")
        if flags & os.O_NOFOLLOW:  # the last name is looked at, not followed
            folder, _, name = key.rpartition("/")
            real = os.path.join(os.path.realpath(os.path.join(self.root, folder)), name)
        else:
            real = os.path.realpath(os.path.join(self.root, key))
        inside = self._inside(real)
        if inside is None:
            raise Denied(f"{key} leads out of {self.root}; --follow-symlinks would follow it")
        try:
            return open_beneath(
                self._root_fd, os.fsencode(inside), flags, beneath=self._beneath, wait=True
            )
        except OSError as error:
            raise self._of_ours(error, key, flags) from None

    def _follow_root(self) -> bool:
        """Take the folder that is now at the root's path if the one that was opened is deleted.

        Who writes a dataset anew may begin by deleting it. A folder that was moved is followed.
        """
        if os.fstat(self._root_fd).st_nlink:
            return False
        try:
            fd = os.open(self.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return False
        os.dup2(fd, self._root_fd, inheritable=False)  # in one step: others may be using it
        os.close(fd)
        return True

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
            return Denied(f"{key} leads out of {self.root}")
        if error.errno == errno.ENXIO:  # a socket, or a device without a driver
            return NotFound(f"{key} is no file")
        return error

    def _inside(self, real: str) -> str | None:
        """`real` as a key, or None when it is not below the root."""
        if real == self.root:
            return ""
        below = self.root.rstrip("/") + "/"
        return real[len(below) :] if real.startswith(below) else None

    def _text_inside(self, key: str) -> str | None:
        """The text of a symlink to nothing; None where it leads, or might lead, out of the root.

        Whoever is told the text follows it with rights of his own. Raises `NotFound`.
        """
        path = os.path.join(self.root, key)
        try:
            text = os.readlink(path)
        except OSError as error:
            raise NotFound(f"{key} is no symlink") from error
        led_to = os.path.normpath(os.path.join(os.path.dirname(key), text))
        climbs = os.path.isabs(text) or led_to == ".." or led_to.startswith("../")
        return None if climbs or self._inside(os.path.realpath(path)) is None else text

    def _link_entry(self, key: str, status: os.stat_result) -> Entry | None:
        name = key.rpartition("/")[2]
        path = os.path.join(self.root, key)
        link = Entry(name, Kind.LINK, status.st_size, status.st_mtime_ns)
        try:
            target = os.stat(path)
        except OSError:  # leads to nothing, to itself, or to where this user may not look
            try:
                text = self._text_inside(key)
            except NotFound:
                return None  # gone since
            if text is None:
                return Entry(name, Kind.FILE, 0, status.st_mtime_ns, denied=True)
            return link
        is_folder = S_ISDIR(target.st_mode)
        if not is_folder and not S_ISREG(target.st_mode):
            return None
        if self._inside(os.path.realpath(path)) is None:
            if self._beneath:
                kind = Kind.FOLDER if is_folder else Kind.FILE
                return Entry(name, kind, 0, status.st_mtime_ns, denied=True)
        elif is_folder:
            return link
        if is_folder:
            return Entry(name, Kind.FOLDER, 0, target.st_mtime_ns)
        identity = target.st_ino if self.identifies else 0
        return Entry(name, Kind.FILE, target.st_size, target.st_mtime_ns, identity=identity)
