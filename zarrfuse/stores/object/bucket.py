"""One bucket: the requests to an object store, their time-outs, and their errors.

Owns every call of `obstore`. Used by `store` and `reader`. A path here is a whole key of the bucket.

**Time-outs.** A request must end within `Patience.answer_s`, and is repeated only within `retry_s`, so that
a server that accepts connections and never answers is known to be dead after 10 s. Uploads of more than 4
MiB, and copies within the store, may take `upload_s`; before them a short request checks that the server
answers.

**Processes.** The runtime of `obstore` does not survive a fork. A call in a forked process raises instead
of waiting for ever: open the store after the fork.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zlib import crc32

import obstore

from zarrfuse.errors import (
    Exists,
    NotFound,
    NotSupported,
    Stale,
    ZarrfuseError,
)
from zarrfuse.stores.object.client import Client, client, told
from zarrfuse.stores.object.profiles import credentials_of
from zarrfuse.stores.object.refusals import refused
from zarrfuse.stores.object.url import ObjectUrl

SHORT_UPLOAD_BYTES = 4 << 20
SINGLE_PUT_BYTES = 64 << 20
_MULTIPART_BYTES = 16 << 20
_MULTIPARTS_AT_ONCE = 4

_first_process: list[int] = []


@dataclass(frozen=True, slots=True)
class Patience:
    """The time-outs for an object store, in seconds."""

    connect_s: float = 3.0
    answer_s: float = 10.0
    """For one request with its answer."""
    upload_s: float = 120.0
    """For an upload or a copy of more than 4 MiB."""
    retries: int = 2
    retry_s: float = 8.0
    """A request is not repeated after so many seconds since the first try."""


@dataclass(frozen=True, slots=True)
class Found:
    """An object: size, time, and its ETag or version.

    Times of object stores are in seconds. The digits of `mtime_ns` below a second are a hash of the ETag,
    so that the kernel can tell two objects of one second apart.
    """

    size: int
    mtime_ns: int
    e_tag: str | None
    version: str | None


class Bucket:
    """The objects of one bucket. Every call may wait, and raises exceptions of `zarrfuse.errors`.

    `settings`: what `obstore` is given beside the environment; `profile`: of `~/.aws`. Raises `SourceError`
    for wrong settings.
    """

    def __init__(
        self,
        url: ObjectUrl,
        patience: Patience,
        settings: Mapping[str, str] | None = None,
        profile: str | None = None,
    ) -> None:
        self.url = url
        self._settings = settings or {}
        self._credentials = credentials_of(url, profile, self._settings)
        self._creates = True
        if not _first_process:
            _first_process.append(os.getpid())
        self._quick = self._client(patience, patience.answer_s, patience.retries)
        self._slow = self._client(patience, patience.upload_s, 0)

    def check(self) -> bool:
        """Whether there is any object below the URL. Raises `SourceError` if the bucket cannot be used."""
        with refused(self.url, self._settings):
            return self.any_below(self.url.prefix)

    def find(self, path: str) -> Found:
        """The object at a path. Raises `NotFound`."""
        with self._told(path):
            return found(obstore.head(self._quick, path))

    def list(self, path: str) -> tuple[Sequence[tuple[str, Found]], Sequence[str]]:
        """(objects, folders) directly below a path, by their whole keys.

        The object with the path itself as its key is the marker `path/` of a folder.
        """
        with self._told(path):
            listed = obstore.list_with_delimiter(self._quick, path or None)
        objects = [(one["path"], found(one)) for one in listed["objects"]]
        return objects, listed["common_prefixes"]

    def any_below(self, path: str, *, but_marker: bool = False) -> bool:
        """Whether there is any object below a path; `but_marker`: except the marker of the folder."""
        try:
            with self._told(path):
                for some in obstore.list(self._quick, path or None, chunk_size=2):
                    if any(one["path"] != path or not but_marker for one in some):
                        return True
        except NotSupported:  # one whose name no path can have
            return True
        return False

    def get(self, path: str, start: int, stop: int, of: Found) -> memoryview:
        """Bytes [start, stop) of the object `of`. Raises `Stale` if it was replaced."""
        options: Any = {"range": (start, stop)}
        if of.version is not None:
            options["version"] = of.version
        elif of.e_tag is not None:
            options["if_match"] = of.e_tag
        try:
            with self._told(path):
                answer = obstore.get(self._quick, path, options=options)
                if of.version is None and of.e_tag is None and found(answer.meta) != of:
                    raise Stale(f"{path} was replaced while it was open")
                data = memoryview(answer.bytes())
        except NotFound:
            raise Stale(f"{path} was deleted while it was open") from None
        if len(data) != stop - start:
            raise Stale(f"{path} became shorter while it was open")
        return data

    def put(self, path: str, pieces: Iterable[bytes], size: int, *, new: bool) -> None:
        """Store `size` bytes under a path, atomically; `new`: raises `Exists` if the path is taken."""
        if size > SHORT_UPLOAD_BYTES or (new and not self._creates):
            self._is_there(path, new=new)  # and it answers
        client = self._quick if size <= SHORT_UPLOAD_BYTES else self._slow
        if size > SINGLE_PUT_BYTES:  # in parts there is no condition: what came since is replaced
            with self._told(path):
                obstore.put(
                    client,
                    path,
                    iter(pieces),
                    use_multipart=True,
                    chunk_size=_MULTIPART_BYTES,
                    max_concurrency=_MULTIPARTS_AT_ONCE,
                )
            return
        data = b"".join(pieces)
        if new and self._creates:
            try:
                with self._told(path):
                    obstore.put(client, path, data, mode="create", use_multipart=False)
            except NotSupported:
                self._creates = False
                self._is_there(path, new=True)
            else:
                return
        with self._told(path):
            obstore.put(client, path, data, use_multipart=False)

    def copy(self, path: str, new_path: str, *, new: bool) -> None:
        """Copy an object to a second path; `new`: raises `Exists` if the path is taken.

        In stores without such a condition, an object that is stored between check and copy is replaced.
        """
        self._is_there(new_path, new=new)
        if new:
            try:
                with self._told(f"{path} to {new_path}"):
                    obstore.copy(self._slow, path, new_path, overwrite=False)
            except NotSupported:
                pass
            else:
                return
        with self._told(f"{path} to {new_path}"):
            obstore.copy(self._slow, path, new_path)

    def delete(self, path: str) -> None:
        """Delete an object; one that is not there is no error on every kind of store."""
        with self._told(path):
            obstore.delete(self._quick, path)

    def _client(self, patience: Patience, answer_s: float, retries: int) -> Client:
        return client(
            self.url,
            connect_s=patience.connect_s,
            answer_s=answer_s,
            retries=retries,
            retry_s=patience.retry_s,
            given=self._settings,
            credentials=self._credentials,
        )

    def _is_there(self, path: str, *, new: bool) -> None:
        try:
            self.find(path)
        except NotFound:
            return
        if new:
            raise Exists(f"{path} exists already")

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """A block that turns exceptions of `obstore` into those of `errors`."""
        if os.getpid() != _first_process[0]:
            raise ZarrfuseError(f"{what}: the object store {self.url} was opened before a fork")
        with told(what):
            yield


def found(one: Any) -> Found:
    """The object of a reply of `obstore`."""
    when: datetime = one["last_modified"]
    e_tag = one["e_tag"]
    # Lists have quotes around it or have not, the answer for one object may have the other.
    below_second = crc32(e_tag.strip('"').encode()) % 10**9 if e_tag else 0
    return Found(
        one["size"], int(when.timestamp()) * 10**9 + below_second, e_tag, one["version"] or None
    )
