"""Writing in the `chunks` view. Each method of `views.base.Folder` calls the one of the same name here.

* A metadata document and a chunk of the grid are working copies, which are stored whole. Their folders are
  made when they are stored. What the name is, is decided then: the array may have another shape or other
  parts by that time.
* A part of a chunk is hidden and cannot be written. A file that has the key of a chunk and is no part of it
  is hidden, too, and is replaced.
* In a folder of a node that must not be loaded, only documents can be written: which names are chunks is
  not known.
* `.zarrfuse` at the root cannot be written.
* All else is an ordinary file or folder of the store.

`storing` splits and stores chunks.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from zarrfuse.errors import Denied, Exists, IsAFolder, NotAFolder, NotFound, NotSupported
from zarrfuse.spec.chunk_keys import METADATA_NAMES
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.paths import join
from zarrfuse.stores.access import Access, Change
from zarrfuse.stores.base import OWN_NAME, Entry, Kind, Reader, Writer
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.spool import Spool, StoreOptions, Target
from zarrfuse.transactions.working_copy import WorkingCopy
from zarrfuse.views import ordinary_files
from zarrfuse.views.base import Folder
from zarrfuse.views.chunks.merged_chunks import MergedChunks
from zarrfuse.views.chunks.storing import Chunk, ChunkStoring, IsFill
from zarrfuse.views.nodes import Changes, Loaded


class WrittenFolder(Folder, Protocol):
    """What writing has to know of a folder of the view."""

    def owner(self, *, wait: bool = True) -> Loaded | None:
        """The nearest node at or above it."""

    def merged_chunks(self, *, wait: bool = True) -> MergedChunks | None:
        """Its chunks, if they are stored in parts."""

    @property
    def follows(self) -> bool:
        """Whether symlinks to files are shown as files here."""


class What(Enum):
    """The kind of a name that is written."""

    ORDINARY = auto()
    DOCUMENT = auto()
    CHUNK = auto()


@dataclass(frozen=True, slots=True)
class WrittenName:
    """A name in a folder; `key`: from the root; `chunk`: set if it is one."""

    folder: str
    key: str
    what: What
    chunk: Chunk | None = None


class ChunkWriting:
    """Writes in the folders of one view. `is_fill`: see `storing.ChunkStoring`."""

    def __init__(self, changes: Changes, commits: Commits, is_fill: IsFill | None) -> None:
        self._changes = changes
        self._commits = commits
        self._store = commits.store
        self._storing = ChunkStoring(commits, is_fill)

    # -- files -------------------------------------------------------------------------------

    def open_ordinary(self, folder: WrittenFolder, name: str, *, wait: bool) -> Reader:
        """Open a file that is neither a chunk nor a document; changes in place are seen."""
        return ordinary_files.open_(self._store, join(folder.path, name), wait=wait)

    def create(
        self, folder: WrittenFolder, name: str, *, exclusive: bool, given: Access | None
    ) -> Writer:
        """Raises `NotSupported` for chunks that cannot be split, and for parts."""
        place = self._place(folder, name)
        if place.what is What.ORDINARY:
            return ordinary_files.create(self._commits, place.key, exclusive=exclusive, given=given)
        there = self._in_the_way(folder, name, place)
        if there is not None and exclusive:
            raise Exists(f"{place.key} exists already")
        new = given if there is None else None  # what is replaced hands its own on
        return ordinary_files.new_copy(self._commits, exclusive=exclusive, given=new)

    def write(self, folder: WrittenFolder, name: str) -> Writer:
        """Raises as `create`. The first change of an incomplete chunk raises `Corrupt`."""
        place = self._place(folder, name)
        if place.what is What.ORDINARY:
            return ordinary_files.write(self._commits, place.key)
        if self._in_the_way(folder, name, place) is None:
            raise NotFound(f"no key {place.key}")
        return WorkingCopy(self._commits, folder.open(name))

    def store(
        self, folder: WrittenFolder, name: str, copy: WorkingCopy, *, sync: bool = False
    ) -> None:
        """Store a working copy as what its name is now. Raises as `store_spool`."""
        with copy.to_store(sync=sync) as (spool, options):
            self.store_spool(folder, name, spool, options)

    def store_spool(
        self,
        folder: WrittenFolder,
        name: str,
        spool: Spool,
        options: StoreOptions,
    ) -> None:
        """Store the bytes of a spool file, whole, as what the name is now.

        Raises `PartsDoNotFit`, `Exists` with `options.new`, and as `create`.
        """
        place = self._place(folder, name)
        if place.chunk is not None:
            place.chunk.refuse_unwritable()
        try:
            self._store_spool(place, spool, options)
        finally:  # it may be there all the same
            self._changed(place)

    def remove(self, folder: WrittenFolder, name: str) -> None:
        """Deletes all parts of a chunk."""
        if folder.lookup(name).kind is Kind.FOLDER:
            raise IsAFolder(f"{_key(folder, name)} is a folder")
        place = self._place(folder, name)
        if place.chunk is not None:
            self._storing.delete(place.chunk)
        else:
            self._store.remove(place.key)
        self._changed(place)

    # -- names -------------------------------------------------------------------------------

    def rename(
        self,
        folder: WrittenFolder,
        name: str,
        to: WrittenFolder,
        new_name: str,
        *,
        replace: bool,
    ) -> bool:
        """Rename a file or folder.

        A file that gets the name of a chunk is split. A chunk in parts that gets the name of another one of
        its array is renamed by a journal; with any other name it is copied, then deleted. Raises
        `PartsDoNotFit` before anything is changed.
        """
        entry = folder.lookup(name)
        if entry.kind is Kind.FOLDER:
            self._rename_folder(folder, name, to, new_name, replace=replace)
            return True
        source, place = self._place(folder, name), self._place(to, new_name)
        there = self._in_the_way(to, new_name, place)
        if there is not None and not replace:
            raise Exists(f"{place.key} exists already")
        if source.key == place.key:
            return True
        _refuse_symlink(entry, place)
        is_same = self._rename_file(folder, name, source, place, replace=replace)
        self._changed(source, place)
        return is_same

    def _rename_file(
        self,
        folder: WrittenFolder,
        name: str,
        source: WrittenName,
        place: WrittenName,
        *,
        replace: bool,
    ) -> bool:
        stored = [source.key] if source.chunk is None else source.chunk.stored
        chunk, to = source.chunk, place.chunk
        if chunk and to and self._storing.rename(chunk, to, new=not replace):
            return True
        if len(stored) > 1:
            self._copy(folder, name, place, replace=replace)
            is_same = False
        elif place.chunk is not None:
            is_same = self._storing.store_file(place.chunk, stored[0], new=not replace)
        else:
            self._store.rename(stored[0], place.key, replace=replace)
            is_same = True
        if source.chunk is None:
            return is_same
        if len(stored) > 1:
            self._storing.delete(source.chunk)
        else:
            self._storing.remove_folders(source.chunk)
        return is_same

    def _copy(self, folder: WrittenFolder, name: str, place: WrittenName, *, replace: bool) -> None:
        """Store the merged bytes of a chunk under another name, with its time, owner and mode."""
        reader = folder.open(name)
        try:
            if place.chunk is not None:
                place.chunk.targets(reader.size)
            spool = self._commits.spool()
            try:
                spool.copy(reader, reader.size)
                options = StoreOptions(reader.mtime_ns, reader.access, new=not replace)
                self._store_spool(place, spool, options)
            finally:
                spool.close()
        finally:
            reader.close()

    def _rename_folder(
        self,
        folder: WrittenFolder,
        name: str,
        to: WrittenFolder,
        new_name: str,
        *,
        replace: bool,
    ) -> None:
        place = self._place(to, new_name)
        there = _entry(to, new_name)
        if there is not None and not replace:
            raise Exists(f"{place.key} exists already")
        if there is not None and there.kind is Kind.FILE:
            raise NotAFolder(f"{place.key} is no folder, which a folder could replace")
        self._store.rename(_key(folder, name), place.key, replace=replace)
        self._changes.folders()

    def link(self, folder: WrittenFolder, name: str, to: WrittenFolder, new_name: str) -> None:
        """Give an ordinary file a second name.

        Chunks get none: the second name would be an ordinary file, which is changed in place.
        """
        entry = folder.lookup(name)
        if entry.kind is Kind.FOLDER:
            raise IsAFolder(f"{_key(folder, name)} is a folder")
        source, place = self._place(folder, name), self._place(to, new_name)
        _refuse_symlink(entry, place)
        if source.what is not What.ORDINARY:
            raise NotSupported(f"{source.key} is a {source.what.name.lower()}, which has one name")
        if self._in_the_way(to, new_name, place) is not None:
            raise Exists(f"{place.key} exists already")
        if place.chunk is not None:
            self._storing.store_file(place.chunk, source.key, keep=True, new=True)
        elif place.what is What.DOCUMENT:
            whole = Target(place.key, 0, self._store.stat(source.key).size)
            self._commits.store_file(place.key, [whole], source.key, keep=True, new=True)
        else:
            self._store.link(source.key, place.key)
        self._changed(place)

    def symlink(
        self, folder: WrittenFolder, name: str, text: str, given: Access | None = None
    ) -> None:
        """Refused in the folder of an array and for documents, where symlinks are followed."""
        place = self._place(folder, name)
        if place.what is not What.ORDINARY or folder.follows:
            raise NotSupported(f"{place.key}: there are no symlinks in the folders of arrays")
        self._store.symlink(place.key, text, given)

    # -- folders, and both -------------------------------------------------------------------

    def make_folder(self, folder: WrittenFolder, name: str, given: Access | None = None) -> None:
        """Refused for the name of a part."""
        place = self._place(folder, name)
        if _entry(folder, name) is not None:
            raise Exists(f"{place.key} exists already")
        self._store.make_folder(place.key, given)

    def remove_folder(self, folder: WrittenFolder, name: str) -> None:
        """A folder with hidden files in it is not empty."""
        key = _key(folder, name)
        if folder.lookup(name).kind is Kind.FILE:
            raise NotAFolder(f"{key} is not a folder")
        self._store.remove_folder(key)
        self._changes.folders()

    def change(self, folder: WrittenFolder, name: str, change: Change) -> None:
        """Changes all parts of a chunk."""
        key = _key(folder, name)
        chunk = _chunk(folder, name)
        if folder.lookup(name).kind is not Kind.FILE or chunk is None:
            self._store.change(key, change, follow=folder.follows)
        else:
            for part in chunk.stored:
                try:
                    self._store.change(part, change)
                except NotFound:  # a chunk that is not whole
                    continue
        if name in METADATA_NAMES:
            self._changes.document(folder.path)

    # -- how ---------------------------------------------------------------------------------

    def _place(self, folder: WrittenFolder, name: str) -> WrittenName:
        """What a name is. Raises `NotSupported` if that is not known, and for parts of chunks."""
        key = _key(folder, name)
        if name in METADATA_NAMES:
            return WrittenName(folder.path, key, What.DOCUMENT)
        owner = folder.owner()
        if owner is not None and owner.error is not None and not owner.is_group:
            raise NotSupported(owner.error)
        chunk = _chunk(folder, name)
        if chunk is not None:
            return WrittenName(folder.path, key, What.CHUNK, chunk)
        array = folder.merged_chunks()
        whole = None if array is None else array.chunk_of(name)
        if whole is not None:
            raise NotSupported(f"{key} is a part of the chunk {whole}, which is written as a whole")
        return WrittenName(folder.path, key, What.ORDINARY)

    def _in_the_way(self, folder: WrittenFolder, name: str, place: WrittenName) -> Entry | None:
        """The file that is replaced.

        Raises `IsAFolder`, and `NotSupported` for a chunk that cannot be split.
        """
        if place.chunk is not None:
            place.chunk.refuse_unwritable()
        entry = _entry(folder, name)
        if entry is None or entry.kind is not Kind.FOLDER:
            return entry
        if place.chunk is not None and place.key not in place.chunk.stored:
            return None  # in which its parts lie
        raise IsAFolder(f"{place.key} is a folder")

    def _store_spool(self, place: WrittenName, spool: Spool, options: StoreOptions) -> None:
        if place.chunk is not None:
            self._storing.store_spool(place.chunk, spool, options)
            return
        whole = Target(place.key, 0, spool.size)
        self._commits.store_spool(place.key, [whole], spool, options)

    def _changed(self, *places: WrittenName) -> None:
        for place in places:
            if place.what is What.DOCUMENT:
                self._changes.document(place.folder)


def _key(folder: WrittenFolder, name: str) -> str:
    """The key of a name that is changed."""
    key = join(folder.path, name)
    if key == OWN_NAME or key.startswith(f"{OWN_NAME}/"):
        raise Denied(f"{OWN_NAME} is what zarrfuse keeps of its own")
    return key


def _chunk(folder: WrittenFolder, name: str) -> Chunk | None:
    """The chunk of the grid that a name in a folder is."""
    owner = None if name in METADATA_NAMES else folder.owner()
    if owner is None or not isinstance(owner.node, ArrayNode):
        return None
    key = join(folder.path, name)[len(owner.path) :].lstrip("/")
    return None if owner.node.chunk_at(key) is None else Chunk(owner.node, owner.path, key)


def _refuse_symlink(entry: Entry, place: WrittenName) -> None:
    if entry.kind is Kind.LINK and place.what is not What.ORDINARY:
        raise NotSupported(f"{entry.name} is a symlink, which is no {place.what.name.lower()}")


def _entry(folder: WrittenFolder, name: str) -> Entry | None:
    """What is shown under a name; None for nothing."""
    try:
        return folder.lookup(name)
    except NotFound:
        return None
