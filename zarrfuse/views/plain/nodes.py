"""Decides how the `plain` view shows a node: rewritten, refused, or kept as Zarr v2.

Owns that decision, and the document that is shown instead of the stored one. Used by `view`.
"""

import errno
import threading
from collections.abc import Callable
from contextlib import closing

from zarrfuse.errors import MetadataError
from zarrfuse.formats.segments import Literal
from zarrfuse.spec.node import ArrayNode, Node
from zarrfuse.spec.node_v3 import parse_v3
from zarrfuse.spec.paths import join
from zarrfuse.spec.plain import document, problem
from zarrfuse.spec.plain_v2 import as_v3
from zarrfuse.stores.base import Entry, Kind, entry_of
from zarrfuse.views.chunks.view import ChunksFolder, ChunksView
from zarrfuse.views.nodes import Loaded
from zarrfuse.views.plain.chunks import PlainChunks
from zarrfuse.views.plain.hierarchies import Hierarchy

DOCUMENT = "zarr.json"


def refusal(loaded: Loaded) -> str | None:
    """Why a node must not be read, as a sentence that begins with its document; or None."""
    if loaded.node is None:
        return loaded.error
    clause = None if loaded.is_v2 else problem(loaded.node)
    return None if clause is None else f"{join(loaded.path, loaded.document)}: {clause}"


class PlainNode:
    """A node as the view shows it, as long as its document is the same.

    `changes`: counts the chunks that this process stores and deletes. `hierarchy`: that of a node of
    Zarr v2; if one node of it stays Zarr v2, all do.
    """

    def __init__(
        self,
        view: ChunksView,
        folder: ChunksFolder,
        loaded: Loaded,
        changes: Callable[[], int] = int,
        hierarchy: Hierarchy | None = None,
    ) -> None:
        self.folder = folder
        self.loaded = loaded
        self.hierarchy = hierarchy
        self.refused = refusal(loaded)
        if self.refused is not None and loaded.error is None:  # else it has been reported
            view.report(f"refused in plain: {self.refused}")
        self._kept: str | None = None
        self._node = self._as_v3() if self.refused is None else None
        self._chunks: PlainChunks | None = None
        if isinstance(self._node, ArrayNode):
            self._chunks = PlainChunks(view, folder, self._node, changes)
        self._lock = threading.Lock()
        self._document: Literal | None = None

    def _as_v3(self) -> Node | None:
        assert self.loaded.node is not None
        if not self.loaded.is_v2:
            return self.loaded.node
        try:
            return as_v3(self.loaded.node)
        except MetadataError as error:
            self._kept = join(self.loaded.path, str(error))
        if self.hierarchy is not None:  # of which something else was known when it was looked at
            self.hierarchy.keep(self._kept)
        return None

    @property
    def kept(self) -> str | None:
        """Why it stays a node of Zarr v2."""
        if self._kept is None and self.hierarchy is not None:
            return self.hierarchy.kept
        return self._kept

    @property
    def node(self) -> Node | None:
        """The node of Zarr v3 that is shown; None if it is refused or kept as Zarr v2."""
        return self._node if self.kept is None else None

    @property
    def chunks(self) -> PlainChunks | None:
        """The chunks of an array that is shown as Zarr v3; else None."""
        return self._chunks if self.kept is None else None

    def document(self, *, wait: bool = True) -> Literal:
        """The shown `zarr.json`. Needs a `node`.

        Raises `BlockingIOError` if it is not made yet and `wait` is false, `NotFound` if the stored one is
        just being deleted.
        """
        if self._document is None:
            assert self._node is not None
            if not wait:
                raise BlockingIOError(errno.EAGAIN, "a document has to be written")
            with self._lock:
                if self._document is None:
                    loaded = self.loaded
                    # It has the bytes of one moment: a document that is changed in place is another file.
                    identity = hash((loaded.identity, loaded.mtime_ns, *loaded.stamp))
                    # If the document was replaced since, another node is loaded soon. Until then this
                    # one is shown without the members that only its own document has.
                    text = document(self._node, stored_document(self.folder, loaded))
                    self._document = Literal(
                        text, loaded.mtime_ns, loaded.access, loaded.identity and identity
                    )
        return self._document

    def entry(self, *, wait: bool = True) -> Entry:
        """The entry of the shown `zarr.json`."""
        written = self.document(wait=wait)
        return entry_of(Entry(DOCUMENT, Kind.FILE, 0, 0, access=self.loaded.access), written)

    def rewritten(self) -> Node:
        """The node that the shown document describes. Needs a `node`."""
        assert self._node is not None
        return parse_v3(document(self._node))


def stored_document(folder: ChunksFolder, loaded: Loaded) -> bytes | None:
    """The `zarr.json` that `loaded` was read from; None if there is none, or it was replaced."""
    if loaded.document != DOCUMENT:
        return None
    with closing(folder.open(DOCUMENT)) as reader:
        if (reader.size, reader.mtime_ns) != loaded.stamp:
            return None
        stored = bytearray(reader.size)
        if stored:
            reader.readinto(memoryview(stored), 0)
        return bytes(stored)
