"""The daemon of a mount: it mounts, serves, handles signals and unmounts.

Owns the process: going to the background, logging, signals, limits. Used by `cli`. `fuse` answers requests,
`kernel_mounts` checks what may be mounted.
"""

import gc
import logging
import logging.handlers
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import ClassVar, NoReturn, cast

import pyfuse3
import trio

from zarrfuse import __version__
from zarrfuse.config import FOLDER_TTL_S, PERMANENT_TTL_S, VIEWS, MountConfig
from zarrfuse.decoding.memory import settle as settle_memory
from zarrfuse.errors import MountError, ZarrfuseError, text_of
from zarrfuse.fuse import eager
from zarrfuse.fuse.operations import Operations
from zarrfuse.mounts import kernel_mounts
from zarrfuse.mounts.readiness import Said, heard
from zarrfuse.stores.base import Entry, Kind, Store, WritableStore
from zarrfuse.stores.cache import ByteCache, default_cache_bytes
from zarrfuse.stores.opening import is_url, open_store, printable_source
from zarrfuse.transactions.commits import Commits
from zarrfuse.transactions.recovered_view import rolled_forward
from zarrfuse.views.base import Folder
from zarrfuse.views.choice import open_view
from zarrfuse.views.chunks.journals import judge_of
from zarrfuse.views.first_look import LOOKED_FOR_S, first_look
from zarrfuse.views.images.imports import prepare
from zarrfuse.views.source import root_name

log = logging.getLogger(__name__)

_SWITCH_INTERVAL_S = 5e-5  # a busy thread would else keep the event loop waiting for 5 ms at a time
# Requests in work at one time. Many more than threads: what is at hand has to be answered although
# all threads wait for the store, and so do requests that have not got one.
_MOST_REQUESTS = 500
_GC_THRESHOLDS = (50_000, 50, 1000)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def mount(config: MountConfig) -> str | None:
    """Mount as `config` says, and return when the mount answers; in the foreground, when it is unmounted.

    Returns a sentence for the user if the source seems to hold no Zarr; in the foreground it is logged.
    Raises `MountError` with the reason.
    """
    # What talks to servers does not survive a fork: opened in the daemon. All else is opened here.
    store = None if is_url(config.source) and not config.foreground else _opened(config)
    kernel_mounts.check(config.source, config.mountpoint, nonempty="nonempty" in config.options)
    if store is not None and config.foreground:
        _log_to(config)
        serve(config, store, lambda _: log.info("%s is mounted", config.mountpoint))
        return None
    return _serve_in_background(config, store)


def _opened(config: MountConfig) -> Store:
    return open_store(
        config.source,
        follow_symlinks=config.follow_symlinks,
        writable=config.read_write,
        remote=config.asking,
    )


def _serve_in_background(config: MountConfig, store: Store | None) -> str | None:
    receiving, sending = os.pipe()
    if os.fork() == 0:
        os.close(receiving)
        _become_daemon(config, store, sending)
    os.close(sending)
    return heard(receiving)


def _become_daemon(config: MountConfig, store: Store | None, sending: int) -> NoReturn:
    """Serve in the forked process, and end it."""
    said = Said(sending)
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
    except OSError as error:
        said.failed(f"the daemon failed: {text_of(error)}")
        os._exit(1)
    serve_and_end(config, lambda: store or _opened(config), said.ready, said.failed)


def serve_and_end(
    config: MountConfig,
    opened: Callable[[], Store],
    ready: Callable[[str | None], None],
    failed: Callable[[str], None],
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
        _log_to(config)
        serve(config, opened(), ready)
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


def serve(config: MountConfig, store: Store, ready: Callable[[str | None], None]) -> None:
    """Mount `store` and answer requests until it is unmounted. Raises `MountError`.

    `ready`: called when the mount answers, with a sentence if the store seems to hold no Zarr.
    """
    ttl_s, longest_s = config.cache_ttl_s, PERMANENT_TTL_S if store.permanent else FOLDER_TTL_S
    if ttl_s is None or store.keeps_names:
        ttl_s = longest_s if ttl_s is None else min(ttl_s, longest_s)
    cache = store.cache
    if cache is None and VIEWS[config.view].decodes:
        asked = config.cache_bytes
        cache = ByteCache(default_cache_bytes() if asked is None else asked)
    commits = None
    if config.read_write:
        commits = Commits(
            cast(WritableStore, store),
            config.spool_dir,
            judge=judge_of(store),
            timeout_s=config.tuning.store_timeout_s,
        )
        commits.recover()
    shown = rolled_forward(store, judge_of(store))
    root = open_view(
        config.view,
        shown,
        ttl_s,
        commits=commits,
        root_name=root_name(printable_source(config.source)) or "root",
        formats=config.formats,
        cache=cache,
    )
    operations = Operations(
        root,
        _entry_of(root),
        ttl_s=ttl_s,
        space=store.space,
        writable=config.read_write,
        xattrs=config.xattrs,
        tuning=config.tuning,
        about={
            "version": __version__,
            "pid": os.getpid(),
            "source": printable_source(config.source),
            "mountpoint": config.mountpoint,
            "view": config.view,
        },
        counted=lambda: ({} if cache is None else {"cache": cache.status()}) | store.status(),
        lists_all=store.lists_all,
    )
    _settle_process()
    if VIEWS[config.view].decodes:
        settle_memory()  # here, since each thread that there is by then keeps a heap of its own
    noted = _note_signals()
    look = _Look(config.source, shown)
    _mount(operations, config)
    mounted = kernel_mounts.mount_at(config.mountpoint)
    try:
        if config.tuning.eager:
            eager.install(busy=lambda: operations.busy)
        trio.run(_run, operations, config, mounted, noted, lambda: ready(look.told()))
    finally:
        # It unmounts by the path, where by now there may be the mount of another daemon.
        pyfuse3.close(unmount=kernel_mounts.mount_at(config.mountpoint) == mounted)
        if commits is not None:
            commits.close()
        store.close()
    log.info("%s is unmounted", config.mountpoint)
    _drop_unwritten_log()


def _drop_unwritten_log() -> None:
    """Drop log lines that a closed terminal did not take: the flush at exit would change the exit code."""
    if sys.stderr is not None:
        try:
            sys.stderr.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


class _Look:
    """A first look at a source, in a thread, while it is being mounted."""

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


def _entry_of(root: Folder) -> Entry:
    entry = root.lookup("")
    return Entry("", Kind.FOLDER, 0, entry.mtime_ns, access=entry.access)


def _settle_process() -> None:
    """Set limits of the process, and intervals of the interpreter, for a file system."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    # Listings make objects by the 100,000 and no cycles: looking for some took 7 % of `ls -l`.
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _mount(operations: Operations, config: MountConfig) -> None:
    """Call `pyfuse3.init`. If it fails, the output of libfuse is the reason in the error."""
    name = printable_source(config.source).encode("ascii", "backslashreplace").decode()
    options = ["subtype=zarrfuse", f"fsname={_escaped(name)}"]
    options += filter(_is_for_libfuse, config.options)  # of two that contradict, the last counts
    if config.allow_other:
        options.append("allow_other")
    if not config.read_write:
        options.append("ro")
    if config.read_write or not _OF_OTHERS.isdisjoint(options):
        options.append("default_permissions")  # else the disk checks, which knows ACLs, too
    with tempfile.TemporaryFile() as said:
        stderr = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            pyfuse3.init(operations, config.mountpoint, options)  # type: ignore[arg-type]  # in order
        except RuntimeError as error:
            said.seek(0)
            text = said.read().decode(errors="replace").strip().replace("\n", "; ")
            raise MountError(f"{config.mountpoint} cannot be mounted: {text or error}") from None
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


_OF_OTHERS = frozenset({"allow_other", "allow_root"})


def _is_for_libfuse(option: str) -> bool:
    """Whether libfuse gets an option: not those of zarrfuse, nor `rw`, which mount(8) passes by default."""
    return option not in ("nonempty", "rw", "defaults") and not option.startswith("subtype=")


def _escaped(value: str) -> str:
    """`value` as libfuse takes it in an option: a comma would end it."""
    return value.replace("\\", "\\\\").replace(",", "\\,")


async def _run(
    operations: Operations,
    config: MountConfig,
    mounted: kernel_mounts.Mount | None,
    noted: list[int],
    ready: Callable[[], None],
) -> None:
    try:
        async with trio.open_nursery() as nursery:
            is_ready = trio.Event()
            nursery.start_soon(_obey_signals, config.mountpoint, mounted, noted, is_ready)
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
    if await trio.to_thread.run_sync(kernel_mounts.answer_of, config.mountpoint) != 0:
        raise MountError(f"{config.mountpoint} is mounted but does not answer")
    if mounted is not None:
        tuning = config.tuning
        for refused in kernel_mounts.tune(mounted, tuning.readahead_kib, tuning.max_background):
            log.debug("not raised: %s", refused)
    await trio.to_thread.run_sync(ready)
    is_ready.set()
    if VIEWS[config.view].decodes:
        threading.Thread(target=prepare, name="zarrfuse-imports", daemon=True).start()


def _obeyed_signals() -> list[signal.Signals]:
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # nohup: it is to stay
    return [number for number in _SIGNALS if number != signal.SIGHUP or not ignored]


def _note_signals() -> list[int]:
    """Collect signals in the returned list, except while `_obey_signals` runs.

    A signal that ended the process while it mounts or unmounts would leave a dead mountpoint.
    """
    noted: list[int] = []
    for number in _obeyed_signals():
        signal.signal(number, lambda number, _: noted.append(number))
    return noted


async def _obey_signals(
    mountpoint: str, mounted: kernel_mounts.Mount | None, noted: list[int], is_ready: trio.Event
) -> None:
    """Unmount at the first signal if nothing is in use, detach at the second, end at the third.

    It begins when the mount is ready: until then the daemon itself uses it, to check that it answers.
    """

    def unmount(lazy: bool) -> None:
        if (
            kernel_mounts.mount_at(mountpoint) != mounted
        ):  # detached before; there may be another by now
            raise MountError(f"{mountpoint} is detached, and files are open")
        kernel_mounts.unmount(mountpoint, lazy=lazy)

    with trio.open_signal_receiver(*_obeyed_signals()) as signals:
        for number in noted:
            os.kill(os.getpid(), number)
        await is_ready.wait()
        count = 0
        async for number in signals:
            count += 1
            log.info("%s: unmounting %s", signal.Signals(number).name, mountpoint)
            if count > 2:
                pyfuse3.terminate()
                return
            try:
                await trio.to_thread.run_sync(unmount, count > 1)
            except MountError as error:
                log.warning(
                    "%s; a %s", error, ("second signal detaches it", "third ends it")[count - 1]
                )
            except OSError as error:  # no descriptor or memory left for another process
                log.warning("fusermount3 cannot be run: %s", error.strerror)


class _OneLine(logging.Filter):
    """Escapes line breaks and control characters, with which a name could forge lines of the log."""

    _ESCAPED: ClassVar = {code: f"\\x{code:02x}" for code in (*range(32), 127)}

    def filter(self, record: logging.LogRecord) -> bool:
        """See `logging.Filter`."""
        text = record.getMessage().encode("utf-8", "backslashreplace").decode()
        record.msg, record.args = text.translate(self._ESCAPED), None
        return True


class _Prioritised(logging.Formatter):
    """Puts `<N>` before each line, which is its priority for systemd."""

    _PRIORITIES = ((logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        level = next((n for least, n in self._PRIORITIES if record.levelno >= least), 7)
        return "\n".join(f"<{level}>{line}" for line in super().format(record).splitlines())


def _log_to(config: MountConfig) -> None:
    """Send the log to the given file, else to the terminal, the journal or syslog."""
    style = "%(asctime)s %(levelname)s %(message)s"
    handler: logging.Handler
    if config.log_file is not None:
        try:
            handler = logging.FileHandler(config.log_file)
        except OSError as error:
            raise MountError(
                f"the log {config.log_file} cannot be written: {error.strerror}"
            ) from None
        handler.setFormatter(logging.Formatter(style))
    elif not config.foreground and os.path.exists("/dev/log"):
        handler = logging.handlers.SysLogHandler("/dev/log")
        handler.setFormatter(logging.Formatter("zarrfuse[%(process)d]: %(message)s"))
    else:
        handler = logging.StreamHandler()
        under_systemd = "JOURNAL_STREAM" in os.environ
        handler.setFormatter(
            _Prioritised("%(message)s") if under_systemd else logging.Formatter(style)
        )
    handler.addFilter(_OneLine())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.DEBUG if config.verbose else logging.INFO)
    logging.getLogger("pyfuse3").setLevel(logging.WARNING)
