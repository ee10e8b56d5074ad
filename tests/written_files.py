"""Files of views that are written in process, as a mount does it."""

from zarrfuse.errors import Exists
from zarrfuse.stores.base import Writer
from zarrfuse.transactions.working_copy import WorkingCopy
from zarrfuse.views.base import Folder


class Written:
    """A file that is open to be written, and the name under which it is stored."""

    def __init__(self, folder: Folder, name: str, content: Writer) -> None:
        self.content = content
        self._folder = folder
        self._name = name
        self.readinto, self.write, self.truncate = content.readinto, content.write, content.truncate
        self.change, self.close = content.change, content.close

    @property
    def is_live(self) -> bool:
        """Whether it is the stored file itself."""
        return self.content.is_live

    @property
    def size(self) -> int:
        """Bytes in it now."""
        return self.content.size

    @property
    def mtime_ns(self) -> int:
        """The time it was changed last."""
        return self.content.mtime_ns

    @property
    def changed(self) -> bool:
        """Whether it holds what has not been stored."""
        return isinstance(self.content, WorkingCopy) and self.content.changed

    def store(self, *, sync: bool = False) -> bool:
        """Store it, if it is changed; whether it was."""
        copy = self.content
        if not isinstance(copy, WorkingCopy) or not copy.changed:
            if sync:
                copy.sync()
            return False
        self._folder.store(self._name, copy, sync=sync)
        return True


def created(folder: Folder, name: str, *, exclusive: bool = False) -> Written:
    """A new, empty file, or, unless `exclusive`, one that is there, emptied."""
    try:
        return Written(folder, name, folder.create(name, exclusive=exclusive))
    except Exists:
        if exclusive:
            raise
        return opened_to_write(folder, name, truncate=True)


def opened_to_write(folder: Folder, name: str, *, truncate: bool = False) -> Written:
    """A file that is there, or, with `truncate`, nothing of it."""
    written = Written(folder, name, folder.write(name))
    if truncate:
        written.truncate(0)
    return written


def filled(written: Written, data: bytes, *, sync: bool = False) -> None:
    """Write all of a file, store and close it."""
    try:
        written.write(data, 0)
        written.store(sync=sync)
    finally:
        written.close()
