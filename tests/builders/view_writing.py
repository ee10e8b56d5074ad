"""What programs do to the files of a view that is opened in process, by their paths."""

from builders.views import parent_at
from zarrfuse.errors import Exists
from zarrfuse.stores.base import Writer
from zarrfuse.transactions.working_copy import WorkingCopy
from zarrfuse.views.base import Folder


class OpenFile:
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


def create(root: Folder, path: str, *, exclusive: bool = False) -> OpenFile:
    """A new, empty file; one that is there is emptied, or `Exists` with `exclusive`."""
    folder, name = parent_at(root, path)
    try:
        return OpenFile(folder, name, folder.create(name, exclusive=exclusive))
    except Exists:
        if exclusive:
            raise
        return open_to_write(root, path, truncate=True)


def open_to_write(root: Folder, path: str, *, truncate: bool = False) -> OpenFile:
    """A file that is there; emptied with `truncate`."""
    folder, name = parent_at(root, path)
    file = OpenFile(folder, name, folder.write(name))
    if truncate:
        file.truncate(0)
    return file


def fill(file: OpenFile, data: bytes, *, sync: bool = False) -> None:
    """Write all bytes of a file, store and close it."""
    try:
        file.write(data, 0)
        file.store(sync=sync)
    finally:
        file.close()


def put(
    root: Folder, path: str, data: bytes, *, sync: bool = False, exclusive: bool = False
) -> None:
    """Store a file of these bytes."""
    fill(create(root, path, exclusive=exclusive), data, sync=sync)


def rename(root: Folder, path: str, new_path: str, *, replace: bool = True) -> bool:
    """Give a file or folder another name; what `Folder.rename` returns."""
    (folder, name), (to, new_name) = parent_at(root, path), parent_at(root, new_path)
    return folder.rename(name, to, new_name, replace=replace)


def link(root: Folder, path: str, new_path: str) -> None:
    """Give a file a second name."""
    (folder, name), (to, new_name) = parent_at(root, path), parent_at(root, new_path)
    folder.link(name, to, new_name)


def remove(root: Folder, path: str) -> None:
    """Delete a file."""
    folder, name = parent_at(root, path)
    folder.remove(name)
