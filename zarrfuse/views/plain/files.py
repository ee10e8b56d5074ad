"""Writes, renames and links the files of the `plain` view.

There are three kinds: files of the `chunks` view (`StoredFile`), `zarr.json` (`documents`), and files in
chunk folders that are not stored (`transient_files`). Used by `view`; `writing` has the rules.
"""

from dataclasses import dataclass
from typing import Protocol

from zarrfuse.errors import Exists, IsAFolder, NotFound, NotSupported
from zarrfuse.spec.chunk_keys import METADATA_NAMES
from zarrfuse.spec.paths import join
from zarrfuse.stores.access import Access, Change, new_file
from zarrfuse.stores.base import Kind, Reader, Writer
from zarrfuse.transactions.spool import StoreOptions
from zarrfuse.transactions.working_copy import WorkingCopy
from zarrfuse.views.chunks.view import ChunksFolder
from zarrfuse.views.plain.chunks import TOP, Coords, PlainChunks
from zarrfuse.views.plain.documents import DocumentFile
from zarrfuse.views.plain.nodes import DOCUMENT, PlainNode
from zarrfuse.views.plain.resolve import ChunkFolder
from zarrfuse.views.plain.transient_files import TransientKey
from zarrfuse.views.plain.writing import Place, PlainWriting, hidden


class PlainFile(Protocol):
    """The name of a file in the view, which need not exist. The methods are those of `Folder`."""

    def open(self) -> Reader:
        """See `views.base.Folder`."""

    def create(self, *, exclusive: bool, given: Access | None) -> Writer:
        """See `views.base.Folder`."""

    def write(self) -> Writer:
        """See `views.base.Folder`."""

    def store(self, copy: WorkingCopy, *, sync: bool) -> None:
        """See `views.base.Folder`."""

    def remove(self) -> None:
        """See `views.base.Folder`."""

    def change(self, change: Change) -> None:
        """See `views.base.Folder`."""

    def exists(self) -> bool:
        """Whether there is a file of this name."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of the `chunks` view: an ordinary one, or the chunk of `chunks` at `coords`."""

    writing: PlainWriting
    folder: ChunksFolder
    name: str
    chunks: PlainChunks | None = None
    coords: Coords = ()

    def open(self) -> Reader:
        """See `PlainFile`."""
        return self.folder.open(self.name)

    def create(self, *, exclusive: bool, given: Access | None) -> Writer:
        """See `PlainFile`."""
        return self.folder.create(self.name, exclusive=exclusive, given=given)

    def write(self) -> Writer:
        """See `PlainFile`."""
        return self.folder.write(self.name)

    def store(self, copy: WorkingCopy, *, sync: bool) -> None:
        """See `PlainFile`."""
        self.folder.store(self.name, copy, sync=sync)
        self.is_stored()

    def remove(self) -> None:
        """See `PlainFile`."""
        self.folder.remove(self.name)
        self.is_gone()

    def change(self, change: Change) -> None:
        """See `PlainFile`."""
        self.folder.change(self.name, change)
        self.is_stored()

    def exists(self) -> bool:
        """See `PlainFile`."""
        try:
            entry = self.folder.lookup(self.name)
        except NotFound:
            return False
        if entry.kind is Kind.FOLDER:
            raise IsAFolder(f"{join(self.folder.path, self.name)} is a folder")
        return True

    def store_copy(self, reader: Reader, *, new: bool) -> None:
        """Store the bytes of an open file under this name, with its time, owner and mode, atomically.

        Programs that have the old file open keep it. Raises `IsAFolder`, `PartsDoNotFit`, and `Exists`
        with `new`.
        """
        if self.chunks is None:
            self.exists()  # which raises for a folder
        spool = self.writing.commits.spool()
        try:
            spool.copy(reader, reader.size)
            options = StoreOptions(reader.mtime_ns, reader.access, new=new)
            self.writing.chunks.writing.store_spool(self.folder, self.name, spool, options)
        finally:
            spool.close()
        self.is_stored()

    def is_stored(self) -> None:
        """Note that another file is stored under the name."""
        if self.chunks is not None:
            self.writing.changed(self.chunks.path)

    def is_gone(self) -> None:
        """Note that nothing is stored under the name any more."""
        if self.chunks is not None:
            self.chunks.prune(self.coords)
            self.writing.changed(self.chunks.path)


@dataclass(frozen=True, slots=True)
class TransientFile:
    """A file in a chunk folder that is not stored; see `transient_files`."""

    writing: PlainWriting
    key: TransientKey

    def open(self) -> Reader:
        """See `PlainFile`."""
        return self.writing.transient.open(self.key)

    def create(self, *, exclusive: bool, given: Access | None) -> Writer:
        """See `PlainFile`."""
        array = self.writing.chunks.store.stat(self.key.array)
        access = given or new_file(array.access)
        return self.writing.transient.create(self.key, exclusive=exclusive, access=access)

    def write(self) -> Writer:
        """See `PlainFile`."""
        return self.writing.transient.open(self.key)

    def store(self, copy: WorkingCopy, *, sync: bool) -> None:
        """Keep the bytes of a chunk that got this name while it was being written."""
        with copy.to_store():
            self.writing.transient.store(self.key, copy, new=copy.is_new)

    def remove(self) -> None:
        """See `PlainFile`."""
        self.writing.transient.remove(self.key)

    def change(self, change: Change) -> None:
        """See `PlainFile`."""
        self.writing.transient.change(self.key, change)

    def exists(self) -> bool:
        """See `PlainFile`."""
        try:
            self.writing.transient.entry(self.key)
        except NotFound:
            return False
        return True


# -- which of these a name is ------------------------------------------------------------------


def file_at(writing: PlainWriting, place: Place, name: str) -> PlainFile:
    """The file `name` in a folder of the view, by its kind.

    Raises `ReadOnly`, `IsAFolder` for a chunk folder, `NotSupported` for a name that is hidden or
    belongs to an array that is refused.
    """
    writing.check()
    if isinstance(place, ChunkFolder):
        return _in_chunks(writing, place, name)
    node = place.node
    if name == DOCUMENT:
        return DocumentFile(writing, place.folder, node if place.is_node else None)
    if node is not None and place.is_node and name in METADATA_NAMES and node.node is not None:
        raise NotSupported(f"{name} in /{place.folder.path}: the node is shown as one of Zarr v3")
    if name not in METADATA_NAMES and node is not None:
        if node.refused is not None and not node.loaded.is_group:
            raise NotSupported(node.refused)
        if place.is_node and place.chunks is not None and name == TOP:
            if not place.chunks.is_complete(()):
                raise IsAFolder(f"{name} in /{place.folder.path} is the folder of chunks")
            return _chunk(writing, place.chunks, ())
        if any(place.is_taken(name, kind) for kind in (Kind.FILE, Kind.FOLDER)):
            raise hidden(name, place.folder.path)
    return StoredFile(writing, place.folder, name)


def _in_chunks(writing: PlainWriting, place: ChunkFolder[PlainNode], name: str) -> PlainFile:
    chunks, prefix = place.chunks, place.prefix
    coords = chunks.coords_below(prefix, name)
    if coords is not None:
        if not chunks.is_complete(coords):
            raise IsAFolder(f"{name} in /{chunks.path} is a folder of chunks")
        return _chunk(writing, chunks, coords)
    if chunks.is_reserved(prefix, name):
        raise hidden(name, chunks.path)
    stored = chunks.stored_folder(prefix)
    if stored is not None:
        return StoredFile(writing, stored, name)
    return TransientFile(writing, transient_key(chunks, prefix, name))


def _chunk(writing: PlainWriting, chunks: PlainChunks, coords: Coords) -> PlainFile:
    return StoredFile(writing, *chunks.place(coords), chunks, coords)


def transient_key(chunks: PlainChunks, prefix: Coords, name: str) -> TransientKey:
    """The key of a transient file; None if the name in a chunk folder is stored."""
    return TransientKey(chunks.path, prefix, name)


# -- names of files ----------------------------------------------------------------------------


def rename(source: PlainFile, target: PlainFile, *, replace: bool) -> bool:
    """Rename a file; see `views.base.Folder.rename`."""
    if source == target:
        return True
    if isinstance(source, StoredFile) and _is_passed_on(target):
        folder, name = _stored_at(target)
        is_same = source.folder.rename(source.name, folder, name, replace=replace)
        source.is_gone()
        if isinstance(target, StoredFile):
            target.is_stored()
            return is_same
        return False  # what is shown of a document is not what is stored
    if isinstance(source, TransientFile) and isinstance(target, TransientFile):
        source.writing.transient.rename(source.key, target.key, replace=replace)
        return True
    if isinstance(source, DocumentFile) and source.hidden:
        raise NotSupported(f"{source.title} is shown for {source.hidden[0]}, and cannot be renamed")
    _copy(source, target, new=not replace)
    source.remove()
    return False


def link(source: PlainFile, target: PlainFile) -> None:
    """Give a file a second name; see `views.base.Folder.link`. A document is copied."""
    if isinstance(source, StoredFile) and _is_passed_on(target):
        folder, name = _stored_at(target)
        source.folder.link(source.name, folder, name)
        if isinstance(target, StoredFile):
            target.is_stored()
    elif isinstance(source, TransientFile) and isinstance(target, TransientFile):
        source.writing.transient.link(source.key, target.key)
    else:
        _copy(source, target, new=True)


def _is_passed_on(target: PlainFile) -> bool:
    """Whether a stored file can be renamed to this name without being rewritten."""
    if isinstance(target, DocumentFile):
        return target.is_first
    return isinstance(target, StoredFile)


def _stored_at(target: PlainFile) -> tuple[ChunksFolder, str]:
    if isinstance(target, StoredFile):
        return target.folder, target.name
    assert isinstance(target, DocumentFile)
    return target.folder, DOCUMENT


def _copy(source: PlainFile, target: PlainFile, *, new: bool) -> None:
    """Store the bytes of a file under another name, with its time."""
    reader = source.open()
    try:
        if new and target.exists():
            raise Exists("there is a file of this name")
        if isinstance(target, DocumentFile):
            target.store_copy(reader, new=new)
            return
        if isinstance(target, TransientFile):
            target.writing.transient.store(target.key, reader, new=new)
            return
        assert isinstance(target, StoredFile)
        target.store_copy(reader, new=new)
    finally:
        reader.close()
