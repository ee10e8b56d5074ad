"""Finds the pyramid that an array is a level of, and the levels of a pyramid.

Used by `nodes`, `arrays` and `groups`. It reads the metadata of the groups above an array, and of the
levels of one pyramid, when they are needed.
"""

import errno
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cachetools import LRUCache

from zarrfuse.errors import text_of
from zarrfuse.spec.node import GroupNode
from zarrfuse.spec.ome import Pyramid, level_of, pyramids_of
from zarrfuse.spec.paths import name_of
from zarrfuse.stores.access import Access, both, way_through
from zarrfuse.views.chunks.view import ChunksFolder
from zarrfuse.views.nodes import Loaded

_KEPT = 512


@dataclass(frozen=True, slots=True)
class PyramidLevel:
    """A level of a pyramid; `level` counts from the finest."""

    group: ChunksFolder
    pyramid: Pyramid
    level: int


class Pyramids:
    """The pyramids of one view, by their groups. For any thread."""

    def __init__(self) -> None:
        self._told: LRUCache[str, tuple[Loaded, tuple[Pyramid, ...]]] = LRUCache(_KEPT)
        self._lock = threading.Lock()

    def of(self, group: Loaded, *, wait: bool = True) -> tuple[Pyramid, ...]:
        """The pyramids in the metadata of a group; `BlockingIOError` as for stores."""
        if not isinstance(group.node, GroupNode):
            return ()
        with self._lock:
            known = self._told.get(group.path)
        if known is not None and known[0] is group:
            return known[1]
        if not wait:
            raise BlockingIOError(errno.EAGAIN, "attributes have to be decoded")
        pyramids = pyramids_of(group.node)
        with self._lock:
            self._told[group.path] = (group, pyramids)
        return pyramids

    def around(self, array: ChunksFolder, *, wait: bool = True) -> PyramidLevel | None:
        """The level that an array is, in the pyramid of the nearest group above that names it."""
        group = array.parent
        while group is not None:
            try:
                loaded = group.loaded(wait=wait)
            except BlockingIOError:
                raise
            except Exception:  # who looks at that folder is told; the array can be shown without
                loaded = None
            if loaded is not None:
                path = array.path[len(group.path) :].lstrip("/")
                for pyramid in self.of(loaded, wait=wait):
                    number = level_of(pyramid, path)
                    if number is not None:
                        return PyramidLevel(group, pyramid, number)
            group = group.parent
        return None

    def levels(
        self, group: ChunksFolder, pyramid: Pyramid, first: int = 0, *, wait: bool = True
    ) -> Iterator[tuple[ChunksFolder, Loaded | str]]:
        """The folder of each level from `first` on, with its node, or why there is none."""
        for level in pyramid.levels[first:]:
            folder = group.below(level.path)
            try:
                loaded = folder.loaded(wait=wait)
            except BlockingIOError:
                raise
            except Exception as error:  # whatever a store raises
                yield folder, text_of(error)
            else:
                yield folder, "there is no array" if loaded is None else loaded


def access_to(
    shown_in: ChunksFolder,
    node: Loaded,
    levels: Sequence[tuple[ChunksFolder, Loaded]],
    *,
    wait: bool = True,
) -> Access | None:
    """The access of a file that is made of a node and of levels of a pyramid.

    It permits what all their documents permit, and all folders from that of the file to the levels.
    `BlockingIOError` as for stores.
    """
    access = node.access
    entered = f"{shown_in.path}/" if shown_in.path else ""
    for level, loaded in levels:
        access = both(access, loaded.access)
        folder, above = level, level.parent
        while above is not None and not entered.startswith(f"{folder.path}/"):
            name = name_of(folder.path)
            access = both(access, way_through(above.lookup(name, wait=wait).access))
            folder, above = above, above.parent
    return access
