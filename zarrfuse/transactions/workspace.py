"""The folder of our own in a store, `.zarrfuse/`: what it has to offer, and what is in it.

Owns its names. Used by `commits`, `locks` and `recovery`. Where it lies in a folder of this machine is
`local_workspace`, where it is keys of a store, `keys_workspace`.

There are the file `lock`, whose bytes are locked; the journals (`journal`); and for each process a folder
`w-*` with its temporary parts and spool files.
"""

import logging
import math
import re
from collections.abc import Callable, Container
from typing import NamedTuple, Protocol

from zarrfuse.stores.base import Store
from zarrfuse.stores.local.own_folder import OwnFolder

log = logging.getLogger(__name__)

LOCK_NAME = "lock"
STRIPES = 256
"""The bytes of the lock file from 0 on, each for the chunks whose hash begins with it."""
OLD_S = 24 * 3600
"""What nobody can tell the owner of is left over when it is so old."""

FOLDER = re.compile(r"w-[0-9a-z]+")
"""The name of a process's folder."""

_said_no_locks = False


def own_folder_of(store: Store) -> OwnFolder | None:
    """The folder of our own of a store on this machine; None where there are keys of a store."""
    own = getattr(store, "own", None)
    return own if isinstance(own, OwnFolder) else None


def say_no_locks(root: str) -> None:
    """Log, once, that other processes cannot be kept out."""
    global _said_no_locks  # noqa: PLW0603
    if not _said_no_locks:
        _said_no_locks = True
        log.warning(
            "the file system of %s has no locks: let no two processes write to it at once", root
        )


class Named(NamedTuple):
    """The folders that journals name: `names`, and perhaps others where journals could not be read.

    `unread_ns`: when the latest of those was last changed, in nanoseconds since 1970; -inf for none.
    """

    names: Container[str]
    unread_ns: float = -math.inf

    def may_be(self, name: str, made_ns: int | None) -> bool:
        """Whether a journal may name a folder that was made then; None where nobody knows when.

        A journal names nothing that was made after it. A copy of both has other times, about the same.
        """
        if name in self.names:
            return True
        return self.unread_ns > (-math.inf if made_ns is None else made_ns - OLD_S * 10**9)


class Workspace(Protocol):
    """Where a process keeps what it has yet to store."""

    @property
    def is_used(self) -> bool:
        """Whether this process has anything in it, or may have."""

    def check(self) -> None:
        """Raises `Denied`, with the reason, where nothing can be kept safely from others."""

    def folder(self) -> str:
        """The key of this process's own folder, which is there now. Raises what stores raise."""

    def temporary(self) -> str:
        """A key in it that was never used."""

    def temporaries(self, count: int) -> list[str]:
        """So many of them."""

    def open_spool(self) -> tuple[int, str] | None:
        """A new, empty file in it, as a descriptor and its key; None if it can hold none."""

    def clean(self, named: Callable[[], Named]) -> None:
        """Delete what processes that died have left, but for folders that are `named`.

        That is asked once it is known who is dead: nobody of these names anything afterwards.
        """

    def close(self, *, keep: bool = False) -> None:
        """Delete this process's folder unless it is to be kept, and all if nobody else uses it."""
