"""The folder that a local store is. Every path of the store begins at its descriptor.

Owns the descriptor, and the rule for a folder that is deleted and made anew. Used by `local` and
`own_folder`. A folder that is moved stays the root, whatever takes its place. One that was deleted is
followed by a new one only at the path of before, without symlinks (its owner could point one anywhere),
and only if that belongs to the same user. Until then nothing is found below the deleted one.
"""

import os

from zarrfuse.errors import SourceDenied, SourceError
from zarrfuse.stores.local.beneath import open_without_symlinks

_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class Root:
    """An open folder; `path` is where it was when it was opened, without symlinks.

    Raises `SourceError` when `source` is no folder or cannot be read.
    """

    def __init__(self, source: str) -> None:
        self.path = os.path.realpath(source)
        try:
            os.close(os.open(self.path, _LIST))
            self.fd = os.open(self.path, _FOLDER)
        except NotADirectoryError:
            raise SourceError(f"{source} is not a folder") from None
        except FileNotFoundError:
            raise SourceError(f"{source} does not exist") from None
        except PermissionError:
            raise SourceDenied(f"{source} may not be read by this user") from None
        self._uid = os.fstat(self.fd).st_uid

    def status(self) -> os.stat_result:
        """Owner, group and mode of the folder, as of now."""
        return os.fstat(self.fd)

    def follow(self) -> bool:
        """Take the folder that is now at the path if the one that was opened is deleted."""
        if os.fstat(self.fd).st_nlink:
            return False
        try:
            fd = open_without_symlinks(os.fsencode(self.path), _FOLDER)
        except OSError:
            return False
        try:
            if os.fstat(fd).st_uid != self._uid:
                return False
            os.dup2(fd, self.fd, inheritable=False)  # in one step: other threads may be using it
        finally:
            os.close(fd)
        return True

    def path_now(self) -> str:
        """Where the folder is now. A path is no proof: who opens it begins at the descriptor."""
        try:
            return os.readlink(f"/proc/self/fd/{self.fd}")
        except OSError:  # without /proc
            return self.path

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)
