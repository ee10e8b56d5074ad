"""Stores chunks: which bytes go under which keys, and which chunks are not stored at all.

Owns how a chunk is split by the sizes of its parts, the errors for bytes that do not fit, and the skipping
of empty chunks (ZEP 10). Used by `writing`. It must not know the names that a view shows.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from zarrfuse.errors import (
    Denied,
    Exists,
    IsAFolder,
    NotAFolder,
    NotEmpty,
    NotFound,
    NotSupported,
    PartsDoNotFit,
)
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.paths import folder_of, join
from zarrfuse.stores.base import Kind, read
from zarrfuse.stores.descriptor import read_full
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.spool import Spool, StoreOptions, Target

_LARGEST_JUDGED = 256 << 20
"""A chunk of more bytes is stored without a check whether it is empty, for which it is decoded."""

IsFill: TypeAlias = Callable[[ArrayNode, bytes | bytearray], bool]
"""Whether the bytes of a chunk of an array hold nothing but its fill value."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of the grid of an array; `array`: the path of the array, `key`: relative to it."""

    node: ArrayNode
    array: str
    key: str

    @property
    def path(self) -> str:
        """The key of the merged chunk from the root of the store."""
        return join(self.array, self.key)

    @property
    def title(self) -> str:
        """The chunk as a message names it."""
        return f"{self.array or 'the root array'}: chunk {self.key}"

    @property
    def stored(self) -> list[str]:
        """The keys of its parts, in the order of its bytes."""
        if self.node.parts is None:
            return [self.path]
        return [self.path + leaf.key_suffix for leaf in self.node.parts.leaves]

    @property
    def folders(self) -> list[str]:
        """The folders that hold only its parts, the innermost first."""
        found = set()
        above = folder_of(self.path)
        for suffix in () if self.node.parts is None else self.node.parts.nested:
            folder = folder_of(self.path + suffix)
            while folder != above:
                found.add(folder)
                folder = folder_of(folder)
        return sorted(found, key=len, reverse=True)

    def refuse_unwritable(self) -> None:
        """Raises `NotSupported` for a chunk that cannot be split."""
        parts = self.node.parts
        if parts is not None and not parts.writable:
            count = sum(leaf.size is None for leaf in parts.leaves)
            raise NotSupported(
                f"{self.array or 'the root array'}: {count} parts of a chunk are of open size, "
                "so chunks cannot be split and written"
            )

    def targets(self, nbytes: int) -> list[Target]:
        """Which range of its bytes goes under which key. Raises `PartsDoNotFit`."""
        if self.node.parts is None:
            return [Target(self.path, 0, nbytes)]
        try:
            ranges = self.node.parts.split(nbytes)
        except PartsDoNotFit as error:
            raise PartsDoNotFit(f"{self.title}: {error}") from error
        pairs = zip(self.stored, ranges, strict=True)
        return [Target(key, start, stop) for key, (start, stop) in pairs]


class ChunkStoring:
    """Stores and deletes the chunks of one view. `is_fill` says which are empty; without it, none is."""

    def __init__(self, commits: Commits, is_fill: IsFill | None) -> None:
        self._commits = commits
        self._is_fill = is_fill

    def store_spool(
        self,
        chunk: Chunk,
        spool: Spool,
        options: StoreOptions,
    ) -> None:
        """Store the bytes of a spool file as a chunk, or delete the chunk if they are empty.

        Raises `PartsDoNotFit`, `Exists` with `new`, and what stores raise. The chunk is then as before.
        """
        targets = chunk.targets(spool.size)
        if self._is_empty(chunk, spool.size, lambda: _bytes_of(spool)):
            self._skip(chunk, sync=options.sync, new=options.new)
            return
        self._commits.store_spool(chunk.path, targets, spool, options)

    def store_file(
        self, chunk: Chunk, source_key: str, *, keep: bool = False, new: bool = False
    ) -> bool:
        """Store a stored file as a chunk with the same time, and delete the file unless `keep`.

        True if the file was renamed, False if it was split, or was empty and was deleted. Raises as
        `store_spool`.
        """
        store = self._commits.store
        nbytes = store.stat(source_key).size
        targets = chunk.targets(nbytes)
        if self._is_empty(chunk, nbytes, lambda: read(store, source_key, limit=nbytes)):
            self._skip(chunk, new=new)
            if not keep:
                store.remove(source_key)
            return False
        self._commits.store_file(chunk.path, targets, source_key, keep=keep, new=new)
        return len(targets) == 1

    def rename(self, chunk: Chunk, to: Chunk, *, new: bool) -> bool:
        """Rename a chunk in several parts to another one of its array; with `new`, raises `Exists`.

        False, with nothing done, for an incomplete chunk, and in a store without hard links.
        """
        if (chunk.node, chunk.array) != (to.node, to.array) or len(chunk.stored) < 2:
            return False
        try:
            self._commits.rename(to.path, to.stored, chunk.path, chunk.stored, new=new)
        except (NotFound, NotSupported):
            return False
        self.remove_folders(chunk)
        return True

    def delete(self, chunk: Chunk) -> None:
        """Delete a chunk, which is all of its parts. Raises `NotFound`, `IsAFolder`."""
        # All parts are deleted, not only those that exist now: another process may be storing the chunk.
        stored = [key for key in chunk.stored if self._may_be_file(key)]
        if not stored:
            raise IsAFolder(f"{chunk.path} is a folder")
        self._commits.delete(chunk.path, stored)
        self.remove_folders(chunk)

    def remove_folders(self, chunk: Chunk) -> None:
        """Delete the folders that held only parts of the chunk, if they are empty.

        One of them may have the name of the chunk, which could not be created then.
        """
        for folder in chunk.folders:
            with suppress(NotEmpty, NotFound, NotAFolder, NotSupported, Denied):
                self._commits.store.remove_folder(folder)

    def exists(self, chunk: Chunk) -> bool:
        """Whether any part of a chunk is stored."""
        for key in chunk.stored:
            with suppress(NotFound, Denied):
                if self._commits.store.stat(key).kind is not Kind.FOLDER:
                    return True
        return False

    def _may_be_file(self, key: str) -> bool:
        try:
            return self._commits.store.stat(key).kind is not Kind.FOLDER
        except NotFound:
            return True
        except Denied:  # the folder it would lie in leads out of the store
            return False

    def _is_empty(
        self, chunk: Chunk, nbytes: int, content: Callable[[], bytes | bytearray]
    ) -> bool:
        """Whether a chunk holds only the fill value, and its array does not store such chunks."""
        if chunk.node.write_empty_chunks or self._is_fill is None or nbytes > _LARGEST_JUDGED:
            return False
        return self._is_fill(chunk.node, content())

    def _skip(self, chunk: Chunk, *, sync: bool = False, new: bool) -> None:
        """Delete a chunk instead of storing it; with `sync`, durably."""
        if new and self.exists(chunk):
            raise Exists(f"{chunk.title} is stored already")
        with suppress(NotFound):
            self.delete(chunk)
        store = self._commits.store
        if not sync or not store.in_place:
            return
        above = {folder_of(key) for key in (*chunk.stored, *chunk.folders, chunk.path)}
        for folder in sorted(above, key=len, reverse=True):
            with suppress(NotFound, NotAFolder):  # it went with the chunk
                store.sync_folder(folder)


def _bytes_of(spool: Spool) -> bytearray:
    content = bytearray(spool.size)
    read_full(spool.fd, memoryview(content), 0, "the spool file", wait=True)
    return content
