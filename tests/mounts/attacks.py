"""A program that tries what another user should not be able to do to a mount.

Started by root, it becomes the user, tries each attack, and prints what came of it as JSON: the name of an
errno, or what it got. Run by `test_promises`: attacks.py USER MOUNTPOINT DAEMON HOLDER, where HOLDER is a
process whose current folder is the mountpoint, and which has files of the mount open.
"""

import encodings.ascii  # noqa: F401  # another user may not read the files of this Python
import errno
import json
import mmap
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from functools import partial

NAMES = ("public", "private", "roots", "theirs")
"""Files that all may read on the disk, that only who mounts may, only root, and only `OWNER`."""


def attacks(mnt: str, daemon: str, holder: str) -> dict[str, Callable[[], object]]:
    """What is tried, by name; each raises `OSError` if it fails."""

    def read(path: str) -> str:
        with open(path) as file:
            return file.read()

    def write(path: str, flags: int = 0) -> str:
        fd = os.open(path, os.O_WRONLY | flags, 0o6777)
        try:
            os.write(fd, b"changed")
        finally:
            os.close(fd)
        return "written"

    def map_(path: str) -> str:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            return mapped[:].decode()

    def become_setuid() -> str:
        fd = os.open(f"{mnt}/open/program", os.O_WRONLY | os.O_CREAT, 0o6777)
        try:
            os.write(fd, b"#!")
            os.fchmod(fd, 0o6755)
        finally:
            os.close(fd)
        return oct(os.stat(f"{mnt}/open/program").st_mode)

    def beneath_descriptors(process: str) -> str:
        for fd in os.listdir(f"/proc/{process}/fd"):
            path = f"/proc/{process}/fd/{fd}"
            if stat.S_ISDIR(os.stat(path).st_mode):
                return str(sorted(os.listdir(path)))
        return "no folder"

    def unmount() -> str:
        done = subprocess.run(["fusermount3", "-u", "-z", mnt], check=False, capture_output=True)
        if done.returncode:
            raise OSError(errno.EPERM, done.stderr.decode())
        return "unmounted"

    return {
        **{f"read {name}": partial(read, f"{mnt}/{name}") for name in NAMES},
        "list": lambda: sorted(os.listdir(mnt)),
        "stat the mountpoint": lambda: oct(os.stat(mnt).st_mode),
        "stat a file": lambda: os.stat(f"{mnt}/public").st_size,
        "space": lambda: os.statvfs(mnt).f_blocks,
        "map": lambda: map_(f"{mnt}/public"),
        "enter": lambda: os.chdir(mnt),
        "read through the root of the daemon": lambda: read(f"/proc/{daemon}/root{mnt}/public"),
        "read through an open file": lambda: read(f"/proc/{holder}/fd/0"),
        "write through an open file": lambda: write(f"/proc/{holder}/fd/0"),
        "read through an open private file": lambda: read(f"/proc/{holder}/fd/9"),
        "list through a current folder": lambda: sorted(os.listdir(f"/proc/{holder}/cwd")),
        "read beneath a current folder": lambda: read(f"/proc/{holder}/cwd/public"),
        "read the source by descriptors of the daemon": lambda: beneath_descriptors(daemon),
        "read the memory of the daemon": lambda: os.close(os.open(f"/proc/{daemon}/mem", 0)),
        "end the daemon": lambda: os.kill(int(daemon), 0),
        "unmount": unmount,
        "write": lambda: write(f"{mnt}/public"),
        "truncate": lambda: os.truncate(f"{mnt}/public", 0),
        "create": lambda: write(f"{mnt}/new", os.O_CREAT),
        "delete": lambda: os.unlink(f"{mnt}/public"),
        "rename": lambda: os.rename(f"{mnt}/public", f"{mnt}/renamed"),
        "link": lambda: os.link(f"{mnt}/public", f"{mnt}/second"),
        "symlink": lambda: os.symlink("public", f"{mnt}/third"),
        "make a folder": lambda: os.mkdir(f"{mnt}/folder"),
        "chmod": lambda: os.chmod(f"{mnt}/public", 0o777),
        "chown": lambda: os.chown(f"{mnt}/public", os.getuid(), os.getgid()),
        "set times": lambda: os.utime(f"{mnt}/public", ns=(1, 1)),
        "set an attribute": lambda: os.setxattr(f"{mnt}/public", "user.x", b"y"),
        "list attributes": lambda: len(os.listxattr(f"{mnt}/zarr.json")),
        "read status.json": lambda: read(f"{mnt}/.zarrfuse/status.json"),
        "read the facts on all nodes": lambda: read(f"{mnt}/.zarrfuse/info/.nodes"),
        "read the facts on a public file": lambda: len(read(f"{mnt}/.zarrfuse/info/public")) > 0,
        "read the facts on a private file": lambda: read(f"{mnt}/.zarrfuse/info/private"),
        "read what is outside by a symlink": lambda: read(f"{mnt}/outside"),
        "read what is outside by dots": lambda: read(f"{mnt}/up/outside.txt"),
        "create a file with setuid": lambda: write(f"{mnt}/open/created", os.O_CREAT),
        "make a file setuid": become_setuid,
    }


def tried(attack: Callable[[], object]) -> object:
    """What an attack got, or the name of the errno with which it failed."""
    try:
        return attack()
    except OSError as error:
        assert error.errno is not None
        return errno.errorcode[error.errno]


def main() -> None:
    """Try everything as the user; what ends the other attacks comes last."""
    user, *rest = sys.argv[1:]
    os.setgroups([])
    os.setresgid(int(user), int(user), int(user))
    os.setresuid(int(user), int(user), int(user))
    found = attacks(*rest)
    last = ("rename", "delete", "unmount")
    names = [*(name for name in found if name not in last), *last]
    print(json.dumps({name: tried(found[name]) for name in names}))


if __name__ == "__main__":
    main()
