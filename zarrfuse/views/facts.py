"""The facts on a name in a view, and how they are written as JSON.

Views make them. Control files, extended attributes and `zarrfuse info` show the JSON.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zarrfuse.spec.active import Active, add_facts
from zarrfuse.spec.concat_parts import Part
from zarrfuse.spec.node import Node
from zarrfuse.stores.base import UNKNOWN_SIZE, Entry, Kind


@dataclass(frozen=True, slots=True)
class PartFacts:
    """One part of a chunk: its key, and its size in bytes; None if it is not stored."""

    part: Part
    key: str
    stored_size: int | None

    def to_json(self) -> dict[str, Any]:
        """The members of the part in the metadata, with the key and the stored size."""
        return {**self.part.to_json(), "key": self.key, "stored_size": self.stored_size}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkFacts:
    """A chunk. Keys are relative to the array.

    Attributes:
        key: The key in this view.
        coords: The place in the chunk grid.
        parts: The stored parts; None for a chunk that is one file.
        stored_key: The key in the store, if that differs from view to view.
        stored_size: Bytes in the store, where the view shows another file in place of them.
    """

    key: str
    coords: tuple[int, ...]
    parts: tuple[PartFacts, ...] | None = None
    stored_key: str | None = None
    stored_size: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The members of the JSON."""
        told: dict[str, Any] = {"key": self.key, "chunk_coords": list(self.coords)}
        if self.parts is not None:
            told["parts"] = [part.to_json() for part in self.parts]
        return told | _known(stored_key=self.stored_key, stored_size=self.stored_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts on one name in a view. The JSON leaves out what is None or empty.

    Attributes:
        view: The name of the view.
        path: The path of the name in the view.
        kind: Folder, file or link.
        size: Bytes of a file.
        owner: The path of the node that the name belongs to.
        node: That node, if the name is the node itself, or one of its chunks.
        inherited: Extensions that act on `node` besides its own.
        chunk: The chunk, if the name is one.
        renderings: For each rendering of the node, the size in bytes, or why there is none.
        kept_as_v2: Why the node is not shown as one of Zarr v3.
        not_decoded: Why no pixel of the array can be decoded.
        error: Why the node is not loaded, or the chunk cannot be read.
    """

    view: str
    path: str
    kind: Kind | None = None
    size: int | None = None
    owner: str | None = None
    node: Node | None = None
    inherited: tuple[Active, ...] = ()
    chunk: ChunkFacts | None = None
    renderings: Mapping[str, int | str] = field(default_factory=dict)
    kept_as_v2: str | None = None
    not_decoded: str | None = None
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """All of it as one JSON object: node, chunk and what extensions add, side by side."""
        told: dict[str, Any] = {"view": self.view, "path": self.path}
        if self.kind is not None:
            told["kind"] = self.kind.name.lower()
        told |= _known(size=self.size, node=self.owner)
        if self.node is not None:
            told |= self.node.facts()
        if self.chunk is not None:
            told |= self.chunk.to_json()
        add_facts(told, self.inherited)
        return told | _known(
            kept_as_v2=self.kept_as_v2,
            not_decoded=self.not_decoded,
            renderings=dict(self.renderings) or None,
            error=self.error,
        )


def kind_and_size(entry: Entry | None) -> dict[str, Any]:
    """The members `kind` and `size` of `Facts` for an entry; none for no entry."""
    if entry is None:
        return {}
    is_told = entry.kind is Kind.FILE and entry.size != UNKNOWN_SIZE
    return {"kind": entry.kind, "size": entry.size if is_told else None}


def _known(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
