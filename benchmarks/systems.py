"""What is compared: the folder itself, bindfs, and zarrfuse.

Owns mounting and unmounting, and what can be asked about a mount from outside: its daemon, the
daemon's memory, the kernel's read-ahead. bindfs shows a folder as it is through libfuse, in C: it is
what FUSE costs when next to nothing is done with a request.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_PATIENCE_S = 30


class Failed(Exception):
    """Something could not be run; the text says what."""


def run(command: list[str], env: Mapping[str, str] | None = None) -> str:
    """What `command` prints. Raises `Failed` with what it says on standard error."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=600, env=env
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{' '.join(command)}: {error}") from None
    if done.returncode:
        raise Failed(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


class Folder:
    """The folder itself: what there is to gain by not mounting."""

    name = "raw"
    merges = False

    @contextmanager
    def mounted(self, source: Path) -> Iterator[Path]:
        """`source` as it is."""
        yield source


class Imports(Folder):
    """The folder itself, once Python has imported pyfuse3 and trio: a mount cannot take less."""

    name = "imports"

    @contextmanager
    def mounted(self, source: Path) -> Iterator[Path]:
        """`source` as it is."""
        run([sys.executable, "-c", "import pyfuse3, trio"])
        yield source


class FuseMount:
    """A FUSE file system; `command` makes the mount of a folder on a folder, in the background.

    `merges`: whether it shows a chunk that is stored in parts as one file.
    """

    def __init__(
        self,
        name: str,
        mountpoint: Path,
        command: Callable[[str, str], list[str]],
        *,
        merges: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.merges = merges
        self.mountpoint = mountpoint
        self._command = command
        self._env = env
        mountpoint.mkdir()

    @contextmanager
    def mounted(self, source: Path) -> Iterator[Path]:
        """A new mount of `source`, with nothing in its caches; unmounted at the end.

        Nothing but the mount command is run before the block: it can be timed from outside.
        """
        try:
            run(self._command(str(source), str(self.mountpoint)), self._env)
            yield self.mountpoint
        finally:
            self._unmount()

    def _unmount(self) -> None:
        """Unmount, if it is mounted, and wait until the daemon has ended and disturbs nobody."""
        daemon = self.daemon()
        if is_mounted(self.mountpoint):
            try:
                run(["fusermount3", "-u", str(self.mountpoint)])
            except Failed:
                run(["fusermount3", "-u", "-z", str(self.mountpoint)])
        if daemon is None:
            return
        deadline = time.monotonic() + _PATIENCE_S
        while self.daemon() == daemon:
            if time.monotonic() > deadline:
                raise Failed(f"{self.name}: process {daemon} does not end after its mount")
            time.sleep(0.01)

    def daemon(self) -> int | None:
        """The process that serves the mountpoint: the one that was started with its path."""
        wanted = os.fsencode(self.mountpoint)
        for folder in os.listdir("/proc"):
            if not folder.isdecimal() or int(folder) == os.getpid():
                continue
            try:
                arguments = Path("/proc", folder, "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # ended since
            if wanted in arguments:
                return int(folder)
        return None

    def peak_memory_bytes(self) -> int:
        """What the daemon has had in memory at most until now (VmHWM)."""
        for line in Path("/proc", str(self.daemon()), "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise Failed(f"{self.name}: no daemon to ask for its memory")

    def readahead_kib(self) -> int:
        """What the kernel reads ahead on the mount now."""
        device = os.stat(self.mountpoint).st_dev
        name = f"{os.major(device)}:{os.minor(device)}"
        return int(Path("/sys/class/bdi", name, "read_ahead_kb").read_text())


System = Folder | FuseMount


def is_mounted(path: Path) -> bool:
    """Whether something is mounted there, by the kernel's table: a dead mount counts too."""
    wanted = os.fsencode(path)
    with open("/proc/self/mountinfo", "rb") as table:
        return any(line.split(b" ")[4] == wanted for line in table)


def bindfs(folder: Path) -> FuseMount:
    """bindfs, read-only, without the permission games that would cost it time."""
    return FuseMount(
        "bindfs",
        folder / "bindfs",
        lambda source, target: ["bindfs", "--no-allow-other", "-r", source, target],
    )


def zarrfuse(folder: Path) -> FuseMount:
    """Zarrfuse as it comes."""
    return FuseMount(
        "zarrfuse",
        folder / "zarrfuse",
        lambda source, target: zarrfuse_command("mount", source, target),
        merges=True,
        env=command_environment(folder),
    )


def images(folder: Path) -> FuseMount:
    """Zarrfuse with the `images` view."""
    return FuseMount(
        "zarrfuse",
        folder / "images",
        lambda source, target: zarrfuse_command("mount", source, target, "--view", "images"),
        env=command_environment(folder),
    )


def zarrfuse_command(*arguments: str) -> list[str]:
    """The `zarrfuse` command of this installation."""
    return [sys.executable, "-m", "zarrfuse", *arguments]


def command_environment(folder: Path) -> dict[str, str]:
    """What the command is run with: its byte code is kept, as that of an installed package is."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = str(folder / "pycache")
    return env
