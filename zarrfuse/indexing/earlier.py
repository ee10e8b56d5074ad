"""What an earlier run has stored: which files need not be read and written again.

Owns the plan of a run: the keys that it may write, by which the next one knows them if it is killed. Used
by `run` and `update`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zarrfuse.indexing.dataset import (
    DOCUMENT,
    IN_PLACE,
    Record,
    parsed,
    parsed_record,
    record_of,
)
from zarrfuse.indexing.files import FoundFile
from zarrfuse.indexing.grid import Grid
from zarrfuse.indexing.target import Target
from zarrfuse.shards.documents import INDEX_SUFFIX
from zarrfuse.shards.layout import Layout
from zarrfuse.spec.chunk_keys import SuffixEncoding, parse_chunk_key_encoding
from zarrfuse.spec.paths import join
from zarrfuse.stores.base import Entry

_OF_DATASET = re.compile(rf"([0-9]+/)?{re.escape(DOCUMENT)}")


@dataclass(frozen=True, slots=True)
class Earlier:
    """The files and documents that are stored; empty for a new dataset.

    Attributes:
        stored: The files, by their keys.
        documents: Those of a dataset of `zarrfuse index`, by their keys.
        written: Which keys are those of its chunks.
        plan: What a run that was killed has stored; None if there is none.
    """

    stored: Mapping[str, Entry]
    documents: Mapping[str, dict[str, Any]]
    written: "ChunkKeys"
    plan: "Plan | None"

    @property
    def is_begun(self) -> bool:
        """Whether a run has begun to write, and was killed."""
        return self.plan is not None

    @property
    def is_in_place(self) -> bool:
        """Whether its chunks are the files that were indexed."""
        return any(record.way == IN_PLACE for record in (self.record, self.last_record) if record)

    @property
    def last_record(self) -> Record | None:
        """How the last run, which may have been killed, gave files their places."""
        return self.plan.record if self.plan is not None else self.record

    @property
    def record(self) -> Record | None:
        """How the array was indexed; None if there is none, or if it was never complete."""
        if DOCUMENT not in self.documents:  # it is written last
            return None
        found = (record_of(document) for document in self.documents.values())
        return next((record for record in found if record is not None), None)

    @property
    def suffix(self) -> str:
        """The ending of the keys of chunks; there is an array."""
        document = self.documents[join(self.levels[0], DOCUMENT)]
        suffix: str = document["chunk_key_encoding"]["configuration"]["suffix"]
        return suffix

    @property
    def levels(self) -> list[str]:
        """The paths of the arrays, the largest first."""
        paths = [
            key.removesuffix(DOCUMENT).rstrip("/")
            for key, document in self.documents.items()
            if record_of(document) is not None
        ]
        return sorted(paths, key=lambda path: int(path or 0))

    def grid(self, path: str, layout: Layout, record: Record, suffix: str) -> Grid | None:
        """The grid of a level, if it holds files of this layout in the same places; else None."""
        document = self.documents.get(join(path, DOCUMENT))
        old = record_of(document) if document is not None else None
        if document is None or old is None or self.record is None:
            return None
        sharding = document["codecs"][0]["configuration"]
        same = (
            old.has_places_of(record)
            and document["chunk_key_encoding"]["configuration"]["suffix"] == suffix
            and tuple(document["dimension_names"]) == layout.axes
            and document["data_type"] == layout.data_type
            and document["fill_value"] == layout.fill_json()
            and tuple(sharding["chunk_shape"]) == layout.inner_shape
            and sharding["codecs"] == layout.codec_list()
        )
        if not same:
            return None
        chunk_shape = document["chunk_grid"]["configuration"]["chunk_shape"]
        return Grid(tuple(document["shape"]), tuple(chunk_shape))

    def is_unchanged(
        self, target: Target, file: FoundFile, keys: Sequence[str], *, in_place: bool
    ) -> bool:
        """Whether a file is stored under these keys as it is now, each with its index."""
        for key in keys:
            main, index = self.stored.get(key), self.stored.get(key + INDEX_SUFFIX)
            if main is None or index is None:
                return False
            if not (
                target.is_same(main, file) and target.is_current(index, main, in_place=in_place)
            ):
                return False
        return True


@dataclass(frozen=True, slots=True)
class ChunkKeys:
    """The keys of the chunks of arrays: of each, (path, encoding as JSON text, number of dimensions)."""

    arrays: tuple[tuple[str, str, int], ...] = ()

    @classmethod
    def of_documents(cls, documents: Mapping[str, Mapping[str, Any]]) -> "ChunkKeys":
        """Those of the arrays among documents."""
        return cls(
            tuple(
                (
                    key.removesuffix(DOCUMENT).rstrip("/"),
                    json.dumps(document["chunk_key_encoding"], sort_keys=True),
                    len(document["shape"]),
                )
                for key, document in documents.items()
                if record_of(document) is not None
            )
        )

    @classmethod
    def of_json(cls, found: Any) -> "ChunkKeys":
        """Those that `to_json` gave. Raises `TypeError` or `ValueError` for what is something else."""
        return cls(tuple((str(path), str(text), int(ndim)) for path, text, ndim in found))

    def to_json(self) -> Any:
        """For a plan."""
        return self.arrays

    def __or__(self, other: "ChunkKeys") -> "ChunkKeys":
        return ChunkKeys(tuple(dict.fromkeys((*self.arrays, *other.arrays))))

    def among(self, keys: Iterable[str]) -> Iterator[str]:
        """Those of `keys` that are chunks, or indexes of chunks."""
        known = [
            (f"{path}/" if path else "", parse_chunk_key_encoding(json.loads(text)), ndim)
            for path, text, ndim in self.arrays
        ]
        for key in keys:
            main = key.removesuffix(INDEX_SUFFIX)
            if any(
                main.startswith(start)
                and encoding.decode(main.removeprefix(start), ndim) is not None
                for start, encoding, ndim in known
            ):
                yield key


@dataclass(frozen=True, slots=True)
class Plan:
    """What is stored while a run writes.

    Attributes:
        written: The keys that are those of chunks, of this run and of earlier ones.
        record: How this run gives files their places; None if the plan cannot be read.
    """

    written: ChunkKeys
    record: Record | None

    def to_bytes(self) -> bytes:
        """As it is stored."""
        record = None if self.record is None else self.record.to_json()
        return json.dumps({"chunks": self.written.to_json(), "record": record}).encode()

    @classmethod
    def of_bytes(cls, stored: bytes) -> "Plan":
        """A plan that is stored."""
        found = parsed(stored)
        try:
            return cls(ChunkKeys.of_json(found["chunks"]), parsed_record(found["record"]))  # type: ignore[index]
        except (KeyError, TypeError, ValueError):
            return cls(ChunkKeys(), None)


def earlier_of(target: Target) -> Earlier:
    """What is stored at a target."""
    stored = target.stored()
    found = {
        key: document
        for key in stored
        if _OF_DATASET.fullmatch(key) and (document := parsed(target.get(key))) is not None
    }
    stored_plan = target.plan()
    plan = None if stored_plan is None else Plan.of_bytes(stored_plan)
    arrays = {key: document for key, document in found.items() if _is_own(document)}
    if DOCUMENT in found and (DOCUMENT in arrays or (arrays and _is_image(found[DOCUMENT]))):
        arrays[DOCUMENT] = found[DOCUMENT]
    written = ChunkKeys.of_documents(arrays)
    if plan is not None:
        written = plan.written | written
    return Earlier(stored, arrays, written, plan)


def _is_own(document: Mapping[str, Any]) -> bool:
    """Whether a document is that of an array as `zarrfuse index` writes it."""
    if record_of(document) is None:
        return False
    try:
        suffix = document["chunk_key_encoding"]["configuration"]["suffix"]
        sharding = document["codecs"][0]["configuration"]
        chunk_shape = document["chunk_grid"]["configuration"]["chunk_shape"]
        lists = (
            document["shape"],
            document["dimension_names"],
            sharding["chunk_shape"],
            chunk_shape,
        )
        return isinstance(suffix, str) and all(isinstance(each, list) for each in lists)
    except (LookupError, TypeError):
        return False


def _is_image(document: Mapping[str, Any]) -> bool:
    return document.get("node_type") == "group"


def file_shape(grid: Grid, coords: Sequence[int]) -> tuple[int, ...]:
    """The shape of the file that is a chunk: the chunk's, or less at the end of the array."""
    return tuple(
        min(chunk, n - at * chunk)
        for n, chunk, at in zip(grid.shape, grid.chunk_shape, coords, strict=True)
    )


def kept_chunks(
    earlier: Earlier, path: str, keys: SuffixEncoding, grid: Grid
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """(key, coordinates) of the stored chunks of a level of this grid that have an index."""
    ndim = len(grid.shape)
    start = f"{path}/" if path else ""
    for key in earlier.stored:
        if key.startswith(start) and key + INDEX_SUFFIX in earlier.stored:
            coords = keys.decode(key.removeprefix(start), ndim)
            # A run that was killed before it made the array larger may have left more.
            if coords is not None and all(
                at * chunk < n
                for at, chunk, n in zip(coords, grid.chunk_shape, grid.shape, strict=True)
            ):
                yield key, coords
