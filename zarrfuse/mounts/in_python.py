"""`zarrfuse.mount`: a mount for as long as a block of Python lasts.

Used by `zarrfuse/__init__`. Owns the start and the end of the mount's process, and which store it gets. It
imports neither pyfuse3 nor trio.

**Processes.** A mount always has a process of its own (`own_process`), started anew, not forked. A source
by its name is opened there. A store object stays in the program, where a thread answers for it
(`stores.relay`). So nothing is pickled, and the program may read its own mount. It must not touch memory
that is mapped from the mount (`mmap`, `numpy.memmap`): meanwhile Python holds the interpreter, and the
thread cannot answer.
"""

import os
import pickle
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Union, cast

from zarrfuse.config import MountConfig
from zarrfuse.errors import MountError
from zarrfuse.mounts import kernel_mounts
from zarrfuse.mounts.own_process import Job
from zarrfuse.mounts.readiness import heard
from zarrfuse.stores.opening import is_url
from zarrfuse.stores.relay.answering import Answering
from zarrfuse.stores.relay.requests import Relayed
from zarrfuse.stores.remote.requests import Requests

if TYPE_CHECKING:
    from icechunk import IcechunkStore
    from zarr.abc.store import Store

_ENDS_WITHIN_S = 10.0
_DETACHED_ENDS_WITHIN_S = 1.0
_URL_LENGTH = 200
_START = "from zarrfuse.mounts.own_process import main; main()"

Source = Union[str, "os.PathLike[str]", "Store"]


@contextmanager
def mounted(source: Source, config: MountConfig) -> Iterator[Path]:
    """Mount a source for the length of a block; the mountpoint. See `zarrfuse.mount`.

    `config.source` is overwritten. Raises `MountError`, and `TypeError` for what is no source.
    """
    config = replace(config, mountpoint=kernel_mounts.resolved(config.mountpoint))
    with ExitStack() as stack:
        if isinstance(source, str | os.PathLike):
            name = os.fspath(source)
            name = name if is_url(name) else os.path.realpath(name)
            process = _started(replace(config, source=name), None, None)
        else:
            requests = _requests_of(source)
            ours, theirs = socket.socketpair()
            stack.callback(Answering(requests, ours).stop)
            relayed = Relayed(requests.url, requests.permanent, requests.lists_all)
            with theirs:
                process = _started(replace(config, source=requests.url), relayed, theirs)
        mount = kernel_mounts.mount_at(config.mountpoint)
        stack.callback(_end, process, mount)
        yield Path(config.mountpoint)


def _requests_of(store: "Store") -> Requests:
    from zarr.abc.store import Store  # noqa: PLC0415  # takes 0.3 s

    if not isinstance(store, Store):
        raise TypeError(f"{store!r} is neither a path, nor a URL, nor a store of zarr-python")
    if type(store).__module__.partition(".")[0] == "icechunk":
        from zarrfuse.stores.icechunk.requests import requests_of_session  # noqa: PLC0415  # few do

        return requests_of_session(cast("IcechunkStore", store))
    from zarrfuse.stores.zarr_store.failures import without_secrets  # noqa: PLC0415  # as above
    from zarrfuse.stores.zarr_store.requests import ZarrRequests  # noqa: PLC0415  # as above

    return ZarrRequests(store, " ".join(without_secrets(str(store)).split())[:_URL_LENGTH])


def _started(
    config: MountConfig, relayed: Relayed | None, connection: socket.socket | None
) -> "subprocess.Popen[bytes]":
    """The process of a mount, which answers. Raises `MountError`."""
    receiving, sending = os.pipe()
    theirs = [] if connection is None else [connection.fileno()]
    job = Job(config, os.getpid(), sending, relayed, theirs[0] if theirs else -1)
    path = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        process = subprocess.Popen(
            # With the mountpoint, for people who look at processes.
            [sys.executable, "-P", "-c", _START, config.mountpoint],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[sending, *theirs],
            start_new_session=True,  # Ctrl-C is for the program
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        )
    except OSError as error:
        os.close(receiving)
        raise MountError(f"the process of the mount cannot be started: {error}") from error
    finally:
        os.close(sending)
    try:
        _send(process, pickle.dumps(job))
        problem = heard(receiving)
    except BaseException:
        # Nothing is mounted before it obeys signals. Later it unmounts, since nobody hears of it.
        process.terminate()
        _wait(process, _ENDS_WITHIN_S)
        raise
    if problem is not None:
        warnings.warn(problem, stacklevel=4)  # of the `with`
    return process


def _send(process: "subprocess.Popen[bytes]", data: bytes) -> None:
    assert process.stdin is not None
    try:
        with process.stdin as pipe:
            pipe.write(data)
    except BrokenPipeError:  # it has ended, which `heard` finds
        return


def _end(process: "subprocess.Popen[bytes]", mount: kernel_mounts.Mount | None) -> None:
    """Unmount, and wait for the end of the process."""
    within_s = _ENDS_WITHIN_S
    # Somebody else may have unmounted it, and even mounted something there.
    if mount is not None and kernel_mounts.mount_at(mount.mountpoint) == mount:
        try:
            kernel_mounts.unmount(mount.mountpoint)
        except MountError as error:
            warnings.warn(
                f"{error}. It is detached: what is open there can no longer be read", stacklevel=6
            )
            within_s = _DETACHED_ENDS_WITHIN_S
            kernel_mounts.unmount(mount.mountpoint, lazy=True)
    _wait(process, within_s)


def _wait(process: "subprocess.Popen[bytes]", within_s: float) -> None:
    """Wait for the end of a process, and kill it if it takes longer. The mount is read-only."""
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
