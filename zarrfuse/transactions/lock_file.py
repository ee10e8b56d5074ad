"""Opens the lock file of the workspace, and makes it if there is none that can be used.

Used by `locks` and `local_workspace`. A lock file that other users may open is replaced by a new one,
unless the file system gives that the same mode: they could hold its locks for ever (it may come with a
copied dataset). After locking a byte, a process checks that the file still has its name. Two processes that
replace such a file in the same moment may not see each other's locks; that can happen once, at the first
write to such a copy.
"""

import os
import secrets
from contextlib import suppress

from zarrfuse.stores.descriptor import close_quietly, closing_on_error
from zarrfuse.stores.local.new_file import discarding_on_error, inode_of
from zarrfuse.stores.local.own_folder import OwnFolder, new_file
from zarrfuse.transactions.workspace import LOCK_NAME

_LOCK = os.O_RDWR | os.O_NONBLOCK


def open_lock_file(own: OwnFolder, folder: int) -> int:
    """A descriptor of the lock file in the workspace, which is open as `folder`.

    Raises `Denied` if it is not trusted, and `FileNotFoundError` if the workspace was deleted.
    """
    while True:
        with suppress(FileExistsError):
            return new_file(folder, LOCK_NAME, _LOCK)
        with suppress(FileNotFoundError):  # its last user has just deleted it
            fd = own.open_in(folder, LOCK_NAME, _LOCK)
            with closing_on_error(fd):
                if own.is_private(os.fstat(fd)) or not _replaced(own, folder, fd):
                    return fd
            close_quietly(fd)


def _replaced(own: OwnFolder, folder: int, fd: int) -> bool:
    """Replace the lock file `fd` by a new one; False if other users may open that, too."""
    name = f"put-{secrets.token_hex(8)}"
    new = new_file(folder, name, os.O_WRONLY)
    try:
        with discarding_on_error(folder, name):
            if not own.is_private(os.fstat(new)):
                os.unlink(name, dir_fd=folder)
                return False
            found = os.stat(LOCK_NAME, dir_fd=folder, follow_symlinks=False)
            if inode_of(found) == inode_of(os.fstat(fd)):
                os.rename(name, LOCK_NAME, src_dir_fd=folder, dst_dir_fd=folder)
            else:  # others have done it
                os.unlink(name, dir_fd=folder)
            return True
    finally:
        close_quietly(new)
