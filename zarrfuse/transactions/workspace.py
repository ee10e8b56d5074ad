"""The workspace of zarrfuse in a store, `.zarrfuse/`: its protocol, and the names in it.

Used by `commits`, `locks` and `recovery`. `local_workspace` implements it for local stores,
`keys_workspace` for stores of keys.

It holds the file `lock`, whose bytes are locked; the journals (`journal`); and for each process a folder
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
"""The number of bytes of the lock file; each is for the chunks whose hash begins with it."""
OLD_S = 24 * 3600
"""A file whose process is not known is left over when it is older (s)."""

FOLDER = re.compile(r"w-[0-9a-z]+")
"""The name of a process's folder."""

_said_no_locks = False


def own_folder_of(store: Store) -> OwnFolder | None:
    """The workspace folder of a local store; None for a store of keys."""
    own = getattr(store, "own", None)
    return own if isinstance(own, OwnFolder) else None


def say_no_locks(root: str) -> None:
    """Log, once, that there are no locks between processes."""
    global _said_no_locks  # noqa: PLW0603
    if not _said_no_locks:
        _said_no_locks = True
        log.warning(
            "the file system of %s has no locks: let no two processes write to it at once", root
        )


class Named(NamedTuple):
    """The folders that journals name: `names`, and perhaps others if a journal could not be read.

    `unread_ns`: modification time of the newest unread journal, in ns since 1970; -inf for none.
    """

    names: Container[str]
    unread_ns: float = -math.inf

    def may_be(self, name: str, made_ns: int | None) -> bool:
        """Whether a journal may name a folder that was made at this time; None if that is not known.

        A journal names nothing that was made after it. A copy of both has other times, which are about
        equal.
        """
        if name in self.names:
            return True
        return self.unread_ns > (-math.inf if made_ns is None else made_ns - OLD_S * 10**9)


class Workspace(Protocol):
    """The place for temporary parts and spool files of a process."""

    @property
    def is_used(self) -> bool:
        """Whether this process has files in it, or may have."""

    def check(self) -> None:
        """Raises `Denied` with the reason if it cannot be protected from others."""

    def folder(self) -> str:
        """The key of this process's folder, which is made if it is missing. Raises what stores raise."""

    def temporary(self) -> str:
        """A new key in it."""

    def temporaries(self, count: int) -> list[str]:
        """So many new keys in it."""

    def open_spool(self) -> tuple[int, str] | None:
        """A new, empty file in it: its descriptor and key; None if it cannot hold files."""

    def clean(self, named: Callable[[], Named]) -> None:
        """Delete the files of processes that died, except folders that are `named`.

        `named` is called when it is known which processes are dead, since these write no journals any more.
        """

    def close(self, *, keep: bool = False) -> None:
        """Delete this process's folder unless `keep`, and the workspace if no other process uses it."""
