"""Runs pjdfstest below a folder of a mount, and groups what fails by the rows of docs/semantics.md.

`python tests/pjdfstest.py PJDFSTEST FOLDER`, as root (CONTRIBUTING.md); `PJDFSTEST` is its built tree.

Many tests use FIFOs, sockets and devices. To know which fail because a mount refuses these, all tests run
on a disk as well, where a preloaded library refuses them in the same way.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

REFUSING = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#define REAL(name, ...) ((int (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))
static int refused(const char *path) { unlink(path); errno = EOPNOTSUPP; return -1; }
int mknodat(int at, const char *path, mode_t mode, dev_t device) {
    int done = REAL("mknodat", int, const char *, mode_t, dev_t)(at, path, mode, device);
    return done ? done : refused(path);
}
int mknod(const char *path, mode_t mode, dev_t device) {
    return mknodat(AT_FDCWD, path, mode, device);
}
int mkfifo(const char *path, mode_t mode) {
    int done = REAL("mkfifo", const char *, mode_t)(path, mode);
    return done ? done : refused(path);
}
int bind(int fd, const struct sockaddr *at, socklen_t size) {
    int done = REAL("bind", int, const struct sockaddr *, socklen_t)(fd, at, size);
    return done ? done : refused(((const struct sockaddr_un *)at)->sun_path);
}
"""
SPECIAL = "`mknod`, `mkfifo`, `bind` of a socket"
LONG = "a path below the mountpoint may have 4,095 bytes in total"
LINKS = "`st_nlink` counts the folders in it"
ACCESS = "the time of the last access is that of the stored file, which the mount reads"

Test = tuple[str, int]


def failures(pjdfstest: Path, folder: Path, preload: str = "") -> tuple[dict[Test, str], int]:
    """What fails below a folder, with what is said of it, and how many tests there are."""
    files = sorted((pjdfstest / "tests").rglob("*.t"))
    found: dict[Test, str] = {}
    count = 0
    with ThreadPoolExecutor(2) as threads:
        for file, (failed, planned) in zip(
            files, threads.map(partial(_run, folder=folder, preload=preload), files), strict=True
        ):
            name = file.relative_to(pjdfstest / "tests").as_posix()
            found |= {(name, number): said for number, said in failed.items()}
            count += planned
    return found, count


def _run(file: Path, folder: Path, preload: str) -> tuple[dict[int, str], int]:
    work = Path(tempfile.mkdtemp(dir=folder))
    work.chmod(0o755)
    environment = {**os.environ, "LD_PRELOAD": preload}
    ran = subprocess.run(
        ["sh", file], cwd=work, env=environment, capture_output=True, text=True, check=False
    )
    subprocess.run(["rm", "-rf", work], check=False)
    plan = re.search(r"^1\.\.(\d+)", ran.stdout, re.MULTILINE)
    planned = int(plan[1]) if plan else 0
    told = re.findall(r"^(not ok|ok) (\d+)(.*)$", ran.stdout, re.MULTILINE)
    failed = {int(number): said for word, number, said in told if word == "not ok"}
    missing = set(range(1, planned + 1)) - {int(number) for _, number, _ in told}
    return {**failed, **dict.fromkeys(missing, " - not run")}, planned


def row_of(test: Test, said: str) -> str | None:
    """From which row a failure follows that a disk without special files does not have."""
    name, _ = test
    if name.startswith(("mknod/", "mkfifo/")):  # times of a folder, which the refusal leaves alone
        return SPECIAL
    if "nlink" in said and name == "rename/24.t":
        return LINKS
    if "atime" in said:
        return ACCESS
    return LONG if "ENAMETOOLONG" in said or name in ("link/03.t", "symlink/03.t") else None


def main() -> int:
    """Prints a table; the exit code tells whether a failure follows from no row."""
    pjdfstest, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as name:
        disk = Path(name)
        disk.chmod(0o755)
        (disk / "refusing.c").write_text(REFUSING)
        command = ["gcc", "-shared", "-fPIC", "-o", disk / "refusing.so", disk / "refusing.c"]
        subprocess.run(command, check=True)
        on_disk, _ = failures(pjdfstest, disk)
        without, _ = failures(pjdfstest, disk, str(disk / "refusing.so"))
    found, count = failures(pjdfstest, folder)
    rows: Counter[str] = Counter()
    for test, said in found.items():
        row = "a disk" if test in on_disk else SPECIAL if test in without else row_of(test, said)
        rows[row or "no row"] += 1
        if row is None:
            print(*test, said[:300])
    print(f"{count - len(found)} of {count} pass")
    for row, failed in rows.most_common():
        print(f"{failed:6} {row}")
    return int("no row" in rows)


if __name__ == "__main__":
    sys.exit(main())
