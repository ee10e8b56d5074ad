"""What a dataset is written to. Implemented by `local_target` and `bucket_target`.

Each call is atomic: killed at any moment, a key holds what it held, or what it is to hold. Used by
`writing`, `earlier`, `comparison` and `update`. It must not know what is in a file, nor documents.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from typing import Protocol

from zarrfuse.errors import ZarrfuseError
from zarrfuse.indexing.files import Files, FoundFile
from zarrfuse.stores.base import OWN_NAME, Entry

OWN = f"{OWN_NAME}/index"
"""What `zarrfuse index` keeps in a dataset that it writes is here."""
LARGEST_DOCUMENT = 64 << 20


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

    def plan(self) -> bytes | None:
        """The plan of a run that has begun and not ended; None if there is none."""

    def locked(self) -> AbstractContextManager[None]:
        """A block that one process of this machine can be in; the dataset exists. Raises `TargetError`."""

    def begun(
        self,
        files: Files,
        changed: Sequence[FoundFile],
        stored: Mapping[str, Entry],
        plan: bytes,
    ) -> AbstractContextManager[None]:
        """A block in which the dataset is written: makes the folder, and stores the plan. It is locked.

        `changed`: the files that are to get other keys. `stored`: all that is stored, as was found before.
        Raises `TargetError`, with nothing written, if that cannot work, or is no longer true.
        """

    def adopt(self, files: Files, path: str, keys: Sequence[str]) -> None:
        """Give a file these keys, which may hold something else."""

    def put(self, key: str, data: bytes, mtime_ns: int | None = None) -> None:
        """Store bytes, with the time `mtime_ns` if the store can."""

    def get(self, key: str) -> bytes | None:
        """The bytes of a document; None if it is missing."""

    def remove(self, key: str) -> None:
        """Delete a key, if it is there."""

    def delete_source(self, files: Files, path: str) -> None:
        """Delete a file that was moved, now that the dataset is complete."""

    def is_current(self, index: Entry, main: Entry, *, in_place: bool) -> bool:
        """Whether an index was written for the file beside it as it is now.

        `in_place`: whether others write the file.
        """

    def is_same(self, main: Entry, file: FoundFile) -> bool:
        """Whether what is stored as a chunk is this file."""

    def may_be_same(self, main: Entry, file: FoundFile) -> bool:
        """Whether what is stored as a chunk may be this file."""

    def not_in(self, files: Files, keys: Sequence[str]) -> list[str]:
        """Those of some chunks that are not known to be files of the folder: links of them."""

    def has_bytes_of(self, files: Files, path: str, key: str) -> bool:
        """Whether what is stored as a chunk is a file, or has its bytes. It may take long."""

    def sync(self) -> None:
        """Make all that was written durable."""

    def end(self) -> None:
        """Say that the dataset is complete."""


def are_same(stored: Mapping[str, Entry], before: Mapping[str, Entry]) -> bool:
    """Whether files of a dataset have the keys, sizes and times that they had before."""
    return stored.keys() == before.keys() and all(
        (entry.size, entry.mtime_ns) == (before[key].size, before[key].mtime_ns)
        for key, entry in stored.items()
    )
