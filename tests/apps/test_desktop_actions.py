"""File managers mount with what `zarrfuse install-desktop` gives them; errors are seen on the desktop."""

import html
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from builders.folders import zip_folder
from builders.mounts import COMMAND, ENVIRONMENT, clear, status
from desktop import Desktop, grey_levels

from zarrfuse.mounts import kernel_mounts

ICON = Path("icons/hicolor/scalable/apps/zarrfuse.svg")
BOOKMARKS = Path(".config/gtk-3.0/bookmarks")
CHOOSE = ("shift+F10", "Up", "Up")
"""The action is the last item of the menu but one, and the selection of a menu goes round."""


@pytest.fixture
def installed(desktop: Desktop) -> Iterator[Desktop]:
    """A desktop with zarrfuse. What is mounted in its home is unmounted at the end."""
    ran(desktop, "install-desktop")
    yield desktop
    clear(desktop.home)


def ran(desktop: Desktop, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command as a file manager does, without a terminal."""
    return subprocess.run(
        [*COMMAND, *arguments],
        env={**desktop.environment, "PYTHONPATH": ENVIRONMENT["PYTHONPATH"]},
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def icon(desktop: Desktop, size: int) -> np.ndarray:
    """The grey levels of our icon on white."""
    svg, png = desktop.environment["XDG_DATA_HOME"] / ICON, desktop.home / "icon.png"
    desktop.run("gdk-pixbuf-thumbnailer", "-s", str(size), svg, png)
    desktop.run("convert", png, "-background", "white", "-flatten", png)
    return grey_levels(png).reshape(size, size)


def wait_for_mount(desktop: Desktop, name: str) -> Path:
    point = desktop.home / "run/zarrfuse" / name
    mounted = lambda: kernel_mounts.mount_at(str(point))  # noqa: E731
    desktop.wait_until(mounted, f"mount of {name} on {point}", timeout_s=20)
    return point


def wait_for_bookmarks(desktop: Desktop, *names: str) -> None:
    """Wait until the user's bookmark, and those of these mounts, are there."""
    labels = ["data", *(f"{name} (zarrfuse)" for name in names)]

    def are_there() -> bool | None:
        lines = (desktop.home / BOOKMARKS).read_text().splitlines()
        return [line.partition(" ")[2] for line in lines] == labels or None

    desktop.wait_until(are_there, f"bookmarks {labels}", timeout_s=20)


@pytest.mark.parametrize(
    ("manager", "title", "icon_size"),
    [("pcmanfm", "^{}$", 128), ("thunar", "^{} - Thunar$", 64)],
    ids=["pcmanfm", "thunar"],
)
def test_file_manager_mounts_shows_and_unmounts(
    demo: Path, installed: Desktop, artifacts: Path, manager: str, title: str, icon_size: int
) -> None:
    desktop, data = installed, installed.home / "data"
    shutil.copytree(demo / "cells.zarr/zstd", data / "my cells.zarr")
    zip_folder(demo / "cells.zarr/strips", data / "zipped.ozx")
    (desktop.home / ".config/mimeapps.list").write_text(
        f"[Default Applications]\ninode/directory={manager}.desktop\n"
    )
    (desktop.home / BOOKMARKS).parent.mkdir()
    (desktop.home / BOOKMARKS).write_text(f"file://{data} data\n")
    desktop.start_bus()  # Thunar has its settings there

    desktop.start(manager, data)
    window = desktop.wait_for_window(title.format("data"))
    desktop.place(window, 40, 40, 700, 460)
    desktop.wait_for_picture(icon(desktop, icon_size), artifacts / f"{manager}-action.png")
    desktop.press(window, "Home", *CHOOSE)
    desktop.wait_until_still(artifacts / f"{manager}-action.png")
    desktop.press(window, "Return")

    point = wait_for_mount(desktop, "my cells.zarr")
    shown = desktop.wait_for_window(title.format("my cells.zarr"))
    wait_for_bookmarks(desktop, "my cells.zarr")
    desktop.place(shown, 300, 200, 900, 520)
    desktop.wait_until_still(artifacts / f"{manager}-mount.png")
    assert status(point)["view"] == "images"
    assert {"my cells.tiff", "my cells.npy", "my cells.png"} <= set(os.listdir(point))

    desktop.press(window, "alt+1", "End", "Return")  # PCManFM has one window, with tabs
    wait_for_mount(desktop, "zipped.ozx")
    desktop.wait_for_window(title.format("zipped.ozx"))
    wait_for_bookmarks(desktop, "my cells.zarr", "zipped.ozx")

    desktop.start(manager, desktop.home / "run/zarrfuse")
    mounts = desktop.wait_for_window(title.format("zarrfuse"))
    desktop.wait_until_still(desktop.home / "mounts.png")
    desktop.press(mounts, "Home", *CHOOSE, "Return")
    wait_for_bookmarks(desktop, "zipped.ozx")
    assert kernel_mounts.mount_at(str(point)) is None


def test_an_error_is_a_notification(installed: Desktop, artifacts: Path) -> None:
    desktop = installed
    desktop.start_bus()
    desktop.start("dunst")
    desktop.wait_until(
        lambda: "false" in desktop.run("dunstctl", "is-paused") or None, "notifications", 20
    )
    source = desktop.home / "a <b> & c.txt"
    source.write_text("no Zarr")
    done = ran(desktop, "open", source)
    assert done.returncode == 1
    desktop.screenshot(artifacts / "notification.png")
    desktop.run("dunstctl", "close-all")
    [[shown]] = json.loads(desktop.run("dunstctl", "history"))["data"]
    assert shown["summary"]["data"] == "zarrfuse"
    text = f"the source {source} is neither a folder nor a .zip or .ozx file"
    assert html.unescape(shown["body"]["data"]) == text
    assert done.stderr == f"zarrfuse: {text}\n"
