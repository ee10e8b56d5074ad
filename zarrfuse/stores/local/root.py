"""The root folder of a local store. Every path of the store begins at its descriptor.

Owns the descriptor, and the rule for a folder that is deleted and made again. A folder that is moved stays
the root. After the root was deleted, a new folder at the same path becomes the root, if the path has no
symlinks (which could be pointed anywhere) and the owner is the same. Until then the store is empty. Used by
`store` and `own_folder`.
"""

import os

from zarrfuse.errors import SourceDenied, SourceError
from zarrfuse.stores.local.beneath import open_without_symlinks

_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class Root:
    """An open folder; `path`: its path when it was opened, without symlinks.

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
        """Owner, group and mode of the folder now."""
        return os.fstat(self.fd)

    def follow(self) -> bool:
        """If the folder was deleted, open the new one at its path; returns whether there is one."""
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
        """The path of the folder now, for messages: files are opened by the descriptor."""
        try:
            return os.readlink(f"/proc/self/fd/{self.fd}")
        except OSError:  # without /proc
            return self.path

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)
