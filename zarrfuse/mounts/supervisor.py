"""What a daemon in the foreground tells systemd: ready, that it still answers, that it ends.

Source: sd_notify(3). Used by `daemon`. Without systemd nothing happens.
"""

import logging
import os
import socket
import time

import trio

from zarrfuse.mounts import kernel_mounts

log = logging.getLogger(__name__)


class Supervisor:
    """The socket of systemd that this process has in its environment; its children get none."""

    def __init__(self, source: str, mountpoint: str) -> None:
        self._mountpoint = mountpoint
        self._status = f"{source} is mounted on {mountpoint}"
        address = os.environ.pop("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._watchdog_s = _watchdog_s() if self._address else None

    def ready(self) -> None:
        """The mount answers."""
        self._tell(f"READY=1\nSTATUS={self._status}")

    def reloading(self) -> None:
        """A reload has begun; `ready` ends it."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    async def watch(self, is_ready: trio.Event) -> None:
        """Say that the mount is ready and then, if systemd watches, again and again that it answers."""
        await is_ready.wait()
        self.ready()
        while self._watchdog_s is not None:
            await trio.sleep(self._watchdog_s / 3)
            if await trio.to_thread.run_sync(kernel_mounts.answer_of, self._mountpoint) == 0:
                self._tell("WATCHDOG=1")
            else:
                log.error("%s does not answer", self._mountpoint)

    def stopping(self) -> None:
        """The mount is being unmounted."""
        self._tell("STOPPING=1")

    def _tell(self, state: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sending:
                sending.connect(self._address)
                sending.sendall(state.encode())
        except OSError as error:
            log.warning("systemd cannot be told %s: %s", state.partition("\n")[0], error.strerror)


def _watchdog_s() -> float | None:
    """Systemd restarts a daemon that says nothing for so long; None: it does not watch."""
    microseconds = os.environ.pop("WATCHDOG_USEC", None)
    process = os.environ.pop("WATCHDOG_PID", None)
    if microseconds is None or process not in (None, str(os.getpid())):
        return None
    return int(microseconds) / 1e6
