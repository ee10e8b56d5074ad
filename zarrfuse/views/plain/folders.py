"""Makes, deletes and renames folders of the `plain` view.

Owns which stored folder a folder of the view stands for. Used by `view`; `writing` has the rules.
"""

from dataclasses import dataclass

from zarrfuse.errors import Exists, NotEmpty, NotSupported
from zarrfuse.spec.chunk_keys import METADATA_NAMES
from zarrfuse.spec.paths import name_of
from zarrfuse.stores.access import Access
from zarrfuse.stores.base import Kind
from zarrfuse.views.chunks.view import ChunksFolder
from zarrfuse.views.plain.chunks import TOP, Coords, PlainChunks
from zarrfuse.views.plain.resolve import ChunkFolder
from zarrfuse.views.plain.writing import Place, PlainWriting, hidden


@dataclass(frozen=True, slots=True)
class FolderName:
    """The name of a folder in the view, which need not exist: `name` in the stored folder `above`.

    `above` is None for a folder that is not stored as such. `is_of_chunks`: it is a chunk folder.
    """

    above: ChunksFolder | None
    name: str
    is_of_chunks: bool


def folder_at(writing: PlainWriting, place: Place, name: str) -> FolderName:
    """The stored folder that `name` in a folder of the view stands for.

    Raises `ReadOnly`, and `NotSupported` for a hidden name.
    """
    writing.check()
    if isinstance(place, ChunkFolder):
        coords = place.chunks.coords_below(place.prefix, name)
        if coords is not None:
            return _of_chunks(place.chunks, coords, name)
        if place.chunks.is_reserved(place.prefix, name):
            raise hidden(name, place.chunks.path)
        above = place.chunks.stored_folder(place.prefix)
        if above is None:
            raise NotSupported(
                f"{name} in /{place.chunks.path}: chunks are stored under other keys, "
                "and there is no place for another folder between them"
            )
        return FolderName(above, name, is_of_chunks=False)
    if place.is_node and place.chunks is not None and name == TOP:
        return _of_chunks(place.chunks, (), name)
    is_taken = any(place.is_taken(name, kind) for kind in (Kind.FILE, Kind.FOLDER))
    if is_taken and name not in METADATA_NAMES:
        raise hidden(name, place.folder.path)
    return FolderName(place.folder, name, is_of_chunks=False)


def _of_chunks(chunks: PlainChunks, coords: Coords, name: str) -> FolderName:
    if chunks.is_complete(coords):
        raise NotSupported(f"{name} in /{chunks.path} is a chunk, and cannot be a folder")
    stored = chunks.stored_folder(coords)
    above = None if stored is None else stored.parent
    stored_name = name if stored is None else name_of(stored.path)
    return FolderName(above, stored_name, is_of_chunks=True)


def make_folder(found: FolderName, given: Access | None) -> None:
    """See `views.base.Folder`. A chunk folder that is not stored as such always exists."""
    if found.above is None:
        raise Exists(f"{found.name} exists already")
    found.above.make_folder(found.name, given)


def remove_folder(writing: PlainWriting, found: FolderName, path: str) -> None:
    """See `views.base.Folder`; `path`: its path in the view. If it is not stored as such, it is empty.

    Hidden metadata of Zarr v2 are deleted with a folder whose `zarr.json` has been deleted.
    """
    if writing.transient.has_some_below(path):
        raise NotEmpty(f"{path} is not empty")
    if found.above is None:
        return
    try:
        found.above.remove_folder(found.name)
    except NotEmpty:
        folder = found.above.child(found.name)
        left = list(folder.list())
        if writing.remembered(path) is None or not _STRAY.issuperset(left):
            raise
        for name in left:
            folder.remove(name)
        found.above.remove_folder(found.name)
    writing.forget_below(path)


_STRAY = METADATA_NAMES - {"zarr.json", ".zarray", ".zgroup"}
"""Documents that do not make a folder a node."""


def rename_folder(
    writing: PlainWriting,
    source: FolderName,
    path: str,
    target: FolderName,
    new_path: str,
    *,
    replace: bool,
) -> None:
    """See `views.base.Folder`; `path` and `new_path`: its paths in the view."""
    if source.is_of_chunks or target.is_of_chunks or source.above is None or target.above is None:
        raise NotSupported(f"{path}: a folder of chunks cannot be renamed")
    source.above.rename(source.name, target.above, target.name, replace=replace)
    writing.forget_below(path)
    writing.forget_below(new_path)
    writing.transient.move(path, new_path)
