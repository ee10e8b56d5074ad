"""What tests of real mounts share: the command, a daemon in the foreground, and cleaning up."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from zarrfuse import mounts

COMMAND = (sys.executable, "-m", "zarrfuse")
ANSWER_WITHIN_S = 30


def zarrfuse(*arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run the `zarrfuse` command as a person would."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=ANSWER_WITHIN_S,
    )
    if check and done.returncode:
        raise AssertionError(f"zarrfuse {arguments} exited {done.returncode}: {done.stderr}")
    return done


def clear(mountpoint: Path) -> None:
    """Unmount whatever is at or below a path, without touching it."""
    for mount in reversed(mounts.mounts()):
        if Path(mount.mountpoint).is_relative_to(mountpoint):
            subprocess.run(
                ["fusermount3", "-u", "-z", mount.mountpoint],
                check=False,
                capture_output=True,
                timeout=60,
            )


@dataclass
class Daemon:
    """A mount in the foreground, with its process and what it logged."""

    mountpoint: Path
    process: subprocess.Popen[bytes]
    log: Path

    def text(self) -> str:
        """What it logged until now."""
        return self.log.read_text(errors="replace")

    def stop(self) -> int:
        """Unmount and wait; the exit code."""
        clear(self.mountpoint)
        try:
            return self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait(10)


def wait_for(condition: Callable[[], object], within_s: float = ANSWER_WITHIN_S) -> None:
    """Wait until a condition holds; an `AssertionError` when it does not in time."""
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, f"not within {within_s} s"
        time.sleep(0.01)


def drop_caches() -> None:
    """Make the kernel forget names and inodes that are not in use."""
    if os.geteuid() != 0:
        pytest.skip("only root may drop caches")
    Path("/proc/sys/vm/drop_caches").write_text("2")


@contextmanager
def meanwhile(*works: Callable[[], None]) -> Iterator[None]:
    """Do all works again and again, each in a thread, until the end of the block; fail if one does."""
    done = threading.Event()
    faults: list[BaseException] = []

    def repeat(work: Callable[[], None]) -> None:
        try:
            while not done.is_set():
                work()
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()
    if faults:
        raise faults[0]
