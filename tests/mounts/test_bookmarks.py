"""`mount --bookmark`: the side bar of file managers has the mount while it is there, and what it had."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from builders.documents import group
from builders.folders import write_keys
from builders.homes import home
from builders.mounts import Daemon, clear, status, wait_for, zarrfuse

from zarrfuse.mounts.bookmarks import add, remove

__all__ = ["home"]

OTHERS = "sftp://host/data far away\nfile:///srv/a%20b\n\nfile:///nowhere of somebody\n"


@pytest.fixture
def file(home: Path) -> Path:
    """The bookmarks, which already has some."""
    path = home / ".config/gtk-3.0/bookmarks"
    path.parent.mkdir(parents=True)
    path.write_text(OTHERS)
    path.chmod(0o640)
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_keys(tmp_path / "cells.zarr", {"zarr.json": group()})
    return tmp_path / "cells.zarr"


def test_a_mount_is_bookmarked_until_it_is_unmounted(file: Path, source: Path, home: Path) -> None:
    point = home / "Zellen ü 100%"
    point.mkdir()
    zarrfuse("mount", source, point, "--bookmark")
    uri = f"file://{home}/Zellen%20%C3%BC%20100%25"
    assert file.read_text() == f"{OTHERS}{uri} Zellen ü 100% (zarrfuse)\n"
    assert file.stat().st_mode & 0o777 == 0o640
    zarrfuse("unmount", point)
    assert file.read_text() == OTHERS
    assert os.listdir(file.parent) == ["bookmarks"]


def test_a_mount_is_not_bookmarked_unasked(
    file: Path, mounted: Callable[..., Path], source: Path
) -> None:
    mounted(source)
    assert file.read_text() == OTHERS


def test_the_word_of_fstab_does_the_same(
    file: Path, mounted: Callable[..., Path], source: Path
) -> None:
    point = mounted(source, "-o", "bookmark")
    assert f"file://{point} " in file.read_text()


def test_a_daemon_that_is_told_to_end_removes_the_bookmark(
    file: Path, served: Callable[..., Daemon], source: Path
) -> None:
    daemon = served(source, "--bookmark")
    wait_for(lambda: str(daemon.mountpoint) in file.read_text())
    daemon.terminate()
    assert daemon.process.wait(10) == 0
    assert file.read_text() == OTHERS


def test_what_a_killed_daemon_left_is_removed_by_the_next(
    file: Path, source: Path, home: Path
) -> None:
    for name in ("dead", "next"):
        (home / name).mkdir()
    zarrfuse("mount", source, home / "dead", "--bookmark")
    pid = status(home / "dead")["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{pid}").exists())
    clear(home / "dead")
    assert "/dead dead (zarrfuse)" in file.read_text()
    zarrfuse("mount", source, home / "next", "--bookmark")
    assert "/dead" not in file.read_text()
    assert file.read_text().startswith(OTHERS)
    zarrfuse("unmount", home / "next")
    assert file.read_text() == OTHERS


def test_the_bookmark_of_the_user_is_enough_and_stays(file: Path, source: Path, home: Path) -> None:
    (home / "mnt").mkdir()
    own = f"{OTHERS}file://{home}/mnt my cells\n"
    file.write_text(own)
    zarrfuse("mount", source, home / "mnt", "--bookmark")
    assert file.read_text() == own
    zarrfuse("unmount", home / "mnt")
    assert file.read_text() == own


def test_a_symlink_to_the_bookmarks_stays(file: Path, home: Path) -> None:
    file.rename(home / "dotfile")
    file.symlink_to(home / "dotfile")
    add("/mnt")
    assert file.is_symlink()
    assert (home / "dotfile").read_text() == f"{OTHERS}file:///mnt mnt (zarrfuse)\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file away")
def test_the_file_stays_that_of_its_owner(file: Path) -> None:
    """Root may mount with the home of a user, by sudo."""
    os.chown(file, 1234, 2345)
    add("/mnt")
    found = file.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1234, 2345, 0o640)


def test_many_at_one_time_lose_no_line(file: Path) -> None:
    """They are no mounts, so that each would drop the others: `/`, `/proc` and `/dev` are some."""
    points = ["/", "/proc", "/dev"]
    with ThreadPoolExecutor(len(points)) as threads:
        list(threads.map(add, points))
        assert len(file.read_text().splitlines()) == len(OTHERS.splitlines()) + len(points)
        list(threads.map(remove, points))
    assert file.read_text() == OTHERS


@pytest.mark.parametrize(
    "text",
    [
        "file:///srv/a a\r\nfile:///srv/b b\n",
        "file:///srv/a a\rb\n\n",
        "sftp://host/data cells (zarrfuse)\n",
        "file:///home/me/zarrfuse my source (zarrfuse)\n",
        "file:///srv/\u00e4 \u00e4\x0b\x1c\u2028\n",
    ],
)
def test_lines_of_the_user_stay_byte_by_byte(file: Path, text: str) -> None:
    file.write_bytes(text.encode())
    add("/mnt")
    assert file.read_bytes() == f"{text}file:///mnt mnt (zarrfuse)\n".encode()
    remove("/mnt")
    assert file.read_bytes() == text.encode()


def test_a_bookmark_that_a_file_manager_wrote_anew_is_removed(file: Path) -> None:
    """GTK escapes fewer characters of a URI."""
    add("/mnt/a (1)")
    file.write_text(file.read_text().replace("%281%29", "(1)"))
    remove("/mnt/a (1)")
    assert file.read_text() == OTHERS


def test_a_last_line_without_an_end_gets_one(file: Path) -> None:
    file.write_text("file:///srv/a a")
    add("/mnt")
    assert file.read_text() == "file:///srv/a a\nfile:///mnt mnt (zarrfuse)\n"


def test_bookmarks_where_they_were_before_gtk_3_are_not_hidden(home: Path) -> None:
    """File managers read `~/.gtk-bookmarks` only as long as there is no other file."""
    (home / ".gtk-bookmarks").write_text(OTHERS)
    add("/mnt")
    file = home / ".config/gtk-3.0/bookmarks"
    assert file.read_text() == f"{OTHERS}file:///mnt mnt (zarrfuse)\n"
    assert (home / ".gtk-bookmarks").read_text() == OTHERS
    remove("/mnt")
    assert file.read_text() == OTHERS


def test_names_that_are_no_text_are_bookmarked(home: Path) -> None:
    """A line break would make two lines of one."""
    add("/mnt/a\nb\udcff")
    line = "file:///mnt/a%0Ab%FF a?b? (zarrfuse)\n"
    assert (home / ".config/gtk-3.0/bookmarks").read_text() == line
    remove("/mnt/a\nb\udcff")
    assert (home / ".config/gtk-3.0/bookmarks").read_text() == ""


def test_a_mount_whose_bookmark_cannot_be_written_lives_and_says_so(
    home: Path, source: Path
) -> None:
    (home / ".config").write_text("no folder")
    (home / "mnt").mkdir()
    done = zarrfuse("mount", source, home / "mnt", "--bookmark")
    assert f"the bookmark of {home}/mnt could not be written: NotADirectoryError" in done.stderr
    assert (home / "mnt/zarr.json").exists()
    zarrfuse("unmount", home / "mnt")
