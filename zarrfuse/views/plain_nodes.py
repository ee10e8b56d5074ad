"""What the `plain` view makes of each node: rewritten, refused, or kept as Zarr v2.

Owns that decision and the document shown in place of the stored one. Used by `views.plain`.
"""

import errno
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from zarrfuse.errors import MetadataError
from zarrfuse.files.segments import Literal
from zarrfuse.spec.node import ArrayNode, Node, parse_v3
from zarrfuse.spec.plain import document, problem
from zarrfuse.spec.plain_v2 import as_v3
from zarrfuse.stores.base import Entry, Kind
from zarrfuse.views.base import join
from zarrfuse.views.chunks import ChunksFolder, ChunksView
from zarrfuse.views.nodes import Loaded
from zarrfuse.views.plain_chunks import PlainChunks

DOCUMENT = "zarr.json"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a stored node is in core Zarr v3: `node`, or why it is none.

    `refused`: why nothing of it may be read. `kept`: why it stays a node of Zarr v2.
    """

    node: Node | None = None
    refused: str | None = None
    kept: str | None = None


def judge(loaded: Loaded) -> Judgement:
    """What a node that was looked at is in core Zarr v3; sentences start with its document."""
    if loaded.node is None:
        return Judgement(refused=loaded.error)
    if loaded.node.zarr_format == 2:
        try:
            return Judgement(as_v3(loaded.node))
        except MetadataError as error:
            return Judgement(kept=join(loaded.path, str(error)))
    clause = problem(loaded.node)
    if clause is not None:
        return Judgement(refused=f"{join(loaded.path, loaded.document)}: {clause}")
    return Judgement(loaded.node)


class PlainNode:
    """A node as the view shows it, as long as its document is the same.

    `changes` counts what this process itself has stored and deleted of its chunks.
    """

    def __init__(
        self,
        view: ChunksView,
        folder: ChunksFolder,
        loaded: Loaded,
        changes: Callable[[], int] = int,
    ) -> None:
        self.folder = folder
        self.loaded = loaded
        judgement = judge(loaded)
        self.refused = judgement.refused
        self.kept = judgement.kept
        self.node = judgement.node
        if self.refused is not None and loaded.error is None:  # else that has been said
            view.report(f"refused in plain: {self.refused}")
        self.chunks: PlainChunks | None = None
        if isinstance(judgement.node, ArrayNode):
            self.chunks = PlainChunks(view, folder, judgement.node, changes)
        self._lock = threading.Lock()
        self._document: Literal | None = None

    def document(self, *, wait: bool = True) -> Literal:
        """The `zarr.json` that is shown; only where there is a `node`.

        `BlockingIOError` if it has yet to be written and `wait` is false. Raises `NotFound` when
        the stored one has just gone.
        """
        if self._document is None:
            if not wait:
                raise BlockingIOError(errno.EAGAIN, "a document has to be written")
            with self._lock:
                if self._document is None:
                    loaded = self.loaded
                    self._document = Literal(self._text(), loaded.mtime_ns, loaded.access)
        return self._document

    def entry(self, *, wait: bool = True) -> Entry:
        """The entry of the `zarr.json` that is shown."""
        written = self.document(wait=wait)
        access = self.loaded.access
        return Entry(DOCUMENT, Kind.FILE, written.size, written.mtime_ns, access=access)

    def _text(self) -> bytes:
        assert self.node is not None
        if self.loaded.document != DOCUMENT:
            return document(self.node)
        reader = self.folder.open(DOCUMENT)
        try:
            # Rewritten since the node was read, it goes with another node, which is soon noticed.
            # Until then this one is shown, without what only the document of its own would have.
            if (reader.size, reader.mtime_ns) != self.loaded.stamp:
                return document(self.node)
            stored = bytearray(reader.size)
            if stored:
                reader.readinto(memoryview(stored), 0)
        finally:
            reader.close()
        return document(self.node, bytes(stored))

    def facts(self) -> dict[str, Any]:
        """What the document that is shown tells; only where there is a `node`."""
        assert self.node is not None
        return parse_v3(document(self.node)).facts()
