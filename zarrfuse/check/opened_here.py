"""The stores that are open in a process that verifies batches of chunks.

Owns how long they stay open: a batch takes less time than opening a store over a network, or a large zip.
Used by `batches`. It must not know what is read.
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from zarrfuse.config import RemoteConfig
from zarrfuse.errors import SourceError, ZarrfuseError
from zarrfuse.stores.base import Store
from zarrfuse.stores.opening import open_store
from zarrfuse.transactions.recovered_view import rolled_forward
from zarrfuse.views.chunks.journals import judge_of

_IDLE_S = 20.0
"""A store that nobody has used for so long is closed: a worker of Dask lives on after the check."""


@dataclass(frozen=True, slots=True)
class Where:
    """The store to open.

    `check`: names one run of `check`, so that what an earlier one has cached is not taken for what is
    stored now. `source`: a URL, or an absolute path. `remote`: how a URL is read.
    """

    check: str
    source: str = field(repr=False)  # may have a password
    remote: RemoteConfig | None = None


class _Kept:
    def __init__(self) -> None:
        self.opening = threading.Lock()
        self.store: Store | None = None
        self.users = 0
        self.used_s = 0.0


_kept: dict[Where, _Kept] = {}
_guard = threading.Lock()


@contextmanager
def opened(where: Where) -> Iterator[Store]:
    """A block with the store as if its interrupted writes were finished; for any thread.

    Raises `SourceError`.
    """
    with _guard:
        kept = _kept.get(where)
        if kept is None:
            kept = _kept[where] = _Kept()
            _look_later(where)
        kept.users += 1
    try:
        with kept.opening:
            if kept.store is None:
                kept.store = _open(where)
        yield rolled_forward(kept.store, judge_of(kept.store))
    finally:
        with _guard:
            kept.users -= 1
            kept.used_s = time.monotonic()


def _open(where: Where) -> Store:
    try:
        return open_store(where.source, remote=where.remote)
    except (ZarrfuseError, OSError) as error:  # it could be opened where the check was begun
        raise SourceError(f"on {socket.gethostname()}: {error}") from error


def _look_later(where: Where) -> None:
    timer = threading.Timer(_IDLE_S, _close_if_idle, [where])
    timer.daemon = True  # no process waits for it to end
    timer.start()


def _close_if_idle(where: Where) -> None:
    with _guard:
        kept = _kept[where]
        if kept.users or time.monotonic() - kept.used_s < _IDLE_S:
            _look_later(where)
            return
        del _kept[where]
    if kept.store is not None:
        kept.store.close()
