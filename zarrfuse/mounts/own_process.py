"""The process of a mount that a Python program made.

Started by `in_python`, which sends a `Job` to its standard input. It serves until it is unmounted, and
unmounts when the program that started it has ended, however that came about.
"""

import logging
import os
import pickle
import select
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from zarrfuse.config import MountConfig
from zarrfuse.errors import MountError
from zarrfuse.mounts import kernel_mounts
from zarrfuse.mounts.readiness import Said
from zarrfuse.stores.base import Store
from zarrfuse.stores.relay.requests import Relayed, RelayedRequests

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """What to mount, for which process.

    Attributes:
        config: The mount.
        parent: The id of the process that started this one.
        sending: The descriptor through which it is told when the mount is ready.
        relayed: The store that it has; None: `config.source` is opened here.
        connection: The descriptor of the socket to that store.
    """

    config: MountConfig
    parent: int
    sending: int
    relayed: Relayed | None
    connection: int


def main() -> NoReturn:
    """Serve, and end this process."""
    from zarrfuse.mounts import daemon  # noqa: PLC0415  # pyfuse3 and trio: not for who imports `Job`

    job: Job = pickle.load(sys.stdin.buffer)
    said = Said(job.sending)
    parent = os.pidfd_open(job.parent) if os.getppid() == job.parent else -1

    def ready(problem: str | None) -> None:
        _when_ended(parent, lambda: _unmount(job.config.mountpoint))
        said.ready(problem)

    daemon.serve_and_end(job.config, lambda: _opened(job), ready, said.failed)


def _opened(job: Job) -> Store:
    config = job.config
    kernel_mounts.check(config.source, config.mountpoint, nonempty="nonempty" in config.options)
    if job.relayed is None:
        from zarrfuse.stores.opening import open_store  # noqa: PLC0415  # few need both

        return open_store(
            config.source, follow_symlinks=config.follow_symlinks, remote=config.asking
        )
    from zarrfuse.stores.remote.store import RemoteStore  # noqa: PLC0415  # as above

    connection = socket.socket(fileno=job.connection)
    return RemoteStore(RelayedRequests(connection, job.relayed), config.asking)


def _when_ended(parent: int, act: Callable[[], None]) -> None:
    """Call `act` in a thread when a process has ended, which a pidfd says; -1: it has."""

    def wait() -> None:
        if parent >= 0:
            poll = select.poll()
            poll.register(parent, select.POLLIN)
            poll.poll()
        act()

    threading.Thread(target=wait, name="zarrfuse-parent", daemon=True).start()


def _unmount(mountpoint: str) -> None:
    log.info("the program that mounted %s has ended: unmounting", mountpoint)
    try:
        kernel_mounts.unmount(mountpoint, lazy=True)
    except MountError as error:  # somebody else was faster
        log.warning("%s", error)
