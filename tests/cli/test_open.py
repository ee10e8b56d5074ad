"""`zarrfuse open`, which file managers run: it mounts, shows the mount, and unmounts it."""

import os
import shlex
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from builders.documents import group
from builders.folders import write_keys, zip_folder
from builders.homes import home
from builders.mounts import COMMAND, ENVIRONMENT, status, wait_for, zarrfuse

from zarrfuse.cli import open as open_command
from zarrfuse.mounts import kernel_mounts

__all__ = ["home"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_keys(tmp_path / "my cells.zarr", {"zarr.json": group()})
    return tmp_path / "my cells.zarr"


@pytest.fixture(autouse=True)
def shown(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What xdg-open shows, a line each. Without a screen it runs the program that $BROWSER names."""
    note, program = home / "shown", home / "browser"
    note.touch()
    program.write_text(f'#!/bin/sh\necho "$1" >> {shlex.quote(str(note))}\n')
    program.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(program))
    monkeypatch.delenv("XDG_CURRENT_DESKTOP", raising=False)
    return note


def mounts_in(home: Path) -> list[Path]:
    found = [Path(mount.mountpoint) for mount in kernel_mounts.mounts()]
    return [path for path in found if path.is_relative_to(home)]


def test_a_folder_is_mounted_as_images_bookmarked_and_shown(
    home: Path, source: Path, shown: Path
) -> None:
    done = zarrfuse("open", source)
    point = home / "run/zarrfuse/my cells.zarr"
    assert mounts_in(home) == [point]
    assert status(point)["view"] == "images"
    assert (home / "run/zarrfuse").stat().st_mode & 0o777 == 0o700
    assert shown.read_text() == f"{point}\n"
    assert (
        "my%20cells.zarr my cells.zarr (zarrfuse)"
        in (home / ".config/gtk-3.0/bookmarks").read_text()
    )
    assert done.stderr == f"zarrfuse: {source} is mounted on {point}\n"


def opened(source: Path) -> None:
    """Open a source in a view that starts fast."""
    zarrfuse("open", source, "--view", "raw")


def test_opened_again_it_is_shown_again(home: Path, source: Path, shown: Path) -> None:
    for _ in range(2):
        opened(source)
    point = home / "run/zarrfuse/my cells.zarr"
    assert mounts_in(home) == [point]
    assert shown.read_text() == f"{point}\n" * 2


def test_opened_twice_at_one_time_it_is_mounted_once(home: Path, source: Path) -> None:
    """As by somebody who clicks on until something happens."""
    other = home / source.name
    write_keys(other, {"zarr.json": group()})
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(opened, [source, other] * 2))
    names = {source.name, f"{source.name}-2"}
    assert sorted(mounts_in(home)) == sorted(home / "run/zarrfuse" / name for name in names)
    assert sorted(os.listdir(home / "run/zarrfuse")) == sorted(names)


def test_in_another_view_it_has_another_mount(home: Path, source: Path, shown: Path) -> None:
    for view in ("raw", "chunks", "raw", "chunks"):
        zarrfuse("open", source, "--view", view)
    points = [home / "run/zarrfuse" / name for name in ("my cells.zarr", "my cells.zarr-2")]
    assert [status(point)["view"] for point in points] == ["raw", "chunks"]
    assert mounts_in(home) == points
    assert shown.read_text() == "".join(f"{point}\n" for point in points * 2)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("https://user:secret@host/data/a.zarr/?signature=x/y", "a.zarr"),
        ("https://user:secret@host", "host"),
        ("https://host/..", "root"),
        ("s3://bucket/", "bucket"),
        ("/", "root"),
    ],
)
def test_a_mountpoint_is_named_without_secrets(source: str, name: str) -> None:
    assert open_command.name_of_mount(source) == name


def test_opened_on_its_mount_it_unmounts_also_from_within(
    home: Path, source: Path, shown: Path
) -> None:
    opened(source)
    [point] = mounts_in(home)
    done = subprocess.run(
        [*COMMAND, "open", "."],
        cwd=point,
        env={**ENVIRONMENT, **os.environ, "PYTHONPATH": ENVIRONMENT["PYTHONPATH"]},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, f"zarrfuse: {point} is unmounted\n")
    assert mounts_in(home) == []
    assert (home / ".config/gtk-3.0/bookmarks").read_text() == ""
    assert shown.read_text() == f"{point}\n"


def test_two_of_one_name_have_two_mounts_and_a_zip_has_one(home: Path, source: Path) -> None:
    other = home / source.name
    write_keys(other, {"zarr.json": group(), "note.txt": b"other"})
    zip_folder(other, home / "cells.ozx")
    for each in (source, other, home / "cells.ozx"):
        opened(each)
    names = ["my cells.zarr", "my cells.zarr-2", "cells.ozx"]
    assert mounts_in(home) == [home / "run/zarrfuse" / name for name in names]
    assert (home / "run/zarrfuse/my cells.zarr-2/note.txt").read_bytes() == b"other"
    assert (home / "run/zarrfuse/cells.ozx/note.txt").read_bytes() == b"other"


def test_a_mount_whose_daemon_was_killed_is_mounted_anew(home: Path, source: Path) -> None:
    opened(source)
    [point] = mounts_in(home)
    pid = status(point)["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{pid}").exists())
    opened(source)
    assert mounts_in(home) == [point]
    assert status(point)["pid"] != pid


def test_without_a_runtime_folder_it_mounts_in_the_cache(
    home: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    opened(source)
    assert mounts_in(home) == [home / ".cache/zarrfuse/mounts/my cells.zarr"]


def test_a_folder_without_zarr_is_shown_with_a_warning(home: Path, shown: Path) -> None:
    (home / "plain").mkdir()
    done = zarrfuse("open", home / "plain")
    assert f"the source {home}/plain: there is no Zarr" in done.stderr
    assert shown.read_text() == f"{home}/run/zarrfuse/plain\n"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing.zarr", "does not exist"),
        ("text.txt", "neither a folder nor a .zip or .ozx file"),
        ("broken.ozx", "broken.ozx"),
    ],
)
def test_what_cannot_be_mounted_is_refused_and_nothing_is_left(
    home: Path, shown: Path, name: str, said: str
) -> None:
    for each in ("text.txt", "broken.ozx"):
        (home / each).write_text("no zip")
    done = zarrfuse("open", home / name, check=False)
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert mounts_in(home) == []
    assert shown.read_text() == ""
    assert os.listdir(home / "run/zarrfuse") == []


def test_a_view_that_does_not_exist_is_refused(source: Path) -> None:
    done = zarrfuse("open", source, "--view", "image", check=False)
    assert done.returncode == 2
    assert "image is not one of chunks, plain, images" in done.stderr


def test_where_nothing_can_show_it_the_place_is_told(
    home: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER", str(home / "missing"))
    done = zarrfuse("open", source, check=False)
    assert done.returncode == 1
    [point] = mounts_in(home)
    assert f"{source} is mounted on {point}, but no file manager could be started" in done.stderr


def test_the_script_of_nautilus_opens_each_that_is_selected(home: Path, source: Path) -> None:
    """Nautilus gives it names in the folder that it shows."""
    names = [source.name, "--view", '$(touch x) "y"\nz']
    for name in names[1:]:
        write_keys(source.with_name(name), {"zarr.json": group()})
    zarrfuse("install-desktop")
    subprocess.run(
        [home / ".local/share/nautilus/scripts/Mount with zarrfuse", *names],
        cwd=source.parent,
        check=True,
        timeout=60,
    )
    assert mounts_in(home) == [home / "run/zarrfuse" / name for name in names]
