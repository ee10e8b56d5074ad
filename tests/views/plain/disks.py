"""The `plain` view of a folder, used as programs use a disk."""

import json
from pathlib import Path
from typing import Any

from builders.documents import array, concat_parts, suffix_keys
from builders.folders import stored_files
from builders.view_writing import link, put, remove, rename
from builders.views import content_of, folder_at, parent_at

from zarrfuse.errors import NotFound
from zarrfuse.stores.base import Kind
from zarrfuse.views.base import Folder

OFFSET = {"name": "example.offset", "configuration": {"offset": [1, 2]}}


class Disk:
    """The view of a folder, used as programs use a disk. Nothing that was seen is looked up again
    by itself: what is written must be seen at once all the same."""

    def __init__(self, root: Path, view: Folder) -> None:
        self.root = root
        self.view = view

    def at(self, path: str) -> tuple[Folder, str]:
        return parent_at(self.view, path)

    def make_folders(self, path: str) -> None:
        folder = self.view
        for name in path.split("/") if path else ():
            try:
                if folder.lookup(name).kind is not Kind.FOLDER:
                    raise NotADirectoryError(name)
            except NotFound:
                folder.make_folder(name)
            folder = folder.child(name)

    def write(self, path: str, data: bytes, *, exclusive: bool = False) -> None:
        """As `create`; the folders above are made."""
        self.make_folders(path.rpartition("/")[0])
        put(self.view, path, data, exclusive=exclusive)

    def read(self, path: str) -> bytes:
        return content_of(self.view, path)

    def replace(self, path: str, new_path: str) -> bool:
        return rename(self.view, path, new_path)

    def link(self, path: str, new_path: str) -> None:
        link(self.view, path, new_path)

    def remove(self, path: str) -> None:
        remove(self.view, path)

    def remove_tree(self, path: str) -> None:
        """As `shutil.rmtree`."""
        for name, entry in folder_at(self.view, path).list().items():
            below = f"{path}/{name}"
            if entry.kind is Kind.FOLDER:
                self.remove_tree(below)
            else:
                self.remove(below)
        folder, name = self.at(path)
        folder.remove_folder(name)

    def names(self, path: str = "") -> set[str]:
        """Every file below a folder, by its path from there."""
        found = set()
        for name, entry in folder_at(self.view, path).list().items():
            if entry.kind is Kind.FOLDER:
                below = self.names(f"{path}/{name}" if path else name)
                found |= {f"{name}/{leaf}" for leaf in below}
            else:
                found.add(name)
        return found

    def stored(self) -> dict[str, bytes]:
        """Every file of the store but those of zarrfuse's own folder."""
        return stored_files(self.root)

    def members(self, path: str) -> dict[str, Any]:
        """The members of a stored document."""
        return dict(json.loads((self.root / path).read_bytes()))


THREE = [concat_parts((".head", 2), "", (".tail", 1))]


STORED = array(keys=suffix_keys(".tiff"), transformers=THREE, extensions=[OFFSET])
