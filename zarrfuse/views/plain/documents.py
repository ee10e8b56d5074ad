"""Writes and deletes the `zarr.json` of a folder of the `plain` view.

Owns what is stored when the shown document is written (`spec.plain_writing`). Used by `files`.
"""

from contextlib import suppress
from dataclasses import dataclass

from zarrfuse.errors import Contradiction, Exists, NotAFolder, NotFound, NotSupported
from zarrfuse.spec.paths import join
from zarrfuse.spec.plain_writing import stored_document
from zarrfuse.stores.access import Access, Change
from zarrfuse.stores.base import Kind, Reader, Writer
from zarrfuse.stores.descriptor import read_full
from zarrfuse.transactions.spool import Spool, StoreOptions
from zarrfuse.transactions.working_copy import WorkingCopy
from zarrfuse.views.chunks.view import ChunksFolder
from zarrfuse.views.nodes import LARGEST_DOCUMENT
from zarrfuse.views.ordinary_files import new_copy
from zarrfuse.views.plain.nodes import DOCUMENT, PlainNode
from zarrfuse.views.plain.writing import PlainWriting


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """The `zarr.json` of a folder; `node`: the node that the folder is now, or None."""

    writing: PlainWriting
    folder: ChunksFolder
    node: PlainNode | None

    @property
    def title(self) -> str:
        """Its key."""
        return join(self.folder.path, DOCUMENT)

    @property
    def hidden(self) -> tuple[str, ...]:
        """The documents of Zarr v2 that it is shown instead of."""
        if self.node is None or self.node.node is None or self.node.loaded.document == DOCUMENT:
            return ()
        return (self.node.loaded.document, ".zattrs", ".zmetadata")

    def open(self) -> Reader:
        """See `plain.files.PlainFile`."""
        if self.node is None:
            return self.folder.open(DOCUMENT)
        if self.node.refused is not None:
            raise NotSupported(self.node.refused)
        return self.folder.open(DOCUMENT) if self.node.node is None else self.node.document()

    def create(self, *, exclusive: bool, given: Access | None) -> Writer:
        """See `plain.files.PlainFile`."""
        self._check()
        if self.exists():
            if exclusive:
                raise Exists(f"{self.title} exists already")
            given = None
        return new_copy(self.writing.commits, exclusive=exclusive, given=given)

    def write(self) -> Writer:
        """See `plain.files.PlainFile`."""
        self._check()
        if not self.exists():
            raise NotFound(f"no {self.title}")
        is_refused = self.node is not None and self.node.refused is not None  # and so it is empty
        return WorkingCopy(self.writing.commits, None if is_refused else self.open())

    def store(self, copy: WorkingCopy, *, sync: bool) -> None:
        """See `plain.files.PlainFile`."""
        with copy.to_store(sync=sync) as (spool, options):
            written = _content(spool, self.title)
            try:
                self._store(written, options)
            except Exists:
                raise
            except BaseException:  # it may be stored, though what came behind that failed
                copy.is_new = copy.is_new and not self.exists()
                raise

    def remove(self) -> None:
        """See `plain.files.PlainFile`."""
        if self.hidden:
            self._remove_hidden()
            return
        text = self._stored_text()
        if text is not None:
            self.writing.remember(self.folder.path, text)
        self.folder.remove(DOCUMENT)

    def change(self, change: Change) -> None:
        """See `plain.files.PlainFile`."""
        for name in self.hidden or (DOCUMENT,):
            with suppress(NotFound):
                self.folder.change(name, change)

    def exists(self) -> bool:
        """See `plain.files.PlainFile`."""
        if self.hidden:
            return True
        try:
            return self.folder.lookup(DOCUMENT).kind is not Kind.FOLDER
        except NotFound:
            return False

    @property
    def is_first(self) -> bool:
        """Whether a written document is stored as it is, because there was none before."""
        return not self.exists() and self.writing.remembered(self.folder.path) is None

    def store_copy(self, reader: Reader, *, new: bool) -> None:
        """Store the document in an open file, with its time, owner and mode.

        Raises `Contradiction`, and `Exists` with `new`.
        """
        self._check()
        written = _bytes_of(reader, self.title)
        self._store(written, StoreOptions(reader.mtime_ns, reader.access, new=new))

    def _store(self, written: bytes, options: StoreOptions) -> None:
        text = self._to_store(written)
        spool = self.writing.commits.spool()
        try:
            spool.write(text, 0)
            self.writing.chunks.writing.store_spool(self.folder, DOCUMENT, spool, options)
        finally:
            spool.close()
        self.writing.forget(self.folder.path)

    def _check(self) -> None:
        """Raises `NotSupported` for a refused node, unless its document is empty (`touch`).

        Libraries take a refused node for a missing one, and would overwrite it.
        """
        if self.hidden:
            raise NotSupported(
                f"{self.title} is shown for {self.hidden[0]}, and cannot be written: "
                "the node is stored as one of Zarr v2"
            )
        if self.node is not None and self.node.refused is not None and self._stored_text():
            raise NotSupported(f"{self.node.refused}; it can be deleted, and then written anew")

    def _remove_hidden(self) -> None:
        """Delete a node of Zarr v2: the document that makes it one first."""
        for name in self.hidden:
            with suppress(NotFound):
                self.folder.remove(name)

    def _to_store(self, written: bytes) -> bytes:
        stored = self._stored_text()
        try:
            if stored is not None:
                return stored_document(written, stored, self._below)
            remembered = self.writing.remembered(self.folder.path)
            try:
                return stored_document(written, remembered, self._below)
            except Contradiction:  # it is a new node
                return written
        except Contradiction as error:
            raise Contradiction(join(self.folder.path, str(error))) from error

    def _stored_text(self) -> bytes | None:
        return _document_in(self.folder)

    def _below(self, path: str) -> bytes | None:
        """The stored document of a node below; None if there is none, or it cannot be read."""
        try:
            return _document_in(self.folder.below(path))
        except (NotAFolder, OSError, Contradiction):
            return None


def _document_in(folder: ChunksFolder) -> bytes | None:
    try:
        reader = folder.open(DOCUMENT)
    except NotFound:
        return None
    try:
        return _bytes_of(reader, join(folder.path, DOCUMENT))
    finally:
        reader.close()


def _bytes_of(reader: Reader, title: str) -> bytes:
    _check_size(title, reader.size)
    data = bytearray(reader.size)
    if data:
        reader.readinto(memoryview(data), 0)
    return bytes(data)


def _content(spool: Spool, title: str) -> bytes:
    _check_size(title, spool.size)
    data = bytearray(spool.size)
    read_full(spool.fd, memoryview(data), 0, "the spool file", wait=True)
    return bytes(data)


def _check_size(title: str, size: int) -> None:
    if size > LARGEST_DOCUMENT:
        raise Contradiction(
            f"{title} has {size} bytes, more than the {LARGEST_DOCUMENT} that are read"
        )
