"""A handle: one opening of a file by a program, or by the mount itself.

Made by `files`, used by the modules that read, write and store files.
"""

import errno

from pyfuse3 import FUSEError

from zarrfuse.fuse.file import File
from zarrfuse.fuse.nodes import Node
from zarrfuse.stores.base import Writer


class Handle:
    """One opening of a file; `has_written`: whether it has written since the file was stored."""

    __slots__ = ("file", "has_written", "node", "number")

    def __init__(self, number: int, node: Node, file: File) -> None:
        self.number = number
        self.node = node
        self.file = file
        self.has_written = False

    def writer(self) -> Writer:
        """What it writes to. Raises `FUSEError` (EBADF) if the file is open for reading only."""
        if self.file.writer is None:
            raise FUSEError(errno.EBADF)
        return self.file.writer
