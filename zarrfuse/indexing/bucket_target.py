"""A dataset in a bucket: files are copied by the server, or uploaded.

Times in a bucket are in seconds; the digits of `mtime_ns` below are a hash of the ETag. Used by `opening`.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

from zarrfuse.config import RemoteConfig
from zarrfuse.errors import NotFound
from zarrfuse.indexing.files import Files, FoundFile, is_bucket, walk
from zarrfuse.indexing.target import LARGEST_DOCUMENT, OWN, Target, TargetError, Way, are_same
from zarrfuse.spec.paths import join
from zarrfuse.stores.base import Entry, WritableStore, opened, read
from zarrfuse.stores.object.url import parse
from zarrfuse.stores.opening import open_store

_PIECE_BYTES = 8 << 20
_SECOND = 10**9


@dataclass(frozen=True, slots=True)
class BucketTarget(Target):
    """A dataset in a bucket. Its files are copied by the server, or uploaded."""

    address: str
    remote: RemoteConfig = field(repr=False)
    way: Way

    def stored(self) -> dict[str, Entry]:
        """See `Target`."""
        return dict(walk(self._store))

    def plan(self) -> bytes | None:
        """See `Target`."""
        return self.get(OWN)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """See `Target`. A bucket has no locks: two runs at once are not kept apart."""
        yield

    @contextmanager
    def begun(
        self,
        files: Files,
        changed: Sequence[FoundFile],
        stored: Mapping[str, Entry],
        plan: bytes,
    ) -> Iterator[None]:
        """See `Target`."""
        if changed and self.way is Way.LINK:
            raise TargetError(
                f"{self.address} is a bucket, which has no links: use --copy or --move, or give the files "
                "the names of chunks"
            )
        if changed and self.way is Way.MOVE and not self._is_beside(files):
            raise TargetError(f"{files.address} is not in the bucket of {self.address}: use --copy")
        if not are_same(self.stored(), stored):
            raise TargetError(f"{self.address} has changed meanwhile: run it again")
        self.put(OWN, plan)
        yield

    def adopt(self, files: Files, path: str, keys: Sequence[str]) -> None:
        """See `Target`."""
        if self._is_beside(files):
            store, source, where = _in_one_store(files.address, self.address, self.remote)
            for key in keys:
                with suppress(NotFound):
                    store.remove(join(where, key))
                store.link(join(source, path), join(where, key))
            return
        with opened(files.store, path) as reader, _in_memory(reader.size) as spool:
            buffer = bytearray(min(_PIECE_BYTES, max(1, reader.size)))
            for at in range(0, reader.size, _PIECE_BYTES):
                into = memoryview(buffer)[: min(_PIECE_BYTES, reader.size - at)]
                reader.readinto(into, at)
                os.pwrite(spool, into, at)
            for key in keys:
                self._store.put(key, spool, 0, reader.size)

    def put(self, key: str, data: bytes, mtime_ns: int | None = None) -> None:
        """See `Target`."""
        with _in_memory(len(data)) as spool:
            os.pwrite(spool, data, 0)
            self._store.put(key, spool, 0, len(data))

    def get(self, key: str) -> bytes | None:
        """See `Target`."""
        try:
            return read(self._store, key, limit=LARGEST_DOCUMENT)
        except NotFound:
            return None

    def remove(self, key: str) -> None:
        """See `Target`."""
        with suppress(NotFound):
            self._store.remove(key)

    def delete_source(self, files: Files, path: str) -> None:
        """See `Target`."""
        _writable(files.address, self.remote).remove(path)

    def is_current(self, index: Entry, main: Entry, *, in_place: bool) -> bool:
        """See `Target`. By the time of the server, in seconds; within one, others may have written both."""
        younger = index.mtime_ns // _SECOND - main.mtime_ns // _SECOND
        return younger > 0 if in_place else younger >= 0

    def is_same(self, main: Entry, file: FoundFile) -> bool:
        """See `Target`. A copy is younger by a second: within one, the file may have changed again."""
        younger = main.mtime_ns // _SECOND > file.mtime_ns // _SECOND
        return main.size == file.size and younger

    def may_be_same(self, main: Entry, file: FoundFile) -> bool:
        """See `Target`. A copy is not older than the file."""
        return main.size == file.size and main.mtime_ns // _SECOND >= file.mtime_ns // _SECOND

    def not_in(self, files: Files, keys: Sequence[str]) -> list[str]:
        """See `Target`. All are copies."""
        del files
        return list(keys)

    def has_bytes_of(self, files: Files, path: str, key: str) -> bool:
        """See `Target`. Only sizes are compared: the server has made the copies."""
        return files.store.stat(path).size == self._store.stat(key).size

    def sync(self) -> None:
        """See `Target`. Each request is durable."""

    def end(self) -> None:
        """See `Target`."""
        self.remove(OWN)

    @property
    def _store(self) -> WritableStore:
        return _writable(self.address, self.remote)

    def _is_beside(self, files: Files) -> bool:
        if not is_bucket(files.address):
            return False
        one, other = parse(files.address), parse(self.address)
        return (one.scheme, one.bucket) == (other.scheme, other.bucket)


@lru_cache(maxsize=8)
def _writable(address: str, remote: RemoteConfig) -> WritableStore:
    return cast(WritableStore, open_store(address, writable=True, remote=remote))


def _in_one_store(one: str, other: str, remote: RemoteConfig) -> tuple[WritableStore, str, str]:
    """(the store of the folder above both, the way from it to one, to the other)."""
    first, second = parse(one), parse(other)
    common: list[str] = []
    for name, same in zip(first.prefix.split("/"), second.prefix.split("/"), strict=False):
        if name != same:
            break
        common.append(name)
    above = "/".join(common)
    root = f"{first.scheme}://{first.bucket}" + (f"/{above}" if above else "")
    skipped = len(above) + 1 if above else 0
    return _writable(root, remote), first.prefix[skipped:], second.prefix[skipped:]


@contextmanager
def _in_memory(size: int) -> Iterator[int]:
    """A descriptor of bytes that are to be uploaded."""
    spool = os.memfd_create("zarrfuse-index")
    try:
        os.truncate(spool, size)
        yield spool
    finally:
        os.close(spool)
