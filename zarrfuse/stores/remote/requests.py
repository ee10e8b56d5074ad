"""What a remote store has to offer: three requests, and what they answer.

Implemented by the modules `requests` of `object`, `http`, `icechunk`, `zarr_store` and `relay`. Used by all
of `remote`.

A path is a key of the store (`stores.base`): names with slashes between them, `""` for the root.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from zarrfuse.errors import ZarrfuseError


@dataclass(frozen=True, slots=True)
class Found:
    """An object: its size, its time, and what tells it from another object of its name.

    Attributes:
        size: Bytes in it.
        mtime_ns: Modification time, ns since 1970; 0 if the server does not say.
        version: The ETag or version; None if the server has none: another size or time is then another
            object.
    """

    size: int
    mtime_ns: int
    version: str | None

    @property
    def is_certain(self) -> bool:
        """Whether two objects of one name can be told apart, so that their bytes may be kept."""
        return self.version is not None or self.mtime_ns != 0


@dataclass(frozen=True, slots=True)
class Listing:
    """The names in one folder, in the order in which they are shown.

    Attributes:
        files: The files by name; None: it is not known whether it is there, nor its size.
        folders: The folders, none with the name of a file.
        is_whole: Whether no other name is there. If not, a name that is not listed is asked for.
    """

    files: Mapping[str, Found | None]
    folders: Sequence[str] = ()
    is_whole: bool = True
    _folders: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_folders", frozenset(self.folders))

    def has_folder(self, name: str) -> bool:
        """Whether it lists a folder of this name."""
        return name in self._folders

    def lacks(self, name: str) -> bool:
        """Whether there is nothing of this name."""
        return self.is_whole and name not in self._folders and name not in self.files


class TryAgain(ZarrfuseError):
    """A request that is worth repeating: 408, 429, 5xx, a broken connection, a body that was cut off."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        """What the server asks to wait, in seconds."""


class Requests(Protocol):
    """The requests to one store: coroutines in the loop of `remote.loop`, each of them one try.

    They raise `NotFound`, `Denied`, `Stale`, `NotSupported` and other exceptions of `errors`, `TryAgain`
    for what may be repeated, and `OSError`. Whoever calls them limits their time by cancelling them.
    """

    url: str
    """The store, for messages: without passwords, tokens and queries."""
    permanent: bool
    """Whether nothing in the store ever changes: a snapshot."""

    lists_all: bool
    """Whether each of its listings `is_whole`, and says what it knows of each file."""

    async def find(self, path: str) -> Found:
        """The object at a path. Raises `NotFound`, also for a folder."""

    async def list(self, path: str) -> Listing:
        """The names in a folder. Raises `NotFound` if there is no folder."""

    async def get(self, path: str, start: int, stop: int, of: Found) -> bytes | memoryview:
        """Bytes [start, stop) of the object `of`, which may be fewer only if it was cut off.

        Raises `Stale` if the server has another object there now.
        """

    def close(self) -> None:
        """Release connections; from any thread."""
