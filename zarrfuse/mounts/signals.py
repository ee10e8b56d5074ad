"""What the daemon does at each signal.

    SIGINT, SIGTERM    unmount; the second one detaches, the third one ends the process
    SIGHUP             reload; unmount, if the daemon has a terminal, which is gone then
    SIGUSR1            write the stacks of all tasks and threads to the log

Used by `daemon`.
"""

import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable

import pyfuse3
import trio

from zarrfuse.errors import MountError, ZarrfuseError
from zarrfuse.mounts import kernel_mounts
from zarrfuse.mounts.stacks import all_stacks

log = logging.getLogger(__name__)


class Signals:
    """The signals of a daemon, which are noted from the time when it is made, and obeyed later.

    A signal that ended the process while it mounts or unmounts would leave a dead mountpoint. `reload`:
    what SIGHUP does; it may raise `ZarrfuseError`.
    """

    def __init__(self, mountpoint: str, reload: Callable[[], Awaitable[None]]) -> None:
        self._mountpoint = mountpoint
        self._reload = reload
        self._noted: list[int] = []
        self._count = 0
        self._ends = {signal.SIGINT, signal.SIGTERM}
        ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # nohup: it is to stay
        if _has_terminal() and not ignored:
            self._ends.add(signal.SIGHUP)
        self._obeyed = self._ends | (set() if ignored else {signal.SIGHUP})
        for number in self._obeyed:
            signal.signal(number, lambda number, _: self._noted.append(number))
        # Here and not by trio: it tells also what keeps the event loop.
        signal.signal(signal.SIGUSR1, lambda *_: _log_stacks())

    async def obey(self, mounted: kernel_mounts.Mount | None, is_ready: trio.Event) -> None:
        """Obey signals once the mount is ready: until then the daemon itself uses it."""
        with trio.open_signal_receiver(*self._obeyed) as signals:
            for number in self._noted:
                os.kill(os.getpid(), number)
            await is_ready.wait()
            async with trio.open_nursery() as reloads:  # which a file of configuration may keep
                async for number in signals:
                    if number in self._ends:
                        await self._end(signal.Signals(number), mounted)
                    else:
                        reloads.start_soon(self._reload_and_tell, signal.Signals(number))

    async def _reload_and_tell(self, number: signal.Signals) -> None:
        try:
            await self._reload()
        except ZarrfuseError as error:
            log.warning("%s: not reloaded: %s", number.name, error)
        else:
            log.info("%s: reloaded", number.name)

    async def _end(self, number: signal.Signals, mounted: kernel_mounts.Mount | None) -> None:
        self._count += 1
        log.info("%s: unmounting %s", number.name, self._mountpoint)
        if self._count > 2:
            pyfuse3.terminate()
            return
        try:
            await trio.to_thread.run_sync(self._unmount, mounted)
        except MountError as error:
            more = ("second signal detaches it", "third ends it")[self._count - 1]
            log.warning("%s; a %s", error, more)
        except OSError as error:  # no descriptor or memory left for another process
            log.warning("fusermount3 cannot be run: %s", error.strerror)

    def _unmount(self, mounted: kernel_mounts.Mount | None) -> None:
        if kernel_mounts.mount_at(self._mountpoint) != mounted:  # there may be another by now
            raise MountError(f"{self._mountpoint} is detached, and files are open")
        kernel_mounts.unmount(self._mountpoint, lazy=self._count > 1)


def _log_stacks() -> None:
    """Log from a thread: the one that is interrupted may be logging."""
    lines = list(all_stacks())

    def write() -> None:
        for line in lines:
            log.info("%s", line)

    threading.Thread(target=write, name="zarrfuse-stacks", daemon=True).start()


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
