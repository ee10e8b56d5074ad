"""Others try to break each promise of "Who may do what through a mount" in docs/security.md, in its order.

Mounts are made by an ordinary user through the set-uid fusermount3, as on most machines, and by root.
"""

import functools
import json
import os
import re
import shutil
import socket
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from attacks import NAMES
from builders.documents import group
from builders.folders import write_keys
from builders.mounts import clear, mounting, options_of, zarrfuse
from builders.other_users import DENIED, DONE, OWNER, STRANGER, as_stranger, as_user, public_folder

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root is several users")

ATTACKS = Path(__file__).with_name("attacks.py")
ROOT = 0
NOT_PERMITTED = "EPERM"
REFUSED = "EACCES"
REFUSALS = (REFUSED, NOT_PERMITTED, "EROFS")
OTHERS = pytest.mark.parametrize("user", [ROOT, OWNER], ids=["root", "another user"])
"""Who attacks a mount of the stranger."""


@pytest.fixture
def folder() -> Iterator[Path]:
    with public_folder() as folder:
        make(folder)
        yield folder
        clear(folder / "mnt")


def make(folder: Path) -> None:
    """A mountpoint and a store of the stranger; `theirs` and `roots` belong to who alone may read them."""
    (folder / "mnt").mkdir()
    os.chown(folder / "mnt", STRANGER, STRANGER)
    store = folder / "store"
    (store / "open").mkdir(parents=True)
    write_keys(store, {"zarr.json": group(), "public": b"public", "private": b"private"})
    write_keys(store, {"roots": b"roots", "theirs": b"theirs"})
    (folder / "outside.txt").write_bytes(b"outside")
    (store / "outside").symlink_to(folder / "outside.txt")
    (store / "up").symlink_to("..")
    for path in (store, *store.iterdir()):
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    os.chown(store / "roots", ROOT, ROOT)
    os.chown(store / "theirs", OWNER, OWNER)
    for name in ("private", "roots", "theirs"):
        (store / name).chmod(0o600)
    (store / "open").chmod(0o777)


ATTACKED = """
echo {conf} > fuse.conf
mount --bind fuse.conf /etc/fuse.conf
"$2" -c "$3" mount store mnt --view raw --xattrs {options}
they="setpriv --reuid={stranger} --regid={stranger} --clear-groups"
daemon=$($they sed -n 's/.*"pid": \\([0-9]*\\).*/\\1/p' mnt/.zarrfuse/status.json)
$they sh -c '
  cd mnt
  if [ -r public ]; then exec < public; fi
  if [ -r private ]; then exec 9< private; fi
  exec sleep 50' &
holder=$!
while [ "$(readlink /proc/$holder/exe)" != "$(readlink -f "$(command -v sleep)")" ]; do sleep 0.01; done
"$2" {attacks} {user} "$1/mnt" "$daemon" "$holder" || echo failed
kill $holder
fusermount3 -u -z mnt || true
"""


@dataclass(frozen=True)
class Attacked:
    """What came of attacks by their names, and what the store has afterwards, with bytes of files."""

    found: dict[str, Any]
    stored: dict[str, tuple[os.stat_result, bytes]]

    @property
    def got(self) -> dict[str, Any]:
        """The attacks that were not refused."""
        return {name: what for name, what in self.found.items() if what not in REFUSALS}


@functools.cache  # 2 s; several tests look at one
def attacked(user: int, *options: str, conf: str = "") -> Attacked:
    """The attacks of a user on a mount that the stranger has made with some options."""
    with public_folder() as folder:
        make(folder)
        script = ATTACKED.format(
            conf=conf, options=" ".join(options), stranger=STRANGER, attacks=ATTACKS, user=user
        )
        done = as_stranger(folder, script)
        assert done.stdout.startswith("{"), (done.stdout, done.stderr)
        files = [path for path in (folder / "store").rglob("*") if path.is_file()]
        stored = {path.name: (path.stat(), path.read_bytes()) for path in files}
        return Attacked(json.loads(done.stdout), stored)


let_in = functools.partial(attacked, conf="user_allow_other")
"""The same where root allows `--allow-other`."""


# -- 1. only who mounts ----------------------------------------------------------------------------

OF_ROOT = {
    "read the source by descriptors of the daemon",
    "read the memory of the daemon",
    "end the daemon",
    "unmount",
}
"""What root can do to every process and mount of the machine."""


@OTHERS
@pytest.mark.parametrize("options", [(), ("--read-write",), ("--umask", "0")], ids=" ".join)
def test_nobody_else_can_use_a_mount(user: int, options: tuple[str, ...]) -> None:
    tried = attacked(user, *options)
    left = tried.got
    assert left.pop("space") == 0  # statvfs(2) succeeds, and tells nothing
    assert left.keys() == (OF_ROOT if user == ROOT else set())
    assert tried.stored["public"][1] == b"public"
    assert tried.stored.keys() == {"zarr.json", "outside", *NAMES}


def test_who_mounts_can_use_it() -> None:
    """The attacks work where they may."""
    tried = attacked(STRANGER, "--read-write")
    assert (
        tried.got.items()
        >= {
            "map": "public",
            "enter": None,
            "read private": "private",
            "read through an open file": "public",
            "write through an open file": "written",
            "read through an open private file": "private",
            "read beneath a current folder": "changed",
            "create": "written",
            "delete": "ENOENT",  # it is renamed by then
            "rename": None,
            "unmount": "unmounted",
            "read the facts on a public file": True,
        }.items()
    )
    assert [name for name, what in tried.found.items() if what == "ENOENT"] == ["delete"]
    assert tried.stored["renamed"][1] == b""


def test_a_mount_of_root_is_for_root_alone(folder: Path) -> None:
    with mounting(folder / "store", folder / "mnt", "--view", "raw") as point:
        assert as_user(STRANGER, lambda: os.listdir(point)) == DENIED
        assert as_user(STRANGER, (point / "public").read_bytes) == DENIED
        assert (point / "public").read_bytes() == b"public"


# -- 2. with --allow-other, the kernel checks ------------------------------------------------------


def test_others_do_what_the_modes_let_them() -> None:
    tried = let_in(OWNER, "--allow-other", "--read-write")
    assert tried.got.keys() == {
        *("list", "stat the mountpoint", "stat a file", "space", "map", "enter", "read public"),
        *("read the facts on a public file", "list attributes", "read what is outside by dots"),
        "create a file with setuid",  # in a folder that all may write; see 6
    }
    assert tried.got["read what is outside by dots"] == "ENOTDIR"
    assert tried.got["read public"] == tried.got["map"] == "public"
    assert tried.stored["public"][1] == b"public"


@OTHERS
def test_nobody_writes_a_read_only_mount(user: int) -> None:
    tried = let_in(user, "--allow-other", "--umask", "0")
    for name in ("write", "truncate", "create", "delete", "rename", "chmod", "chown", "set times"):
        assert tried.found[name] == "EROFS", name
    assert tried.stored["public"][1] == b"public"


# -- 3. nobody gets more than who mounts -----------------------------------------------------------


@OTHERS
@pytest.mark.parametrize("options", [(), ("--umask", "0"), ("--uid", str(OWNER))], ids=" ".join)
def test_others_get_no_more_than_who_mounts(user: int, options: tuple[str, ...]) -> None:
    """`roots` or `theirs` can be read by the attacker on the disk, but not by who mounts."""
    tried = let_in(user, "--allow-other", "--read-write", *options)
    assert tried.found["read roots"] == REFUSED
    assert tried.found["read theirs"] == REFUSED
    assert tried.found["read public"] == "public"


# -- 4. root decides whether users let others in ---------------------------------------------------


@pytest.mark.parametrize("option", ["--allow-other", "-o allow_other", "-o allow_root"])
def test_an_ordinary_user_lets_others_in_only_if_root_agrees(folder: Path, option: str) -> None:
    script = f"""
    echo > fuse.conf
    mount --bind fuse.conf /etc/fuse.conf
    "$2" -c "$3" mount store mnt {option} || echo "exit code $?"
    grep -c " $1/mnt " /proc/self/mountinfo || true
    """
    done = as_stranger(folder, script)
    assert done.stdout == "exit code 1\n0\n"
    assert "user_allow_other" in done.stderr
    assert done.stderr.count("\n") == 1


# -- 5. other owners and modes ---------------------------------------------------------------------


@pytest.mark.parametrize("options", [("--umask", "077"), ("--uid", str(OWNER), "--umask", "077")])
def test_what_is_shown_is_what_the_kernel_checks(folder: Path, options: tuple[str, ...]) -> None:
    """Also without `--allow-other`, and for who mounts."""
    with mounting(
        folder / "store", folder / "mnt", "--view", "raw", "--allow-other", *options
    ) as point:
        names = OWNER if "--uid" in options else STRANGER
        assert as_user(names, (point / "public").read_bytes) == DONE
        other = STRANGER if "--uid" in options else OWNER
        assert as_user(other, lambda: os.listdir(point)) == DENIED
        assert as_user(other, (point / "public").read_bytes) == DENIED
    script = f"""
    "$2" -c "$3" mount store mnt --umask 0777
    setpriv --reuid={STRANGER} --regid={STRANGER} --clear-groups ls mnt || true
    fusermount3 -u mnt
    """
    done = as_stranger(folder, script)
    assert done.stdout == ""
    assert done.stderr.endswith("Permission denied\n")


def test_control_files_are_for_who_mounts_and_facts_for_who_may_read_the_file() -> None:
    wide = let_in(OWNER, "--allow-other", "--uid", str(OWNER), "--umask", "0").found
    assert wide["read status.json"] == REFUSED
    assert wide["read the facts on all nodes"] == REFUSED
    assert "private" in wide["read the facts on a private file"]
    narrow = let_in(OWNER, "--allow-other", "--fmask", "077").found
    assert narrow["read public"] == REFUSED
    assert narrow["read the facts on a public file"] == REFUSED


def test_what_an_option_decides_cannot_be_changed(folder: Path) -> None:
    options = ("--view", "raw", "--allow-other", "--read-write", "--uid", OWNER, "--gid", OWNER)
    with mounting(folder / "store", folder / "mnt", *options) as point:
        assert as_user(OWNER, lambda: (point / "private").chmod(0o640)) == DONE  # no option says it
        assert os.stat(point / "private").st_mode & 0o777 == 0o640
        with pytest.raises(PermissionError):
            os.chown(point / "private", 1, -1)
        with pytest.raises(PermissionError):
            os.chown(point / "private", -1, 1)
        os.chown(point / "private", OWNER, OWNER)  # what is shown: nothing changes
    stored = (folder / "store/private").stat()
    assert (stored.st_uid, stored.st_gid, stored.st_mode & 0o777) == (STRANGER, STRANGER, 0o640)
    with mounting(folder / "store", folder / "mnt", *options, "--umask", "0") as point:
        assert as_user(OWNER, lambda: (point / "private").chmod(0o666)) == DONE
        shutil.copy2(point / "private", point / "copy")  # cp -p, which sets the mode
        (point / "copy").unlink()
    assert (folder / "store/private").stat().st_mode & 0o777 == 0o640


def test_dmask_decides_of_folders_alone(folder: Path) -> None:
    options = ("--view", "raw", "--allow-other", "--read-write", "--dmask", "0")
    with mounting(folder / "store", folder / "mnt", *options) as point:
        (point / "private").chmod(0o640)
        point.chmod(0o700)
        assert point.stat().st_mode & 0o777 == 0o777
    assert (folder / "store/private").stat().st_mode & 0o777 == 0o640
    assert (folder / "store").stat().st_mode & 0o777 == 0o755


# -- 6. no program gets rights, and no device is there ---------------------------------------------


def program(folder: Path) -> Path:
    """A copy of id(1) in the store that is set-uid root."""
    path = folder / "store/id"
    shutil.copy(shutil.which("id") or "", path)
    path.chmod(0o6755)
    return path


def says(path: Path) -> str:
    """The user as whom a copy of id(1) runs for another user."""
    done = subprocess.run(
        [path, "-u"],
        user=OWNER,
        group=OWNER,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("words", ["noatime", "suid,dev", "rw,suid,dev,exec"])
def test_no_program_on_a_mount_is_setuid(folder: Path, words: str) -> None:
    """mount.fuse3(8) passes `suid` and `dev` unasked."""
    program(folder)
    options = ("--view", "raw", "--allow-other", "-o", words)
    with mounting(folder / "store", folder / "mnt", *options) as point:
        assert {"nosuid", "nodev"} <= options_of(point)
        assert says(point / "id") == str(OWNER)


@pytest.mark.parametrize(
    "option", [("--uid", "0"), ("--gid", "0"), ("--umask", "022")], ids=" ".join
)
def test_setuid_is_not_shown_of_another_owner(folder: Path, option: tuple[str, str]) -> None:
    """Else a copy that keeps the mode would be a program of that owner."""
    os.chown(program(folder), STRANGER, STRANGER)
    (folder / "store/id").chmod(0o6755)
    with mounting(folder / "store", folder / "mnt", "--view", "raw", *option) as point:
        assert (point / "id").stat().st_mode & 0o7777 == 0o555
        listed = {entry.name: entry.stat().st_mode for entry in os.scandir(point)}
        assert listed["id"] & 0o6000 == 0


@pytest.mark.parametrize("how", ["write", "truncate", "append", "copy over"])
@pytest.mark.parametrize("options", [(), ("--uid", str(OWNER)), ("--umask", "0")], ids=" ".join)
def test_bytes_of_others_never_become_setuid(
    folder: Path, how: str, options: tuple[str, ...]
) -> None:
    """The stored program belongs to root; the kernel takes setuid away only where it is shown."""
    program(folder).chmod(0o6777)
    given = ("--view", "raw", "--allow-other", "--read-write", *options)
    with mounting(folder / "store", folder / "mnt", *given) as point:

        def attack() -> None:
            path = point / "id"
            if how == "truncate":
                os.truncate(path, 0)
            elif how == "copy over":
                path.write_bytes(b"#!/bin/sh")
            else:
                with path.open("ab" if how == "append" else "r+b") as file:
                    file.write(b"#!/bin/sh")

        assert as_user(OWNER, attack) == DONE
    stored = (folder / "store/id").stat()
    assert (stored.st_uid, oct(stored.st_mode & 0o7777)) == (ROOT, oct(0o777))


@pytest.mark.parametrize("more", [(), ("--umask", "0")], ids=" ".join)
def test_the_shown_owner_makes_nothing_setuid(folder: Path, more: tuple[str, ...]) -> None:
    (folder / "store/roots").chmod(0o755)
    options = ("--uid", str(OWNER), "--gid", str(OWNER), *more)
    given = ("--view", "raw", "--allow-other", "--read-write", *options)
    with mounting(folder / "store", folder / "mnt", *given) as point:
        assert as_user(OWNER, (point / "roots").read_bytes) == DONE
        assert as_user(OWNER, lambda: (point / "roots").chmod(0o4755)) == DENIED
        assert as_user(OWNER, lambda: (point / "roots").chmod(0o2755)) == DENIED
        assert (
            as_user(OWNER, lambda: os.close(os.open(point / "open/x", os.O_CREAT, 0o6777))) == DONE
        )
    assert (folder / "store/roots").stat().st_mode & 0o7777 == 0o755
    assert (folder / "store/open/x").stat().st_mode & 0o6000 == 0


@pytest.mark.parametrize("options", [(), ("--umask", "0"), ("--uid", str(OWNER), "--umask", "0")])
def test_what_others_write_through_a_mount_of_a_user_is_not_setuid(
    options: tuple[str, ...],
) -> None:
    """It belongs to who mounts: setuid would give their rights."""
    tried = let_in(OWNER, "--allow-other", "--read-write", *options)
    assert tried.found["make a file setuid"] == NOT_PERMITTED
    for name in ("created", "program"):
        stored, _ = tried.stored[name]
        assert stored.st_uid == STRANGER
        assert stored.st_mode & 0o6000 == 0


def test_no_device_pipe_or_socket_is_shown(folder: Path) -> None:
    os.mknod(folder / "store/device", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mkfifo(folder / "store/pipe", 0o666)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "store/socket"))
        with mounting(folder / "store", folder / "mnt", "--view", "raw", "-o", "dev") as point:
            assert not {"device", "pipe", "socket"} & {*os.listdir(point)}
            for name in ("device", "pipe", "socket"):
                with pytest.raises(FileNotFoundError):
                    (point / name).lstat()


# -- 7. symlinks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--read-write",), ("--umask", "0")], ids=" ".join)
@pytest.mark.parametrize("user", [STRANGER, OWNER], ids=["who mounts", "another user"])
def test_no_symlink_leads_out_of_the_source(user: int, options: tuple[str, ...]) -> None:
    tried = let_in(user, "--allow-other", *options)
    assert tried.found["read what is outside by a symlink"] == REFUSED
    assert tried.found["read what is outside by dots"] == "ENOTDIR"  # it is shown as a file


# -- 8. folders that others may write --------------------------------------------------------------

URL = "http://127.0.0.1:9/store"


@pytest.mark.parametrize("option", ["--cache-dir", "--spool-dir"])
@pytest.mark.parametrize("source", ["store", URL])
@pytest.mark.parametrize(("mode", "owner"), [(0o777, ROOT), (0o770, ROOT), (0o700, OWNER)])
def test_a_folder_that_others_may_write_is_refused(
    folder: Path, option: str, source: str, mode: int, owner: int
) -> None:
    (folder / "mine").mkdir()
    (folder / "mine").chmod(mode)
    os.chown(folder / "mine", owner, owner)
    at = source if source == URL else folder / source
    for path in (folder / "mine", folder / "mine/below"):
        path.mkdir(mode=0o700, exist_ok=True)
        done = zarrfuse("mount", at, folder / "mnt", "--read-write", option, path, check=False)
        assert done.returncode == 1
        [said] = done.stderr.splitlines()
        reason = "belongs to another user" if owner else "can be written by others"
        what = f"the {option[2:-4]} folder {path} is not trusted"
        assert said == f"zarrfuse: {what}, because {folder}/mine {reason}"
        assert re.search(f" {folder}/mnt ", Path("/proc/self/mountinfo").read_text()) is None


def test_a_sticky_folder_serves_for_spool_files_and_not_as_a_cache(folder: Path) -> None:
    (folder / "sticky").mkdir()
    (folder / "sticky").chmod(0o1777)
    given = ("--view", "chunks", "--read-write", "--spool-dir", folder / "sticky")
    with mounting(folder / "store", folder / "mnt", *given) as point:
        (point / "zarr.json").write_bytes(group())
        assert os.listdir(folder / "sticky") == []
    options = ("--cache-dir", folder / "sticky")
    done = zarrfuse("mount", URL, folder / "mnt", *options, check=False)
    assert "can be written by others" in done.stderr
