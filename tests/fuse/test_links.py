"""Links inside a store are links; what leads out is denied unless it is asked for."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from builders.documents import array, concat_parts
from builders.folders import write_keys

Mounted = Callable[..., Path]


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A store with every sort of link, and things that are neither file nor folder."""
    source = tmp_path / "store"
    write_keys(
        source,
        {
            "zarr.json": array([8], transformers=[concat_parts("", ".i")]),
            "c/0": b"main",
            "c/0.i": b"index",
            "real/file": b"inside",
            "deep/er/file": b"deeper",
        },
    )
    write_keys(tmp_path / "outside", {"file": b"outside", "folder/file": b"below"})
    links = {
        "to file": "real/file",
        "to folder": "real",
        "deep/up": "../real",
        "deep/er/absolute": str(source / "real"),
        "deep/er/absolute file": str(source / "real/file"),
        "out": "../outside/file",
        "out folder": "../outside/folder",
        "etc": "/etc",
        "out and back": "../store/real/file",
        "dangling": "nothing",
        "loop": "loop",
        "c/1": "../real/file",
        "c/1.i": "../real/file",
        "c/2": "../../outside/file",
        "c/2.i": "../real/file",
    }
    for name, target in links.items():
        (source / name).symlink_to(target)
    os.mkfifo(source / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        at = os.getcwd()
        os.chdir(source)  # the path of a socket is short
        listening.bind("socket")
        os.chdir(at)
    os.mkfifo(source / "c/3")
    (source / "to fifo").symlink_to("fifo")
    return source


def test_links_inside_lead_to_what_they_led_to(linked: Path, mounted: Mounted) -> None:
    point = mounted(linked)
    assert (point / "to file").read_bytes() == b"inside"
    assert os.readlink(point / "to folder") == "real"
    assert os.readlink(point / "deep/up") == "../real"
    for name in ("to folder", "deep/up", "deep/er/absolute"):
        assert (point / name).is_symlink()
        assert (point / name / "file").read_bytes() == b"inside"
        assert os.path.realpath(point / name) == str(point / "real")
    assert (point / "deep/er/absolute file").read_bytes() == b"inside"
    assert (point / "out and back").read_bytes() == b"inside"


def test_links_that_lead_out_are_shown_and_denied(linked: Path, mounted: Mounted) -> None:
    point = mounted(linked)
    assert {"out", "out folder", "etc"} <= set(os.listdir(point))
    for name in ("out", "out folder", "etc"):
        assert (point / name).lstat()
        with pytest.raises(PermissionError):
            os.open(point / name, os.O_RDONLY)
    for name in ("out folder/file", "etc/passwd"):
        with pytest.raises(NotADirectoryError):  # nor is it told that it leads to a folder
            os.stat(point / name)
    with pytest.raises(NotADirectoryError):
        os.listdir(point / "etc")


def test_links_that_lead_out_are_followed_when_asked_to(linked: Path, mounted: Mounted) -> None:
    point = mounted(linked, "--follow-symlinks")
    assert (point / "out").read_bytes() == b"outside"
    assert (point / "out folder/file").read_bytes() == b"below"
    assert (point / "to folder/file").read_bytes() == b"inside"
    assert (point / "c/2").read_bytes() == b"outsideinside"


def test_links_to_nothing_or_to_themselves_are_not_followed(linked: Path, mounted: Mounted) -> None:
    point = mounted(linked)
    assert os.readlink(point / "dangling") == "nothing"
    assert not (point / "dangling").exists()
    with pytest.raises(OSError):
        os.stat(point / "loop")


def test_parts_may_be_links(linked: Path, mounted: Mounted) -> None:
    point = mounted(linked)
    assert (point / "c/1").read_bytes() == b"insideinside"
    with pytest.raises(PermissionError):
        (point / "c/2").read_bytes()


@pytest.mark.parametrize("view", ["chunks", "raw"])
def test_what_is_neither_file_nor_folder_is_not_shown(
    linked: Path, mounted: Mounted, view: str
) -> None:
    point = mounted(linked, "--view", view)
    assert not {"fifo", "socket"} & set(os.listdir(point))
    assert "3" not in os.listdir(point / "c")
    for name in ("fifo", "socket", "c/3"):
        assert not os.path.lexists(point / name)
