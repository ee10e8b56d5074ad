"""What the kernel may keep of a file: its pages, and the size and time that they are of.

Owns the reply to OPEN, which says whether the kernel keeps its cached pages, and pushes the bytes of small
files into them. Used by `files`. It must not know views.
"""

from contextlib import suppress

import pyfuse3

from zarrfuse.formats.segments import Rendered
from zarrfuse.fuse.file import File
from zarrfuse.fuse.handle import Handle
from zarrfuse.fuse.nodes import Node


class PageCache:
    """The kernel's page cache. Files of at most `pushed_bytes` are pushed into it."""

    def __init__(self, pushed_bytes: int) -> None:
        self._pushed_bytes = pushed_bytes
        self._buffer = memoryview(bytearray(pushed_bytes))
        self.pushed_bytes = 0
        """The bytes of all files that were pushed."""

    def opened(self, handle: Handle) -> pyfuse3.FileInfo:
        """The reply to OPEN: the kernel keeps its cached pages if size and time have not changed."""
        node, file = handle.node, handle.file
        info = pyfuse3.FileInfo(fh=handle.number, keep_cache=False)
        content = file.content
        if node.file is not file:
            info.direct_io = True
        elif type(content) is not Rendered or content.lasting:
            now = node.now
            seen = now.size, now.mtime_ns
            info.keep_cache = file.is_changed or node.seen == seen or self._push(node, file)
            node.seen = seen
        return info

    def _push(self, node: Node, file: File) -> bool:
        """Push a small file into the kernel's page cache; returns whether that was done.

        In other handlers this could deadlock: the kernel waits for a page that is locked by a read, which
        waits for us. There is no read of a file that is not open.
        """
        size = file.content.size
        if not 0 < size <= self._pushed_bytes or file.handles > 1 or file.writer is not None:
            return False
        data = self._buffer[:size]
        try:
            file.content.readinto(data, 0, wait=False)
            pyfuse3.notify_store(node.number, 0, data)  # type: ignore[arg-type]  # any buffer will do
        except BaseException:  # not at hand, not readable, not taken: it is read when it is read
            return False
        self.pushed_bytes += size
        return True

    def void(self, node: Node) -> None:
        """Outdate an inode whose size the kernel may not know; it asks for that next."""
        node.is_unsure = False
        self.outdate(node)

    def outdate(self, node: Node) -> None:
        """Have the kernel ask for an inode's attributes, and drop its pages when it is opened.

        That takes no lock in the kernel, as dropping them here would.
        """
        node.seen = None
        with suppress(OSError):  # it does not know the inode
            pyfuse3.invalidate_inode(node.number, attr_only=True)
