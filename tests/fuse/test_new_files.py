"""A file or folder that is made has the mode that was asked for, and belongs to who made it."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.documents import array, concat_parts, group
from builders.folders import owner_and_mode, write_keys
from builders.mounts import serving

NOBODY, GROUP = 65534, 12346
PARTS = concat_parts(("", 2), (".b", 2))

MAKE = """
import os, sys
root, uid, gid = sys.argv[1], *map(int, sys.argv[2:4])
os.setgroups([])
os.setresgid(gid, gid, gid)
os.setresuid(uid, uid, uid)
os.umask(0o027)
os.mkdir(f"{root}/folder", 0o777)
os.mkdir(f"{root}/c/1", 0o750)
for name, mode in (("file", 0o666), ("program", 0o777), ("secret", 0o600), ("setuid", 0o4755),
                   ("c/1/0", 0o660), ("merged/c/0/0", 0o640)):
    fd = os.open(f"{root}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    print(name, oct(os.fstat(fd).st_mode & 0o7777), os.fstat(fd).st_uid, os.fstat(fd).st_gid)
    os.write(fd, b"abcd")
    os.close(fd)
"""
MODES = {
    "folder": 0o750,
    "c/1": 0o750,
    "file": 0o640,
    "program": 0o750,
    "secret": 0o600,
    "setuid": 0o4750,
    "c/1/0": 0o640,
    "merged/c/0/0": 0o640,
}
FOLDERS = {"folder", "c/1"}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may enter: pytest's are root's only."""
    with tempfile.TemporaryDirectory(prefix="zarrfuse-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def filled(folder: Path) -> Path:
    """A store in which everybody may make files in three folders."""
    root = folder / "store"
    keys = {"zarr.json": array((8, 8), (2, 2)), "c/0/0": b"abcd"}
    keys |= {"merged/zarr.json": array((8, 8), (2, 2), transformers=[PARTS])}
    keys |= {"merged/c/0/3": b"ab", "merged/c/0/3.b": b"cd"}
    write_keys(root, keys)
    for name in ("c", "merged/c/0"):
        (root / name).chmod(0o777)
    root.chmod(0o1777)
    return root


def make(point: Path, uid: int, gid: int) -> str:
    """Make all of `MODES` as a user; what that user is told while the files are open."""
    command = [sys.executable, "-c", MAKE, str(point), str(uid), str(gid)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is several users")
@pytest.mark.parametrize("view", ["raw", "chunks", "plain"])
@pytest.mark.parametrize("uid", [NOBODY, 0])
def test_what_is_made_has_the_mode_asked_for_and_belongs_to_the_caller(
    folder: Path, view: str, uid: int
) -> None:
    root = filled(folder)
    os.chown(root / "merged/c/0", 12345, 12345)
    with serving(folder, root, "--view", view, "--read-write", "--allow-other") as daemon:
        said = make(daemon.mountpoint, uid, uid)
        for name, mode in MODES.items():
            if name not in FOLDERS:
                assert f"{name} {mode:#o} {uid} {uid}" in said
            left = mode if uid == 0 else mode & 0o777  # who writes takes setuid away
            assert (
                owner_and_mode(daemon.mountpoint / name)
                == owner_and_mode(root / name)
                == (uid, uid, left)
            ), name
        if view != "raw":
            assert owner_and_mode(root / "merged/c/0/0.b") == (uid, uid, MODES["merged/c/0/0"])


LINK = """
import os, sys
root, uid = sys.argv[1], int(sys.argv[2])
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
for name in ("secret", "private/readable", "open"):
    os.symlink(name, f"{root}/to {name.partition('/')[0]}")
for name in ("to secret", "to private", "to open"):
    try:
        print(name, open(f"{root}/{name}").read())
    except PermissionError:
        print(name, "denied")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is several users")
@pytest.mark.parametrize("view", ["raw", "chunks", "plain"])
def test_symlink_belongs_to_who_made_it_and_lets_nobody_read_more(folder: Path, view: str) -> None:
    root = folder / "store"
    keys = {"secret": b"x", "private/readable": b"x", "open": b"x"}
    write_keys(root, {"zarr.json": group(), **keys})
    root.chmod(0o1777)
    (root / "secret").chmod(0o600)
    (root / "private").chmod(0o700)
    with serving(folder, root, "--view", view, "--read-write", "--allow-other") as daemon:
        point = daemon.mountpoint
        command = [sys.executable, "-c", LINK, str(point), str(NOBODY)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout.splitlines() == ["to secret denied", "to private denied", "to open x"]
        for path in (root / "to secret", point / "to secret"):
            assert owner_and_mode(path) == (NOBODY, NOBODY, 0o777)
            assert os.readlink(path) == "secret"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is several users")
def test_setgid_folder_gives_its_group(folder: Path) -> None:
    root = filled(folder)
    for name in ("", "c", "merged/c/0"):
        os.chown(root / name, 0, GROUP)
        (root / name).chmod(0o3777)
    with serving(folder, root, "--view", "plain", "--read-write", "--allow-other") as daemon:
        make(daemon.mountpoint, NOBODY, NOBODY)
        for name, mode in MODES.items():
            inherited = 0o2000 if (root / name).is_dir() else 0
            expected = NOBODY, GROUP, mode & 0o777 | inherited
            assert owner_and_mode(root / name) == expected, name
            assert owner_and_mode(daemon.mountpoint / name) == expected, name
