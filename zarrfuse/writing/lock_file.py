"""The lock file of the workspace: opened, and made where there is none that can be used.

Used by `locks` and `local_workspace`. A lock file that others may open is not used, since they could hold
locks of it for ever (it came with a copied dataset, say): a new one takes its place. Whoever locks a byte
looks afterwards whether the file still has its name. Two processes that find such a file in the same moment
may not see each other; they are the first two to write to that copy.
"""

import os
from contextlib import suppress

from zarrfuse.stores.descriptor import close_quietly, closing_on_error
from zarrfuse.stores.new_file import inode_of, status_of
from zarrfuse.stores.own_folder import OwnFolder, new_file
from zarrfuse.writing.workspace import LOCK_NAME

_LOCK = os.O_RDWR | os.O_NONBLOCK


def open_lock_file(own: OwnFolder, folder: int) -> int:
    """A descriptor of the lock file in `.zarrfuse/`, which is open as `folder`.

    Raises `Denied` if it does not count, and `FileNotFoundError` if the folder has been deleted.
    """
    while True:
        with suppress(FileExistsError):
            return new_file(folder, LOCK_NAME, _LOCK)
        with suppress(FileNotFoundError):  # its last user has just deleted it
            fd = own.open_in(folder, LOCK_NAME, _LOCK)
            with closing_on_error(fd):
                # Where the folder cannot be private either, the file system does not keep modes.
                if own.is_private(fd) or not own.is_private(folder):
                    return fd
                found = status_of(folder, LOCK_NAME)
                if found is not None and inode_of(found) == inode_of(os.fstat(fd)):
                    os.unlink(LOCK_NAME, dir_fd=folder)
            close_quietly(fd)
