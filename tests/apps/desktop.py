"""A desktop that nobody sees: Xvfb, a window manager, and the programs a test opens on it.

Used by the tests of graphical programs. It knows nothing of mounts and stores. Each desktop has its
own HOME and XDG folders, and no session bus unless a test starts one, so programs find no settings of
the person who runs the tests and start no services. Whatever was started is ended with the desktop, by
process id, also when the test fails.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

T = TypeVar("T")

GIVEN_UP_S = 60
"""How long a test waits for a program. On a busy machine eog takes many seconds to show a picture."""

THUMBNAIL = 128
"""The width and height, in pixels, of thumbnails in the file manager."""

PACKAGES = {
    "Xvfb": "xvfb",
    "convert": "imagemagick",
    "dbus-daemon": "dbus-daemon",
    "display": "imagemagick",
    "dunst": "dunst",
    "dunstctl": "dunst",
    "ed": "ed",
    "eog": "eog",
    "gdk-pixbuf-thumbnailer": "libgdk-pixbuf2.0-bin",
    "gdal_translate": "gdal-bin",
    "gdalinfo": "gdal-bin",
    "import": "imagemagick",
    "java": "default-jre",
    "openbox": "openbox",
    "openslide-show-properties": "openslide-tools",
    "openslide-write-png": "openslide-tools",
    "pcmanfm": "pcmanfm",
    "rsync": "rsync",
    "thunar": "thunar",
    "tiffcmp": "libtiff-tools",
    "tiffcp": "libtiff-tools",
    "tiffinfo": "libtiff-tools",
    "vim.tiny": "vim-tiny",
    "vips": "libvips-tools",
    "vipsheader": "libvips-tools",
    "xdotool": "xdotool",
}
"""The Debian package of each program that the tests use."""


def program(name: str) -> str:
    """The path of the program `name`; a missing one fails the test and says what to install."""
    found = shutil.which(name)
    assert found, f"{name} is not there: install {PACKAGES.get(name, name)}"
    return found


_SETTINGS = {
    # Without its side panel eog shows a chunk of 512 pixels unscaled in a small window.
    "glib-2.0/settings/keyfile": "[org/gnome/eog/ui]\nsidebar=false\n",
    "libfm/libfm.conf": f"[ui]\nthumbnail_size={THUMBNAIL}\nshow_thumbnail=1\n",
    "pcmanfm/default/pcmanfm.conf": "[ui]\nview_mode=thumbnail\n",
}


class Desktop:
    """A screen of `size` pixels with a window manager, and the programs started on it.

    `home` is an empty folder for settings, caches and logs. Programs see it as HOME. Given the screen of
    another desktop this one starts none, and may do what it likes there until it ends.
    """

    def __init__(
        self, home: Path, size: tuple[int, int] = (1280, 800), screen: Desktop | None = None
    ) -> None:
        self.home = home
        self.size = size if screen is None else screen.size
        self._screen = screen
        self.environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / ".cache"),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_DATA_HOME": str(home / ".local/share"),
            "XDG_RUNTIME_DIR": str(home / "run"),
            "DBUS_SESSION_BUS_ADDRESS": "disabled:",
            "GIO_USE_VFS": "local",
            "GSETTINGS_BACKEND": "keyfile",
            "NO_AT_BRIDGE": "1",
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        (self.home / "run").mkdir(parents=True, mode=0o700)
        for name, text in _SETTINGS.items():
            file = self.home / ".config" / name
            file.parent.mkdir(parents=True)
            file.write_text(text)
        if self._screen is not None:
            self.environment["DISPLAY"] = self._screen.environment["DISPLAY"]
            return self
        try:
            self._start_screen()
            self._start_window_manager()
            # A background, so that a screenshot shows where a window ends. Not `run`: it does its
            # work and exits 1.
            self.start("display", "-window", "root", "-size", "16x16", "xc:#3d5a6c")
        except BaseException:
            self._end_processes()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end_processes()

    def start(self, name: str, *arguments: str | Path, fds: tuple[int, ...] = ()) -> None:
        """Start a program on the screen; what it prints goes to a log in `home`."""
        log = self.home / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [program(name), *arguments],
                env=self.environment,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=fds,
                start_new_session=True,
            )
        self._processes.append(process)

    def run(self, name: str, *arguments: str | Path, timeout_s: float = 30) -> str:
        """Run a program on the screen to its end; what it printed."""
        done = subprocess.run(
            [program(name), *arguments],
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, f"{name} exited {done.returncode}: {done.stderr}{done.stdout}"
        return done.stdout

    def start_bus(self) -> None:
        """Start a session bus for the programs to come."""
        reading, writing = os.pipe()
        try:
            options = ("--session", "--nofork", f"--print-address={writing}")
            self.start("dbus-daemon", *options, fds=(writing,))
        finally:
            os.close(writing)
        with open(reading) as addresses:
            address = addresses.readline().strip()  # "" when it ended
        assert address, (self.home / "dbus-daemon.log").read_text()
        self.environment["DBUS_SESSION_BUS_ADDRESS"] = address

    def wait_for_window(self, title: str, timeout_s: float = GIVEN_UP_S) -> str:
        """The id of the visible window whose title matches the regular expression `title`."""

        def find() -> str | None:
            done = self._xdotool("search", "--onlyvisible", "--name", title)
            return done.stdout.split()[0] if done.stdout.split() else None

        return self.wait_until(find, f"a window titled {title}", timeout_s)

    def press(self, window: str, *keys: str) -> None:
        """Press keys in a window, or in its menu once that is open; each by the name that X has for it."""
        self._xdotool("windowactivate", "--sync", window)
        self._xdotool("key", "--delay", "100", *keys)

    def title(self, window: str) -> str:
        """The title of a window."""
        return self._xdotool("getwindowname", window).stdout.strip()

    def place(self, window: str, x: int, y: int, width: int, height: int) -> None:
        """Move and resize a window, in pixels."""
        # Not with --sync: it waits for another size than before, for ever if it is this already.
        self._xdotool("windowsize", window, str(width), str(height))
        self._xdotool("windowmove", window, str(x), str(y))

    def screenshot(self, file: Path | None = None) -> np.ndarray:
        """The screen, (height, width) grey levels; saved in colour as `file` if given."""
        file = file or self.home / "screen.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        self.run("import", "-window", "root", file)
        return grey_levels(file).reshape(self.size[::-1])

    def wait_until_still(self, file: Path) -> None:
        """Wait until two screenshots are alike; the last one is `file`."""
        before = self.screenshot(file)

        def look() -> bool | None:
            nonlocal before
            last, before = before, self.screenshot(file)
            return bool((last == before).all()) or None

        self.wait_until(look, "screen that stays as it is")

    def wait_for_picture(
        self, picture: np.ndarray, file: Path, likeness: float = 0.99, timeout_s: float = GIVEN_UP_S
    ) -> float:
        """Wait until the screen shows `picture` pixel by pixel; how like it is, 1 at most.

        The last screenshot stays as `file`.
        """
        best = 0.0

        def look() -> float | None:
            nonlocal best
            best = likeness_on_screen(picture, self.screenshot(file))
            return best if best >= likeness else None

        def describe() -> str:
            return f"the picture on the screen (best likeness {best:.2f}, see {file})"

        return self.wait_until(look, describe, timeout_s)

    def wait_until(
        self,
        look: Callable[[], T | None],
        what: str | Callable[[], str],
        timeout_s: float = GIVEN_UP_S,
    ) -> T:
        """What `look` returns once it returns something; fails with the programs' logs."""
        deadline = time.monotonic() + timeout_s
        while (seen := look()) is None:
            if time.monotonic() > deadline:
                logs = "\n".join(
                    f"{log.name}: {log.read_text(errors='replace')[-2000:]}"
                    for log in sorted(self.home.glob("*.log"))
                )
                what = what if isinstance(what, str) else what()
                raise AssertionError(f"no {what} within {timeout_s} s\n{logs}")
            time.sleep(0.1)
        return seen

    def _xdotool(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """xdotool exits 1 when a search finds nothing, or a window went away: not an error here."""
        return subprocess.run(
            [program("xdotool"), *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )

    def _start_screen(self) -> None:
        """Start Xvfb, which picks a free display number and says it once it takes clients."""
        reading, writing = os.pipe()
        try:
            screen = "{}x{}x24".format(*self.size)
            # Without -noreset it starts anew, and turns away who comes, whenever the last client
            # leaves: as when the background is drawn before the window manager is there.
            options = ("-displayfd", str(writing), "-screen", "0", screen, "-noreset")
            options += ("-nolisten", "tcp")
            self.start("Xvfb", *options, fds=(writing,))
        finally:
            os.close(writing)
        with open(reading) as numbers:
            number = numbers.readline().strip()  # "" when Xvfb ended
        assert number, f"Xvfb did not start: {(self.home / 'Xvfb.log').read_text()}"
        self.environment["DISPLAY"] = f":{number}"

    def _start_window_manager(self) -> None:
        """Start openbox. A window that is mapped before it is there may never be shown."""
        ready = self.home / "run" / "openbox"
        self.start("openbox", "--sm-disable", "--startup", f"mkdir {shlex.quote(str(ready))}")
        self.wait_until(lambda: ready.exists() or None, "window manager")

    def _end_processes(self) -> None:
        """End what was started, last first, and then what that started and left behind."""
        for process in reversed(self._processes):
            if process.poll() is None:
                _signal_group(process.pid, signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(3)
            _signal_group(process.pid, signal.SIGKILL)
            process.wait()
        self._processes.clear()
        for pid in self._stray_processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _stray_processes(self) -> list[int]:
        """Processes that left their group: known by our HOME, which no other process has."""
        mark = f"HOME={self.home}".encode()
        strays = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        strays.append(int(entry.name))
        return strays


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def grey_levels(file: Path) -> np.ndarray:
    """The pixels of a picture in a file as ImageMagick reads them, flat: 8-bit grey levels."""
    done = subprocess.run(
        [program("convert"), file, "-colorspace", "Gray", "-depth", "8", "gray:-"],
        capture_output=True,
        check=True,
    )
    return np.frombuffer(done.stdout, np.uint8)


def likeness_on_screen(picture: np.ndarray, screen: np.ndarray) -> float:
    """How like `picture` the most similar region of `screen` of the same size is.

    The normalised cross-correlation of grey levels, 1 for the picture itself, whatever brightness
    and contrast the viewer gives it, and about 0 for anything else. No scaling is tried.
    """
    height, width = picture.shape
    centred = picture.astype(np.float64) - picture.mean()
    screen = screen.astype(np.float64)
    shape = [a + b - 1 for a, b in zip(screen.shape, picture.shape, strict=True)]
    products = np.fft.irfft2(
        np.fft.rfft2(screen, shape) * np.fft.rfft2(centred[::-1, ::-1], shape), shape
    )[height - 1 : screen.shape[0], width - 1 : screen.shape[1]]
    squares = _region_sums(screen**2, height, width)
    sums = _region_sums(screen, height, width)
    variance = np.maximum(squares - sums**2 / picture.size, picture.size)  # flat regions: not 0/0
    return float((products / np.sqrt(variance * (centred**2).sum())).max())


def _region_sums(values: np.ndarray, height: int, width: int) -> np.ndarray:
    """The sum of each `height` x `width` region of `values`."""
    total = np.pad(values.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    return (
        total[height:, width:]
        - total[:-height, width:]
        - total[height:, :-width]
        + total[:-height, :-width]
    )


def thumbnail(picture: np.ndarray) -> np.ndarray:
    """A square picture as small as the file manager shows it."""
    step = len(picture) // THUMBNAIL
    return picture.reshape(THUMBNAIL, step, THUMBNAIL, step).mean(axis=(1, 3))
