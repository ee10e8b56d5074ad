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
from desktop import THUMBNAIL, Desktop, grey_levels

from zarrfuse.mounts import kernel_mounts

ICON = Path("icons/hicolor/scalable/apps/zarrfuse.svg")
ICON_OF_IMAGES = Path("/usr/share/icons/Adwaita/512x512/mimetypes/image-x-generic.png")
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


def icon(desktop: Desktop, size: int, svg: Path | None = None) -> np.ndarray:
    """The grey levels of an icon on white; by default, of ours."""
    svg, png = svg or Path(desktop.environment["XDG_DATA_HOME"], ICON), desktop.home / "icon.png"
    desktop.run("gdk-pixbuf-thumbnailer", "-s", str(size), svg, png)
    desktop.run("convert", png, "-background", "white", "-flatten", png)
    return grey_levels(png).reshape(size, size)


def middle_of_thumbnail(desktop: Desktop, image: Path) -> np.ndarray:
    """The grey levels of the middle of a picture that is scaled to the size of thumbnails."""
    png, size = desktop.home / "thumbnail.png", f"{THUMBNAIL}x{THUMBNAIL}"
    desktop.run("convert", image, "-resize", size, "-gravity", "center", "-crop", "96x64+0+0", png)
    return grey_levels(png).reshape(64, 96)


def wait_for_mount(desktop: Desktop, name: str) -> Path:
    point = desktop.home / "run/zarrfuse" / name
    mounted = lambda: kernel_mounts.mount_at(str(point))  # noqa: E731
    desktop.wait_until(mounted, f"mount of {name} on {point}")
    return point


def wait_for_bookmarks(desktop: Desktop, *names: str) -> None:
    """Wait until the user's bookmark, and those of these mounts, are there."""
    labels = ["data", *(f"{name} (zarrfuse)" for name in names)]

    def are_there() -> bool | None:
        lines = (desktop.home / BOOKMARKS).read_text().splitlines()
        return [line.partition(" ")[2] for line in lines] == labels or None

    desktop.wait_until(are_there, f"bookmarks {labels}")


@pytest.fixture
def data(demo: Path, installed: Desktop) -> Path:
    """A folder with a Zarr array and a zipped one, and a bookmark of it."""
    data = installed.home / "data"
    shutil.copytree(demo / "cells.zarr/zstd", data / "my cells.zarr")
    zip_folder(demo / "cells.zarr/strips", data / "zipped.ozx")
    (installed.home / BOOKMARKS).parent.mkdir()
    (installed.home / BOOKMARKS).write_text(f"file://{data} data\n")
    return data


@pytest.mark.parametrize(
    ("manager", "title", "icon_size"),
    [("pcmanfm", "^{}$", THUMBNAIL), ("thunar", "^{} - Thunar$", 64)],
    ids=["pcmanfm", "thunar"],
)
def test_file_manager_mounts_shows_and_unmounts(
    data: Path, installed: Desktop, artifacts: Path, manager: str, title: str, icon_size: int
) -> None:
    desktop = installed
    (desktop.home / ".config/mimeapps.list").write_text(
        f"[Default Applications]\ninode/directory={manager}.desktop\n"
    )
    desktop.start_bus()  # Thunar has its settings there

    desktop.start(manager, data)
    window = desktop.wait_for_window(title.format("data"))
    desktop.place(window, 40, 40, 700, 460)
    desktop.wait_for_picture(icon(desktop, icon_size), artifacts / f"{manager}-action.png")
    desktop.press(window, "Home", *CHOOSE)
    desktop.screenshot(artifacts / f"{manager}-action.png")
    desktop.press(window, "Return")

    point = wait_for_mount(desktop, "my cells.zarr")
    shown = desktop.wait_for_window(title.format("my cells.zarr"))
    desktop.place(shown, 300, 200, 900, 520)
    assert status(point)["view"] == "images"
    assert {"my cells.tiff", "my cells.npy", "my cells.png"} <= set(os.listdir(point))
    if manager == "pcmanfm":
        picture = middle_of_thumbnail(desktop, point / "my cells.png")
    else:  # makes thumbnails only with other packages
        picture = icon(desktop, icon_size, ICON_OF_IMAGES)
    desktop.wait_for_picture(picture, artifacts / f"{manager}-mount.png", likeness=0.97)
    wait_for_bookmarks(desktop, "my cells.zarr")

    desktop.start(manager, desktop.home / "run/zarrfuse")
    mounts = desktop.wait_for_window(title.format("zarrfuse"))
    desktop.wait_until_still(desktop.home / "mounts.png")
    desktop.press(mounts, "Home", *CHOOSE, "Return")
    wait_for_bookmarks(desktop)
    assert kernel_mounts.mount_at(str(point)) is None


def test_opening_a_zip_mounts_it(data: Path, installed: Desktop) -> None:
    desktop = installed
    desktop.start("pcmanfm", data)
    window = desktop.wait_for_window("^data$")
    desktop.wait_for_picture(icon(desktop, THUMBNAIL), desktop.home / "zip.png")
    desktop.press(window, "End", "Return")
    point = wait_for_mount(desktop, "zipped.ozx")
    wait_for_bookmarks(desktop, "zipped.ozx")
    assert (point / "zipped.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["a <b> & c.txt", "b\udcff\nc\\n.txt"], ids=["markup", "bytes"])
def test_an_error_is_a_notification(installed: Desktop, artifacts: Path, name: str) -> None:
    desktop = installed
    desktop.start_bus()
    desktop.start("dunst")
    desktop.wait_until(
        lambda: "false" in desktop.run("dunstctl", "is-paused") or None, "notifications"
    )
    source = desktop.home / name
    source.write_text("no Zarr")
    done = ran(desktop, "open", source)
    assert done.returncode == 1
    desktop.screenshot(artifacts / "notification.png")
    desktop.run("dunstctl", "close-all")
    [[shown]] = json.loads(desktop.run("dunstctl", "history"))["data"]
    assert shown["summary"]["data"] == "zarrfuse"
    printed = str(source).encode(errors="backslashreplace").decode()
    text = f"the source {printed} is neither a folder nor a .zip or .ozx file"
    assert html.unescape(shown["body"]["data"]) == text
    assert done.stderr == f"zarrfuse: {text}\n"
