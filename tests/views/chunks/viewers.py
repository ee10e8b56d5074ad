"""Views of stores that are only read, made of keys."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from builders.folders import write_keys

from zarrfuse.stores.base import Store
from zarrfuse.views.base import Folder
from zarrfuse.views.chunks.view import ChunksView

Viewer = Callable[[Mapping[str, bytes]], Folder]


def viewer(root: Path, make: Callable[[Path], Store]) -> Iterator[Viewer]:
    """Views of what `make` makes of the folder `root`; they are closed at the end."""
    stores = []

    def of(keys: Mapping[str, bytes]) -> Folder:
        root.mkdir(exist_ok=True)
        write_keys(root, keys)
        stores.append(make(root))
        return ChunksView(stores[-1], 0).root

    yield of
    for store in stores:
        store.close()
