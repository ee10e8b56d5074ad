"""Where a dataset is written: a folder of this machine, or a bucket.

Owns how a file becomes a key of the dataset: as a hard link, a reflink or a copy. Each call is atomic:
killed at any moment, a key holds what it held, or what it is to hold. Used by `writing` and `run`. It must
not know what is in a file, nor documents.
"""

import errno
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Protocol, cast

from zarrfuse.config import RemoteConfig
from zarrfuse.errors import NotFound, ZarrfuseError
from zarrfuse.indexing.files import Files, FoundFile, is_bucket, walk
from zarrfuse.spec.paths import join
from zarrfuse.stores.base import OWN_NAME, Entry, WritableStore, opened, read
from zarrfuse.stores.object.url import parse
from zarrfuse.stores.opening import is_url, open_store

_PIECE_BYTES = 8 << 20
_FICLONE = 0x40049409
_MARKER = f"{OWN_NAME}/index"
_LARGEST_DOCUMENT = 64 << 20


class Way(Enum):
    """How a file gets the key of a chunk."""

    LINK = "link"
    """A hard link, else a reflink: no pixel is copied."""
    COPY = "copy"
    """A reflink, else a copy."""
    MOVE = "move"
    """As a link, or a copy if it must be; the file is deleted once the dataset is complete."""


class TargetError(ZarrfuseError):
    """A dataset cannot be written there, or not in this way."""


class Target(Protocol):
    """A dataset that is being written. It can be sent to another process."""

    def stored(self) -> dict[str, Entry]:
        """All files of the dataset by their keys; none if there is no such folder."""

    def is_begun(self) -> bool:
        """Whether an earlier run began to write here."""

    def begin(self, files: Files, example: str | None) -> None:
        """Make the folder, and try to give `example` a key. Raises `TargetError` if that does not work."""

    def adopt(self, files: Files, path: str, key: str) -> None:
        """Give a file the key `key`, which may hold something else."""

    def put(self, key: str, data: bytes, mtime_ns: int | None = None) -> None:
        """Store bytes, with the time `mtime_ns` if the store can."""

    def get(self, key: str) -> bytes | None:
        """The bytes of a document; None if it is missing."""

    def remove(self, key: str) -> None:
        """Delete a key, if it is there."""

    def delete_source(self, files: Files, path: str) -> None:
        """Delete a file that was moved, now that the dataset is complete."""

    def is_current(self, index: Entry, main: Entry) -> bool:
        """Whether an index was written for the file beside it as it is now."""

    def is_same(self, main: Entry, file: FoundFile) -> bool:
        """Whether what is stored as a chunk is this file."""

    def sync(self) -> None:
        """Make all that was written durable."""

    def end(self) -> None:
        """Say that the dataset is complete."""


def target_of(address: str, remote: RemoteConfig, way: Way) -> Target:
    """The dataset at a path or a URL of a bucket. Raises `TargetError`."""
    if is_bucket(address):
        return BucketTarget(address, remote, way)
    if is_url(address):
        raise TargetError(f"{address} cannot be written: give a folder or a bucket with --out")
    return LocalTarget(os.path.abspath(address), way)


@dataclass(frozen=True, slots=True)
class LocalTarget(Target):
    """A dataset in a folder of this machine."""

    folder: str
    way: Way

    def stored(self) -> dict[str, Entry]:
        """See `Target`."""
        if not os.path.isdir(self.folder):
            return {}
        return dict(walk(Files(self.folder).store))

    def is_begun(self) -> bool:
        """See `Target`."""
        return os.path.exists(self._path(_MARKER))

    def begin(self, files: Files, example: str | None) -> None:
        """See `Target`."""
        os.makedirs(self._path(OWN_NAME), exist_ok=True)
        with open(self._path(_MARKER), "wb"):
            pass
        if example is not None:
            with self._temporary() as temporary:
                self._place(files, example, temporary)

    def adopt(self, files: Files, path: str, key: str) -> None:
        """See `Target`."""
        where = self._path(key)
        os.makedirs(os.path.dirname(where), exist_ok=True)
        with self._temporary() as temporary:
            self._place(files, path, temporary)
            os.replace(temporary, where)

    def put(self, key: str, data: bytes, mtime_ns: int | None = None) -> None:
        """See `Target`."""
        where = self._path(key)
        os.makedirs(os.path.dirname(where), exist_ok=True)
        with self._temporary() as temporary:
            with open(temporary, "xb") as file:
                file.write(data)
            if mtime_ns is not None:
                os.utime(temporary, ns=(mtime_ns, mtime_ns))
            os.replace(temporary, where)

    def get(self, key: str) -> bytes | None:
        """See `Target`."""
        try:
            with open(self._path(key), "rb") as file:
                return file.read(_LARGEST_DOCUMENT)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def remove(self, key: str) -> None:
        """See `Target`."""
        with suppress(FileNotFoundError):
            os.remove(self._path(key))

    def delete_source(self, files: Files, path: str) -> None:
        """See `Target`."""
        os.remove(os.path.join(files.address, path))

    def is_current(self, index: Entry, main: Entry) -> bool:
        """See `Target`. An index has the time of its file."""
        return index.mtime_ns == main.mtime_ns

    def is_same(self, main: Entry, file: FoundFile) -> bool:
        """See `Target`. Links and copies have the time of the file."""
        return (main.size, main.mtime_ns) == (file.size, file.mtime_ns)

    def sync(self) -> None:
        """See `Target`."""
        os.sync()

    def end(self) -> None:
        """See `Target`."""
        shutil.rmtree(self._path(OWN_NAME), ignore_errors=True)

    def _path(self, key: str) -> str:
        return os.path.join(self.folder, key)

    @contextmanager
    def _temporary(self) -> Iterator[str]:
        """The path of a new file that no other process uses, which is gone at the end of the block."""
        process = f"{os.uname().nodename}-{os.getpid()}-{threading.get_ident()}"
        path = self._path(f"{OWN_NAME}/{process}")
        with suppress(FileNotFoundError):
            os.remove(path)  # of a process that was killed, which had the same number
        try:
            yield path
        finally:
            with suppress(FileNotFoundError):
                os.remove(path)

    def _place(self, files: Files, path: str, where: str) -> None:
        if is_url(files.address):
            if self.way is not Way.COPY:
                raise TargetError(
                    f"{files.address} is not on this machine, so its files cannot be linked or moved into "
                    f"{self.folder}: use --copy"
                )
            _download(files, path, where)
            return
        source = os.path.join(files.address, path)
        if self.way is not Way.COPY and _linked(source, where):
            return
        if _cloned(source, where):
            return
        if self.way is Way.LINK:
            raise TargetError(
                f"{source} cannot be linked into {self.folder}: the two are on different file systems, or "
                "this one has no links. Choose another --out, or use --copy or --move"
            )
        shutil.copy2(source, where)


def _linked(source: str, where: str) -> bool:
    try:
        os.link(source, where)
    except OSError as error:
        # Another file system, none with links, too many of them, or a file of another user.
        if error.errno in (
            *(errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOTSUP),
            *(errno.ENOSYS, errno.EACCES),
        ):
            return False
        raise
    return True


def _cloned(source: str, where: str) -> bool:
    """Make `where` a copy that shares its blocks with `source`, if the file system can."""
    import fcntl  # noqa: PLC0415

    with open(source, "rb") as old, open(where, "xb") as new:
        try:
            fcntl.ioctl(new, _FICLONE, old.fileno())
        except OSError:
            os.remove(where)
            return False
    shutil.copystat(source, where)
    return True


def _download(files: Files, path: str, where: str) -> None:
    with opened(files.store, path) as reader, open(where, "xb") as file:
        buffer = bytearray(_PIECE_BYTES)
        for at in range(0, reader.size, _PIECE_BYTES):
            into = memoryview(buffer)[: min(_PIECE_BYTES, reader.size - at)]
            reader.readinto(into, at)
            file.write(into)
        mtime_ns = reader.mtime_ns
    os.utime(where, ns=(mtime_ns, mtime_ns))


@dataclass(frozen=True, slots=True)
class BucketTarget(Target):
    """A dataset in a bucket. Its files are copied by the server, or uploaded."""

    address: str
    remote: RemoteConfig = field(repr=False)
    way: Way

    def stored(self) -> dict[str, Entry]:
        """See `Target`."""
        return dict(walk(self._store))

    def is_begun(self) -> bool:
        """See `Target`."""
        return self.get(_MARKER) is not None

    def begin(self, files: Files, example: str | None) -> None:
        """See `Target`."""
        if example is not None and self.way is Way.LINK:
            raise TargetError(
                f"{self.address} is a bucket, which has no links: use --copy or --move, or give the files "
                "the names of chunks"
            )
        if example is not None and self.way is Way.MOVE and not self._is_beside(files):
            raise TargetError(f"{files.address} is not in the bucket of {self.address}: use --copy")
        self.put(_MARKER, b"index")

    def adopt(self, files: Files, path: str, key: str) -> None:
        """See `Target`."""
        if self._is_beside(files):
            store, source, where = _in_one_store(files.address, self.address, self.remote)
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
            self._store.put(key, spool, 0, reader.size)

    def put(self, key: str, data: bytes, mtime_ns: int | None = None) -> None:
        """See `Target`."""
        with _in_memory(len(data)) as spool:
            os.pwrite(spool, data, 0)
            self._store.put(key, spool, 0, len(data))

    def get(self, key: str) -> bytes | None:
        """See `Target`."""
        try:
            return read(self._store, key, limit=_LARGEST_DOCUMENT)
        except NotFound:
            return None

    def remove(self, key: str) -> None:
        """See `Target`."""
        with suppress(NotFound):
            self._store.remove(key)

    def delete_source(self, files: Files, path: str) -> None:
        """See `Target`."""
        _writable(files.address, self.remote).remove(path)

    def is_current(self, index: Entry, main: Entry) -> bool:
        """See `Target`. By the time of the server."""
        return index.mtime_ns >= main.mtime_ns

    def is_same(self, main: Entry, file: FoundFile) -> bool:
        """See `Target`. A copy is younger than the file."""
        return main.size == file.size and main.mtime_ns >= file.mtime_ns

    def sync(self) -> None:
        """See `Target`. Each request is durable."""

    def end(self) -> None:
        """See `Target`."""
        self.remove(_MARKER)

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
