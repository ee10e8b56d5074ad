"""The daemon of a mount: it mounts, serves, handles signals and unmounts.

Owns the process: going to the background, logging, signals, limits. Used by `cli`. `served` makes what it
serves, `libfuse` mounts, `kernel_mounts` checks what may be mounted.
"""

import errno
import gc
import logging
import os
import resource
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NoReturn

import pyfuse3
import trio

from zarrfuse.config import VIEWS, MountConfig
from zarrfuse.decoding.memory import settle as settle_memory
from zarrfuse.errors import MountError, ZarrfuseError, text_of
from zarrfuse.fuse import eager
from zarrfuse.fuse.operations import Operations
from zarrfuse.mounts import bookmarks, kernel_mounts
from zarrfuse.mounts.libfuse import mount_by_libfuse
from zarrfuse.mounts.logs import open_log, set_level
from zarrfuse.mounts.metrics import serve_metrics
from zarrfuse.mounts.readiness import Said, heard
from zarrfuse.mounts.served import Served
from zarrfuse.mounts.signals import Signals
from zarrfuse.mounts.supervisor import Supervisor
from zarrfuse.stores.base import Store
from zarrfuse.stores.opening import is_url, open_store, printable_source
from zarrfuse.stores.trust import check_trusted
from zarrfuse.views.first_look import LOOKED_FOR_S, first_look
from zarrfuse.views.images.imports import prepare

log = logging.getLogger(__name__)

_SWITCH_INTERVAL_S = 5e-5  # a busy thread would else keep the event loop waiting for 5 ms at a time
# Requests in work at one time. Many more than threads: what is at hand has to be answered although
# all threads wait for the store, and so do requests that have not got one.
_MOST_REQUESTS = 500
_GC_THRESHOLDS = (50_000, 50, 1000)


def mount(config: MountConfig, verbose_now: Callable[[], bool] | None = None) -> str | None:
    """Mount as `config` says, and return when the mount answers; in the foreground, when it is unmounted.

    `verbose_now`: asked at a reload whether to log more. Returns a sentence for the user if the source
    seems to hold no Zarr; in the foreground it is logged. Raises `MountError` with the reason.
    """
    # What talks to servers does not survive a fork: opened in the daemon. All else is opened here.
    store = None if is_url(config.source) and not config.foreground else _opened(config)
    kernel_mounts.check(config.source, config.mountpoint, nonempty="nonempty" in config.options)
    if store is not None and config.foreground:
        open_log(config)
        serve(config, store, lambda _: None, verbose_now)
        return None
    return _serve_in_background(config, store, verbose_now)


def _opened(config: MountConfig) -> Store:
    if config.spool_dir is not None:  # spool files have no names there that others could use
        check_trusted(config.spool_dir, "spool folder", may_be_sticky=True)
    if config.remote.cache_dir is not None and os.path.lexists(config.remote.cache_dir):
        check_trusted(config.remote.cache_dir, "cache folder")  # for a source that has none, too
    return open_store(
        config.source,
        follow_symlinks=config.follow_symlinks,
        writable=config.read_write,
        remote=config.asking,
    )


def _serve_in_background(
    config: MountConfig, store: Store | None, verbose_now: Callable[[], bool] | None
) -> str | None:
    receiving, sending = os.pipe()
    if os.fork() == 0:
        os.close(receiving)
        _become_daemon(config, store, sending, verbose_now)
    os.close(sending)
    return heard(receiving)


def _become_daemon(
    config: MountConfig,
    store: Store | None,
    sending: int,
    verbose_now: Callable[[], bool] | None,
) -> NoReturn:
    """Serve in the forked process, and end it.

    For an automount, the process leaves its group only when it is ready: autofs lets those of the group of
    systemd mount, and all others wait.
    """
    said = Said(sending)
    below = kernel_mounts.mount_at(config.mountpoint)
    is_automount = below is not None and below.type == "autofs"

    def ready(problem: str | None) -> None:
        if is_automount:
            os.setsid()
        said.ready(problem)

    try:
        if not is_automount:
            os.setsid()
            if os.fork():
                os._exit(0)
    except OSError as error:
        said.failed(f"the daemon failed: {text_of(error)}")
        os._exit(1)
    serve_and_end(config, lambda: store or _opened(config), ready, said.failed, verbose_now)


def serve_and_end(
    config: MountConfig,
    opened: Callable[[], Store],
    ready: Callable[[str | None], None],
    failed: Callable[[str], None],
    verbose_now: Callable[[], bool] | None = None,
) -> NoReturn:
    """Serve in this process without a terminal, then end it.

    `ready`: see `serve`; `failed`: called with the reason if the mount fails, before or later.
    """
    status = 1
    try:
        os.chdir("/")
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        open_log(config)
        serve(config, opened(), ready, verbose_now)
        status = 0
    except ZarrfuseError as error:
        log.error("%s", error)
        failed(str(error))
    except BaseException as error:
        log.exception("the daemon failed")
        failed(f"the daemon failed: {text_of(error)}")
    finally:
        logging.shutdown()
        os._exit(status)


def serve(
    config: MountConfig,
    store: Store,
    ready: Callable[[str | None], None],
    verbose_now: Callable[[], bool] | None = None,
) -> None:
    """Mount `store` and answer requests until it is unmounted. Raises `MountError`.

    `ready`: called when the mount answers, with a sentence if the store seems to hold no Zarr.
    `verbose_now`: see `mount`.
    """
    served = Served(config, store)
    supervisor = Supervisor(printable_source(config.source), config.mountpoint)
    _settle_process()
    if VIEWS[config.view].decodes:
        settle_memory()  # here, since each thread that there is by then keeps a heap of its own

    async def reload() -> None:
        supervisor.reloading()
        try:
            if verbose_now is not None:
                set_level(
                    verbose=await trio.to_thread.run_sync(verbose_now, abandon_on_cancel=True)
                )
            await served.outdate()
            log.debug("what was kept of %s counts as old", config.mountpoint)
        finally:
            supervisor.ready()

    if config.metrics is not None:
        log.info("metrics: %s", serve_metrics(config.metrics, served.operations.status))
    signals = Signals(config.mountpoint, reload)
    mount_by_libfuse(served.operations, config)
    mounted = kernel_mounts.mount_at(config.mountpoint)
    try:
        # Not before: what it logs to stderr would be taken for words of libfuse.
        look = _Look(config.source, served.store)
        if config.tuning.eager:
            eager.install(busy=lambda: served.operations.busy)
        tasks = supervisor.watch, partial(signals.obey, mounted)
        told = partial(_told, config, look)
        trio.run(_run, served.operations, config, mounted, tasks, lambda: ready(told()))
    finally:
        supervisor.stopping()
        if config.bookmark:
            _bookmarked(bookmarks.remove, config.mountpoint)
        # It unmounts by the path, where by now there may be the mount of another daemon.
        pyfuse3.close(unmount=kernel_mounts.mount_at(config.mountpoint) == mounted)
        served.close()
    log.info("%s is unmounted", config.mountpoint)
    _drop_unwritten_log()


def _told(config: MountConfig, look: "_Look") -> str | None:
    """What the user should know of a mount that answers; logs that it does, and bookmarks it."""
    log.info("%s is mounted", config.mountpoint)
    sentences = [
        look.told(),
        _bookmarked(bookmarks.add, config.mountpoint) if config.bookmark else None,
    ]
    return "; ".join(filter(None, sentences)) or None


def _bookmarked(change: Callable[[str], None], mountpoint: str) -> str | None:
    """Change the bookmarks; why that failed, as a sentence: the mount lives without."""
    try:
        change(mountpoint)
    except OSError as error:
        problem = f"the bookmark of {mountpoint} could not be written: {text_of(error)}"
        log.warning("%s", problem)
        return problem
    return None


def _drop_unwritten_log() -> None:
    """Drop log lines that a closed terminal did not take: the flush at exit would change the exit code."""
    if sys.stderr is not None:
        try:
            sys.stderr.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


class _Look:
    """A first look at a source, in a thread, while the mount begins to answer."""

    def __init__(self, source: str, store: Store) -> None:
        self._source = printable_source(source)
        self._store = store
        self._problem: str | None = None
        self._thread = threading.Thread(target=self._look, name="zarrfuse-look", daemon=True)
        self._thread.start()
        self._until = time.monotonic() + LOOKED_FOR_S

    def _look(self) -> None:
        problem = first_look(self._store)
        if problem is not None:
            self._problem = f"the source {self._source}: {problem}"
            log.warning("%s", self._problem)

    def told(self) -> str | None:
        """Why there seems to be no Zarr, as a sentence, or None; waits a moment for the thread."""
        self._thread.join(max(0.0, self._until - time.monotonic()))
        return self._problem


def _settle_process() -> None:
    """Set limits of the process, and intervals of the interpreter, for a file system."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    # Listings make objects by the 100,000 and no cycles: looking for some took 7 % of `ls -l`.
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


async def _run(
    operations: Operations,
    config: MountConfig,
    mounted: kernel_mounts.Mount | None,
    tasks: Sequence[Callable[[trio.Event], Awaitable[None]]],
    ready: Callable[[], None],
) -> None:
    try:
        async with trio.open_nursery() as nursery:
            is_ready = trio.Event()
            for task in tasks:
                nursery.start_soon(task, is_ready)
            nursery.start_soon(_tune_and_say_ready, config, mounted, ready, is_ready)
            await operations.serve(_MOST_REQUESTS)
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        refusals = group.subgroup(MountError)
        if refusals is None:
            _, others = group.split(ConnectionAbortedError)
            if others is None and kernel_mounts.mount_at(config.mountpoint) != mounted:
                return  # the last user of a detached mount is gone, in the middle of a request
            raise
        raise refusals.exceptions[0] from None


async def _tune_and_say_ready(
    config: MountConfig,
    mounted: kernel_mounts.Mount | None,
    ready: Callable[[], None],
    is_ready: trio.Event,
) -> None:
    # The kernel takes its limits from our answer to INIT: what is set before that is lost.
    answer = await trio.to_thread.run_sync(kernel_mounts.answer_of, config.mountpoint)
    if answer not in (0, errno.EACCES):  # who mounts may have left no rights to themselves
        raise MountError(f"{config.mountpoint} is mounted but does not answer")
    if mounted is not None:
        tuning = config.tuning
        for refused in kernel_mounts.tune(mounted, tuning.readahead_kib, tuning.max_background):
            log.debug("not raised: %s", refused)
    await trio.to_thread.run_sync(ready)
    is_ready.set()
    if VIEWS[config.view].decodes:
        threading.Thread(target=prepare, name="zarrfuse-imports", daemon=True).start()
